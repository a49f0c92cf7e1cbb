/* row_sum(x): the sum over the columns, and its gradient, which spreads a number over a row. */
#include "ops/ops_private.h"

struct fth_row_sum_attributes {
    uint32_t columns;
};

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    return fth_ops_output_like(graph, node, 0, 0, 1, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    struct fth_row_sum_attributes a = {fth_ops_input(graph, node, 0).columns};
    return fth_graph_node(graph, &fth_op_row_sum_grad, node->name, d_outputs, 1, &a, sizeof a,
                          &d_inputs[0], err);
}

/* Both are products with a row of ones. */
static fth_status ones_prepare(struct fth_prepare *prepare, uint32_t columns, fth_error *err) {
    float *ones = fth_ops_state(prepare, columns * sizeof *ones, err);
    if (!ones)
        return FTH_E_MEMORY;
    for (uint32_t j = 0; j < columns; j++)
        ones[j] = 1.0f;
    return FTH_OK;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    return ones_prepare(prepare, prepare->in[0].columns, err);
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0];
    fth_kernels_get()->row_dot(x->rows, x->columns, x->data, x->ld, run->prepared, 0.0f,
                               run->out[0].data, run->out[0].ld);
}

const struct fth_op fth_op_row_sum = {.name = "row_sum",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .n_outputs = 1,
                                      .granularity = FTH_PER_TILE,
                                      .shape = shape,
                                      .gradient = gradient,
                                      .prepare = prepare,
                                      .release = fth_free,
                                      .cost = fth_ops_cost,
                                      .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_row_sum_attributes *a = node->attributes;
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    return fth_ops_output_like(graph, node, 0, 0, a->columns, err);
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    return ones_prepare(prepare, prepare->out[0].columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *dx = &run->out[0];
    fth_kernels_get()->outer(dx->rows, dx->columns, dy->data, dy->ld, run->prepared, dx->data,
                             dx->ld);
}

const struct fth_op fth_op_row_sum_grad = {.name = "row_sum_grad",
                                           .min_inputs = 1,
                                           .max_inputs = 1,
                                           .n_outputs = 1,
                                           .granularity = FTH_PER_TILE,
                                           .shape = grad_shape,
                                           .prepare = grad_prepare,
                                           .release = fth_free,
                                           .cost = fth_ops_cost,
                                           .run = grad_run};
