/* Configuration to feature program: columns made from others. A derived column sees the data's columns and the
 * derived ones before it. */
#include <string.h>

#include "feature/compile.h"
#include "feature/date.h"

static fth_status compile_one(fth_feature_program *p, const char *key,
                              const struct fth_derived_config *config, fth_error *err) {
    struct fth_feature_derived *derived = &p->derived[p->n_derived];
    const char **names = (const char **)p->columns;
    derived->config = config;
    derived->from = fth_arena_alloc(p->arena, config->from.n, sizeof *derived->from);
    char *from = fth_arena_printf(p->arena, "%s.from", key);
    if (!derived->from || !from)
        return fth_compile_no_memory(err);
    for (uint32_t i = 0; i < config->from.n; i++)
        FTH_TRY(fth_compile_find_column(p, from, config->from.items[i], &derived->from[i], err));
    for (uint32_t i = 0; i < p->n_columns + p->n_derived; i++)
        if (strcmp(names[i], config->name) == 0)
            return fth_fail(err, FTH_E_CONFIG, "%s.name: there is a column '%s' already", key,
                            config->name);
    fth_compile_separator(&derived->separator, config->separator);
    const char *problem = config->as == FTH_DERIVE_DATE ? fth_date_check_format(config->format) : NULL;
    if (problem)
        return fth_fail(err, FTH_E_CONFIG, "%s.format: '%s' %s", key, config->format, problem);
    names[p->n_columns + p->n_derived++] = config->name;
    return FTH_OK;
}

fth_status fth_compile_derived(fth_feature_program *p, fth_error *err) {
    const struct fth_features_config *features = &p->config->features;
    p->derived = fth_arena_alloc(p->arena, features->n_derived + 1, sizeof *p->derived);
    if (!p->derived)
        return fth_compile_no_memory(err);
    for (uint32_t k = 0; k < features->n_derived; k++) {
        char *key = fth_arena_printf(p->arena, "features.derived.%u", k);
        if (!key)
            return fth_compile_no_memory(err);
        FTH_TRY(compile_one(p, key, &features->derived[k], err));
    }
    return FTH_OK;
}

void fth_feature_set_side_table(fth_feature_program *program, uint32_t k,
                                const fth_side_table *table) {
    program->derived[k].table = table;
}

fth_status fth_feature_check_side_tables(const fth_feature_program *program, fth_error *err) {
    for (uint32_t d = 0; d < program->n_derived; d++)
        if (program->derived[d].config->as == FTH_DERIVE_JOIN && !program->derived[d].table)
            return fth_fail(err, FTH_E_ARGUMENT, "column '%s' has no side table to be joined with",
                            program->derived[d].config->name);
    return FTH_OK;
}
