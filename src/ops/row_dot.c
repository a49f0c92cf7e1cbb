/* row_dot(x, w, bias or none): x w + bias for one output column, w [1, n]: no matrix product at
 * this width. Its gradients: dx = dy w (outer), dw = one weighted sum of rows a tile. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, fth_ops_input(graph, node, 0).columns, err));
    if (fth_ops_input(graph, node, 2).id != FTH_NONE)
        FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, 1, err));
    return fth_ops_output_like(graph, node, 0, 0, 1, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id data[2] = {d_outputs[0], node->inputs[1]}, weight[2] = {node->inputs[0], d_outputs[0]};
    if (fth_ops_wants(graph, node, 2))
        FTH_TRY(fth_graph_node(graph, &fth_op_col_sum, node->name, d_outputs, 1, NULL, 0,
                               &d_inputs[2], err));
    if (fth_ops_wants(graph, node, 1))
        FTH_TRY(fth_graph_node(graph, &fth_op_row_dot_weight_grad, node->name, weight, 2, NULL, 0,
                               &d_inputs[1], err));
    if (fth_ops_wants(graph, node, 0))
        FTH_TRY(fth_graph_node(graph, &fth_op_row_dot_data_grad, node->name, data, 2, NULL, 0,
                               &d_inputs[0], err));
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0];
    int bias = run->node->n_inputs > 2 && run->in[2].data;
    fth_kernels_get()->row_dot(x->rows, x->columns, x->data, x->ld, run->in[1].data,
                               bias ? run->in[2].data[0] : 0.0f, run->out[0].data, run->out[0].ld);
}

const struct fth_op fth_op_row_dot = {.name = "row_dot",
                                      .min_inputs = 2,
                                      .max_inputs = 3,
                                      .n_outputs = 1,
                                      .granularity = FTH_PER_TILE,
                                      .shape = shape,
                                      .gradient = gradient,
                                      .cost = fth_ops_cost,
                                      .run = run};

static fth_status data_grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    struct fth_value w = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, w.columns, err));
    return fth_ops_output_like(graph, node, 0, 0, w.columns, err);
}

static void data_grad_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *dx = &run->out[0];
    fth_kernels_get()->outer(dx->rows, dx->columns, dy->data, dy->ld, run->in[1].data, dx->data,
                             dx->ld);
}

const struct fth_op fth_op_row_dot_data_grad = {.name = "row_dot_data_grad",
                                                .min_inputs = 2,
                                                .max_inputs = 2,
                                                .n_outputs = 1,
                                                .granularity = FTH_PER_TILE,
                                                .shape = data_grad_shape,
                                                .cost = fth_ops_cost,
                                                .run = data_grad_run};

static fth_status weight_grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    return fth_ops_output_tiles(graph, node, 0, fth_ops_input(graph, node, 0).columns, err);
}

static void weight_grad_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *dy = &run->in[1];
    if (!x->rows)
        fth_ops_zero_row(&run->out[0]);
    else
        fth_kernels_get()->col_weighted_sum(x->rows, x->columns, dy->data, dy->ld, x->data, x->ld,
                                            run->out[0].data);
}

const struct fth_op fth_op_row_dot_weight_grad = {.name = "row_dot_weight_grad",
                                                  .min_inputs = 2,
                                                  .max_inputs = 2,
                                                  .n_outputs = 1,
                                                  .granularity = FTH_PER_TILE,
                                                  .shape = weight_grad_shape,
                                                  .cost = fth_ops_cost,
                                                  .run = weight_grad_run};
