/* The walk over a tile's examples (recurrent.h): order, rows of a step, its dense products. */
#include "ops/recurrent.h"

#include <string.h>

void *fth_cut(struct fth_cutter *cutter, size_t bytes) {
    void *at = cutter->base ? cutter->base + cutter->used : NULL;
    cutter->used += fth_ops_align(bytes);
    return at;
}

static void cut_steps(struct fth_cutter *cutter, uint32_t examples, uint32_t positions,
                      struct fth_steps *out) {
    out->first = fth_cut(cutter, examples * sizeof *out->first);
    out->length = fth_cut(cutter, examples * sizeof *out->length);
    out->running = fth_cut(cutter, ((size_t)positions + 2) * sizeof *out->running);
}

size_t fth_steps_bytes(uint32_t examples, uint32_t positions) {
    struct fth_cutter cutter = {0};
    struct fth_steps steps;
    cut_steps(&cutter, examples, positions, &steps);
    return cutter.used;
}

/* A counting sort: stable, so that the order is a function of the lengths. */
void fth_steps_make(const uint32_t *offsets, uint32_t examples, int reverse, void *memory,
                    struct fth_steps *out) {
    struct fth_cutter cutter = {memory, 0};
    cut_steps(&cutter, examples, 0, out);
    out->longest = 0;
    out->reverse = reverse;
    for (uint32_t i = 0; i < examples; i++)
        if (offsets[i + 1] - offsets[i] > out->longest)
            out->longest = offsets[i + 1] - offsets[i];
    uint32_t *running = out->running; /* [longest + 2] while counting */
    memset(running, 0, ((size_t)out->longest + 2) * sizeof *running);
    for (uint32_t i = 0; i < examples; i++)
        running[offsets[i + 1] - offsets[i]]++;
    /* running[l] becomes the place of the next example of length l: behind all longer ones. */
    uint32_t longer = 0;
    for (uint32_t l = out->longest + 1; l-- > 0;) {
        uint32_t here = running[l];
        running[l] = longer;
        longer += here;
    }
    for (uint32_t i = 0; i < examples; i++) {
        uint32_t length = offsets[i + 1] - offsets[i], place = running[length]++;
        out->first[place] = offsets[i] - offsets[0];
        out->length[place] = length;
    }
    /* Now running[l] counts lengths >= l. */
    memmove(running, running + 1, ((size_t)out->longest + 1) * sizeof *running);
    running[out->longest] = 0;
}

void fth_steps_rows(const struct fth_steps *steps, uint32_t step, uint32_t n, uint32_t *rows) {
    for (uint32_t i = 0; i < n; i++)
        rows[i] = steps->first[i] + (steps->reverse ? steps->length[i] - 1 - step : step);
}

void fth_steps_gather(uint32_t n, const uint32_t *rows, uint32_t columns, const float *from, size_t ldf,
                      float *to, size_t ldt) {
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + i * ldt, from + rows[i] * ldf, columns * sizeof *to);
}

void fth_steps_scatter(uint32_t n, const uint32_t *rows, uint32_t columns, const float *from, size_t ldf,
                       float *to, size_t ldt) {
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + rows[i] * ldt, from + i * ldf, columns * sizeof *to);
}

fth_status fth_step_product_make(const struct fth_prepare *prepare, uint32_t weight, int turned, int add,
                                 struct fth_step_product *out, fth_error *err) {
    const struct fth_view *w = &prepare->in[weight];
    *out = (struct fth_step_product){.k = turned ? w->columns : w->rows,
                                     .n = turned ? w->rows : w->columns,
                                     .turned = turned};
    out->ldx = fth_padded_columns(out->k);
    out->ldy = fth_padded_columns(out->n);
    if (out->n == 1)
        return FTH_OK;
    struct fth_gemm_shape shape = {.form = FTH_GEMM_NN,
                                   .m = prepare->tile,
                                   .n = out->n,
                                   .k = out->k,
                                   .lda = out->ldx,
                                   .ldb = turned ? w->ld_transposed : w->ld,
                                   .ldc = out->ldy,
                                   .accumulate = add,
                                   .panels = prepare->graph->values[prepare->node->inputs[weight]].panels,
                                   .precision = FTH_FP32};
    return fth_ops_product(prepare, &shape, &out->gemm, err);
}

void fth_step_product_run(const struct fth_step_product *product, const struct fth_view *weight,
                          uint32_t rows, const float *x, float *y, void *scratch) {
    const float *w = product->turned ? weight->transposed : weight->panels ? weight->panels : weight->data;
    if (product->gemm)
        fth_gemm_run(product->gemm, rows, x, w, y, scratch);
    else /* an input of one column: its gradient is a dot product with the one row of W */
        fth_kernels_get()->row_dot(rows, product->k, x, product->ldx, weight->data, 0.0f, y, product->ldy);
}
