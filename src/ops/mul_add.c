/* mul_add(a, b, c): a * b + c, number by number: a cross layer of DCN-V2 after its linear part. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    return fth_ops_shape_alike(graph, node, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    for (uint32_t i = 0; i < 2; i++) {
        fth_id inputs[2] = {d_outputs[0], node->inputs[1 - i]};
        if (fth_ops_wants(graph, node, i))
            FTH_TRY(fth_graph_node(graph, &fth_op_mul, node->name, inputs, 2, NULL, 0, &d_inputs[i],
                                   err));
    }
    d_inputs[2] = d_outputs[0];
    return FTH_OK;
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 2;
}

static void run(const struct fth_run *run) {
    const struct fth_view *a = &run->in[0], *b = &run->in[1], *c = &run->in[2], *out = &run->out[0];
    fth_kernels_get()->mul_add(out->rows, out->columns, a->data, a->ld, b->data, b->ld, c->data,
                               c->ld, out->data, out->ld);
}

const struct fth_op fth_op_mul_add = {.name = "mul_add",
                                      .min_inputs = 3,
                                      .max_inputs = 3,
                                      .n_outputs = 1,
                                      .granularity = FTH_PER_TILE,
                                      .resource = FTH_MEMORY,
                                      .shape = shape,
                                      .gradient = gradient,
                                      .cost = cost,
                                      .run = run};
