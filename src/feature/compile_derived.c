/* Configuration to feature program: columns made from others. A derived column sees the data's columns and the
 * derived ones before it. */
#include <string.h>

#include "feature/compile.h"
#include "feature/date.h"

static int names(const struct fth_strings *columns, const char *name) {
    for (uint32_t i = 0; i < columns->n; i++)
        if (strcmp(columns->items[i], name) == 0)
            return 1;
    return 0;
}

static int is_in_a_feature(const struct fth_features_config *features, const char *name) {
    int found = 0;
    for (uint32_t i = 0; i < features->n_numeric; i++)
        found |= names(&features->numeric[i].columns, name);
    for (uint32_t i = 0; i < features->n_indicator; i++)
        found |= names(&features->indicator[i].columns, name);
    for (uint32_t i = 0; i < features->n_categorical; i++)
        found |= names(&features->categorical[i].columns, name);
    return found;
}

/* Derived columns that no feature reads, nor what is made from them: weights, queries, or nothing. From the last one on, as
 * what reads one comes behind it. */
static void leave_out(fth_feature_program *p, const struct fth_features_config *features) {
    for (uint32_t k = features->n_derived; k-- > 0;) {
        const char *name = features->derived[k].name;
        int read = is_in_a_feature(features, name);
        for (uint32_t d = k + 1; d < features->n_derived && !read; d++)
            read = !p->derived[d].left_out && names(&features->derived[d].from, name);
        p->derived[k].left_out = !read;
    }
}

int fth_feature_makes(const fth_feature_program *program, uint32_t k) {
    return !program->derived[k].left_out;
}

static fth_status compile_one(fth_feature_program *p, const char *key,
                              const struct fth_derived_config *config, fth_error *err) {
    struct fth_feature_derived *derived = &p->derived[p->n_derived];
    const char **columns = (const char **)p->columns;
    derived->config = config;
    derived->from = fth_arena_alloc(p->arena, config->from.n, sizeof *derived->from);
    derived->lookups = fth_arena_alloc(p->arena, 1, sizeof *derived->lookups);
    char *from = fth_arena_printf(p->arena, "%s.from", key);
    if (!derived->from || !derived->lookups || !from)
        return fth_compile_no_memory(err);
    for (uint32_t i = 0; i < config->from.n && !derived->left_out; i++)
        FTH_TRY(fth_compile_find_column(p, from, config->from.items[i], &derived->from[i], err));
    uint32_t there;
    if (!fth_names_add(&p->names->columns, config->name, p->n_columns + p->n_derived, &there))
        return fth_compile_no_memory(err);
    if (there != FTH_NO_NAME)
        return fth_fail(err, FTH_E_CONFIG, "%s.name: there is a column '%s' already", key, config->name);
    fth_compile_separator(&derived->separator, config->separator);
    int times = config->as == FTH_DERIVE_DATE || config->as == FTH_DERIVE_SESSIONS;
    const char *problem = times ? fth_date_check_format(config->format) : NULL;
    if (problem)
        return fth_fail(err, FTH_E_CONFIG, "%s.format: '%s' %s", key, config->format, problem);
    if (config->as == FTH_DERIVE_REPLACE) {
        struct fth_feature_put *puts = fth_arena_alloc(p->arena, 256, sizeof *puts);
        if (!puts)
            return fth_compile_no_memory(err);
        for (int byte = 0; byte < 256; byte++)
            puts[byte] = (struct fth_feature_put){(uint8_t)byte, 1};
        for (const char *at = config->characters; *at; at++)
            puts[(uint8_t)*at] = (struct fth_feature_put){(uint8_t)*config->by, *config->by != 0};
        derived->puts = puts;
    }
    columns[p->n_columns + p->n_derived++] = config->name;
    return FTH_OK;
}

fth_status fth_compile_derived(fth_feature_program *p, fth_error *err) {
    const struct fth_features_config *features = &p->config->features;
    p->derived = fth_arena_alloc(p->arena, features->n_derived + 1, sizeof *p->derived);
    if (!p->derived)
        return fth_compile_no_memory(err);
    if (p->unlabelled)
        leave_out(p, features);
    for (uint32_t k = 0; k < features->n_derived; k++) {
        char *key = fth_arena_printf(p->arena, "features.derived.%u", k);
        if (!key)
            return fth_compile_no_memory(err);
        FTH_TRY(compile_one(p, key, &features->derived[k], err));
    }
    return FTH_OK;
}

/* ---- joins made by the features that read them ---- */

/* Whether a feature that splits its column by `separator` takes the join's values one by one. */
static int splits_alike(const struct fth_feature_derived *derived, const struct fth_separator *separator) {
    const struct fth_separator *a = &derived->separator;
    return a->length == separator->length &&
           (a->length == 0 || memcmp(a->bytes, separator->bytes, a->length) == 0);
}

/* Whether the field is a number's bucketised copy, made with the number. */
static int is_copy(const fth_feature_program *p, uint32_t field) {
    for (uint32_t k = 0; k < p->n_numeric; k++)
        if (p->numeric[k].field == (int32_t)field)
            return 1;
    return 0;
}

/* Whether the column is a label, a weight or a query. */
static int is_no_feature(const fth_feature_program *p, uint32_t column) {
    for (uint32_t k = 0; k < p->n_instructions; k++)
        switch (p->instructions[k].op) {
        case FTH_FEATURE_LABEL:
        case FTH_FEATURE_WEIGHT:
        case FTH_FEATURE_TASK:
        case FTH_FEATURE_TASK_WEIGHT:
        case FTH_FEATURE_QUERY:
            if (p->instructions[k].column == column)
                return 1;
            break;
        default:
            break;
        }
    return 0;
}

/* Why column `column`, which the derived one makes, is needed as text; NULL: keys and numbers are all that is read. */
static const char *needs_text(const fth_feature_program *p, const struct fth_feature_derived *derived,
                              uint32_t column) {
    const struct fth_strings *missing = &p->config->features.missing;
    int read = 0, alike = 1;
    if (derived->separator.length > 1)
        return "its separator has several bytes";
    if (*derived->config->several)
        return "a key may have several values";
    for (uint32_t i = 0; derived->separator.length && i < missing->n; i++)
        if (strchr(missing->items[i], derived->separator.bytes[0]))
            return "a text of features.missing has the separator in it";
    for (uint32_t d = 0; d < p->n_derived; d++)
        for (uint32_t i = 0; i < p->derived[d].config->from.n; i++)
            if (p->derived[d].from[i] == column)
                return "another column is made from it";
    for (uint32_t k = 0; k < p->n_indicators; k++)
        if (p->indicators[k].column == column)
            return "an indicator reads it";
    if (is_no_feature(p, column))
        return "it is not a feature";
    for (uint32_t k = 0; k < p->n_numeric; k++)
        if (p->numeric[k].column == column) {
            alike &= splits_alike(derived, &p->numeric[k].separator);
            read = 1;
        }
    for (uint32_t f = 0; f < p->n_fields; f++) {
        const struct fth_feature_field *field = &p->fields[f];
        for (uint32_t c = 0; field->osrp && c < field->osrp->n_columns; c++)
            if (field->osrp->columns[c] == column)
                return "bins are made of it";
        if (field->osrp || field->column != column || is_copy(p, f))
            continue;
        alike &= splits_alike(derived, &field->separator);
        read = 1;
    }
    if (!alike)
        return "a feature splits it otherwise than the join";
    return read ? NULL : "no feature reads it";
}

/* The features that read `column` look its values up themselves. */
static void fuse_join(fth_feature_program *p, struct fth_feature_derived *derived, uint32_t column) {
    for (uint32_t k = 0; k < p->n_numeric; k++)
        if (p->numeric[k].column == column)
            p->numeric[k].joined = derived;
    for (uint32_t f = 0; f < p->n_fields; f++)
        if (p->fields[f].column == column && !is_copy(p, f)) {
            p->fields[f].joined = derived;
            p->fields[f].column = derived->from[0];
            derived->counted |= p->fields[f].vocabulary && !*p->fields[f].vocabulary->file;
        }
}

/* Several values are a list, and nobody who takes the list for one text means it. */
static fth_status check_several(const fth_feature_program *p, uint32_t d, fth_error *err) {
    const struct fth_derived_config *config = p->derived[d].config;
    uint32_t column = p->n_columns + d;
    int whole = 0;
    if (config->as != FTH_DERIVE_JOIN || !*config->several)
        return FTH_OK;
    for (uint32_t f = 0; f < p->n_fields; f++)
        whole |= !p->fields[f].osrp && p->fields[f].column == column && !p->fields[f].separator.length && !is_copy(p, f);
    for (uint32_t k = 0; k < p->n_numeric; k++)
        whole |= p->numeric[k].column == column && !p->numeric[k].separator.length;
    for (uint32_t k = 0; k < p->n_indicators; k++)
        whole |= p->indicators[k].column == column && !p->indicators[k].separator.length;
    return whole ? fth_fail(err, FTH_E_CONFIG,
                            "features.derived.%u.several: a feature that reads '%s' has no separator, and its values are a "
                            "list: set separator: \"%s\" there", d, config->name, config->several)
                 : FTH_OK;
}

fth_status fth_compile_joins(fth_feature_program *p, fth_error *err) {
    for (uint32_t d = 0; d < p->n_derived; d++) {
        struct fth_feature_derived *derived = &p->derived[d];
        uint32_t column = p->n_columns + d;
        FTH_TRY(check_several(p, d, err));
        derived->not_fused = "";
        if (derived->config->as != FTH_DERIVE_JOIN)
            continue;
        derived->not_fused = p->plain & (FTH_PLAIN_SPLITS | FTH_PLAIN_NUMBERS) ? "`without` leaves that out"
                                                                               : needs_text(p, derived, column);
        if (!derived->not_fused)
            fuse_join(p, derived, column);
    }
    return FTH_OK;
}

fth_status fth_feature_check_side_tables(const fth_feature_program *program, fth_error *err) {
    for (uint32_t d = 0; d < program->n_derived; d++)
        if (program->derived[d].config->as == FTH_DERIVE_JOIN && !program->derived[d].table && !program->derived[d].left_out)
            return fth_fail(err, FTH_E_ARGUMENT, "column '%s' has no side table to be joined with",
                            program->derived[d].config->name);
    return FTH_OK;
}
