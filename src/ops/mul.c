/* mul(a, b), number by number, on equal rows and columns. */
#include "ops/ops_private.h"

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    for (uint32_t i = 0; i < 2; i++) {
        fth_id inputs[2] = {d_outputs[0], node->inputs[1 - i]};
        if (fth_ops_wants(graph, node, i))
            FTH_TRY(fth_graph_node(graph, &fth_op_mul, node->name, inputs, 2, NULL, 0, &d_inputs[i],
                                   err));
    }
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    const struct fth_view *a = &run->in[0], *b = &run->in[1], *out = &run->out[0];
    fth_kernels_get()->mul(out->rows, out->columns, a->data, a->ld, b->data, b->ld, out->data,
                           out->ld);
}

const struct fth_op fth_op_mul = {.name = "mul",
                                  .min_inputs = 2,
                                  .max_inputs = 2,
                                  .n_outputs = 1,
                                  .granularity = FTH_PER_TILE,
                                  .shape = fth_ops_shape_alike,
                                  .gradient = gradient,
                                  .cost = fth_ops_cost,
                                  .run = run};
