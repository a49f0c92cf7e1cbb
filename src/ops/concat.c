/* concat(x...): columns of all inputs side by side. Its gradient is views: nothing is copied back.
 */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint64_t columns = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, i, err));
        columns += fth_ops_input(graph, node, i).columns;
    }
    if (columns > UINT32_MAX / 64)
        return fth_fail(err, FTH_E_ARGUMENT, "%llu columns are too many",
                        (unsigned long long)columns);
    return fth_ops_output_like(graph, node, 0, 0, (uint32_t)columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    uint32_t column = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t columns = fth_ops_input(graph, node, i).columns;
        if (fth_ops_wants(graph, node, i))
            FTH_TRY(fth_graph_view(graph, d_outputs[0], column, columns, &d_inputs[i], err));
        column += columns;
    }
    return FTH_OK;
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 0;
}

static void run(const struct fth_run *run) {
    const struct fth_view *out = &run->out[0];
    float *at = out->data;
    for (uint32_t i = 0; i < run->node->n_inputs; i++) {
        const struct fth_view *in = &run->in[i];
        fth_kernels_get()->copy(in->rows, in->columns, in->data, in->ld, at, out->ld);
        at += in->columns;
    }
}

const struct fth_op fth_op_concat = {.name = "concat",
                                     .min_inputs = 1,
                                     .max_inputs = UINT32_MAX,
                                     .n_outputs = 1,
                                     .granularity = FTH_PER_TILE,
                                     .shape = shape,
                                     .gradient = gradient,
                                     .cost = cost,
                                     .run = run};
