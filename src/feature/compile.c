/* Configuration to feature program: names resolved to columns, tables to salts, lists to groups.
 * Runs once, on one thread; everything it makes lives in the program's arena. */
#include "feature/compile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

fth_status fth_compile_no_memory(fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "no memory for the feature program");
}

/* The position of column `name`; `key` is where the configuration names it. */
fth_status fth_compile_find_column(const fth_feature_program *p, const char *key, const char *name,
                              uint32_t *out, fth_error *err) {
    uint32_t n = p->n_columns + p->n_derived, found = fth_names_find(&p->names->columns, name);
    uint32_t twice = found < p->n_columns ? p->names->twice[found] : 0;
    if (twice)
        return fth_fail(err, FTH_E_CONFIG,
                        "%s: the data has two columns named '%s' (the %u. and the %u.); name each "
                        "differently in the header (or in data.csv.columns, where there is none)",
                        key, name, found + 1, twice + 1);
    if (found != FTH_NO_NAME) {
        *out = found;
        return FTH_OK;
    }
    const char *nearest = fth_nearest(name, p->columns, n);
    if (nearest)
        return fth_fail(err, FTH_E_CONFIG, "%s: the data has no column '%s'; did you mean '%s'?", key,
                        name, nearest);
    struct fth_text list = {0};
    fth_text_names(&list, (const char *const *)p->columns, p->n_columns);
    int one_cell = p->n_columns == 1 && strpbrk(p->columns[0], ",;:\t|");
    int data = p->config->data.format == FTH_FORMAT_CSV && p->config->data.header &&
               fth_names_like_data((const char *const *)p->columns, p->n_columns);
    fth_status status = fth_fail(err, FTH_E_CONFIG, "%s: the data has no column '%s'; it has: %s%s", key, name,
                                 fth_text_get(&list),
                                 one_cell ? " (all in one: is data.csv.delimiter another?)"
                                 : data   ? " (is the first line data? data.csv.header: false, with data.csv.columns)"
                                          : "");
    fth_text_free(&list);
    return status;
}

/* Where a column or a value may have such a name, too. */
static const char *about_made_name(const char *name) {
    static const char missing[] = "_missing";
    size_t n = strlen(name), end = sizeof missing - 1;
    if (n > end && strcmp(name + n - end, missing) == 0)
        return "; missing_indicator makes COLUMN_missing";
    return strchr(name, '=') ? "; an indicator makes COLUMN=VALUE, and COLUMN=other for other values" : "";
}

fth_status fth_compile_dense(fth_feature_program *p, const char **names, const char *name,
                                   const char *key, fth_error *err) {
    if (name == NULL)
        return fth_compile_no_memory(err);
    uint32_t there;
    if (!fth_names_add(&p->names->dense, name, p->schema.n_dense, &there))
        return fth_compile_no_memory(err);
    if (there != FTH_NO_NAME)
        return fth_fail(err, FTH_E_CONFIG, "%s: there are two numeric features named '%s'%s", key, name,
                        about_made_name(name));
    names[p->schema.n_dense++] = name;
    return FTH_OK;
}

/* Adds a field; name and table are given, the rest is the caller's. */
fth_status fth_compile_field(fth_feature_program *p, const char *key, const char *name,
                            const char *table, int64_t dim, int64_t min_count,
                            struct fth_feature_field **out, fth_error *err) {
    if (name == NULL)
        return fth_compile_no_memory(err);
    if (dim <= 0)
        dim = p->config->embedding.dim;
    if (dim <= 0 || dim > 1 << 16)
        return fth_fail(err, FTH_E_CONFIG, "%s.dim: %lld: must be 1 to 65536", key, (long long)dim);
    uint32_t same_name, first;
    if (!fth_names_add(&p->names->fields, name, p->n_fields, &same_name) ||
        !fth_names_add(&p->names->tables, table, p->n_fields, &first))
        return fth_compile_no_memory(err);
    if (same_name != FTH_NO_NAME)
        return fth_fail(err, FTH_E_CONFIG, "%s: there are two categorical features named '%s'", key, name);
    const struct fth_field_info *other = first != FTH_NO_NAME ? &p->fields[first].info : NULL;
    if (other && ((int64_t)other->dim != dim || (int64_t)other->min_count != min_count))
        return fth_fail(err, FTH_E_CONFIG,
                        "%s: '%s' and '%s' share table '%s' and must agree on dim (%lld, %lld) and "
                        "min_count (%lld, %lld)",
                        key, name, other->name, table, (long long)dim, (long long)other->dim,
                        (long long)min_count, (long long)other->min_count);
    struct fth_feature_field *field = &p->fields[p->n_fields++];
    field->info = (struct fth_field_info){.name = name, .table = table, .column = "",
                                          .dim = (uint32_t)dim, .min_count = (uint64_t)min_count,
                                          .ffm_field = -1, .group = FTH_NO_GROUP};
    field->salt = fth_hash_bytes(table, strlen(table), 0);
    field->missing = field->info.missing = fth_missing_key(field->salt);
    *out = field;
    return FTH_OK;
}

/* "" and NULL: not a list. */
void fth_compile_separator(struct fth_separator *out, const char *bytes) {
    *out = (struct fth_separator){bytes, bytes ? (uint32_t)strlen(bytes) : 0};
}

void fth_compile_emit(fth_feature_program *p, enum fth_feature_op op, uint32_t index, uint32_t column) {
    p->instructions[p->n_instructions++] =
        (struct fth_feature_instruction){.op = op, .index = index, .column = column};
}

/* What is to be foretold may not be learned from. */
static fth_status refuse_label_feature(const fth_feature_program *p, uint32_t column, fth_error *err) {
    const char *section = NULL;
    for (uint32_t d = 0; d < p->n_derived; d++)
        for (uint32_t i = 0; i < p->derived[d].config->from.n; i++)
            if (p->derived[d].from[i] == column)
                return fth_fail(err, FTH_E_CONFIG, "features.derived.%u.from: nothing can be made from the label '%s'",
                                d, p->columns[column]);
    for (uint32_t f = 0; f < p->n_fields; f++) {
        for (uint32_t c = 0; p->fields[f].osrp && c < p->fields[f].osrp->n_columns; c++)
            if (p->fields[f].osrp->columns[c] == column)
                section = "categorical";
        if (p->fields[f].column == column)
            section = "categorical";
    }
    for (uint32_t k = 0; k < p->n_indicators; k++)
        if (p->indicators[k].column == column)
            section = "indicator";
    for (uint32_t k = 0; k < p->n_numeric; k++)
        if (p->numeric[k].column == column)
            section = "numeric";
    return section ? fth_fail(err, FTH_E_CONFIG, "features.%s: the label '%s' cannot be a feature", section,
                              p->columns[column])
                   : FTH_OK;
}

/* Several labels: each task's label first, which says where it counts, then what its weight is times. */
static fth_status compile_tasks(fth_feature_program *p, fth_error *err) {
    const struct fth_config *config = p->config;
    uint32_t column = 0;
    char key[40];
    for (uint32_t t = 0; t < config->n_tasks; t++) {
        snprintf(key, sizeof key, "tasks.%u.label", t);
        FTH_TRY(fth_compile_find_column(p, key, config->tasks[t].label, &column, err));
        FTH_TRY(refuse_label_feature(p, column, err));
        fth_compile_emit(p, FTH_FEATURE_TASK, t, column);
    }
    for (uint32_t t = 0; t < config->n_tasks; t++) {
        snprintf(key, sizeof key, "tasks.%u.sample_weight", t);
        if (!*config->tasks[t].sample_weight)
            continue;
        FTH_TRY(fth_compile_find_column(p, key, config->tasks[t].sample_weight, &column, err));
        fth_compile_emit(p, FTH_FEATURE_TASK_WEIGHT, t, column);
    }
    p->schema.has_weight = 1;
    p->schema.n_tasks = config->n_tasks;
    return FTH_OK;
}

static fth_status compile_label(fth_feature_program *p, fth_error *err) {
    const struct fth_data_config *data = &p->config->data;
    const char *label = data->label && *data->label ? data->label : NULL;
    const char *weight = data->weight && *data->weight ? data->weight : NULL;
    const char *query = data->query && *data->query ? data->query : NULL;
    uint32_t column = 0, tasks = p->config->n_tasks;
    if (p->entries) {
        if (weight || query)
            return fth_fail(err, FTH_E_CONFIG, "data.%s: libsvm and libffm lines have no named columns",
                            weight ? "weight" : "query");
        fth_compile_emit(p, FTH_FEATURE_LABEL, 0, 0);
        return FTH_OK;
    }
    if (tasks) {
        FTH_TRY(compile_tasks(p, err));
    } else {
        if (label == NULL && data->format == FTH_FORMAT_CSV)
            return fth_fail(err, FTH_E_CONFIG, "data.label: must name the label's column");
        FTH_TRY(fth_compile_find_column(p, "data.label", label ? label : "label", &column, err));
        fth_compile_emit(p, FTH_FEATURE_LABEL, 0, column);
        FTH_TRY(refuse_label_feature(p, column, err));
    }
    if (weight) {
        FTH_TRY(fth_compile_find_column(p, "data.weight", weight, &column, err));
        fth_compile_emit(p, tasks ? FTH_FEATURE_TASK_WEIGHT : FTH_FEATURE_WEIGHT,
                         tasks ? FTH_ALL_TASKS : 0, column);
        p->schema.has_weight = 1;
    }
    if (query) {
        FTH_TRY(fth_compile_find_column(p, "data.query", query, &column, err));
        fth_compile_emit(p, FTH_FEATURE_QUERY, 0, column);
        p->schema.has_query = 1;
    }
    return FTH_OK;
}

static fth_status fill_schema(fth_feature_program *p, const char **dense_names, fth_error *err) {
    uint32_t n = p->n_fields;
    int32_t *group = fth_arena_alloc(p->arena, n + 1, sizeof *group);
    uint8_t *weighted = fth_arena_alloc(p->arena, n + 1, sizeof *weighted);
    uint32_t *buckets = fth_arena_alloc(p->arena, n + 1, sizeof *buckets);
    uint64_t *salt = fth_arena_alloc(p->arena, n + 1, sizeof *salt);
    uint32_t *max = fth_arena_alloc(p->arena, p->n_groups + 1, sizeof *max);
    p->infos = fth_arena_alloc(p->arena, n + 1, sizeof *p->infos);
    if (!group || !weighted || !buckets || !salt || !max || !p->infos)
        return fth_compile_no_memory(err);
    for (uint32_t f = 0; f < n; f++) {
        p->infos[f] = p->fields[f].info;
        group[f] = p->infos[f].group;
        weighted[f] = (uint8_t)p->infos[f].weighted;
        buckets[f] = p->fields[f].buckets;
        salt[f] = p->fields[f].salt;
    }
    for (uint32_t g = 0; g < p->n_groups; g++)
        max[g] = p->groups[g].max;
    p->schema.dense_names = dense_names;
    p->schema.n_fields = n;
    p->schema.field_group = group;
    p->schema.field_weighted = weighted;
    p->schema.field_buckets = buckets;
    p->schema.field_salt = salt;
    p->schema.n_groups = p->n_groups;
    p->schema.group_max = max;
    return FTH_OK;
}

/* The data's columns by their names, of which two may be alike: that is told when one is asked for. */
static fth_status take_columns(fth_feature_program *p, const char *const *columns, const char **names, fth_error *err) {
    p->names->twice = fth_arena_alloc(p->arena, p->n_columns, sizeof *p->names->twice);
    if (!p->names->twice)
        return fth_compile_no_memory(err);
    for (uint32_t i = 0; i < p->n_columns; i++) {
        uint32_t there;
        if ((names[i] = fth_arena_strdup(p->arena, columns[i])) == NULL ||
            !fth_names_add(&p->names->columns, names[i], i, &there))
            return fth_compile_no_memory(err);
        if (there != FTH_NO_NAME && p->names->twice[there] == 0)
            p->names->twice[there] = i;
    }
    p->columns = names;
    return FTH_OK;
}

static fth_status compile(fth_feature_program *p, const char *const *columns, fth_error *err) {
    const struct fth_features_config *features = &p->config->features;
    size_t n_numeric = 0, n_fields = 0, n_indicators = 0, n_inputs = 0;
    for (uint32_t k = 0; k < features->n_numeric; k++)
        n_numeric += features->numeric[k].columns.n;
    for (uint32_t k = 0; k < features->n_categorical; k++)
        n_fields += features->categorical[k].columns.n;
    for (uint32_t k = 0; k < features->n_indicator; k++) {
        n_indicators += features->indicator[k].columns.n;
        n_inputs += features->indicator[k].columns.n * ((size_t)features->indicator[k].values.n + 1);
    }
    if (n_numeric + n_fields + n_indicators == 0)
        return fth_fail(err, FTH_E_CONFIG,
                        "features: at least one numeric or categorical column is needed");
    if (p->entries && (n_numeric + n_indicators > 0 || n_fields == 0))
        return fth_fail(err, FTH_E_CONFIG,
                        "features.numeric: libsvm and libffm entries are categorical features");
    if (p->config->data.format == FTH_FORMAT_LIBSVM && n_fields > 1)
        return fth_fail(err, FTH_E_CONFIG,
                        "features.categorical: libsvm has one field of entries, %zu are named",
                        n_fields);
    n_fields += n_numeric;
    const char **names = fth_arena_alloc(p->arena, p->n_columns + features->n_derived + 1, sizeof *names);
    const char **dense_names = fth_arena_alloc(p->arena, 2 * n_numeric + n_inputs + 1, sizeof *dense_names);
    p->numeric = fth_arena_alloc(p->arena, n_numeric + 1, sizeof *p->numeric);
    p->indicators = fth_arena_alloc(p->arena, n_indicators + 1, sizeof *p->indicators);
    p->running_dense = fth_arena_alloc(p->arena, n_numeric + 1, sizeof *p->running_dense);
    p->fields = fth_arena_alloc(p->arena, n_fields + 1, sizeof *p->fields);
    p->vocabularies = fth_arena_alloc(p->arena, n_fields + 1, sizeof *p->vocabularies);
    p->groups = fth_arena_alloc(p->arena, n_fields + 1, sizeof *p->groups);
    p->group_fields = fth_arena_alloc(p->arena, n_fields + 1, sizeof *p->group_fields);
    size_t n_instructions = 2 * n_fields + n_indicators + 4 + 2 * (size_t)p->config->n_tasks;
    p->instructions = fth_arena_alloc(p->arena, n_instructions, sizeof *p->instructions);
    p->log1p_table = fth_arena_alloc(p->arena, FTH_FEATURE_LOG1P_TABLE, sizeof *p->log1p_table);
    if (!names || !dense_names || !p->numeric || !p->vocabularies || !p->indicators || !p->running_dense || !p->fields || !p->groups ||
        !p->group_fields || !p->instructions || !p->log1p_table)
        return fth_compile_no_memory(err);
    FTH_TRY(take_columns(p, columns, names, err));
    FTH_TRY(fth_compile_derived(p, err));
    for (uint32_t i = 0; i < FTH_FEATURE_LOG1P_TABLE; i++)
        p->log1p_table[i] = log1pf((float)i);
    char key[64];
    for (uint32_t k = 0; k < features->n_numeric; k++) {
        snprintf(key, sizeof key, "features.numeric.%u", k);
        for (uint32_t c = 0; c < features->numeric[k].columns.n; c++)
            FTH_TRY(fth_compile_numeric(p, key, &features->numeric[k],
                                    features->numeric[k].columns.items[c], dense_names, err));
    }
    for (uint32_t k = 0; k < features->n_indicator; k++) {
        snprintf(key, sizeof key, "features.indicator.%u", k);
        for (uint32_t c = 0; c < features->indicator[k].columns.n; c++)
            FTH_TRY(fth_compile_indicator(p, key, &features->indicator[k],
                                          features->indicator[k].columns.items[c], dense_names, err));
    }
    for (uint32_t k = 0; k < features->n_categorical; k++) {
        snprintf(key, sizeof key, "features.categorical.%u", k);
        if (features->categorical[k].bins > 0) {
            FTH_TRY(fth_compile_osrp(p, key, &features->categorical[k], err));
            continue;
        }
        for (uint32_t c = 0; c < features->categorical[k].columns.n; c++)
            FTH_TRY(fth_compile_categorical(p, key, &features->categorical[k],
                                        features->categorical[k].columns.items[c], err));
    }
    FTH_TRY(fth_compile_groups(p, err));
    if (!p->unlabelled)
        FTH_TRY(compile_label(p, err));
    FTH_TRY(fth_compile_joins(p, err));
    fth_feature_join_numeric(p);
    return fill_schema(p, dense_names, err);
}

/* What the switched-off optimisation leaves in separate steps. */
static unsigned plain_by(const char *name) {
    static const struct {
        const char *name;
        unsigned plain;
    } switches[] = {{"feature_fusion", FTH_PLAIN_ALL},
                    {"fuse_splits", FTH_PLAIN_SPLITS},
                    {"fuse_numbers", FTH_PLAIN_NUMBERS},
                    {"fuse_counts", FTH_PLAIN_COUNTS}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (strcmp(switches[i].name, name) == 0)
            return switches[i].plain;
    return 0;
}

static fth_status create(const struct fth_config *config, const char *const *column_names,
                         size_t n_columns, int unlabelled, fth_feature_program **out, fth_error *err) {
    int entries = config->data.format == FTH_FORMAT_LIBSVM || config->data.format == FTH_FORMAT_LIBFFM;
    if ((entries && n_columns > 0) || (!entries && n_columns == 0) || n_columns > UINT32_MAX / 2)
        return fth_fail(err, FTH_E_ARGUMENT, "%zu column names do not fit the data format", n_columns);
    fth_feature_program *p = fth_alloc(1, sizeof *p);
    if (p == NULL)
        return fth_compile_no_memory(err);
    p->config = config;
    p->entries = entries;
    p->unlabelled = unlabelled;
    for (uint32_t i = 0; i < config->without.n; i++)
        p->plain |= plain_by(config->without.items[i]);
    p->n_columns = (uint32_t)n_columns;
    p->arena = fth_arena_create(1 << 14);
    struct fth_feature_names names = {0};
    p->names = &names;
    fth_status status = p->arena ? compile(p, column_names, err) : fth_compile_no_memory(err);
    p->names = NULL;
    fth_names_free(&names.columns);
    fth_names_free(&names.dense);
    fth_names_free(&names.fields);
    fth_names_free(&names.vocabularies);
    fth_names_free(&names.tables);
    int64_t lines = config->features.learn_lines;
    if (status == FTH_OK && p->n_learned > 0) {
        p->sample_wanted = lines > 0 ? (uint64_t)lines : UINT64_MAX;
        p->sample_room = lines > 0 ? (uint64_t)lines : FTH_FEATURE_SAMPLE;
        if (lines < 0)
            status = fth_fail(err, FTH_E_CONFIG, "features.learn_lines: must be at least 0");
    }
    if (status != FTH_OK) {
        fth_feature_destroy(p);
        return status;
    }
    *out = p;
    return FTH_OK;
}

fth_status fth_feature_create(const struct fth_config *config, const char *const *column_names,
                              size_t n_columns, fth_feature_program **out, fth_error *err) {
    return create(config, column_names, n_columns, 0, out, err);
}

fth_status fth_feature_create_unlabelled(const struct fth_config *config,
                                         const char *const *column_names, size_t n_columns,
                                         fth_feature_program **out, fth_error *err) {
    return create(config, column_names, n_columns, 1, out, err);
}

void fth_feature_destroy(fth_feature_program *program) {
    if (program == NULL)
        return;
    for (uint32_t k = 0; k < program->n_numeric; k++) {
        fth_free(program->numeric[k].boundaries.values);
        fth_free(program->numeric[k].joined_numbers);
    }
    for (uint32_t f = 0; f < program->n_fields; f++)
        fth_free(program->fields[f].joined_codes);
    for (uint32_t k = 0; k < program->n_indicators; k++)
        fth_codes_free(&program->indicators[k].codes);
    for (uint32_t v = 0; v < program->n_vocabularies; v++)
        fth_feature_vocabulary_free(&program->vocabularies[v]);
    fth_feature_drop_samples(program);
    fth_arena_destroy(program->arena);
    fth_free(program);
}

const struct fth_schema *fth_feature_schema(const fth_feature_program *program) {
    return &program->schema;
}

const char *fth_feature_indicator(const fth_feature_program *program, uint32_t i, uint32_t *first,
                                  uint32_t *width) {
    if (i >= program->n_indicators)
        return NULL;
    *first = program->indicators[i].dense;
    *width = program->indicators[i].width;
    return program->indicators[i].name;
}

const struct fth_field_info *fth_feature_fields(const fth_feature_program *program, uint32_t *n) {
    *n = program->n_fields;
    return program->infos;
}
