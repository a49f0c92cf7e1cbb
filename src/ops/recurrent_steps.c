/* The walk over a tile's examples (recurrent.h): order, rows of a step, its dense products, scratch for both. */
#include "ops/recurrent.h"

#include <string.h>

size_t fth_steps_numbers(uint32_t examples, uint32_t positions) {
    return (size_t)examples * 2 + positions + 2;
}

/* A counting sort: stable, so that the order is a function of the lengths. */
void fth_steps_make(const uint32_t *offsets, uint32_t examples, int reverse, uint32_t *memory,
                    struct fth_steps *out) {
    *out = (struct fth_steps){.first = memory,
                              .length = memory + examples,
                              .running = memory + (size_t)examples * 2,
                              .reverse = reverse};
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

static fth_status product_make(const struct fth_prepare *prepare, uint32_t weight, int turned, int add, size_t *bytes,
                               struct fth_step_product *out, fth_error *err) {
    const struct fth_view *w = &prepare->in[weight];
    *out = (struct fth_step_product){.k = turned ? w->columns : w->rows,
                                     .n = turned ? w->rows : w->columns,
                                     .weight = weight,
                                     .turned = turned};
    out->ldx = fth_padded_columns(out->k);
    out->ldy = fth_padded_columns(out->n);
    out->x = fth_ops_section(bytes, (size_t)prepare->tile * out->ldx);
    out->y = fth_ops_section(bytes, (size_t)prepare->tile * out->ldy);
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

/* x of a layer and dy of its gradient are input 0, the weights have the same places in both. */
fth_status fth_recurrent_prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_node *node = prepare->node;
    int backward = node->op == &fth_op_gru_grad || node->op == &fth_op_lstm_grad;
    struct fth_recurrent_state *state = fth_ops_state(prepare, sizeof *state, err);
    size_t bytes = 0;
    if (!state)
        return FTH_E_MEMORY;
    state->steps = fth_ops_section(&bytes, fth_steps_numbers(prepare->tile, prepare->in[0].rows));
    state->rows = fth_ops_section(&bytes, prepare->tile);
    state->other = fth_ops_section(&bytes, prepare->tile);
    if (backward)
        state->earlier = fth_ops_section(&bytes, prepare->tile);
    FTH_TRY(product_make(prepare, FTH_RECURRENT_U, backward, backward, &bytes, &state->recurrent, err));
    if (fth_recurrent_has(node, FTH_RECURRENT_W))
        FTH_TRY(product_make(prepare, FTH_RECURRENT_W, backward, 0, &bytes, &state->input, err));
    if (fth_recurrent_is_lstm(node))
        state->cell = fth_ops_section(
            &bytes, (size_t)prepare->tile * (backward ? state->recurrent.ldy : state->recurrent.ldx));
    state->product = bytes;
    fth_gemm *const products[] = {state->recurrent.gemm, state->input.gemm};
    prepare->scratch_bytes = bytes + fth_ops_products_scratch(products, 2, prepare->tile);
    return FTH_OK;
}

void fth_recurrent_release(void *prepared) {
    struct fth_recurrent_state *state = prepared;
    fth_gemm_destroy(state->recurrent.gemm);
    fth_gemm_destroy(state->input.gemm);
    fth_free(state);
}

void fth_step_product_run(const struct fth_run *run, const struct fth_step_product *product, uint32_t rows) {
    const struct fth_recurrent_state *state = run->prepared;
    const struct fth_view *weight = &run->in[product->weight];
    const float *w = product->turned ? weight->transposed : weight->panels ? weight->panels : weight->data;
    const float *x = fth_ops_at(run, product->x);
    float *y = fth_ops_at(run, product->y);
    if (product->gemm)
        fth_gemm_run(product->gemm, rows, x, w, y, fth_ops_at(run, state->product));
    else /* an input of one column: its gradient is a dot product with the one row of W */
        fth_kernels_get()->row_dot(rows, product->k, x, product->ldx, weight->data, 0.0f, y, product->ldy);
}
