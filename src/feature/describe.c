/* A feature program in words: what each feature does, step by step, which steps are one pass over the text, and why
 * others are not. */
#include <string.h>

#include "base/text.h"
#include "feature/program_private.h"

static const char *const reductions[] = {
    [FTH_REDUCE_MEAN] = "mean", [FTH_REDUCE_SUM] = "sum",     [FTH_REDUCE_MIN] = "min",
    [FTH_REDUCE_MAX] = "max",   [FTH_REDUCE_COUNT] = "count",
};

static void put_split(struct fth_text *out, const struct fth_separator *separator, uint32_t max,
                      int keep_last) {
    char quoted[64];
    fth_text_quote(quoted, sizeof quoted, separator->bytes, separator->length);
    fth_text_printf(out, " | split '%s'", quoted);
    if (max && max < INT32_MAX)
        fth_text_printf(out, " | %s %u", keep_last ? "last" : "first", max);
}

static const char *const parts[] = {
    [FTH_DATE_YEAR] = "year",       [FTH_DATE_MONTH] = "month",     [FTH_DATE_DAY] = "day",
    [FTH_DATE_HOUR] = "hour",       [FTH_DATE_MINUTE] = "minute",   [FTH_DATE_SECOND] = "second",
    [FTH_DATE_WEEKDAY] = "weekday", [FTH_DATE_YEARDAY] = "yearday", [FTH_DATE_WEEKEND] = "weekend",
    [FTH_DATE_DAYS] = "days",       [FTH_DATE_SECONDS] = "seconds",
};

/* "fused: ..." unless that is switched off. */
static void put_fused(struct fth_text *out, const fth_feature_program *p, enum fth_feature_plain plain, const char *what) {
    if (p->plain & plain)
        fth_text_printf(out, "\n      in separate steps, as `without` has it\n");
    else
        fth_text_printf(out, "\n      fused: %s\n", what);
}

static void put_fused_join(struct fth_text *out, const fth_feature_program *p,
                           const struct fth_feature_derived *derived) {
    int hashed = 0, numbers = 0;
    for (uint32_t f = 0; f < p->n_fields; f++)
        hashed |= p->fields[f].joined == derived;
    for (uint32_t k = 0; k < p->n_numeric; k++)
        numbers |= p->numeric[k].joined == derived;
    fth_text_printf(out, "\n      fused: %s, a value's %s looked up; no text is written%s\n",
                    !numbers  ? "join+hash"
                    : !hashed ? "join+number"
                              : "join+hash, join+number",
                    !numbers  ? "key is"
                    : !hashed ? "number is"
                              : "key and number are",
                    derived->counted ? ", but while a vocabulary is learned from it" : "");
}

static void put_join(struct fth_text *out, const struct fth_derived_config *config) {
    fth_text_printf(out, " | join %s (", config->file);
    for (uint32_t i = 0; i < config->key.n; i++)
        fth_text_printf(out, "%s%s", i ? ", " : "", config->key.items[i]);
    fth_text_printf(out, " -> %s%s%s%s)", config->value, *config->several ? ", all with '" : "", config->several,
                    *config->several ? "' between" : "");
}

static void put_replaced(struct fth_text *out, const struct fth_derived_config *config) {
    char characters[600], by[16];
    fth_text_quote(characters, sizeof characters, config->characters, (uint32_t)strlen(config->characters));
    fth_text_quote(by, sizeof by, config->by, (uint32_t)strlen(config->by));
    fth_text_printf(out, " | without the characters '%s'", characters);
    if (*by)
        fth_text_printf(out, ", '%s' in the place of each", by);
}

static void put_derived(struct fth_text *out, const fth_feature_program *p,
                        const struct fth_feature_derived *derived) {
    const struct fth_derived_config *config = derived->config;
    fth_text_printf(out, "  %s: ", config->name);
    for (uint32_t i = 0; i < config->from.n; i++)
        fth_text_printf(out, "%s%s", i ? ", " : "", config->from.items[i]);
    if (derived->separator.length)
        put_split(out, &derived->separator, 0, 0);
    if (config->as == FTH_DERIVE_JOIN)
        put_join(out, config);
    else if (config->as == FTH_DERIVE_DATE)
        fth_text_printf(out, " | %s of the date (%s)", parts[config->part], config->format);
    else if (config->as == FTH_DERIVE_SESSIONS)
        fth_text_printf(out, " | sessions of times (%s), cut where more than %lld s lie between two", config->format,
                        (long long)config->gap);
    else if (config->as == FTH_DERIVE_REPLACE)
        put_replaced(out, config);
    else
        fth_text_printf(out, " | cross");
    if (config->as == FTH_DERIVE_JOIN && !derived->not_fused) {
        put_fused_join(out, p, derived);
        return;
    }
    const char *how = "a text of its own is written: a cross is hashed as one text";
    if (derived->separator.length)
        how = "the list is written as a text, which its features split again";
    else if (config->as == FTH_DERIVE_JOIN)
        how = "the side file's text is used where it lies";
    else if (config->as == FTH_DERIVE_REPLACE)
        how = "a text of its own is written";
    else if (config->as == FTH_DERIVE_DATE)
        how = "a number is written as a text, so that it can be a number or a key";
    fth_text_printf(out, "\n      %s", how);
    if (*derived->not_fused)
        fth_text_printf(out, "; not fused with its features: %s", derived->not_fused);
    fth_text_printf(out, "\n");
}

static void put_numeric(struct fth_text *out, const fth_feature_program *p,
                        const struct fth_feature_numeric *numeric) {
    const struct fth_numeric_config *config = numeric->config;
    int list = numeric->separator.length > 0, counted = list && config->reduce == FTH_REDUCE_COUNT;
    fth_text_printf(out, "  %s: %s", numeric->name, p->columns[numeric->column]);
    if (list)
        put_split(out, &numeric->separator, (uint32_t)config->max_length, config->keep_last);
    if (!counted)
        fth_text_printf(out, " | number");
    if (list)
        fth_text_printf(out, " | %s", reductions[config->reduce]);
    if (config->clip)
        fth_text_printf(out, " | clip");
    if (config->log1p)
        fth_text_printf(out, " | log1p");
    if (config->standardise != FTH_STANDARDISE_NONE)
        fth_text_printf(out, " | standardise");
    if (numeric->indicator >= 0)
        fth_text_printf(out, "; and 1 where it is missing");
    if (numeric->field >= 0)
        fth_text_printf(out, "; %s: | bucketise", p->fields[numeric->field].info.name);
    if (numeric->joined)
        fth_text_printf(out, "\n      fused with its join: %s\n",
                        list ? "no number is parsed, what is cut off is not looked up" : "no number is parsed");
    else if (!list)
        fth_text_printf(out, "\n      64 lines at a time, short numbers by vectors\n");
    else if (counted)
        put_fused(out, p, FTH_PLAIN_NUMBERS, "split+count, nothing is parsed");
    else if (p->config->features.missing.n)
        put_fused(out, p, FTH_PLAIN_NUMBERS,
                  "split+number+reduce; numbers one by one, as features.missing has texts that each is compared with");
    else
        put_fused(out, p, FTH_PLAIN_NUMBERS, "split+number+reduce, short numbers by vectors");
}

static void put_indicator(struct fth_text *out, const fth_feature_program *p,
                          const struct fth_feature_indicator *indicator) {
    const struct fth_indicator_config *config = indicator->config;
    fth_text_printf(out, "  %s: %s", config->name && *config->name ? config->name : p->columns[indicator->column],
                    p->columns[indicator->column]);
    int list = indicator->separator.length > 0;
    if (list)
        put_split(out, &indicator->separator, 0, 0);
    fth_text_printf(out, " | one-hot of %u%s", config->values.n, config->other ? " and other" : "");
    if (list)
        fth_text_printf(out, " | %s", config->count ? "sum" : "any");
    if (list)
        put_fused(out, p, FTH_PLAIN_COUNTS, "split+one-hot+sum by counting, no row is made");
    else
        fth_text_printf(out, "\n      one value a line: nothing to fuse\n");
}

static void put_field(struct fth_text *out, const fth_feature_program *p, uint32_t f) {
    const struct fth_feature_field *field = &p->fields[f];
    const struct fth_feature_vocabulary *vocabulary = field->vocabulary;
    int list = field->separator.length > 0;
    if (p->entries) {
        const struct fth_feature_group *group = &p->groups[field->info.group];
        fth_text_printf(out, "  %s: entries of the line, keys by number", field->info.name);
        if (group->max < FTH_WHOLE_LENGTH)
            fth_text_printf(out, " | %s %u", group->keep_last ? "last" : "first", group->max);
        fth_text_printf(out, "\n");
        return;
    }
    if (field->osrp) {
        fth_text_printf(out, "  %s: ", field->info.name);
        for (uint32_t c = 0; c < field->osrp->n_columns; c++)
            fth_text_printf(out, "%s%s", c ? ", " : "", p->columns[field->osrp->columns[c]]);
        if (list)
            put_split(out, &field->separator, 0, 0);
        fth_text_printf(out, " | OP+OSRP, %llu bins -> table %s\n      texts are hashed and projected one by one\n",
                        (unsigned long long)field->osrp->bins, field->info.table);
        return;
    }
    const struct fth_feature_group *group = list ? &p->groups[field->info.group] : NULL;
    fth_text_printf(out, "  %s: %s", field->info.name, field->info.column);
    if (list)
        put_split(out, &field->separator, group->max, group->keep_last);
    fth_text_printf(out, " | hash");
    if (field->buckets)
        fth_text_printf(out, " | modulo %llu", (unsigned long long)field->buckets);
    if (vocabulary)
        fth_text_printf(out, " | vocabulary %s, %u rows for others",
                        *vocabulary->file ? vocabulary->file : "(learned)", vocabulary->oov);
    fth_text_printf(out, " -> table %s", field->info.table);
    if (field->joined)
        fth_text_printf(out, "\n      fused with its join%s\n", list ? ": what is cut off is not looked up" : "");
    else if (!list)
        fth_text_printf(out, "\n      %s\n", p->config->features.missing.n ? "one value a line: nothing to fuse"
                                            : vocabulary ? "64 lines at a time"
                                                         : "64 lines at a time, texts of 8 bytes without branches");
    else if (group->n > 1)
        put_fused(out, p, FTH_PLAIN_SPLITS,
                  "split+truncate+hash; separators are counted first, as lists of one group must be equally long");
    else
        put_fused(out, p, FTH_PLAIN_SPLITS, "split+truncate+hash; what is cut off is not read");
}

fth_status fth_feature_describe(const fth_feature_program *p, char **out, fth_error *err) {
    struct fth_text text = {0};
    if (p->n_derived)
        fth_text_printf(&text, "derived columns\n");
    for (uint32_t d = 0; d < p->n_derived; d++)
        put_derived(&text, p, &p->derived[d]);
    fth_text_printf(&text, "floats: %u\n", p->schema.n_dense);
    for (uint32_t k = 0; k < p->n_numeric; k++)
        put_numeric(&text, p, &p->numeric[k]);
    for (uint32_t k = 0; k < p->n_indicators; k++)
        put_indicator(&text, p, &p->indicators[k]);
    fth_text_printf(&text, "keys: %u fields\n", p->n_fields);
    for (uint32_t f = 0; f < p->n_fields; f++) {
        int bucketised = 0;
        for (uint32_t k = 0; k < p->n_numeric; k++)
            bucketised |= p->numeric[k].field == (int32_t)f;
        if (!bucketised)
            put_field(&text, p, f);
    }
    if (text.failed || !(*out = strdup(fth_text_get(&text)))) {
        fth_text_free(&text);
        return fth_fail(err, FTH_E_MEMORY, "no memory to describe the features");
    }
    fth_text_free(&text);
    return FTH_OK;
}
