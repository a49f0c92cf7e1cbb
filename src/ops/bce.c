/* bce(logit, label, weight): binary cross-entropy an example, and at once the gradient of the
 * batch's mean by the logit: backward begins here. weight's data is NULL when all weights are 1. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    if (fth_ops_input(graph, node, 0).columns != 1)
        return fth_fail(err, FTH_E_ARGUMENT, "the logit has %u columns, it takes one",
                        fth_ops_input(graph, node, 0).columns);
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, 1, err));
    return fth_ops_output_like(graph, node, 1, 0, 1, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    d_inputs[0] = node->outputs[1];
    return FTH_OK;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->scratch_bytes = 3 * fth_ops_align(prepare->in[0].rows * sizeof(float));
    return FTH_OK;
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 40; /* an exponential and a logarithm */
}

static void print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_bce_attributes *a = node->attributes;
    fth_text_printf(out, "smoothing=%g", (double)a->smoothing);
}

/* The kernel takes labels, weights and losses as dense vectors; values may have padded rows. */
static void run(const struct fth_run *run) {
    const struct fth_bce_attributes *a = run->node->attributes;
    const struct fth_view *z = &run->in[0], *loss = &run->out[0], *dz = &run->out[1];
    size_t stride = fth_ops_align(z->rows * sizeof(float)) / sizeof(float);
    float *scratch = run->scratch;
    const float *label = fth_ops_dense_column(&run->in[1], scratch);
    const float *weight = fth_ops_dense_column(&run->in[2], scratch + stride);
    float *losses = fth_ops_column_target(loss, scratch + 2 * stride);
    fth_kernels_get()->bce(z->rows, z->data, z->ld, label, weight, a->smoothing,
                           1.0f / (float)run->batch, losses, dz->data, dz->ld);
    fth_ops_column_written(loss, losses);
}

const struct fth_op fth_op_bce = {.name = "bce",
                                  .min_inputs = 3,
                                  .max_inputs = 3,
                                  .n_outputs = 2,
                                  .granularity = FTH_PER_TILE,
                                  .resource = FTH_COMPUTE,
                                  .shape = shape,
                                  .gradient = gradient,
                                  .begins_backward = 1,
                                  .prepare = prepare,
                                  .cost = cost,
                                  .print = print,
                                  .run = run};
