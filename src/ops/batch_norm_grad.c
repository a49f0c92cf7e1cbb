/* Batch normalisation backwards (batch_norm.c): col_dot beside col_sum (a tile's sums of dy y and
 * dy), bn_grad_finalize (the batch's, as three factors a column), bn_grad_apply (dx = a dy + b y +
 * c). */
#include "ops/ops_private.h"

static fth_status dot_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    return fth_ops_output_tiles(graph, node, 0, fth_ops_input(graph, node, 0).columns, err);
}

static void dot_run(const struct fth_run *run) {
    const struct fth_view *a = &run->in[0], *b = &run->in[1];
    if (!a->rows)
        fth_ops_zero_row(&run->out[0]);
    else
        fth_kernels_get()->col_dot(a->rows, a->columns, a->data, a->ld, b->data, b->ld,
                                   run->out[0].data);
}

const struct fth_op fth_op_col_dot = {.name = "col_dot",
                                      .min_inputs = 2,
                                      .max_inputs = 2,
                                      .n_outputs = 1,
                                      .granularity = FTH_PER_TILE,
                                      .shape = dot_shape,
                                      .cost = fth_ops_cost,
                                      .run = dot_run};

static fth_status finalize_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_tiles(graph, node, 0, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_tiles(graph, node, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 3, 1, 1, err));
    for (uint32_t i = 0; i < 3; i++)
        FTH_TRY(fth_graph_output(graph, node, i, FTH_WHOLE, -1, 1, columns, err));
    return FTH_OK;
}

static fth_status finalize_prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->tasks = 1;
    return FTH_OK;
}

static void finalize_run(const struct fth_run *run) {
    float *a = run->out[0].data, *b = run->out[1].data, *c = run->out[2].data;
    const float *scale = run->in[2].data;
    uint32_t columns = run->out[0].columns;
    float count = run->in[3].data[0];
    fth_ops_sum_rows(&run->in[0], 0, columns, c);
    fth_ops_sum_rows(&run->in[1], 0, columns, b);
    float share = count > 0 ? 1 / count : 0; /* no rows: nobody reads the factors */
    for (uint32_t j = 0; j < columns; j++) {
        a[j] = scale[j];
        b[j] *= -scale[j] * share;
        c[j] *= -scale[j] * share;
    }
}

const struct fth_op fth_op_bn_grad_finalize = {.name = "bn_grad_finalize",
                                               .min_inputs = 4,
                                               .max_inputs = 4,
                                               .n_outputs = 3,
                                               .granularity = FTH_WHOLE_BATCH,
                                               .shape = finalize_shape,
                                               .prepare = finalize_prepare,
                                               .cost = fth_ops_cost,
                                               .run = finalize_run};

static fth_status apply_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    for (uint32_t i = 2; i < 5; i++)
        FTH_TRY(fth_ops_need_whole(graph, node, i, 1, columns, err));
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static void apply_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *y = &run->in[1], *dx = &run->out[0];
    fth_kernels_get()->affine2_cols(dy->rows, dy->columns, dy->data, dy->ld, y->data, y->ld,
                                    run->in[2].data, run->in[3].data, run->in[4].data, dx->data,
                                    dx->ld);
}

const struct fth_op fth_op_bn_grad_apply = {.name = "bn_grad_apply",
                                            .min_inputs = 5,
                                            .max_inputs = 5,
                                            .n_outputs = 1,
                                            .granularity = FTH_PER_TILE,
                                            .shape = apply_shape,
                                            .cost = fth_ops_cost,
                                            .run = apply_run};
