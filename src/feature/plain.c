/* Feature programs step by step: what the fused forms give, each operation alone, its whole result in memory.
 * Slow; the reference that tests compare with, and `without: [feature_fusion]` or parts of it (enum
 * fth_feature_plain). Any thread. */
#include "feature/plain.h"

#include <string.h>

#include "feature/number_list.h"

/* The next separator in text[from..length), or length. */
static uint32_t find(struct fth_feature_text text, uint32_t from,
                     const struct fth_separator *separator) {
    const char *hit =
        memmem(text.bytes + from, text.length - from, separator->bytes, separator->length);
    return hit ? (uint32_t)(hit - text.bytes) : text.length;
}

/* The list's elements, all of them; owned. NULL: no memory. */
static struct fth_feature_text *split(struct fth_feature_text text,
                                      const struct fth_separator *separator, uint32_t *n) {
    uint32_t count = 1, at = 0;
    while ((at = find(text, at, separator)) < text.length) {
        at += separator->length;
        count++;
    }
    struct fth_feature_text *items = fth_alloc(count, sizeof *items);
    at = 0;
    for (uint32_t i = 0; items && i < count; i++) {
        uint32_t stop = find(text, at, separator);
        items[i] = (struct fth_feature_text){text.bytes + at, stop - at};
        at = stop + separator->length;
    }
    *n = count;
    return items;
}

/* The elements that are used: the first or last `max` of n. */
static const struct fth_feature_text *truncate_list(const struct fth_feature_text *items,
                                                    uint32_t *n, uint32_t max, int keep_last) {
    uint32_t skip = *n > max && keep_last ? *n - max : 0;
    *n = *n > max ? max : *n;
    return items + skip;
}

static fth_status no_memory(fth_error *err, uint32_t n) {
    return fth_fail(err, FTH_E_MEMORY, "no memory for a list of %u elements", n);
}

static fth_status run_list(struct fth_number_list *list) {
    const struct fth_numeric_config *config = list->numeric->config;
    uint32_t n = 0, used = 0;
    struct fth_feature_text *items = split((struct fth_feature_text){list->text, list->length},
                                           &list->numeric->separator, &n);
    float *values = fth_alloc(n + 1, sizeof *values);
    if (!items || !values) {
        fth_free(items);
        fth_free(values);
        return no_memory(list->chunk->err, n);
    }
    const struct fth_feature_text *first =
        truncate_list(items, &n, config->max_length ? (uint32_t)config->max_length : UINT32_MAX,
                      config->keep_last);
    for (uint32_t i = 0; i < n; i++) {
        const char *bytes = first[i].bytes;
        if (config->reduce == FTH_REDUCE_COUNT)
            used += !fth_feature_is_missing(list->chunk->program, bytes, first[i].length);
        else
            used += (uint32_t)fth_number_list_value(list, bytes, first[i].length, &values[used]);
    }
    if (config->reduce == FTH_REDUCE_COUNT)
        list->count = used;
    else
        fth_number_list_reduce(list, values, used);
    fth_free(items);
    fth_free(values);
    return FTH_OK;
}

fth_status fth_feature_plain_number_lists(struct fth_feature_chunk *chunk,
                                          const struct fth_feature_numeric *numeric, float *x,
                                          uint32_t *present) {
    for (uint32_t i = 0; i < chunk->n; i++) {
        struct fth_feature_text text = fth_feature_cell(chunk, i, numeric->column);
        struct fth_number_list list;
        fth_number_list_begin(&list, chunk, numeric, i, text);
        if (!fth_feature_no_list(chunk->program, text))
            FTH_TRY(run_list(&list));
        present[i] = fth_number_list_result(&list, &x[i]) ? UINT32_MAX : 0;
    }
    return FTH_OK;
}

fth_status fth_feature_plain_keys(struct fth_feature_chunk *chunk,
                                  const struct fth_feature_group *group,
                                  const struct fth_feature_field *field,
                                  struct fth_feature_text text, const struct fth_keys *to, uint32_t at, uint32_t *n) {
    struct fth_feature_text *items = split(text, &field->separator, n);
    if (!items)
        return no_memory(chunk->err, *n);
    const struct fth_feature_text *first = truncate_list(items, n, group->max, group->keep_last);
    for (uint32_t i = 0; i < *n; i++)
        fth_feature_put(to, at + i, fth_feature_text_code(chunk->program, field, first[i].bytes, first[i].length));
    fth_free(items);
    return FTH_OK;
}

/* The text's input among the indicator's; its width: none. */
static uint32_t input_of(const fth_feature_program *program,
                         const struct fth_feature_indicator *indicator, struct fth_feature_text text) {
    const struct fth_strings *values = &indicator->config->values;
    if (fth_feature_is_missing(program, text.bytes, text.length))
        return indicator->width;
    for (uint32_t i = 0; i < values->n; i++)
        if (strlen(values->items[i]) == text.length &&
            memcmp(values->items[i], text.bytes, text.length) == 0)
            return i;
    return values->n; /* of others, if there is one */
}

fth_status fth_feature_plain_indicator(struct fth_feature_chunk *chunk,
                                       const struct fth_feature_indicator *indicator,
                                       struct fth_feature_text text, float *out) {
    const fth_feature_program *program = chunk->program;
    uint32_t n = 1, width = indicator->width;
    struct fth_feature_text *items = NULL, one = text;
    if (indicator->separator.length) {
        if (fth_feature_no_list(program, text))
            return FTH_OK;
        items = split(text, &indicator->separator, &n);
        if (!items)
            return no_memory(chunk->err, n);
    }
    float *rows = fth_alloc((size_t)n * width, sizeof *rows);
    if (!rows) {
        fth_free(items);
        return no_memory(chunk->err, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = input_of(program, indicator, items ? items[i] : one);
        if (at < width)
            rows[(size_t)i * width + at] = 1;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < width; c++)
            out[c] += rows[(size_t)i * width + c];
    for (uint32_t c = 0; c < width && !indicator->config->count; c++)
        out[c] = out[c] > 0 ? 1 : 0;
    fth_free(items);
    fth_free(rows);
    return FTH_OK;
}
