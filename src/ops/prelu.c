/* prelu(x, slope): one slope a column, and its gradient: dx and a tile's part of dslope. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, columns, err));
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[3] = {node->inputs[0], node->inputs[1], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_prelu_grad, node->name, inputs, 3, NULL, 0, d_inputs, err);
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    fth_kernels_get()->prelu(x->rows, x->columns, x->data, x->ld, run->in[1].data, y->data, y->ld);
}

const struct fth_op fth_op_prelu = {.name = "prelu",
                                    .min_inputs = 2,
                                    .max_inputs = 2,
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
    FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, columns, err));
    return fth_ops_output_tiles(graph, node, 1, columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *dy = &run->in[2], *dx = &run->out[0];
    if (!x->rows)
        fth_ops_zero_row(&run->out[1]);
    else
        fth_kernels_get()->prelu_grad(x->rows, x->columns, x->data, x->ld, run->in[1].data,
                                      dy->data, dy->ld, dx->data, dx->ld, run->out[1].data);
}

const struct fth_op fth_op_prelu_grad = {.name = "prelu_grad",
                                         .min_inputs = 3,
                                         .max_inputs = 3,
                                         .n_outputs = 2,
                                         .granularity = FTH_PER_TILE,
                                         .shape = grad_shape,
                                         .cost = fth_ops_cost,
                                         .run = grad_run};
