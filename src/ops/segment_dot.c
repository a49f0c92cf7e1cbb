/* segment_dot(x, v): a position's row times its example's row: attention scores, and what the pass fuse_key_grads
 * leaves of an attention unit's weighted sum backwards. segment_dot_grad(x, v, dy) gives dx and dv. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, 0, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, 1, fth_ops_input(graph, node, 0).columns, err));
    return fth_ops_output_like(graph, node, 0, 0, 1, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[3] = {node->inputs[0], node->inputs[1], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_segment_dot_grad, node->name, inputs, 3, NULL, 0, d_inputs, err);
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *v = &run->in[1], *out = &run->out[0];
    fth_kernels_get()->segment_sum_grad(v->rows, x->offsets, x->columns, x->data, x->ld, NULL, 0,
                                        v->data, v->ld, NULL, 0, out->data, out->ld);
}

const struct fth_op fth_op_segment_dot = {.name = "segment_dot",
                                          .min_inputs = 2,
                                          .max_inputs = 2,
                                          .n_outputs = 1,
                                          .granularity = FTH_PER_TILE,
                                          .shape = shape,
                                          .gradient = gradient,
                                          .cost = fth_ops_cost,
                                          .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, 0, err));
    uint32_t n = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_example_row(graph, node, 1, n, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 2, err));
    if (fth_ops_input(graph, node, 2).columns != 1)
        return fth_fail(err, FTH_E_ARGUMENT, "input 2 has not one number a position");
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, n, err));
    return fth_ops_output_like(graph, node, 1, 1, n, err);
}

/* dx[t] = dy[t] v is the other half of the gradient of a weighted sum; dv such a sum itself. */
static void grad_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *v = &run->in[1], *dy = &run->in[2];
    const struct fth_view *dx = &run->out[0], *dv = &run->out[1];
    const struct fth_kernels *k = fth_kernels_get();
    k->segment_sum_grad(v->rows, x->offsets, x->columns, x->data, x->ld, dy->data, dy->ld, v->data, v->ld,
                        dx->data, dx->ld, NULL, 0);
    k->segment_sum(v->rows, x->offsets, x->columns, x->data, x->ld, dy->data, dy->ld, dv->data, dv->ld);
}

const struct fth_op fth_op_segment_dot_grad = {.name = "segment_dot_grad",
                                               .min_inputs = 3,
                                               .max_inputs = 3,
                                               .n_outputs = 2,
                                               .granularity = FTH_PER_TILE,
                                               .shape = grad_shape,
                                               .cost = fth_ops_cost,
                                               .run = grad_run};
