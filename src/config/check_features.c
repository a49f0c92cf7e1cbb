/* Features that contradict each other, and what each model asks of its features.
 *
 * Fields are judged after sorting by name, table and group: linear-logarithmic in their number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/check_features.h"

/* ---- all together ---- */
static fth_status collect(struct fth_loader *l, struct fields *out) {
    const struct fth_features_config *features = &l->config->features;
    int64_t dim = l->config->embedding.dim;
    for (uint32_t i = 0; i < features->n_derived; i++)
        FTH_TRY(fth_check_derived(l, i));
    out->items = fth_arena_alloc(l->tree, l->n_columns + 1u, sizeof *out->items);
    out->numbers = fth_arena_alloc(l->tree, l->n_columns + 1u, sizeof *out->numbers);
    for (uint32_t i = 0; out->numbers && i < features->n_indicator; i++) {
        const struct fth_indicator_config *indicator = &features->indicator[i];
        FTH_TRY(fth_check_indicator(l, i));
        for (uint32_t c = 0; c < indicator->columns.n; c++)
            out->numbers[out->n_numbers++] =
                (struct field){.name = fth_check_feature_name(indicator->name, indicator->columns.items[c]),
                               .column = indicator->columns.items[c],
                               .section = "indicator",
                               .item = i};
    }
    if (!out->items || !out->numbers)
        return fth_load_no_memory(l);
    for (uint32_t i = 0; i < features->n_numeric; i++) {
        const struct fth_numeric_config *numeric = &features->numeric[i];
        FTH_TRY(fth_check_numeric(l, i));
        for (uint32_t c = 0; c < numeric->columns.n; c++) {
            const char *column = numeric->columns.items[c];
            const char *feature = fth_check_feature_name(numeric->name, column);
            if (!numeric->bucket_only)
                out->numbers[out->n_numbers++] = (struct field){
                    .name = feature, .column = column, .section = "numeric", .item = i};
            if (!numeric->boundaries.n && !numeric->quantiles)
                continue;
            char *name = fth_arena_printf(l->tree, "%s_bucket", feature);
            if (!name)
                return fth_load_no_memory(l);
            out->items[out->n++] = (struct field){.name = name,
                                                  .column = column,
                                                  .table = *numeric->table ? numeric->table : name,
                                                  .group = "",
                                                  .section = "numeric",
                                                  .item = i,
                                                  .dim = numeric->dim ? numeric->dim : dim};
        }
    }
    for (uint32_t i = 0; i < features->n_categorical; i++) {
        const struct fth_categorical_config *from = &features->categorical[i];
        FTH_TRY(fth_check_categorical(l, i));
        for (uint32_t c = 0; c < from->columns.n; c++) {
            const char *column = from->columns.items[c];
            const char *name = fth_check_feature_name(from->name, column);
            if (from->bins && c > 0)
                break; /* one feature, whatever it is made of */
            out->items[out->n++] = (struct field){.name = name,
                                                  .column = column,
                                                  .table = *from->table ? from->table : name,
                                                  .group = from->group,
                                                  .section = "categorical",
                                                  .item = i,
                                                  .dim = from->dim ? from->dim : dim,
                                                  .categorical = from,
                                                  .buckets = from->buckets,
                                                  .min_count = from->min_count,
                                                  .max_length = fth_categorical_length(l->config, from),
                                                  .keep_last = from->keep_last,
                                                  .sequence = from->sequence};
        }
    }
    return FTH_OK;
}

static int by_order(const struct field *a, const struct field *b) {
    int section = strcmp(b->section, a->section); /* numeric first */
    return section ? section : (a->item > b->item) - (a->item < b->item);
}
static int by_name(const void *a, const void *b) {
    const struct field *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : by_order(x, y);
}
static int by_table(const void *a, const void *b) {
    const struct field *x = a, *y = b;
    int order = strcmp(x->table, y->table);
    return order ? order : by_name(a, b);
}
static int by_group(const void *a, const void *b) {
    const struct field *x = a, *y = b;
    int order = strcmp(x->group, y->group);
    return order ? order : by_name(a, b);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static fth_status check_names(struct fth_loader *l, struct field *items, uint32_t n) {
    qsort(items, n, sizeof *items, by_name);
    for (uint32_t i = 0; i < n; i++) {
        char message[300], quoted[64];
        fth_text_quote(quoted, sizeof quoted, items[i].name, strlen(items[i].name));
        if (fth_check_is_label(l->config, items[i].column)) {
            fth_text_quote(quoted, sizeof quoted, items[i].column, strlen(items[i].column));
            snprintf(message, sizeof message, "%s is the label, it cannot be a feature", quoted);
            return fth_check_fail_item(l, &items[i], "columns", message);
        }
        if (i == 0 || strcmp(items[i - 1].name, items[i].name) != 0)
            continue;
        snprintf(message, sizeof message, "%s is already a feature of features.%s.%u; list it once, or give one a name",
                 quoted, items[i - 1].section, items[i - 1].item);
        return fth_check_fail_item(l, &items[i], "columns", message);
    }
    return FTH_OK;
}

static int same_vocabulary(const struct fth_categorical_config *a,
                           const struct fth_categorical_config *b) {
    static const struct fth_categorical_config none = {.vocabulary_file = "", .vocabulary_min_count = 1};
    a = a ? a : &none;
    b = b ? b : &none;
    return strcmp(a->vocabulary_file, b->vocabulary_file) == 0 &&
           a->vocabulary_size == b->vocabulary_size && a->oov_buckets == b->oov_buckets &&
           a->vocabulary_min_count == b->vocabulary_min_count;
}

/* Keys of bins and keys of texts are not the same rows. */
static int64_t bins_of(const struct field *field) {
    return field->categorical ? field->categorical->bins : 0;
}

static fth_status check_shared(struct fth_loader *l, struct fields *fields) {
    qsort(fields->items, fields->n, sizeof *fields->items, by_table);
    for (uint32_t i = 1; i < fields->n; i++) {
        const struct field *a = &fields->items[i - 1], *b = &fields->items[i];
        if (strcmp(a->table, b->table) != 0)
            continue;
        const char *key = a->dim != b->dim               ? "dim"
                          : a->buckets != b->buckets     ? "buckets"
                          : a->min_count != b->min_count ? "min_count"
                          : bins_of(a) != bins_of(b)     ? "bins"
                                                         : NULL;
        if (!key && !same_vocabulary(a->categorical, b->categorical))
            key = "vocabulary";
        if (key)
            return fth_load_fail_path(
                l, "features",
                "%s and %s share the table %s but differ in %s; give both the same, or "
                "tables of their own",
                a->name, b->name, a->table, key);
    }
    qsort(fields->items, fields->n, sizeof *fields->items, by_group);
    for (uint32_t i = 1; i < fields->n; i++) {
        const struct field *a = &fields->items[i - 1], *b = &fields->items[i];
        if (!*a->group || strcmp(a->group, b->group) != 0)
            continue;
        const char *key = a->max_length != b->max_length ? "max_length"
                          : a->keep_last != b->keep_last ? "keep"
                          : a->sequence != b->sequence   ? "sequence"
                                                         : NULL;
        if (key)
            return fth_load_fail_path(
                l, "features.categorical",
                "%s and %s are of the group %s but differ in %s; give both the same", a->name,
                b->name, a->group, key);
    }
    return FTH_OK;
}

/* ---- what models ask ---- */
static fth_status check_one_dim(struct fth_loader *l, const struct fields *fields) {
    for (uint32_t i = 0; i < fields->n; i++)
        if (fields->items[i].dim != l->config->embedding.dim) {
            char message[200];
            snprintf(message, sizeof message,
                     "%lld; %s multiplies fields with each other, so all have embedding.dim (%lld)",
                     (long long)fields->items[i].dim, l->config->model.name,
                     (long long)l->config->embedding.dim);
            return fth_check_fail_item(l, &fields->items[i], "dim", message);
        }
    return FTH_OK;
}

static fth_status check_dlrm(struct fth_loader *l, const struct fields *fields) {
    const struct fth_ints *bottom = &l->config->model.bottom;
    long long dim = l->config->embedding.dim;
    if (fields->n_numbers && bottom->n == 0)
        return fth_load_fail_path(
            l, "model.bottom",
            "missing; dlrm needs layers over the numeric features, the last as wide as "
            "embedding.dim, such as [64, %lld]",
            dim);
    if (!fields->n_numbers && bottom->n)
        return fth_load_fail_path(l, "model.bottom",
                                  "there are no numeric features for these layers; remove it");
    if (bottom->n && bottom->items[bottom->n - 1] != dim)
        return fth_load_fail_path(
            l, "model.bottom",
            "the last layer's width is %lld but embedding.dim is %lld; dlrm multiplies "
            "them with each other, so make them equal",
            (long long)bottom->items[bottom->n - 1], dim);
    return FTH_OK;
}

/* Whether a single-valued field (named `target`, if given) shares its table with a sequence. */
static int has_target(struct fields *fields, const char *target) {
    qsort(fields->items, fields->n, sizeof *fields->items, by_table);
    for (uint32_t i = 0, end; i < fields->n; i = end) {
        int sequence = 0, single = 0;
        for (end = i; end < fields->n; end++) {
            const struct field *field = &fields->items[end];
            if (strcmp(field->table, fields->items[i].table) != 0)
                break;
            sequence |= field->sequence;
            single |= !field->sequence && (!*target || strcmp(field->name, target) == 0);
        }
        if (sequence && single)
            return 1;
    }
    return 0;
}

static fth_status check_history(struct fth_loader *l, struct fields *fields) {
    const char *model = l->config->model.name;
    const char *target = l->config->model.target;
    int format = l->config->data.format, sequence = 0;
    if (format == FTH_FORMAT_LIBSVM || format == FTH_FORMAT_LIBFFM)
        return fth_load_fail_path(l, "model.name",
                                  "%s attends to a history, and libsvm and libffm lines have none; use csv, or another model",
                                  model);
    for (uint32_t i = 0; i < fields->n; i++)
        sequence |= fields->items[i].sequence;
    if (!sequence)
        return fth_load_fail_path(
            l, "model.name",
            "%s attends to a history but no feature is a sequence; set sequence: true "
            "and a separator for one of features.categorical",
            model);
    if (has_target(fields, target))
        return FTH_OK;
    if (!*target)
        return fth_load_fail_path(
            l, "model.name",
            "%s compares a target with the history: give a single-valued categorical "
            "column the same table as a sequence",
            model);
    char quoted[64];
    fth_text_quote(quoted, sizeof quoted, target, strlen(target));
    return fth_load_fail_path(
        l, "model.target",
        "%s is not a single-valued categorical column that shares its table with a "
        "sequence, which %s compares it with",
        quoted, model);
}

static fth_status check_wide(struct fth_loader *l, struct fields *fields) {
    const struct fth_strings *wide = &l->config->model.wide;
    const char **names = fth_arena_alloc(l->tree, fields->n + 1u, sizeof *names);
    if (!names)
        return fth_load_no_memory(l);
    qsort(fields->items, fields->n, sizeof *fields->items, by_name);
    for (uint32_t i = 0; i < fields->n; i++)
        names[i] = fields->items[i].name;
    for (uint32_t i = 0; i < wide->n; i++) {
        if (bsearch(&wide->items[i], names, fields->n, sizeof *names, by_text))
            continue;
        char quoted[64];
        fth_text_quote(quoted, sizeof quoted, wide->items[i], strlen(wide->items[i]));
        const char *near = fth_nearest(wide->items[i], names, fields->n);
        return fth_load_fail_path(l, "model.wide", "%s is not a categorical feature%s%s%s", quoted,
                                  near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    return FTH_OK;
}

/* Names that stand twice would be added twice. */
static fth_status check_once(struct fth_loader *l, const char *path, const struct fth_strings *names) {
    const char **sorted = fth_arena_alloc(l->tree, names->n + 1u, sizeof *sorted);
    if (!sorted)
        return fth_load_no_memory(l);
    for (uint32_t i = 0; i < names->n; i++)
        sorted[i] = names->items[i];
    qsort(sorted, names->n, sizeof *sorted, by_text);
    for (uint32_t i = 1; i < names->n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            char quoted[64];
            fth_text_quote(quoted, sizeof quoted, sorted[i], strlen(sorted[i]));
            return fth_load_fail_path(l, path, "%s is listed twice", quoted);
        }
    return FTH_OK;
}

static fth_status check_lists(struct fth_loader *l) {
    const struct fth_model_config *model = &l->config->model;
    FTH_TRY(check_once(l, "model.wide", &model->wide));
    FTH_TRY(check_once(l, "model.user_fields", &model->user_fields));
    FTH_TRY(check_once(l, "model.item_fields", &model->item_fields));
    FTH_TRY(check_once(l, "model.co_action", &model->co_action));
    FTH_TRY(check_once(l, "model.relations", &model->relations));
    return check_once(l, "model.negatives", &model->negatives);
}

static fth_status check_model(struct fth_loader *l, struct fields *fields) {
    const char *name = l->config->model.name;
    FTH_TRY(check_lists(l));
    if (l->config->model.recurrent == 1)
        return fth_load_fail_path(l, "model.recurrent", "1; a recurrent layer has at least 2 units (0: as many as a position "
                                                        "of the history has numbers)");
    if (l->config->model.batch_norm && l->config->model.layer_norm)
        return fth_load_fail_path(
            l, "model.layer_norm",
            "a layer is normalised once; use batch_norm or layer_norm, not both");
    if (l->config->model.co_action.n && *l->config->model.target && strcmp(name, "can") == 0)
        return fth_load_fail_path(l, "model.target",
                                  "the pairs of model.co_action name what acts on what; leave one of the two out");
    int softmax = strcmp(name, "two_tower") == 0 && l->config->model.in_batch_softmax;
    if (softmax && l->config->train.label_smoothing > 0)
        return fth_load_fail_path(l, "train.label_smoothing",
                                  "the softmax of model.loss has no smoothing; leave it out");
    if (softmax && l->config->train.batch_size < 2)
        return fth_load_fail_path(l, "train.batch_size",
                                  "1; the softmax of model.loss sets an item against the others of its batch; use 2 or more");
    if (strcmp(name, "fm") == 0 || strcmp(name, "deepfm") == 0 || strcmp(name, "dlrm") == 0 ||
        strcmp(name, "xdeepfm") == 0)
        FTH_TRY(check_one_dim(l, fields));
    if (strcmp(name, "dlrm") == 0)
        return check_dlrm(l, fields);
    if (strcmp(name, "din") == 0 || strcmp(name, "dien") == 0 || strcmp(name, "dsin") == 0 ||
        strcmp(name, "atbrg") == 0)
        return check_history(l, fields);
    return check_wide(l, fields);
}

fth_status fth_config_check_features(struct fth_loader *l) {
    struct fields fields = {0};
    int format = l->config->data.format;
    FTH_TRY(collect(l, &fields));
    if (fields.n + fields.n_numbers == 0)
        return fth_load_fail_path(
            l, "features",
            "missing; list the columns the model sees under features.numeric and "
            "features.categorical");
    if ((format == FTH_FORMAT_LIBSVM || format == FTH_FORMAT_LIBFFM) &&
        (l->config->features.n_numeric || l->config->features.n_indicator))
        return fth_load_fail_path(
            l, l->config->features.n_numeric ? "features.numeric" : "features.indicator",
            "libsvm and libffm lines have no numeric columns; use features.categorical, "
            "whose rows are weighted by the values");
    FTH_TRY(check_names(l, fields.numbers, fields.n_numbers));
    FTH_TRY(check_names(l, fields.items, fields.n));
    FTH_TRY(check_shared(l, &fields));
    return check_model(l, &fields);
}
