/* Feature programs, a list of numbers in a cell to one number: split, truncated, parsed and reduced in one
 * pass over the text; the numbers of a few lists, or of a part of a long one, are all that is kept. plain.c has the same in
 * separate steps, with the same results: sums are in double, in the order of the list. Runs on the lines of one
 * chunk, on any thread. */
#include "feature/number_list.h"

#include <float.h>

#include "base/text.h"
#include "base/number.h"

#define ENOUGH 256 /* elements to make numbers of, once a list ends */

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
                         : fth_feature_about_text(bytes, length));
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

/* Lists of neighbouring lines whose numbers are yet to be made: the last one may have begun before, and may go on. */
struct lists {
    struct fth_feature_chunk *chunk;
    const struct fth_feature_numeric *numeric;
    struct fth_number_list list; /* the one that goes on, if `open` */
    int open;
    int by_sums;      /* a list whose values are all numbers is its sum and its length */
    uint32_t row;     /* of the list whose elements are being added */
    const char *text; /* where the elements lie */
    struct fth_elements elements;
    uint32_t before;  /* of them those of other lists than the last one */
    uint32_t n;       /* lists, whose rows and elements follow */
    uint32_t rows[FTH_FEATURE_CHUNK + 1], lengths[FTH_FEATURE_CHUNK + 1];
    float *x; /* results by row */
    uint32_t *present;
};

static inline void add_part(struct lists *lists) {
    lists->rows[lists->n] = lists->row;
    lists->lengths[lists->n++] = lists->elements.n - lists->before;
    lists->before = lists->elements.n;
}

/* n values of the list. Short decimals are parsed; the rest, rare (other: NULL where there are none), and all when some
 * numbers stand for missing, go the general way. */
static void reduce_part(struct lists *lists, uint32_t from, uint32_t n, float *values, const uint8_t *other) {
    struct fth_number_list *list = &lists->list;
    int check = !fth_feature_only_empty_missing(list->chunk->program);
    if (!check && (!other || !fth_feature_any(other, n))) {
        fth_number_list_reduce(list, values, n);
        return;
    }
    const uint32_t *begins = lists->elements.begins + from, *ends = lists->elements.ends + from;
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        float x = values[i];
        if ((!check && !other[i]) || fth_number_list_value(list, lists->text + begins[i], ends[i] - begins[i], &x))
            values[used++] = x;
    }
    fth_number_list_reduce(list, values, used);
}

/* The result of a whole list of n values; 0 where it has to be looked at more closely. */
static inline int put_sum(struct lists *lists, uint32_t row, double sum, uint32_t n) {
    int mean = lists->numeric->config->reduce == FTH_REDUCE_MEAN;
    if (!mean && fabs(sum) > (double)FLT_MAX)
        return 0;
    lists->x[row] = (float)(mean && n ? sum / n : sum);
    lists->present[row] = n ? UINT32_MAX : 0;
    return 1;
}

/* Makes numbers of the elements, and of the lists that end their results. */
static void reduce_all(struct lists *lists, int goes_on) {
    const struct fth_kernels *kernels = fth_kernels_get();
    struct fth_elements *elements = &lists->elements;
    float values[FTH_ELEMENTS + 8];
    uint8_t other[FTH_ELEMENTS + 8];
    double sums[FTH_FEATURE_CHUNK + 1];
    uint32_t at = 0;
    fth_elements_begin(elements, &lists->numeric->separator);
    for (uint32_t k = elements->n; k % 8; k++) {
        elements->begins[k] = elements->begins[0];
        elements->ends[k] = elements->ends[0];
    }
    int others = kernels->decimal_list(elements->n, lists->text, elements->begins, elements->ends, values, other);
    int by_sums = lists->by_sums && !others;
    if (by_sums)
        kernels->list_sums(lists->n, lists->lengths, values, sums);
    for (uint32_t p = 0; p < lists->n; p++) {
        uint32_t row = lists->rows[p], n = lists->lengths[p];
        int ends = p + 1 < lists->n || !goes_on;
        if (!(by_sums && !lists->open && ends && put_sum(lists, row, sums[p], n))) {
            if (!lists->open)
                fth_number_list_begin(&lists->list, lists->chunk, lists->numeric, row,
                                      fth_feature_cell(lists->chunk, row, lists->numeric->column));
            reduce_part(lists, at, n, values + at, others ? other + at : NULL);
            lists->open = !ends;
            if (ends)
                lists->present[row] = fth_number_list_result(&lists->list, &lists->x[row]) ? UINT32_MAX : 0;
        }
        at += n;
    }
    fth_elements_clear(elements);
    lists->before = lists->n = 0;
}

static void reduce_begun(void *ctx) {
    add_part(ctx);
    reduce_all(ctx, 1);
}

/* Lists that are no join's, of one column. */
static void reduce_lists(struct fth_feature_chunk *chunk, const struct fth_feature_numeric *numeric, float *x,
                         uint32_t *present) {
    const struct fth_numeric_config *config = numeric->config;
    const struct fth_separator *separator = &numeric->separator;
    uint32_t keep = config->max_length ? (uint32_t)config->max_length : UINT32_MAX;
    int in_block = numeric->column < chunk->block->n_columns;
    struct fth_feature_text texts[FTH_FEATURE_CHUNK];
    struct lists lists;
    lists.chunk = chunk;
    lists.numeric = numeric;
    lists.x = x;
    lists.present = present;
    lists.text = chunk->block->text;
    lists.open = 0;
    lists.by_sums = fth_feature_only_empty_missing(chunk->program) &&
                    (config->reduce == FTH_REDUCE_MEAN || config->reduce == FTH_REDUCE_SUM);
    lists.before = lists.n = 0;
    fth_elements_clear(&lists.elements);
    fth_feature_column(chunk, numeric->column, texts);
    for (uint32_t i = 0; i < chunk->n; i++) {
        struct fth_feature_text text = texts[i];
        fth_feature_fetch_list(texts, i, chunk->n);
        lists.row = i;
        if (!in_block)
            lists.text = text.bytes;
        if (!fth_feature_no_list(chunk->program, text)) {
            uint32_t start = (uint32_t)(text.bytes - lists.text);
            fth_split_add(lists.text, start, start + text.length, separator, keep, config->keep_last && config->max_length,
                          &lists.elements, reduce_begun, &lists);
        }
        add_part(&lists);
        if (lists.elements.n >= ENOUGH || !in_block || i + 1 == chunk->n)
            reduce_all(&lists, 0);
    }
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

static void join_numbers(struct fth_number_list *list, uint32_t start, uint32_t length, uint32_t keep) {
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
        join_window(list, &split, n);
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
    if (!numeric->joined && config->reduce != FTH_REDUCE_COUNT) {
        reduce_lists(chunk, numeric, x, present);
        return;
    }
    for (uint32_t i = 0; i < chunk->n; i++) {
        struct fth_feature_text text = fth_feature_cell(chunk, i, column);
        struct fth_number_list list;
        fth_number_list_begin(&list, chunk, numeric, i, text);
        if (!fth_feature_no_list(chunk->program, text)) {
            uint32_t start = config->keep_last && config->max_length
                                 ? fth_split_tail(list.text, text.length, &numeric->separator, keep)
                                 : 0;
            if (numeric->joined)
                join_numbers(&list, start, text.length, keep);
            else
                count(&list, start, text.length, keep);
        }
        present[i] = fth_number_list_result(&list, &x[i]) ? UINT32_MAX : 0;
    }
}
