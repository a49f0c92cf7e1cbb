/* affine(x, scale, shift): a trained factor and addend a column (behind batch normalisation), and
 * its data gradient. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, columns, err));
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id products[2] = {d_outputs[0], node->inputs[0]}, data[2] = {d_outputs[0], node->inputs[1]};
    if (fth_ops_wants(graph, node, 2))
        FTH_TRY(fth_graph_node(graph, &fth_op_col_sum, node->name, d_outputs, 1, NULL, 0,
                               &d_inputs[2], err));
    if (fth_ops_wants(graph, node, 1))
        FTH_TRY(fth_graph_node(graph, &fth_op_col_dot, node->name, products, 2, NULL, 0,
                               &d_inputs[1], err));
    if (fth_ops_wants(graph, node, 0))
        FTH_TRY(fth_graph_node(graph, &fth_op_affine_data_grad, node->name, data, 2, NULL, 0,
                               &d_inputs[0], err));
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    fth_kernels_get()->affine_cols(x->rows, x->columns, x->data, x->ld, run->in[1].data,
                                   run->in[2].data, y->data, y->ld);
}

const struct fth_op fth_op_affine = {.name = "affine",
                                     .min_inputs = 3,
                                     .max_inputs = 3,
                                     .n_outputs = 1,
                                     .granularity = FTH_PER_TILE,
                                     .shape = shape,
                                     .gradient = gradient,
                                     .cost = fth_ops_cost,
                                     .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, columns, err));
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    /* zeros: no addend */
    return fth_ops_state(prepare, prepare->in[1].columns * sizeof(float), err) ? FTH_OK : FTH_E_MEMORY;
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *dx = &run->out[0];
    fth_kernels_get()->affine_cols(dy->rows, dy->columns, dy->data, dy->ld, run->in[1].data,
                                   run->prepared, dx->data, dx->ld);
}

const struct fth_op fth_op_affine_data_grad = {.name = "affine_data_grad",
                                               .min_inputs = 2,
                                               .max_inputs = 2,
                                               .n_outputs = 1,
                                               .granularity = FTH_PER_TILE,
                                               .shape = grad_shape,
                                               .prepare = grad_prepare,
                                               .release = fth_free,
                                               .cost = fth_ops_cost,
                                               .run = grad_run};
