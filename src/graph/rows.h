/* How running nodes reach embedding rows: a table of functions that embedding/ implements and
 * train/ hands to the runtime, so that neither ops nor runtime know where rows live.
 *
 * Before a step the rows of the batch are prepared (looked up, new ones made); from then to the end
 * of the step row numbers stand still. gather may be called from any worker; update tasks are
 * independent. */
#ifndef FTH_GRAPH_ROWS_H
#define FTH_GRAPH_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* Where the gradient of one lookup's output lies: examples x ld (or positions x ld) floats, for the
 * whole batch. */
struct fth_row_gradient {
    uint32_t lookup;
    const float *gradient;
    uint32_t ld;
    /* 0: a row an example or position, as above. Else: `parts` times, at distances of part_stride floats,
     * a row for each of the lookup's fth_unique_rows; all are added after the examples'. */
    uint32_t parts;
    size_t part_stride;
};

/* The unique rows of a lookup in the prepared batch, numbered by first occurrence. */
struct fth_unique_rows {
    uint32_t n;               /* 0: not numbered, or too many to be worth it (fth_unique_most) */
    uint32_t of;              /* so many examples */
    const uint32_t *number;   /* [examples] which one an example has */
    const uint32_t *examples; /* unique row u is in examples[begin[u] .. begin[u + 1]), which rise */
    const uint32_t *begin;    /* [n + 1] */
    const float *rows;        /* [n][ld] */
    uint32_t ld;
};

/* Whether they are at most so many sixteenths of the examples. */
static inline int fth_unique_few(const struct fth_unique_rows *unique, uint32_t sixteenths) {
    return unique->n && (uint64_t)unique->n * 16 <= (uint64_t)unique->of * sixteenths;
}

/* With more unique rows than this a batch's lookup is not worth treating row by row, not even forward; a small
 * batch never is. Measured: docs/performance.md. */
static inline uint32_t fth_unique_most(uint32_t batch) {
    return batch < 256 ? 0 : (uint32_t)((uint64_t)batch * 11 / 16);
}

struct fth_rows {
    void *ctx;
    /* Lookup's pooled rows of examples [example0, example0 + n) into out [n][ld]; with pooling none
     * of a ragged field: its positions of those examples. */
    void (*gather)(void *ctx, uint32_t lookup, uint32_t example0, uint32_t n, float *out, uint32_t ld);
    /* Many lookups of one dimension, side by side: lookup i at out + i * dim (fewer calls;
     * prefetching across fields). */
    void (*gather_many)(void *ctx, const uint32_t *lookups, uint32_t n_lookups, uint32_t example0,
                        uint32_t n, float *out, uint32_t ld);
    /* Of lookups that ask for it (fth_lookup.numbered); NULL: there never are any. */
    const struct fth_unique_rows *(*unique)(void *ctx, uint32_t lookup);
    /* How often the keys of examples [example0, example0 + n) have been trained on, this batch included: out[i *
     * ldo]. Of lookups that ask for it (fth_lookup.counted). */
    void (*frequencies)(void *ctx, uint32_t lookup, uint32_t example0, uint32_t n, float *out, uint32_t ldo);
    /* A fixed number of update tasks, whatever the threads and the batch. */
    uint32_t (*update_tasks)(void *ctx);
    /* Sums the gradients per unique row in example order and applies the row optimizer; the table
     * lists every lookup that has a gradient (one used twice: twice, added in this order).
     * grad_scale: clipping. scratch: update_scratch bytes of the worker. */
    void (*update)(void *ctx, const struct fth_row_gradient *gradients, uint32_t n, float grad_scale,
                   uint32_t task, void *scratch);
    /* The task's part of the squared norm of all summed row gradients. */
    double (*gradient_squares)(void *ctx, const struct fth_row_gradient *gradients, uint32_t n,
                               uint32_t task, void *scratch);
    size_t (*update_scratch)(void *ctx);
    /* What may be done at any time while the plan runs, and best beside many short tasks: called before tiles, by all
     * workers at once; NULL: nothing. */
    void (*beside)(void *ctx);
};

#endif
