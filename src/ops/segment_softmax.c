/* segment_softmax(x): a softmax over each example's positions, every column by itself (attention scores, heads side
 * by side); segment_softmax_grad(y, dy) is its gradient. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, 0, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[2] = {node->outputs[0], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_segment_softmax_grad, node->name, inputs, 2, NULL, 0, d_inputs,
                          err);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 20; /* an exponential */
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    fth_kernels_get()->segment_softmax(run->examples, x->offsets, x->columns, x->data, x->ld, y->data,
                                       y->ld);
}

const struct fth_op fth_op_segment_softmax = {.name = "segment_softmax",
                                              .min_inputs = 1,
                                              .max_inputs = 1,
                                              .n_outputs = 1,
                                              .granularity = FTH_PER_TILE,
                                              .shape = shape,
                                              .gradient = gradient,
                                              .cost = cost,
                                              .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, 0, err));
    return fth_ops_shape_alike(graph, node, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *y = &run->in[0], *dy = &run->in[1], *dx = &run->out[0];
    fth_kernels_get()->segment_softmax_grad(run->examples, y->offsets, y->columns, y->data, y->ld,
                                            dy->data, dy->ld, dx->data, dx->ld);
}

const struct fth_op fth_op_segment_softmax_grad = {.name = "segment_softmax_grad",
                                                   .min_inputs = 2,
                                                   .max_inputs = 2,
                                                   .n_outputs = 1,
                                                   .granularity = FTH_PER_TILE,
                                                   .shape = grad_shape,
                                                   .cost = fth_ops_cost,
                                                   .run = grad_run};
