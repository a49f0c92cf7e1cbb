/* dot_interaction(x): DLRM's dot products of all pairs of vectors of dim columns, and its gradient.
 */
#include "ops/ops_private.h"

static uint32_t dim_of(const struct fth_node *node) {
    const struct fth_vectors_attributes *a = node->attributes;
    return a->dim;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns, dim = dim_of(node);
    if (!dim || columns % dim || columns / dim < 2 || columns / dim > 8192)
        return fth_fail(err, FTH_E_ARGUMENT, "%u columns are not 2 to 8192 vectors of %u", columns,
                        dim);
    uint32_t vectors = columns / dim;
    return fth_ops_output_like(graph, node, 0, 0, vectors * (vectors - 1) / 2, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[2] = {node->inputs[0], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_dot_interaction_grad, node->name, inputs, 2,
                          node->attributes, sizeof(struct fth_vectors_attributes), d_inputs, err);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    struct fth_value x = fth_ops_input(graph, node, 0);
    fth_ops_cost(graph, node, examples, positions, out);
    /* every number of x meets every other vector; backwards with two results */
    out->flops = fth_ops_rows(&x, examples, positions) * x.columns *
                 (x.columns / dim_of(node) - 1.0) * (node->n_inputs == 1 ? 1 : 2);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "dim=%u", dim_of(node));
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    uint32_t dim = dim_of(run->node);
    fth_kernels_get()->dot_interaction(x->rows, x->columns / dim, dim, x->data, x->ld, y->data,
                                       y->ld);
}

const struct fth_op fth_op_dot_interaction = {.name = "dot_interaction",
                                              .min_inputs = 1,
                                              .max_inputs = 1,
                                              .n_outputs = 1,
                                              .granularity = FTH_PER_TILE,
                                              .shape = shape,
                                              .gradient = gradient,
                                              .cost = cost,
                                              .print = print,
                                              .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *dy = &run->in[1], *dx = &run->out[0];
    uint32_t dim = dim_of(run->node);
    fth_kernels_get()->dot_interaction_grad(x->rows, x->columns / dim, dim, x->data, x->ld,
                                            dy->data, dy->ld, dx->data, dx->ld);
}

const struct fth_op fth_op_dot_interaction_grad = {.name = "dot_interaction_grad",
                                                   .min_inputs = 2,
                                                   .max_inputs = 2,
                                                   .n_outputs = 1,
                                                   .granularity = FTH_PER_TILE,
                                                   .shape = grad_shape,
                                                   .cost = cost,
                                                   .print = print,
                                                   .run = grad_run};
