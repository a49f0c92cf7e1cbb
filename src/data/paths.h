/* Lists of paths and globs to lists of files. */
#ifndef FTH_DATA_PATHS_H
#define FTH_DATA_PATHS_H

#include "base/memory.h"
#include "config/config.h"

/* Files in the order of the list, those of a glob sorted by their bytes; "-" stays. A path that
 * exists is taken as it is even when it looks like a glob. Refused (FTH_E_CONFIG, naming `key` and
 * the pattern): an empty list, a path that does not exist, a glob that matches nothing, "-" twice.
 * The strings are allocated in `arena`. */
fth_status fth_paths_expand(const struct fth_strings *patterns, const char *key, fth_arena *arena,
                            struct fth_strings *out, fth_error *err);

/* The first file of `b` that is one of `a`, or, where b is a, that stands there twice, by any of its names; NULL: none.
 * Pipes and files that are not there do not count, nor does memory that is out. */
const char *fth_paths_common(const struct fth_strings *a, const struct fth_strings *b);

#endif
