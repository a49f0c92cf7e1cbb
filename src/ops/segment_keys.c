/* What the pass fuse_key_grads makes of an attention unit's backward: segment_dot(x, v), a position's product with
 * its example's row (the gradient of the weights); and segment_keys_grad(dx, k, q, w, dout), the gradient of the
 * keys by all three ways (weighted sum, the keys themselves and their product with the query) in one read, with the
 * query's by the product. */
#include "ops/ops_private.h"

static fth_status need_example_row(fth_graph *graph, const struct fth_node *node, uint32_t i,
                                   uint32_t columns, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, i, err));
    struct fth_value v = fth_ops_input(graph, node, i);
    if (v.extent != FTH_EXAMPLES || v.columns != columns)
        return fth_fail(err, FTH_E_ARGUMENT, "input %u is not one row an example of %u columns", i,
                        columns);
    return FTH_OK;
}

static fth_status need_positions(fth_graph *graph, const struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, 0, err));
    if (fth_ops_input(graph, node, 0).extent != FTH_POSITIONS)
        return fth_fail(err, FTH_E_ARGUMENT, "input 0 has no positions");
    return FTH_OK;
}

static fth_status dot_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(need_positions(graph, node, err));
    FTH_TRY(need_example_row(graph, node, 1, fth_ops_input(graph, node, 0).columns, err));
    return fth_ops_output_like(graph, node, 0, 0, 1, err);
}

static void dot_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *v = &run->in[1], *out = &run->out[0];
    fth_kernels_get()->segment_sum_grad(v->rows, x->offsets, x->columns, x->data, x->ld, NULL, 0,
                                        v->data, v->ld, NULL, 0, out->data, out->ld);
}

const struct fth_op fth_op_segment_dot = {.name = "segment_dot",
                                          .min_inputs = 2,
                                          .max_inputs = 2,
                                          .n_outputs = 1,
                                          .granularity = FTH_PER_TILE,
                                          .resource = FTH_MEMORY,
                                          .shape = dot_shape,
                                          .cost = fth_ops_cost,
                                          .run = dot_run};

static fth_status keys_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(need_positions(graph, node, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 3, err));
    uint32_t columns = fth_ops_input(graph, node, 1).columns;
    if (fth_ops_input(graph, node, 0).columns != 2 * columns ||
        fth_ops_input(graph, node, 3).columns != 1)
        return fth_fail(err, FTH_E_ARGUMENT, "inputs 0 and 3 do not fit keys of %u columns", columns);
    FTH_TRY(need_example_row(graph, node, 2, columns, err));
    FTH_TRY(need_example_row(graph, node, 4, columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, columns, err));
    return fth_ops_output_like(graph, node, 1, 2, columns, err);
}

static void keys_run(const struct fth_run *run) {
    const struct fth_view *dx = &run->in[0], *k = &run->in[1], *q = &run->in[2], *w = &run->in[3];
    const struct fth_view *dout = &run->in[4], *dk = &run->out[0], *dq = &run->out[1];
    fth_kernels_get()->segment_keys_grad(q->rows, k->offsets, k->columns, dx->data, dx->ld, k->data,
                                         k->ld, q->data, q->ld, w->data, w->ld, dout->data, dout->ld,
                                         dk->data, dk->ld, dq->data, dq->ld);
}

const struct fth_op fth_op_segment_keys_grad = {.name = "segment_keys_grad",
                                                .min_inputs = 5,
                                                .max_inputs = 5,
                                                .n_outputs = 2,
                                                .granularity = FTH_PER_TILE,
                                                .resource = FTH_MEMORY,
                                                .shape = keys_shape,
                                                .cost = fth_ops_cost,
                                                .run = keys_run};
