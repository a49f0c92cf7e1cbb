/* segment_mul(x, v): every position's row times its example's row. Its gradient in one go: dx, and dv summed
 * over the example's positions. */
#include "ops/ops_private.h"

static fth_status check(fth_graph *graph, const struct fth_node *node, uint32_t i, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need(graph, node, i, err));
    struct fth_value x = fth_ops_input(graph, node, 0), v = fth_ops_input(graph, node, i);
    if (x.extent != FTH_POSITIONS || v.extent != FTH_EXAMPLES || x.columns != v.columns)
        return fth_fail(err, FTH_E_ARGUMENT, "takes positions and one row an example of their columns");
    return FTH_OK;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, 1, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[3] = {d_outputs[0], node->inputs[0], node->inputs[1]};
    return fth_graph_node(graph, &fth_op_segment_mul_grad, node->name, inputs, 3, NULL, 0, d_inputs,
                          err);
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *v = &run->in[1], *out = &run->out[0];
    for (uint32_t e = 0; e < v->rows; e++) {
        size_t at = x->offsets[e] - x->offsets[0], rows = x->offsets[e + 1] - x->offsets[e];
        fth_kernels_get()->mul(rows, x->columns, x->data + at * x->ld, x->ld,
                               v->data + (size_t)e * v->ld, 0, out->data + at * out->ld, out->ld);
    }
}

const struct fth_op fth_op_segment_mul = {.name = "segment_mul",
                                          .min_inputs = 2,
                                          .max_inputs = 2,
                                          .n_outputs = 1,
                                          .granularity = FTH_PER_TILE,
                                          .resource = FTH_MEMORY,
                                          .shape = shape,
                                          .gradient = gradient,
                                          .cost = fth_ops_cost,
                                          .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, 2, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err));
    return fth_ops_output_like(graph, node, 1, 2, fth_ops_input(graph, node, 0).columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *dy = &run->in[0], *x = &run->in[1], *v = &run->in[2];
    const struct fth_view *dx = &run->out[0], *dv = &run->out[1];
    for (uint32_t e = 0; e < v->rows; e++) {
        size_t at = x->offsets[e] - x->offsets[0], rows = x->offsets[e + 1] - x->offsets[e];
        const float *dy_e = dy->data + at * dy->ld;
        kernels->col_dot(rows, x->columns, dy_e, dy->ld, x->data + at * x->ld, x->ld,
                         dv->data + (size_t)e * dv->ld);
        kernels->mul(rows, x->columns, dy_e, dy->ld, v->data + (size_t)e * v->ld, 0,
                     dx->data + at * dx->ld, dx->ld);
    }
}

const struct fth_op fth_op_segment_mul_grad = {.name = "segment_mul_grad",
                                               .min_inputs = 3,
                                               .max_inputs = 3,
                                               .n_outputs = 2,
                                               .granularity = FTH_PER_TILE,
                                               .resource = FTH_MEMORY,
                                               .shape = grad_shape,
                                               .cost = fth_ops_cost,
                                               .run = grad_run};
