/* Configuration to feature program: one-hot, multi-hot and counted inputs. */
#include <string.h>

#include "feature/compile.h"

static fth_status number_values(fth_feature_program *p, struct fth_feature_indicator *indicator,
                                const char *key, fth_error *err) {
    const struct fth_strings *values = &indicator->config->values;
    uint64_t *hashes = fth_arena_alloc(p->arena, values->n + 1, sizeof *hashes);
    uint32_t twice;
    if (!hashes)
        return fth_compile_no_memory(err);
    for (uint32_t i = 0; i < values->n; i++)
        hashes[i] = fth_hash_bytes(values->items[i], strlen(values->items[i]), 0);
    FTH_TRY(fth_codes_build(hashes, values->n, &indicator->codes, &twice, err));
    if (twice < values->n)
        return fth_fail(err, FTH_E_CONFIG, "%s.values: '%s' is listed twice", key, values->items[twice]);
    return FTH_OK;
}

fth_status fth_compile_indicator(fth_feature_program *p, const char *key,
                                 const struct fth_indicator_config *config, const char *column,
                                 const char **dense_names, fth_error *err) {
    struct fth_feature_indicator *indicator = &p->indicators[p->n_indicators];
    const char *name = config->name && *config->name ? config->name : column;
    char *columns = fth_arena_printf(p->arena, "%s.columns", key);
    *indicator = (struct fth_feature_indicator){.config = config, .dense = p->schema.n_dense,
                                                .width = config->values.n + (config->other != 0)};
    FTH_TRY(columns ? fth_compile_find_column(p, columns, column, &indicator->column, err)
                    : fth_compile_no_memory(err));
    fth_compile_separator(&indicator->separator, config->separator);
    for (uint32_t i = 0; i < indicator->width; i++) {
        const char *value = i < config->values.n ? config->values.items[i] : "other";
        FTH_TRY(fth_compile_dense(p, dense_names, fth_arena_printf(p->arena, "%s=%s", name, value), key, err));
    }
    fth_compile_emit(p, FTH_FEATURE_INDICATOR, p->n_indicators++, 0);
    FTH_TRY(number_values(p, indicator, key, err));
    return FTH_OK;
}
