/* Configuration to feature program: numeric features. */
#include <math.h>

#include "feature/compile.h"

static fth_status set_boundaries(struct fth_feature_numeric *numeric, const char *key, fth_error *err) {
    const struct fth_floats *given = &numeric->config->boundaries;
    struct fth_feature_boundaries *b = &numeric->boundaries;
    b->values = fth_alloc(given->n + 1, sizeof(float));
    if (b->values == NULL)
        return fth_compile_no_memory(err);
    for (uint32_t i = 0; i < given->n; i++) {
        /* As floats, so that a number equal to a boundary in the text is equal to it here. */
        float value = (float)given->items[i];
        if (!isfinite(value) || (b->n > 0 && !(value > b->values[b->n - 1])))
            return fth_fail(err, FTH_E_CONFIG, "%s.boundaries.%u: %g: must be finite and above the one "
                            "before it", key, i, given->items[i]);
        b->values[b->n++] = value;
    }
    return FTH_OK;
}

fth_status fth_compile_numeric(fth_feature_program *p, const char *key,
                                  const struct fth_numeric_config *config, const char *column,
                                  const char **dense_names, fth_error *err) {
    struct fth_feature_numeric *numeric = &p->numeric[p->n_numeric];
    int buckets = config->boundaries.n > 0 || config->quantiles > 0;
    *numeric = (struct fth_feature_numeric){.config = config, .dense = -1, .indicator = -1,
                                            .running = -1, .field = -1,
                                            .clip_low = (float)config->clip_low,
                                            .clip_high = (float)config->clip_high,
                                            .missing_value = (float)config->missing_value};
    char *name = fth_arena_printf(p->arena, "%s.columns", key);
    FTH_TRY(name ? fth_compile_find_column(p, name, column, &numeric->column, err) : fth_compile_no_memory(err));
    p->n_numeric++;
    numeric->name = config->name && *config->name ? config->name : column;
    fth_compile_separator(&numeric->separator, config->separator);
    if (config->bucket_only && !buckets)
        return fth_fail(err, FTH_E_CONFIG, "%s: bucket_only needs boundaries or quantiles", key);
    if (config->boundaries.n > 0 && config->quantiles > 0)
        return fth_fail(err, FTH_E_CONFIG, "%s: give boundaries or quantiles, not both", key);
    if (config->clip && !(config->clip_low <= config->clip_high))
        return fth_fail(err, FTH_E_CONFIG, "%s.clip: the lower end is above the upper end", key);
    if (config->standardise == FTH_STANDARDISE_GIVEN && !(config->deviation > 0))
        return fth_fail(err, FTH_E_CONFIG, "%s.deviation: must be above 0", key);
    if (!config->bucket_only) {
        numeric->dense = (int32_t)p->schema.n_dense;
        FTH_TRY(fth_compile_dense(p, dense_names, numeric->name, key, err));
        if (config->missing_indicator) {
            numeric->indicator = (int32_t)p->schema.n_dense;
            FTH_TRY(fth_compile_dense(p, dense_names,
                                     fth_arena_printf(p->arena, "%s_missing", numeric->name), key,
                                     err));
        }
        if (config->standardise == FTH_STANDARDISE_RUNNING) {
            p->running_dense[p->n_running] = (uint32_t)numeric->dense;
            numeric->running = (int32_t)p->n_running++;
        }
    }
    if (buckets) {
        struct fth_feature_field *field;
        name = fth_arena_printf(p->arena, "%s_bucket", numeric->name);
        const char *table = config->table && *config->table ? config->table : name;
        numeric->field = (int32_t)p->n_fields;
        FTH_TRY(fth_compile_field(p, key, name, table, config->dim, 0, &field, err));
        field->info.column = column;
        field->info.pooling = 0;
        field->column = numeric->column;
        numeric->salt = field->salt;
        numeric->learned = config->quantiles > 0;
        p->n_learned += numeric->learned;
        FTH_TRY(set_boundaries(numeric, key, err));
    }
    fth_compile_emit(p, FTH_FEATURE_NUMERIC, p->n_numeric - 1, 1);
    return FTH_OK;
}
