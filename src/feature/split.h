/* Elements of a list cell, one after the other. Separators are found a window at a time by the vector
 * kernels, so that a consumer that stops early has not read the rest; nothing is stored but one window's
 * places.
 *
 * A cell with n separators has n + 1 elements, some perhaps empty. Any thread; nothing allocated. */
#ifndef FTH_FEATURE_SPLIT_H
#define FTH_FEATURE_SPLIT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

/* The first window of a list, and those behind it: what is done with a window's elements costs less an element when there
 * are many. */
#define FTH_SPLIT_FIRST 256
#define FTH_SPLIT_WINDOW 1024

struct fth_separator {
    const char *bytes;
    uint32_t length; /* at least 1 */
};

/* Where the next elements end; start..length is what has not been taken yet. */
struct fth_split {
    const char *text;
    uint32_t start, length; /* of the element that comes next; of the cell */
    uint32_t window, next;  /* looked at up to here; bytes of the next window */
    uint32_t n;             /* ends below */
    uint32_t ends[FTH_SPLIT_WINDOW + 64];
};

static inline void fth_split_begin(struct fth_split *s, const char *text, uint32_t start,
                                   uint32_t length) {
    s->text = text;
    s->start = s->window = start;
    s->length = length;
    s->n = 0;
    s->next = FTH_SPLIT_FIRST;
}

/* The ends of the next elements to s->ends[0..s->n); 0 when only the last element, start..length, is left. */
static inline int fth_split_window(struct fth_split *s, const struct fth_separator *separator) {
    s->n = 0;
    while (s->n == 0 && s->window < s->length) {
        uint32_t base = s->window, left = s->length - base;
        if (separator->length > 1) {
            const char *hit = memmem(s->text + base, left, separator->bytes, separator->length);
            s->window = hit ? (uint32_t)(hit - s->text) + separator->length : s->length;
            s->ends[0] = s->window - separator->length;
            s->n = hit != NULL;
            continue;
        }
        const char set[3] = {separator->bytes[0], separator->bytes[0], separator->bytes[0]};
        uint32_t n = left < s->next ? left : s->next;
        s->next = FTH_SPLIT_WINDOW;
        s->n = (uint32_t)fth_kernels_get()->scan(s->text + base, n, set, s->ends);
        for (uint32_t i = 0; base && i < s->n; i++)
            s->ends[i] += base;
        s->window = base + n;
    }
    return s->n > 0;
}

/* Elements of several cells of one text, by where they lie in it, whose keys or numbers are yet to be made: what a call of
 * a kernel costs is little then for short lists, too. */
#define FTH_ELEMENTS (2 * FTH_SPLIT_WINDOW)
struct fth_elements {
    uint32_t n, n_lists;
    uint32_t begins[FTH_ELEMENTS + 72], ends[FTH_ELEMENTS + 72]; /* with what kernels scribble on */
    uint32_t firsts[FTH_ELEMENTS], starts[FTH_ELEMENTS]; /* of a list, or of its part: the first element, and its begin */
};

static inline void fth_elements_clear(struct fth_elements *elements) {
    elements->n = elements->n_lists = 0;
}

/* Adds n elements whose ends were written. */
static inline void fth_elements_add(struct fth_elements *elements, uint32_t start, uint32_t n) {
    elements->firsts[elements->n_lists] = elements->n;
    elements->starts[elements->n_lists] = start;
    elements->n_lists += n > 0;
    elements->n += n;
}

/* Writes their begins: a separator behind the end of the one before, but for a list's first. */
static inline void fth_elements_begin(struct fth_elements *elements, const struct fth_separator *separator) {
    fth_kernels_get()->begins(elements->n, elements->ends, separator->length, elements->begins);
    for (uint32_t i = 0; i < elements->n_lists; i++)
        elements->begins[elements->firsts[i]] = elements->starts[i];
}

/* The ends of elements that lie in the next bytes of the list; *at: looked at up to there. */
static inline uint32_t fth_split_next(const char *text, uint32_t end, uint32_t most, const struct fth_separator *separator,
                                      uint32_t *at, uint32_t *ends) {
    uint32_t from = *at, left = end - from;
    if (separator->length == 1) {
        uint32_t n = left < most ? left : most;
        *at = from + n;
        return (uint32_t)fth_kernels_get()->split(text + from, n, separator->bytes[0], from, ends);
    }
    const char *hit = memmem(text + from, left, separator->bytes, separator->length);
    *at = hit ? (uint32_t)(hit - text) + separator->length : end;
    if (hit)
        ends[0] = *at - separator->length;
    return hit != NULL;
}

/* As fth_split_add, of a list of one window: those that are too many are dropped again, which costs less than looking where
 * the others lie. */
static inline uint32_t fth_split_add_short(const char *text, uint32_t start, uint32_t end, char separator, uint32_t keep,
                                           int last, struct fth_elements *elements, void (*make)(void *), void *ctx) {
    if (elements->n + FTH_SPLIT_FIRST >= FTH_ELEMENTS)
        make(ctx);
    uint32_t *ends = elements->ends + elements->n;
    uint32_t n = (uint32_t)fth_kernels_get()->split(text + start, end - start, separator, start, ends);
    ends[n++] = end; /* the last one has no separator behind it */
    if (n > keep && last) {
        start = ends[n - keep - 1] + 1;
        memmove(ends, ends + (n - keep), keep * sizeof *ends);
    }
    n = n < keep ? n : keep;
    fth_elements_add(elements, start, n);
    return n;
}

/* Where the last `keep` elements begin (keep at least 1); 0 when there are no more. Reads only them. */
uint32_t fth_split_tail(const char *text, uint32_t length, const struct fth_separator *separator, uint32_t keep);

/* Adds the first or, if `last`, the last `keep` elements (keep at least 1) of text[start..end); how many. make: to make keys
 * or numbers of those there are, and leave none, where there may be no room for more. */
static inline uint32_t fth_split_add(const char *text, uint32_t start, uint32_t end, const struct fth_separator *separator,
                                     uint32_t keep, int last, struct fth_elements *elements, void (*make)(void *), void *ctx) {
    uint32_t taken = 0, most = FTH_SPLIT_FIRST;
    if (end - start <= FTH_SPLIT_FIRST && separator->length == 1)
        return fth_split_add_short(text, start, end, separator->bytes[0], keep, last, elements, make, ctx);
    if (last)
        start += fth_split_tail(text + start, end - start, separator, keep);
    for (uint32_t at = start; taken < keep;) {
        if (elements->n + most >= FTH_ELEMENTS)
            make(ctx);
        uint32_t *ends = elements->ends + elements->n, n = 0;
        if (at < end)
            n = fth_split_next(text, end, most, separator, &at, ends);
        if (at == end && n < keep - taken)
            ends[n++] = end; /* the last one has no separator behind it */
        n = n < keep - taken ? n : keep - taken;
        fth_elements_add(elements, start, n);
        taken += n;
        if (at == end)
            break;
        start = n ? ends[n - 1] + separator->length : start;
        most = FTH_SPLIT_WINDOW;
    }
    return taken;
}

/* How many elements text[0..length) has. */
uint32_t fth_split_count(const char *text, uint32_t length, const struct fth_separator *separator);

#endif
