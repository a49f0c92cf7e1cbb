/* Between examples and the positions of a ragged group: expand(x) gives every position its
 * example's row; segment_sum(x, w or none) adds an example's positions, by weights; and the
 * gradient of that. */
#include "ops/ops_private.h"

static fth_status expand_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_expand_attributes *a = node->attributes;
    return fth_ops_output_positions(graph, node, FTH_NO_SESSIONS, a->group, err);
}

static fth_status expand_gradient(fth_graph *graph, const struct fth_node *node,
                                  const fth_id *d_outputs, fth_id *d_inputs, fth_error *err) {
    return fth_graph_node(graph, &fth_op_segment_sum, node->name, d_outputs, 1, NULL, 0, d_inputs,
                          err);
}

static void expand_print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_expand_attributes *a = node->attributes;
    fth_text_printf(out, "group=%d", (int)a->group);
}

static void expand_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    fth_kernels_get()->segment_expand(x->rows, y->offsets, x->columns, x->data, x->ld, y->data,
                                      y->ld);
}

const struct fth_op fth_op_expand = {.name = "expand",
                                     .min_inputs = 1,
                                     .max_inputs = 1,
                                     .n_outputs = 1,
                                     .granularity = FTH_PER_TILE,
                                     .shape = expand_shape,
                                     .gradient = expand_gradient,
                                     .cost = fth_ops_cost,
                                     .print = expand_print,
                                     .run = expand_run};

static fth_status check(fth_graph *graph, const struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, 0, err));
    struct fth_value weights = fth_ops_input(graph, node, 1);
    if (weights.id == FTH_NONE)
        return FTH_OK;
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    if (weights.columns != 1)
        return fth_fail(err, FTH_E_ARGUMENT, "the weights have %u columns, they take one",
                        weights.columns);
    return FTH_OK;
}

static fth_status sum_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    return fth_ops_output_segments(graph, node, FTH_NO_SESSIONS, err);
}

static fth_status sum_gradient(fth_graph *graph, const struct fth_node *node,
                               const fth_id *d_outputs, fth_id *d_inputs, fth_error *err) {
    struct fth_value x = fth_ops_input(graph, node, 0);
    if (fth_ops_input(graph, node, 1).id == FTH_NONE) {
        struct fth_expand_attributes group = {x.group};
        return fth_graph_node(graph, &fth_op_expand, node->name, d_outputs, 1, &group, sizeof group,
                              d_inputs, err);
    }
    fth_id inputs[3] = {node->inputs[0], node->inputs[1], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_segment_sum_grad, node->name, inputs, 3, NULL, 0, d_inputs,
                          err);
}

static void sum_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    int weighted = run->node->n_inputs > 1 && run->node->inputs[1] != FTH_NONE;
    fth_kernels_get()->segment_sum(y->rows, x->offsets, x->columns, x->data, x->ld,
                                   weighted ? run->in[1].data : NULL, weighted ? run->in[1].ld : 0,
                                   y->data, y->ld);
}

const struct fth_op fth_op_segment_sum = {.name = "segment_sum",
                                          .min_inputs = 1,
                                          .max_inputs = 2,
                                          .n_outputs = 1,
                                          .granularity = FTH_PER_TILE,
                                          .shape = sum_shape,
                                          .gradient = sum_gradient,
                                          .cost = fth_ops_cost,
                                          .run = sum_run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_need(graph, node, 2, err));
    struct fth_value x = fth_ops_input(graph, node, 0), dy = fth_ops_input(graph, node, 2);
    if (dy.extent != FTH_EXAMPLES || dy.columns != x.columns)
        return fth_fail(err, FTH_E_ARGUMENT, "input 2 is not the gradient of the sum");
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, x.columns, err));
    return fth_ops_output_like(graph, node, 1, 0, 1, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *w = &run->in[1], *dy = &run->in[2];
    const struct fth_view *dx = &run->out[0], *dw = &run->out[1];
    fth_kernels_get()->segment_sum_grad(dy->rows, x->offsets, x->columns, x->data, x->ld, w->data,
                                        w->ld, dy->data, dy->ld, dx->data, dx->ld, dw->data,
                                        dw->ld);
}

const struct fth_op fth_op_segment_sum_grad = {.name = "segment_sum_grad",
                                               .min_inputs = 3,
                                               .max_inputs = 3,
                                               .n_outputs = 2,
                                               .granularity = FTH_PER_TILE,
                                               .shape = grad_shape,
                                               .cost = fth_ops_cost,
                                               .run = grad_run};
