/* Fathom: training of wide-and-deep recommender models. Includes the whole public API. */
#ifndef FATHOM_FATHOM_H
#define FATHOM_FATHOM_H

#include <stddef.h>

#include "fathom/config.h"
#include "fathom/gen.h"
#include "fathom/metric.h"
#include "fathom/session.h"
#include "fathom/status.h"
#include "fathom/tools.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As in "1.2.3"; static. */
FTH_API const char *fth_version(void);

/* The library never prints: lines go to this callback (NULL: nowhere; the default). level 0 warning, 1
 * information. Called from any thread, one call at a time; it may not call the library. */
FTH_API void fth_log_to(void (*callback)(void *ctx, int level, const char *line), void *ctx);

/* The name nearest to `word` by edit distance, NULL when none is near: for "did you mean". */
FTH_API const char *fth_suggest(const char *word, const char *const *names, size_t n);

#ifdef __cplusplus
}
#endif
#endif
