/* Configurations: a YAML file plus overrides, checked. docs/configuration.md lists every key.
 *
 * Threads: read-only after loading. */
#ifndef FATHOM_CONFIG_H
#define FATHOM_CONFIG_H

#include <stddef.h>

#include "fathom/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fth_config fth_config;

/* Reads and checks a YAML file; `path` "-" is standard input. Overrides are "key.path=value" as from
 * --set (values are YAML scalars or flow lists; list items by number: features.numeric.0.clip=[0,9]).
 * Every refusal (FTH_E_CONFIG) names file, line and column (or the override), the key path, what is wrong
 * and what would be accepted, with the nearest known key. Owned: fth_config_free. */
FTH_API fth_status fth_config_read(const char *path, const char *const *overrides,
                                   size_t n_overrides, fth_config **out, fth_error *err);
/* The same from memory; `name` is for messages. */
FTH_API fth_status fth_config_parse(const char *name, const char *text, size_t length,
                                    const char *const *overrides, size_t n_overrides,
                                    fth_config **out, fth_error *err);
FTH_API void fth_config_free(fth_config *config); /* NULL-safe */

/* 1: the path is, by whatever name, a file that it names as data (also a join's or a vocabulary): not one to write to. */
FTH_API int fth_config_reads(const fth_config *config, const char *path);

/* The whole resolved configuration as YAML that parses to the same. Owned: free(). NULL: no memory. */
FTH_API char *fth_config_print(const fth_config *config);
/* The reference of all keys (docs/configuration.md). Owned: free(). */
FTH_API char *fth_config_reference(void);

#ifdef __cplusplus
}
#endif
#endif
