/* The public functions that belong to no part in particular. */
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "fathom/fathom.h"

const char *fth_version(void) {
    return FTH_VERSION;
}

void fth_log_to(void (*callback)(void *ctx, int level, const char *line), void *ctx) {
    fth_log_set(callback, ctx);
}

const char *fth_suggest(const char *word, const char *const *names, size_t n) {
    return word && fth_all_there(names, n) ? fth_nearest(word, names, n) : NULL;
}
