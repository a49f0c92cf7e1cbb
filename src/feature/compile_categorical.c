/* Configuration to feature program: categorical features, single or ragged, and the groups of the latter. */
#include <string.h>

#include "feature/compile.h"

/* The vocabulary of the field's table, made when it is the first to ask for one. */
static fth_status find_vocabulary(fth_feature_program *p, const struct fth_categorical_config *config,
                                  struct fth_feature_field *field, fth_error *err) {
    int file = config->vocabulary_file && *config->vocabulary_file;
    if (!file && config->vocabulary_size == 0)
        return FTH_OK;
    uint32_t there;
    field->lookups = fth_arena_alloc(p->arena, 1, sizeof *field->lookups);
    if (!field->lookups ||
        !fth_names_add(&p->names->vocabularies, field->info.table, p->n_vocabularies, &there))
        return fth_fail(err, FTH_E_MEMORY, "no memory for a vocabulary");
    field->vocabulary = &p->vocabularies[there != FTH_NO_NAME ? there : p->n_vocabularies];
    if (there != FTH_NO_NAME)
        return FTH_OK;
    if (config->oov_buckets > UINT32_MAX || config->vocabulary_size > 1 << 30)
        return fth_fail(err, FTH_E_CONFIG, "features.categorical: the vocabulary of '%s' is too large",
                        field->info.name);
    p->vocabularies[p->n_vocabularies++] = (struct fth_feature_vocabulary){
        .table = field->info.table,
        .file = file ? config->vocabulary_file : "",
        .size = (uint32_t)config->vocabulary_size,
        .most = config->vocabulary_size > FTH_FEATURE_TEXTS / 4 ? 4 * (size_t)config->vocabulary_size
                                                                : FTH_FEATURE_TEXTS,
        .oov = (uint32_t)config->oov_buckets,
        .min_count = (uint64_t)config->vocabulary_min_count};
    p->n_learned += !file;
    return FTH_OK;
}

/* The ragged group named `name` ("" a new one), with this cut-off. */
static fth_status join_group(fth_feature_program *p, const char *key, const char *name,
                             const struct fth_categorical_config *config, int32_t *out,
                             fth_error *err) {
    uint32_t max = (uint32_t)fth_categorical_length(p->config, config);
    for (uint32_t g = 0; *name && g < p->n_groups; g++) {
        if (strcmp(p->groups[g].name, name) != 0)
            continue;
        if (p->groups[g].max != max || p->groups[g].keep_last != config->keep_last)
            return fth_fail(err, FTH_E_CONFIG,
                            "%s: the features of group '%s' must agree on max_length and keep", key,
                            name);
        *out = (int32_t)g;
        return FTH_OK;
    }
    p->groups[p->n_groups] =
        (struct fth_feature_group){.name = name, .max = max, .unasked = !config->max_length, .keep_last = config->keep_last};
    *out = (int32_t)p->n_groups++;
    return FTH_OK;
}

fth_status fth_compile_categorical(fth_feature_program *p, const char *key,
                                      const struct fth_categorical_config *config,
                                      const char *column, fth_error *err) {
    struct fth_feature_field *field;
    const char *name = config->name && *config->name ? config->name : column;
    const char *table = config->table && *config->table ? config->table : name;
    int format = p->config->data.format;
    if (config->buckets < 0 || config->min_count < 0)
        return fth_fail(err, FTH_E_CONFIG, "%s: buckets and min_count must be at least 0", key);
    if (config->buckets >= FTH_NUMBER_MISSING)
        return fth_fail(err, FTH_E_CONFIG, "%s.buckets: %lld are too many: at most %u", key, (long long)config->buckets,
                        FTH_NUMBER_MISSING - 1);
    FTH_TRY(fth_compile_field(p, key, name, table, config->dim, config->min_count, &field, err));
    field->info.pooling = config->pooling;
    field->info.sequence = config->sequence;
    field->buckets = (uint32_t)config->buckets;
    if (field->buckets)
        field->missing = FTH_NUMBER_MISSING;
    field->reciprocal = fth_text_reciprocal(field->buckets);
    FTH_TRY(find_vocabulary(p, config, field, err));
    if (p->entries) {
        field->info.weighted = 1;
        field->info.ffm_field = format == FTH_FORMAT_LIBSVM   ? -1
                                : config->ffm_field >= 0      ? config->ffm_field
                                                              : (int64_t)p->n_fields - 1;
        if (config->ffm_field >= 0 && config->columns.n > 1)
            return fth_fail(err, FTH_E_CONFIG, "%s.field: needs exactly one name in columns", key);
        return join_group(p, key, "", config, &field->info.group, err);
    }
    char *where = fth_arena_printf(p->arena, "%s.columns", key);
    FTH_TRY(where ? fth_compile_find_column(p, where, column, &field->column, err) : fth_compile_no_memory(err));
    field->info.column = column;
    fth_compile_separator(&field->separator, config->separator);
    if (field->separator.length > 0) {
        field->in_brackets = fth_arena_alloc(p->arena, 1, sizeof *field->in_brackets);
        return field->in_brackets ? join_group(p, key, config->group ? config->group : "", config, &field->info.group, err)
                                  : fth_compile_no_memory(err);
    }
    if (config->sequence)
        return fth_fail(err, FTH_E_CONFIG, "%s.sequence: needs a separator that splits '%s'", key,
                        column);
    fth_compile_emit(p, FTH_FEATURE_SINGLE, p->n_fields - 1, 0);
    return FTH_OK;
}

fth_status fth_compile_osrp(fth_feature_program *p, const char *key,
                            const struct fth_categorical_config *config, fth_error *err) {
    const char *name = config->name && *config->name ? config->name : config->columns.items[0];
    const char *table = config->table && *config->table ? config->table : name;
    char *where = fth_arena_printf(p->arena, "%s.columns", key);
    struct fth_feature_osrp *osrp = fth_arena_alloc(p->arena, 1, sizeof *osrp);
    struct fth_feature_field *field;
    if (!where || !osrp)
        return fth_compile_no_memory(err);
    if (p->entries)
        return fth_fail(err, FTH_E_CONFIG, "%s.bins: libsvm and libffm lines have no columns", key);
    FTH_TRY(fth_compile_field(p, key, name, table, config->dim, config->min_count, &field, err));
    osrp->n_columns = config->columns.n;
    osrp->bins = (uint64_t)config->bins;
    osrp->columns = fth_arena_alloc(p->arena, osrp->n_columns, sizeof *osrp->columns);
    osrp->salts = fth_arena_alloc(p->arena, osrp->n_columns, sizeof *osrp->salts);
    if (!osrp->columns || !osrp->salts)
        return fth_compile_no_memory(err);
    for (uint32_t c = 0; c < osrp->n_columns; c++) {
        const char *column = config->columns.items[c];
        FTH_TRY(fth_compile_find_column(p, where, column, &osrp->columns[c], err));
        osrp->salts[c] = fth_hash_bytes(column, strlen(column), 0);
    }
    fth_feature_osrp_begin(osrp, field->salt);
    field->osrp = osrp;
    field->column = osrp->columns[0];
    field->info.column = config->columns.items[0];
    field->info.pooling = config->pooling;
    fth_compile_separator(&field->separator, config->separator);
    field->info.group = (int32_t)p->n_groups;
    /* A text is a bin's at most, and so many bins can have one. */
    uint64_t texts = *config->separator ? FTH_WHOLE_LENGTH : osrp->n_columns;
    p->groups[p->n_groups++] =
        (struct fth_feature_group){.name = "", .max = (uint32_t)(osrp->bins < texts ? osrp->bins : texts)};
    return FTH_OK;
}

/* Groups' members in order of fields, one instruction each; entries: the number of field map. */
fth_status fth_compile_groups(fth_feature_program *p, fth_error *err) {
    uint32_t at = 0;
    for (uint32_t f = 0; f < p->n_fields; f++)
        if (p->fields[f].info.group >= 0)
            p->groups[p->fields[f].info.group].n++;
    for (uint32_t g = 0; g < p->n_groups; g++) {
        p->groups[g].first = at;
        at += p->groups[g].n;
        p->groups[g].n = 0;
    }
    for (uint32_t f = 0; f < p->n_fields; f++)
        if (p->fields[f].info.group >= 0) {
            struct fth_feature_group *group = &p->groups[p->fields[f].info.group];
            p->group_fields[group->first + group->n++] = f;
        }
    for (uint32_t g = 0; g < p->n_groups; g++) {
        if (*p->groups[g].name == 0)
            p->groups[g].name = p->fields[p->group_fields[p->groups[g].first]].info.name;
        uint32_t first = p->group_fields[p->groups[g].first];
        if (p->fields[first].osrp)
            fth_compile_emit(p, FTH_FEATURE_OSRP, first, 0);
        else if (!p->entries)
            fth_compile_emit(p, FTH_FEATURE_LISTS, g, 0);
    }
    if (!p->entries)
        return FTH_OK;
    fth_compile_emit(p, FTH_FEATURE_ENTRIES, 0, 0);
    if (p->config->data.format == FTH_FORMAT_LIBSVM)
        return FTH_OK;
    int64_t top = -1;
    p->ffm_by_order = 1;
    for (uint32_t f = 0; f < p->n_fields; f++)
        if (p->fields[f].info.ffm_field > top)
            top = p->fields[f].info.ffm_field;
    for (uint32_t k = 0; k < p->config->features.n_categorical; k++)
        if (p->config->features.categorical[k].ffm_field >= 0)
            p->ffm_by_order = 0;
    if (top > 1 << 20)
        return fth_fail(err, FTH_E_CONFIG, "features.categorical: field %lld is above %d",
                        (long long)top, 1 << 20);
    p->n_ffm_map = (uint32_t)(top + 1);
    p->ffm_map = fth_arena_alloc(p->arena, (size_t)top + 1, sizeof *p->ffm_map);
    if (p->ffm_map == NULL)
        return fth_compile_no_memory(err);
    memset(p->ffm_map, 0xff, ((size_t)top + 1) * sizeof *p->ffm_map);
    for (uint32_t f = 0; f < p->n_fields; f++) {
        int32_t *slot = &p->ffm_map[p->fields[f].info.ffm_field];
        if (*slot >= 0)
            return fth_fail(err, FTH_E_CONFIG,
                            "features.categorical: '%s' and '%s' both take libffm field %lld",
                            p->fields[*slot].info.name, p->fields[f].info.name,
                            (long long)p->fields[f].info.ffm_field);
        *slot = (int32_t)f;
    }
    return FTH_OK;
}
