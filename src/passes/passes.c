/* The list of passes and its run: see passes.h. */
#include "passes/passes.h"

#include <string.h>

#define FTH_PASS(name) extern const struct fth_pass fth_pass_##name;
#include "passes/passes.def"
#undef FTH_PASS

const struct fth_pass *const *fth_passes(void) {
    static const struct fth_pass *const passes[] = {
#define FTH_PASS(name) &fth_pass_##name,
#include "passes/passes.def"
#undef FTH_PASS
        NULL};
    return passes;
}

const char *const *fth_pass_names(void) {
    static const char *const names[] = {
#define FTH_PASS(name) #name,
#include "passes/passes.def"
#undef FTH_PASS
        "packing", "feature_fusion", "fuse_splits", "fuse_numbers", "fuse_counts", "gemm_choice", NULL};
    return names;
}

static int listed(const char *name, const char *const *without, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(without[i], name) == 0)
            return 1;
    return 0;
}

fth_status fth_passes_run(fth_graph *graph, enum fth_pass_when when, const char *const *without,
                          uint32_t n_without, fth_error *err) {
    for (const struct fth_pass *const *pass = fth_passes(); *pass; pass++) {
        if ((*pass)->when != when || listed((*pass)->name, without, n_without))
            continue;
        fth_status status = (*pass)->run(graph, err);
        if (status != FTH_OK) {
            fth_error_frame(err, "pass %s", (*pass)->name);
            return status;
        }
    }
    return FTH_OK;
}
