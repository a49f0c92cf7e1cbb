/* Embedding rows of the plain executor: plain arrays, a row for each example or position (interpret.h). */
#include <string.h>

#include "interpret_private.h"

#define ROW_TASKS 2

static void rows_gather(void *ctx, uint32_t lookup, uint32_t example0, uint32_t n, float *out,
                        uint32_t ld) {
    struct interpret *it = ctx;
    const struct fth_lookup *l = &it->graph->lookups[lookup];
    const uint32_t *offsets = l->group < 0 ? NULL : it->options.offsets[l->group];
    uint32_t first = offsets ? offsets[example0] : example0;
    uint32_t last = offsets ? offsets[example0 + n] : example0 + n;
    if (!offsets || l->pooling == FTH_POOL_NONE) {
        for (uint32_t r = first; r < last; r++)
            for (uint32_t c = 0; c < l->dim; c++)
                out[(size_t)(r - first) * ld + c] = *interpret_row_at(it, lookup, r, c);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < l->dim; c++) {
            float sum = 0;
            for (uint32_t t = offsets[example0 + i]; t < offsets[example0 + i + 1]; t++)
                sum += *interpret_row_at(it, lookup, t, c);
            out[(size_t)i * ld + c] = sum;
        }
}

static void rows_gather_many(void *ctx, const uint32_t *lookups, uint32_t n_lookups,
                             uint32_t example0, uint32_t n, float *out, uint32_t ld) {
    struct interpret *it = ctx;
    for (uint32_t i = 0; i < n_lookups; i++)
        rows_gather(ctx, lookups[i], example0, n,
                    out + (size_t)i * it->graph->lookups[lookups[0]].dim, ld);
}

/* Not all alike. */
static void rows_frequencies(void *ctx, uint32_t lookup, uint32_t example0, uint32_t n, float *out,
                             uint32_t ldo) {
    for (uint32_t i = 0; i < n; i++)
        out[(size_t)i * ldo] = (float)((example0 + i) % 3 + lookup % 2);
}

static uint32_t rows_update_tasks(void *ctx) {
    return ROW_TASKS;
}
static size_t rows_update_scratch(void *ctx) {
    return 64;
}

/* The gradient that reaches row `row` of a lookup. */
static float row_gradient(const struct interpret *it, const struct fth_row_gradient *g,
                          uint32_t row, uint32_t column) {
    const struct fth_lookup *l = &it->graph->lookups[g->lookup];
    uint32_t at = row;
    if (l->group >= 0 && l->pooling != FTH_POOL_NONE) {
        const uint32_t *offsets = it->options.offsets[l->group];
        for (at = 0; offsets[at + 1] <= row; at++)
            ;
    }
    return g->gradient[(size_t)at * g->ld + column];
}

/* Tasks share the lookups out; SGD. */
static void rows_update(void *ctx, const struct fth_row_gradient *gradients, uint32_t n,
                        float scale, uint32_t task, void *scratch) {
    struct interpret *it = ctx;
    memset(scratch, 1, rows_update_scratch(ctx));
    for (uint32_t i = task; i < n; i += ROW_TASKS) {
        struct matrix *m = &it->rows[gradients[i].lookup];
        for (uint32_t r = 0; r < m->rows; r++)
            for (uint32_t c = 0; c < m->columns; c++)
                *interpret_row_at(it, gradients[i].lookup, r, c) -=
                    it->options.opt.lr * scale * row_gradient(it, &gradients[i], r, c);
    }
}

static double rows_squares(void *ctx, const struct fth_row_gradient *gradients, uint32_t n,
                           uint32_t task, void *scratch) {
    struct interpret *it = ctx;
    double sum = 0;
    for (uint32_t i = task; i < n; i += ROW_TASKS) {
        struct matrix *m = &it->rows[gradients[i].lookup];
        for (uint32_t r = 0; r < m->rows; r++)
            for (uint32_t c = 0; c < m->columns; c++) {
                double g = row_gradient(it, &gradients[i], r, c);
                sum += g * g;
            }
    }
    return sum;
}

struct fth_rows interpret_rows_table(struct interpret *it) {
    return (struct fth_rows){.ctx = it,
                             .gather = rows_gather,
                             .gather_many = rows_gather_many,
                             .frequencies = rows_frequencies,
                             .update_tasks = rows_update_tasks,
                             .update = rows_update,
                             .gradient_squares = rows_squares,
                             .update_scratch = rows_update_scratch};
}
