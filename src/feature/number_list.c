/* Feature programs, a list of numbers in a cell to one number: split, truncated, parsed and reduced in one
 * pass over the text; the numbers of a window are all that is kept. plain.c has the same in separate
 * steps, with the same results: sums are in double, in the order of the list. Runs on the lines of one
 * chunk, on any thread. */
#include "feature/number_list.h"

#include <float.h>

#include "base/text.h"
#include "base/number.h"

/* One window's elements, and the one behind it; kernels write in eights. */
#define MOST (FTH_SPLIT_WINDOW + 8)

/* A bad value, as on_bad_value says; `bytes` lies in the list. advice: what to do about it, behind a semicolon, or "". */
static void bad_value(struct fth_number_list *list, const char *bytes, uint32_t length, const char *problem,
                      const char *advice) {
    struct fth_feature_chunk *chunk = list->chunk;
    char quoted[96], room[320];
    fth_text_quote(quoted, sizeof quoted, bytes, length);
    const char *column = fth_feature_name_told(chunk->program, list->numeric->column, room);
    if (list->numeric->config->on_bad_value == FTH_BAD_VALUE_STOP)
        fth_feature_refuse(chunk, list->row, bytes, "column '%s': '%s' %s%s", column, quoted, problem, advice);
    else
        fth_feature_skip_value(chunk, list->row, bytes, "column '%s': '%s' %s%s", column, quoted, problem, advice);
    if (list->numeric->config->on_bad_value != FTH_BAD_VALUE_SKIP)
        list->dropped = 1;
}

int fth_number_list_value(struct fth_number_list *list, const char *bytes, uint32_t length,
                          float *out) {
    if (fth_feature_is_missing(list->chunk->program, bytes, length))
        return 0;
    enum fth_number result = fth_number_parse(bytes, length, out);
    if (result == FTH_NUMBER_OK)
        return 1;
    int spaces = length && (bytes[0] == ' ' || bytes[length - 1] == ' ');
    if (result != FTH_NUMBER_MALFORMED)
        bad_value(list, bytes, length, "is too large for a 32-bit float", "");
    else
        bad_value(list, bytes, length, "is not a number",
                  spaces ? "; spaces between a list's values belong into its separator (\"; \")"
                         : fth_feature_about_signs(bytes, length));
    return 0;
}

void fth_number_list_reduce(struct fth_number_list *list, const float *x, uint32_t n) {
    double sum = list->sum;
    float low = list->low, high = list->high;
    switch (list->numeric->config->reduce) {
    case FTH_REDUCE_MIN:
        for (uint32_t i = 0; i < n; i++)
            low = x[i] < low ? x[i] : low;
        break;
    case FTH_REDUCE_MAX:
        for (uint32_t i = 0; i < n; i++)
            high = x[i] > high ? x[i] : high;
        break;
    default:
        for (uint32_t i = 0; i < n; i++)
            sum += (double)x[i];
    }
    list->sum = sum;
    list->low = low;
    list->high = high;
    list->count += n;
}

static void bad_sum(struct fth_number_list *list) {
    const struct fth_feature_derived *joined = list->numeric->joined;
    struct fth_feature_text text = {list->text, list->length};
    char start[128]; /* messages quote less */
    if (joined) {
        text.length = fth_feature_join_text(list->chunk->program, joined, text, start, sizeof start);
        text.bytes = start;
    }
    bad_value(list, text.bytes, text.length, "has a sum too large for a 32-bit float", "");
}

int fth_number_list_result(struct fth_number_list *list, float *out) {
    *out = 0;
    switch (list->numeric->config->reduce) {
    case FTH_REDUCE_COUNT:
        *out = (float)list->count;
        return 1;
    case FTH_REDUCE_MIN:
        *out = list->low;
        break;
    case FTH_REDUCE_MAX:
        *out = list->high;
        break;
    case FTH_REDUCE_MEAN:
        *out = list->count ? (float)(list->sum / list->count) : 0;
        break;
    default:
        if (list->count && !list->dropped && !(list->sum <= (double)FLT_MAX && list->sum >= -(double)FLT_MAX)) {
            bad_sum(list);
            list->dropped = 1;
        }
        *out = (float)list->sum;
    }
    if (list->count == 0 || list->dropped)
        *out = 0;
    return list->count > 0 && !list->dropped;
}

/* The next n elements reduced. Short decimals are parsed several at a time; the rest, rare, and all when some numbers
 * stand for missing, go the general way. */
static void reduce_window(struct fth_number_list *list, const struct fth_split *split, uint32_t n) {
    int check = list->chunk->program->config->features.missing.n > 0;
    uint32_t gap = list->numeric->separator.length, start = split->start, used = 0;
    float values[MOST];
    uint8_t other[MOST];
    fth_kernels_get()->decimal_list(n, list->text, start, gap, split->ends, values, other);
    if (!check && !fth_feature_any(other, n)) {
        fth_number_list_reduce(list, values, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        float x = values[i];
        if ((!other[i] && !check) ||
            fth_number_list_value(list, list->text + start, split->ends[i] - start, &x))
            values[used++] = x;
        start = split->ends[i] + gap;
    }
    fth_number_list_reduce(list, values, used);
}

/* The next n elements, those of a join's source: their values are reduced, or counted. */
static void join_window(struct fth_number_list *list, const struct fth_split *split, uint32_t n) {
    const fth_feature_program *program = list->chunk->program;
    int counted = list->numeric->config->reduce == FTH_REDUCE_COUNT;
    uint32_t start = split->start, gap = list->numeric->separator.length;
    for (uint32_t first = 0, m; first < n; first += m) {
        struct fth_feature_text elements[FTH_FEATURE_CHUNK], texts[FTH_FEATURE_CHUNK];
        float values[FTH_FEATURE_CHUNK];
        uint32_t used = 0;
        m = n - first < FTH_FEATURE_CHUNK ? n - first : FTH_FEATURE_CHUNK;
        for (uint32_t i = 0; i < m; i++) {
            elements[i] = (struct fth_feature_text){list->text + start, split->ends[first + i] - start};
            start = split->ends[first + i] + gap;
        }
        fth_feature_join_elements(program, list->numeric, elements, m, values, texts);
        for (uint32_t i = 0; i < m; i++) {
            float x = values[i];
            if (counted)
                used += !isnan(x) || !fth_feature_is_missing(program, texts[i].bytes, texts[i].length);
            else if (!isnan(x) || fth_number_list_value(list, texts[i].bytes, texts[i].length, &x))
                values[used++] = x;
        }
        if (counted)
            list->count += used;
        else
            fth_number_list_reduce(list, values, used);
    }
}

static void numbers(struct fth_number_list *list, uint32_t start, uint32_t length, uint32_t keep) {
    const struct fth_separator *separator = &list->numeric->separator;
    struct fth_split split;
    fth_split_begin(&split, list->text, start, length);
    for (int last = 0; !last && keep;) {
        fth_split_window(&split, separator);
        if (split.window == length) { /* the last element has no separator behind it */
            split.ends[split.n++] = length;
            last = 1;
        }
        uint32_t n = split.n < keep ? split.n : keep;
        if (list->numeric->joined)
            join_window(list, &split, n);
        else
            reduce_window(list, &split, n);
        split.start = split.ends[n - 1] + separator->length;
        keep -= n;
    }
}

/* How many values are neither missing nor cut off; nothing is parsed. */
static void count(struct fth_number_list *list, uint32_t start, uint32_t length, uint32_t keep) {
    const struct fth_separator *separator = &list->numeric->separator;
    const fth_feature_program *program = list->chunk->program;
    struct fth_split split;
    fth_split_begin(&split, list->text, start, length);
    while (keep && fth_split_window(&split, separator)) {
        for (uint32_t i = 0; i < split.n && keep; i++, keep--) {
            list->count += !fth_feature_is_missing(program, split.text + split.start,
                                                   split.ends[i] - split.start);
            split.start = split.ends[i] + separator->length;
        }
    }
    if (keep)
        list->count += !fth_feature_is_missing(program, split.text + split.start,
                                               length - split.start);
}

void fth_number_list_begin(struct fth_number_list *list, struct fth_feature_chunk *chunk,
                           const struct fth_feature_numeric *numeric, uint32_t row,
                           struct fth_feature_text text) {
    *list = (struct fth_number_list){.chunk = chunk, .numeric = numeric, .row = row,
                                     .text = text.bytes, .length = text.length,
                                     .low = INFINITY, .high = -INFINITY};
}

void fth_feature_number_lists(struct fth_feature_chunk *chunk,
                              const struct fth_feature_numeric *numeric, float *x,
                              uint32_t *present) {
    const struct fth_numeric_config *config = numeric->config;
    uint32_t keep = config->max_length ? (uint32_t)config->max_length : UINT32_MAX;
    uint32_t column = numeric->joined ? numeric->joined->from[0] : numeric->column;
    for (uint32_t i = 0; i < chunk->n; i++) {
        struct fth_feature_text text = fth_feature_cell(chunk, i, column);
        struct fth_number_list list;
        fth_number_list_begin(&list, chunk, numeric, i, text);
        if (!fth_feature_no_list(chunk->program, text)) {
            uint32_t start = config->keep_last && config->max_length
                                 ? fth_split_tail(list.text, text.length, &numeric->separator, keep)
                                 : 0;
            if (config->reduce == FTH_REDUCE_COUNT && !numeric->joined)
                count(&list, start, text.length, keep);
            else
                numbers(&list, start, text.length, keep);
        }
        present[i] = fth_number_list_result(&list, &x[i]) ? UINT32_MAX : 0;
    }
}
