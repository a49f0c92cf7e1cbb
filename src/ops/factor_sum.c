/* factor_sum(W) -> y0, W', W'^T: before the tiles, each factorised field's product with the batch's unique
 * rows, summed into y by example; and the other fields' rows of W brought together. Not for evaluation.
 *
 * A task is a block of columns:
 *     for group of fields:  P = E_unique W[field, block]  into scratch, for all fields of the group
 *                           sums[example] += P of its rows, in scratch but for the last group
 * A group is as many fields as their P stays in the second cache with the sums; y itself, whose columns lie
 * apart, is written once. */
#include "kernels/panels.h"
#include "ops/factor.h"

#define GROUP_ROWS 4096 /* of 128 bytes */

struct state {
    struct fth_factor_blocks blocks;
    fth_gemm *product[2]; /* [last block] */
    uint32_t rows;        /* of P in scratch */
};

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, 0, err));
    struct fth_value w = fth_ops_input(graph, node, 0);
    FTH_TRY(fth_factor_check(graph, node->attributes, w.rows, err));
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_EXAMPLES, -1, 0, w.columns, err));
    FTH_TRY(fth_graph_output(graph, node, 1, FTH_WHOLE, -1, w.rows, w.columns, err));
    return fth_graph_output(graph, node, 2, FTH_WHOLE, -1, w.columns, w.rows, err);
}

static void release(void *prepared) {
    struct state *state = prepared;
    fth_gemm_destroy(state->product[0]);
    fth_gemm_destroy(state->product[1]);
    fth_free(state);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_factor_attributes *a = prepare->node->attributes;
    const struct fth_view *w = &prepare->in[0];
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    state->blocks = fth_factor_blocks_make(w->columns);
    state->rows = fth_unique_most(prepare->batch);
    if (state->rows < GROUP_ROWS)
        state->rows = GROUP_ROWS;
    for (int last = 0; last < 2; last++) {
        struct fth_gemm_shape gemm = {.form = FTH_GEMM_NN,
                                      .m = 64,
                                      .n = last ? state->blocks.last : FTH_FACTOR_BLOCK,
                                      .k = a->dim,
                                      .lda = fth_padded_columns(a->dim),
                                      .ldb = w->ld,
                                      .ldc = state->blocks.ld};
        if (!last && state->blocks.count == 1)
            continue;
        FTH_TRY(fth_gemm_create(&gemm, FTH_GEMM_AUTO, prepare->tuning, &state->product[last], err));
    }
    prepare->tasks = state->blocks.count;
    prepare->scratch_bytes =
        ((size_t)state->rows + prepare->batch) * state->blocks.ld * sizeof(float);
    return FTH_OK;
}

/* Fields from `first` on whose P fits into scratch, at least one; P's places. */
static uint32_t make_group(const struct state *state, const struct fth_factor_layout *layout,
                           uint32_t first, float *scratch, const float **p,
                           const uint32_t **numbers) {
    uint32_t n = 0, rows = 0;
    for (; first + n < layout->n_fields; n++) {
        const struct fth_unique_rows *unique = layout->fields[first + n].unique;
        if (rows + unique->n > state->rows)
            break;
        p[n] = scratch + (size_t)rows * state->blocks.ld;
        numbers[n] = unique->number;
        rows += unique->n;
    }
    return n;
}

/* Columns [column, + columns) of W' and rows of W'^T, into panels that are as wide as this batch's rest. */
static void copy_rest(const struct fth_run *run, uint32_t column, uint32_t columns) {
    const struct fth_view *w = &run->in[0];
    struct fth_factor_layout layout;
    fth_factor_layout_make(run, FTH_FACTOR_FORWARD, &layout);
    struct fth_panels_target rest = {run->out[1].data, layout.columns, w->columns, FTH_FP32};
    for (uint32_t i = 0; i < layout.n_ranges; i++) {
        const struct fth_factor_range *range = &layout.ranges[i];
        fth_panels_store(&rest, range->at, column, range->columns, columns,
                         w->data + (size_t)range->column * w->ld + column, w->ld);
    }
    fth_factor_layout_make(run, FTH_FACTOR_DATA, &layout);
    if (!layout.n_fields)
        return;
    struct fth_panels_target transposed = {run->out[2].data, w->columns, layout.columns, FTH_FP32};
    for (uint32_t i = 0; i < layout.n_ranges; i++) {
        const struct fth_factor_range *range = &layout.ranges[i];
        fth_panels_store(&transposed, column, range->at, columns, range->columns,
                         w->transposed + (size_t)column * w->ld_transposed + range->column, w->ld_transposed);
    }
}

/* A field's rows of W, which another core may have written: its products begin when these are there. */
static void fetch_weights(const struct fth_view *w, uint32_t row, uint32_t rows, uint32_t column, uint32_t columns) {
    for (uint32_t i = row; i < row + rows; i++)
        for (uint32_t c = column; c < column + columns; c += FTH_CACHE_LINE / sizeof(float))
            __builtin_prefetch(w->data + (size_t)i * w->ld + c);
}

static void run(const struct fth_run *run) {
    const struct fth_factor_attributes *a = run->node->attributes;
    const struct state *state = run->prepared;
    const struct fth_view *w = &run->in[0], *y = &run->out[0];
    struct fth_factor_layout layout;
    fth_factor_layout_make(run, FTH_FACTOR_FORWARD, &layout);
    if (!layout.n_fields)
        return;
    uint32_t column = run->task * FTH_FACTOR_BLOCK;
    uint32_t columns = fth_factor_block_columns(&state->blocks, run->task);
    const fth_gemm *product = state->product[run->task + 1 == state->blocks.count];
    const float *p[FTH_FACTOR_LOOKUPS];
    const uint32_t *numbers[FTH_FACTOR_LOOKUPS];
    float *sums = run->scratch, *products = sums + (size_t)run->batch * state->blocks.ld;
    fetch_weights(w, layout.fields[0].column, a->dim, column, columns);
    for (uint32_t f = 0, n; f < layout.n_fields; f += n) {
        n = make_group(state, &layout, f, products, p, numbers);
        for (uint32_t i = 0; i < n; i++) {
            const struct fth_factor_field *field = &layout.fields[f + i];
            if (f + i + 1 < layout.n_fields)
                fetch_weights(w, field[1].column, a->dim, column, columns);
            fth_gemm_run(product, field->unique->n, field->unique->rows,
                         w->data + (size_t)field->column * w->ld + column, (float *)p[i], NULL);
        }
        int last = f + n == layout.n_fields;
        fth_kernels_get()->gather_sum(run->batch, n, numbers, p, state->blocks.ld, columns,
                                      f ? sums : NULL, state->blocks.ld,
                                      last ? y->data + column : sums,
                                      last ? y->ld : state->blocks.ld);
    }
    copy_rest(run, column, columns);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
}

const struct fth_op fth_op_factor_sum = {.name = "factor_sum",
                                         .min_inputs = 1,
                                         .max_inputs = 1,
                                         .n_outputs = 3,
                                         .granularity = FTH_WHOLE_BATCH,
                                         .inputs_transposed = 1 << 0,
                                         .shape = shape,
                                         .prepare = prepare,
                                         .release = release,
                                         .cost = cost,
                                         .print = fth_factor_print,
                                         .run = run};
