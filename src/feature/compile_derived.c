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
    derived->lookups = fth_arena_alloc(p->arena, 1, sizeof *derived->lookups);
    char *from = fth_arena_printf(p->arena, "%s.from", key);
    if (!derived->from || !derived->lookups || !from)
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

/* ---- joins made by their fields ---- */

/* Why the field cannot look the join's values up itself; NULL: it can. */
static const char *field_needs_text(const struct fth_feature_derived *derived,
                                    const struct fth_feature_field *field) {
    const struct fth_separator *a = &derived->separator, *b = &field->separator;
    if (field->vocabulary)
        return "a vocabulary numbers its texts";
    if (a->length != b->length || (a->length && memcmp(a->bytes, b->bytes, a->length) != 0))
        return "a feature splits it otherwise than the join";
    return NULL;
}

/* Why column `column`, which the derived one makes, is needed as text; NULL: it is only hashed. */
static const char *needs_text(const fth_feature_program *p, const struct fth_feature_derived *derived,
                              uint32_t column) {
    const struct fth_strings *missing = &p->config->features.missing;
    int read = 0;
    if (derived->separator.length > 1)
        return "its separator has several bytes";
    for (uint32_t i = 0; derived->separator.length && i < missing->n; i++)
        if (strchr(missing->items[i], derived->separator.bytes[0]))
            return "a text of features.missing has the separator in it";
    for (uint32_t d = 0; d < p->n_derived; d++)
        for (uint32_t i = 0; i < p->derived[d].config->from.n; i++)
            if (p->derived[d].from[i] == column)
                return "another column is made from it";
    for (uint32_t k = 0; k < p->n_numeric; k++)
        if (p->numeric[k].column == column)
            return "it is read as numbers";
    for (uint32_t k = 0; k < p->n_indicators; k++)
        if (p->indicators[k].column == column)
            return "an indicator reads it";
    for (uint32_t k = 0; k < p->n_instructions; k++) {
        const struct fth_feature_instruction *instruction = &p->instructions[k];
        if ((instruction->op == FTH_FEATURE_LABEL || instruction->op == FTH_FEATURE_WEIGHT ||
             instruction->op == FTH_FEATURE_QUERY) &&
            instruction->column == column)
            return "it is not a feature";
    }
    for (uint32_t f = 0; f < p->n_fields; f++) {
        const struct fth_feature_field *field = &p->fields[f];
        for (uint32_t c = 0; field->osrp && c < field->osrp->n_columns; c++)
            if (field->osrp->columns[c] == column)
                return "bins are made of it";
        if (field->osrp || field->column != column)
            continue;
        const char *why = field_needs_text(derived, field);
        if (why)
            return why;
        read = 1;
    }
    return read ? NULL : "no feature reads it";
}

void fth_compile_joins(fth_feature_program *p) {
    for (uint32_t d = 0; d < p->n_derived; d++) {
        struct fth_feature_derived *derived = &p->derived[d];
        uint32_t column = p->n_columns + d;
        derived->not_fused = "";
        if (derived->config->as != FTH_DERIVE_JOIN)
            continue;
        derived->not_fused = p->plain ? "feature_fusion is switched off" : needs_text(p, derived, column);
        for (uint32_t f = 0; !derived->not_fused && f < p->n_fields; f++)
            if (p->fields[f].column == column) {
                p->fields[f].joined = derived;
                p->fields[f].column = derived->from[0];
            }
    }
}

fth_status fth_feature_check_side_tables(const fth_feature_program *program, fth_error *err) {
    for (uint32_t d = 0; d < program->n_derived; d++)
        if (program->derived[d].config->as == FTH_DERIVE_JOIN && !program->derived[d].table)
            return fth_fail(err, FTH_E_ARGUMENT, "column '%s' has no side table to be joined with",
                            program->derived[d].config->name);
    return FTH_OK;
}
