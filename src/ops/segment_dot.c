/* segment_dot(x, v): a position's row times its example's row, what the pass fuse_key_grads leaves of an attention
 * unit's weighted sum backwards (the gradient of the weights). */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, 0, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, 1, fth_ops_input(graph, node, 0).columns, err));
    return fth_ops_output_like(graph, node, 0, 0, 1, err);
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
                                          .resource = FTH_MEMORY,
                                          .shape = shape,
                                          .cost = fth_ops_cost,
                                          .run = run};
