/* The step-* folders of a checkpoint.dir. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_private.h"

const char *fth_step_name(fth_arena *arena, uint64_t step) {
    return fth_arena_printf(arena, "step-%012llu", (unsigned long long)step);
}

static int by_step(const void *a, const void *b) {
    const struct fth_step_folder *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

fth_status fth_step_folders(const struct fth_io *io, const char *dir, fth_arena *arena,
                            struct fth_step_folder **out, size_t *n, fth_error *err) {
    char **names = NULL;
    size_t n_names = 0;
    FTH_TRY(fth_io_list(io, dir, arena, &names, &n_names, err));
    struct fth_step_folder *folders = fth_arena_alloc(arena, n_names + 1, sizeof *folders);
    if (!folders)
        return fth_fail(err, FTH_E_MEMORY, "no memory to list %s", dir);
    *n = 0;
    for (size_t i = 0; i < n_names; i++) {
        uint64_t step;
        if (strncmp(names[i], "step-", 5) != 0 ||
            !fth_parse_u64(names[i] + 5, strlen(names[i] + 5), &step))
            continue;
        const char *name = fth_step_name(arena, step), *path = fth_arena_printf(arena, "%s/%s", dir, names[i]);
        if (!name || !path)
            return fth_fail(err, FTH_E_MEMORY, "no memory to list %s", dir);
        if (strcmp(name, names[i]) != 0) /* a copy that somebody named by its date: it would be the newest for good */
            continue;
        folders[(*n)++] = (struct fth_step_folder){path, step};
    }
    qsort(folders, *n, sizeof *folders, by_step);
    *out = folders;
    return FTH_OK;
}

fth_status fth_checkpoint_newest(const struct fth_io *io, const char *dir, char **out, uint64_t *step, fth_error *err) {
    struct fth_io_stat stat;
    struct fth_step_folder *folders;
    size_t n = 0;
    *out = NULL;
    *step = 0;
    if (io->stat(io->ctx, dir, &stat) < 0)
        return FTH_OK;
    fth_arena *arena = fth_arena_create(1 << 12);
    fth_status status = arena ? fth_step_folders(io, dir, arena, &folders, &n, err)
                              : fth_fail(err, FTH_E_MEMORY, "no memory to list %s", dir);
    if (status == FTH_OK && n) {
        *step = folders[n - 1].step;
        if (!(*out = strdup(folders[n - 1].path)))
            status = fth_fail(err, FTH_E_MEMORY, "no memory to list %s", dir);
    }
    fth_arena_destroy(arena);
    return status;
}
