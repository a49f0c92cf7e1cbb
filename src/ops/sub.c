/* sub(a, b) on equal rows and columns. */
#include "ops/ops_private.h"

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    struct fth_scale_attributes minus = {-1.0f};
    d_inputs[0] = d_outputs[0];
    if (fth_ops_wants(graph, node, 1))
        FTH_TRY(fth_graph_node(graph, &fth_op_scale, node->name, d_outputs, 1, &minus, sizeof minus,
                               &d_inputs[1], err));
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    const struct fth_view *a = &run->in[0], *b = &run->in[1], *out = &run->out[0];
    fth_kernels_get()->sub(out->rows, out->columns, a->data, a->ld, b->data, b->ld, out->data,
                           out->ld);
}

const struct fth_op fth_op_sub = {.name = "sub",
                                  .min_inputs = 2,
                                  .max_inputs = 2,
                                  .n_outputs = 1,
                                  .granularity = FTH_PER_TILE,
                                  .shape = fth_ops_shape_alike,
                                  .gradient = gradient,
                                  .cost = fth_ops_cost,
                                  .run = run};
