/* Features that contradict themselves, item by item. See check_features.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/check_features.h"

fth_status fth_check_fail_item(struct fth_loader *l, const struct field *field, const char *key,
                               const char *message) {
    char path[128];
    snprintf(path, sizeof path, "features.%s.%u.%s", field->section, field->item, key);
    return fth_load_fail_path(l, path, "%s", message);
}

static fth_status check_name(struct fth_loader *l, const struct field *at, const char *name,
                             const struct fth_strings *columns) {
    if (*name && columns->n > 1)
        return fth_check_fail_item(l, at, "name", "one name for several columns; list each column on its own");
    return FTH_OK;
}

fth_status fth_check_numeric(struct fth_loader *l, uint32_t item) {
    const struct fth_numeric_config *numeric = &l->config->features.numeric[item];
    const struct field at = {.section = "numeric", .item = item};
    for (uint32_t i = 1; i < numeric->boundaries.n; i++)
        if (!(numeric->boundaries.items[i - 1] < numeric->boundaries.items[i]))
            return fth_check_fail_item(l, &at, "boundaries",
                                       "not increasing; each must be above the one before");
    FTH_TRY(check_name(l, &at, numeric->name, &numeric->columns));
    if (!*numeric->separator) {
        const char *key = numeric->max_length                           ? "max_length"
                          : !numeric->keep_last                         ? "keep"
                          : numeric->reduce != FTH_REDUCE_MEAN          ? "reduce"
                          : numeric->on_bad_value != FTH_BAD_VALUE_STOP ? "on_bad_value"
                                                                        : NULL;
        if (key)
            return fth_check_fail_item(l, &at, key,
                                       "only for lists; give the separator between a cell's numbers, such as \";\"");
    }
    if (strpbrk(numeric->separator, "0123456789"))
        return fth_check_fail_item(l, &at, "separator", "has a digit in it, which numbers have, too");
    if (!numeric->keep_last && !numeric->max_length)
        return fth_check_fail_item(l, &at, "keep", "all of a list is used; set max_length");
    if (numeric->boundaries.n && numeric->quantiles)
        return fth_check_fail_item(l, &at, "quantiles",
                                   "boundaries are given, so none are learned; remove one of the two");
    if (numeric->quantiles == 1)
        return fth_check_fail_item(l, &at, "quantiles",
                                   "one interval tells nothing apart; use 2 or more, or 0");
    if (numeric->boundaries.n || numeric->quantiles)
        return FTH_OK;
    if (numeric->bucket_only)
        return fth_check_fail_item(l, &at, "bucket_only",
                                   "there are no buckets; set boundaries or quantiles");
    if (*numeric->table || numeric->dim)
        return fth_check_fail_item(l, &at, *numeric->table ? "table" : "dim",
                                   "only the bucketised copy has a table; set boundaries or quantiles");
    return FTH_OK;
}

fth_status fth_check_indicator(struct fth_loader *l, uint32_t item) {
    const struct fth_indicator_config *indicator = &l->config->features.indicator[item];
    const struct field at = {.section = "indicator", .item = item};
    FTH_TRY(check_name(l, &at, indicator->name, &indicator->columns));
    if (indicator->values.n == 0)
        return fth_check_fail_item(l, &at, "values", "missing; list the texts that get an input each");
    for (uint32_t i = 0; i < indicator->values.n; i++) {
        if (!*indicator->values.items[i])
            return fth_check_fail_item(l, &at, "values", "the empty text is a missing value, it gets no input");
        if (*indicator->separator && strstr(indicator->values.items[i], indicator->separator))
            return fth_check_fail_item(l, &at, "values", "a text has the separator in it, which no value of a list can have");
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(indicator->values.items[i], indicator->values.items[k]) == 0)
                return fth_check_fail_item(l, &at, "values", "a text is listed twice");
    }
    return FTH_OK;
}

int fth_check_is_label(const struct fth_config *config, const char *column) {
    int found = strcmp(column, config->data.label) == 0;
    for (uint32_t t = 0; t < config->n_tasks; t++)
        found |= strcmp(column, config->tasks[t].label) == 0;
    return found && config->data.format == FTH_FORMAT_CSV;
}

static int are_ascii(const char *characters) {
    while (*characters && !(*characters & 0x80))
        characters++;
    return !*characters;
}

/* Whether the column before `item` of this name is a cross of n columns. */
static int is_cross(const struct fth_loader *l, uint32_t item, const char *name, uint32_t n) {
    for (uint32_t d = 0; d < item; d++) {
        const struct fth_derived_config *derived = &l->config->features.derived[d];
        if (derived->as == FTH_DERIVE_CROSS && strcmp(derived->name, name) == 0)
            return derived->from.n == n;
    }
    return 0;
}

fth_status fth_check_derived(struct fth_loader *l, uint32_t item) {
    const struct fth_derived_config *derived = &l->config->features.derived[item];
    const struct field at = {.section = "derived", .item = item};
    int format = l->config->data.format, join = derived->as == FTH_DERIVE_JOIN;
    if (format == FTH_FORMAT_LIBSVM || format == FTH_FORMAT_LIBFFM)
        return fth_check_fail_item(l, &at, "from", "libsvm and libffm lines have no columns");
    if (!*derived->name)
        return fth_check_fail_item(l, &at, "name", "missing; name the new column");
    if (join && (!*derived->file || !derived->key.n || !*derived->value))
        return fth_check_fail_item(l, &at, !*derived->file ? "file" : !derived->key.n ? "key" : "value",
                                   "missing; a join needs a file and two of its columns, key and value");
    if (join && *derived->several && *derived->separator && strcmp(derived->several, derived->separator) != 0)
        return fth_check_fail_item(l, &at, "several",
                                   "must be the same as separator: a key's values stand in the list like any others");
    if (join && *derived->escape && strstr(derived->delimiter, derived->escape))
        return fth_check_fail_item(l, &at, "escape", FTH_ESCAPE_IN_DELIMITER);
    if (derived->as == FTH_DERIVE_CROSS && derived->from.n < 2)
        return fth_check_fail_item(l, &at, "from", "a cross needs two columns or more");
    if (derived->as != FTH_DERIVE_CROSS && derived->from.n > 1)
        return fth_check_fail_item(l, &at, "from", join ? "a join is made from one column; for a key of several make their cross before"
                                                     : "only a cross is made from several columns");
    if (derived->as == FTH_DERIVE_REPLACE && *derived->by && (!are_ascii(derived->by) || derived->by[1]))
        return fth_check_fail_item(l, &at, "by", "must be one ASCII character, or \"\" for none");
    if (derived->as == FTH_DERIVE_REPLACE && !*derived->characters)
        return fth_check_fail_item(l, &at, "characters", "missing; name those to replace or leave out, such as \"[]'\"");
    if (derived->as == FTH_DERIVE_REPLACE && !are_ascii(derived->characters))
        return fth_check_fail_item(l, &at, "characters", "must be ASCII: of longer ones single bytes would be replaced");
    if (join && derived->key.n > 1 && !is_cross(l, item, derived->from.items[0], derived->key.n))
        return fth_check_fail_item(l, &at, "key",
                                   "several columns of the file are compared with a cross of as many, which is made before and "
                                   "named in from");
    if (derived->as == FTH_DERIVE_SESSIONS &&
        (!*derived->separator || strpbrk(derived->separator, "0123456789")))
        return fth_check_fail_item(l, &at, "separator",
                                   "sessions need a list of times, with something between them that has no digits");
    if (fth_check_is_label(l->config, derived->name))
        return fth_check_fail_item(l, &at, "name",
                                   "this is the label's column, and a label is read from the files, never made; give this "
                                   "one another name, or name a column of the files as the label (positive: its texts that "
                                   "mean 1)");
    return FTH_OK;
}

/* What is said of lists where there are none, or of rows that are not pooled so: it would be passed over. */
static fth_status check_list(struct fth_loader *l, const struct field *at, const struct fth_categorical_config *categorical,
                             int entries) {
    int standard = categorical->max_length == 0 || categorical->max_length == FTH_STANDARD_LENGTH;
    const char *cut = !standard ? "max_length" : !categorical->keep_last ? "keep" : NULL;
    if (cut && categorical->bins)
        return fth_check_fail_item(l, at, cut, "bins are made of all values of a cell; remove it");
    const char *key = cut ? cut : categorical->pooling != FTH_CONFIG_POOL_SUM && !categorical->bins ? "pooling" : NULL;
    if (key && !entries && !*categorical->separator)
        return fth_check_fail_item(l, at, key,
                                   "only for lists; give the separator between a cell's values, such as \";\"");
    if (categorical->sequence && categorical->pooling == FTH_CONFIG_POOL_MAX)
        return fth_check_fail_item(l, at, "pooling",
                                   "positions of a sequence are kept, and models without attention take their mean; "
                                   "remove one of the two");
    return FTH_OK;
}

fth_status fth_check_categorical(struct fth_loader *l, uint32_t item) {
    const struct fth_categorical_config *categorical = &l->config->features.categorical[item];
    const struct field at = {.section = "categorical", .item = item};
    int format = l->config->data.format;
    int entries = format == FTH_FORMAT_LIBSVM || format == FTH_FORMAT_LIBFFM;
    if (!categorical->bins)
        FTH_TRY(check_name(l, &at, categorical->name, &categorical->columns));
    if (entries && categorical->sequence)
        return fth_check_fail_item(l, &at, "sequence", "libsvm and libffm lines have no sequences; use csv");
    if (entries && *categorical->separator)
        return fth_check_fail_item(l, &at, "separator",
                                   "libsvm and libffm lines have no cells to split; remove it");
    if (categorical->bins) {
        const char *key = entries                           ? "bins"
                          : categorical->buckets            ? "buckets"
                          : *categorical->vocabulary_file   ? "vocabulary_file"
                          : categorical->vocabulary_size    ? "vocabulary_size"
                          : categorical->sequence           ? "sequence"
                          : *categorical->group             ? "group"
                          : !*categorical->name             ? "name"
                                                            : NULL;
        if (key)
            return fth_check_fail_item(l, &at, key,
                                       strcmp(key, "name") == 0   ? "missing; name the feature that bins make of the columns"
                                       : strcmp(key, "bins") == 0 ? "libsvm and libffm lines have no columns; remove it"
                                                                  : "bins make one feature of all columns; remove one of the two");
    }
    int vocabulary = *categorical->vocabulary_file || categorical->vocabulary_size;
    if (vocabulary && (entries || categorical->buckets))
        return fth_check_fail_item(l, &at, *categorical->vocabulary_file ? "vocabulary_file" : "vocabulary_size",
                                   entries ? "libsvm and libffm have numbers, not texts"
                                           : "a vocabulary and buckets exclude each other; oov_buckets hashes the rest");
    if (*categorical->vocabulary_file && categorical->vocabulary_size)
        return fth_check_fail_item(l, &at, "vocabulary_size", "a file is given, so none is learned; remove one");
    if (!vocabulary && (categorical->oov_buckets || categorical->vocabulary_min_count > 1))
        return fth_check_fail_item(l, &at, categorical->oov_buckets ? "oov_buckets" : "vocabulary_min_count",
                                   "there is no vocabulary; set vocabulary_file or vocabulary_size");
    if (categorical->sequence && !*categorical->separator)
        return fth_check_fail_item(l, &at, "separator",
                                   "missing; a sequence needs what stands between its values, such as \";\"");
    if (*categorical->group && !*categorical->separator)
        return fth_check_fail_item(l, &at, "group", "only columns with a separator have positions to share");
    FTH_TRY(check_list(l, &at, categorical, entries));
    if (categorical->ffm_field >= 0 && format != FTH_FORMAT_LIBFFM)
        return fth_check_fail_item(l, &at, "field", "only libffm has numbered fields; remove it");
    if (categorical->ffm_field >= 0 && categorical->columns.n > 1)
        return fth_check_fail_item(l, &at, "field",
                                   "one number for several columns; list each column on its own");
    return FTH_OK;
}
