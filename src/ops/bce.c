/* bce(logit, label, weight): binary cross-entropy an example, and at once the gradient of the
 * batch's mean by the logit: backward begins here. weight's data is NULL when all weights are 1.
 *
 * A column is a task; an example's loss is the sum over the tasks, each by its weight. One task of
 * weight 1 is the plain loss. */
#include <string.h>

#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    const struct fth_bce_attributes *a = node->attributes;
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    if (columns != a->n_tasks)
        return fth_fail(err, FTH_E_ARGUMENT, "the logit has %u columns, there are %u tasks", columns,
                        a->n_tasks);
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, 1, err));
    return fth_ops_output_like(graph, node, 1, 0, columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    d_inputs[0] = node->outputs[1];
    return FTH_OK;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->scratch_bytes = 4 * fth_ops_align(prepare->in[0].rows * sizeof(float));
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
    for (uint32_t t = 0; a->n_tasks > 1 && t < a->n_tasks; t++)
        fth_text_printf(out, "%s%g", t ? "," : " weights=", (double)a->weights[t]);
}

static struct fth_view column_of(const struct fth_view *view, uint32_t column) {
    struct fth_view out = *view;
    out.data = view->data ? view->data + column : NULL;
    out.columns = 1;
    return out;
}

static void add_weighted(uint32_t n, float weight, const float *from, float *to) {
    for (uint32_t i = 0; i < n; i++)
        to[i] += weight * from[i];
}

/* The kernel takes labels, weights and losses as dense vectors; values may have padded rows. */
static void run(const struct fth_run *run) {
    const struct fth_bce_attributes *a = run->node->attributes;
    const struct fth_view *loss = &run->out[0];
    uint32_t rows = run->in[0].rows;
    size_t stride = fth_ops_align(rows * sizeof(float)) / sizeof(float);
    float *scratch = run->scratch, *of_task = scratch + 3 * stride;
    float *losses = fth_ops_column_target(loss, scratch + 2 * stride);
    int plain = a->n_tasks == 1 && a->weights[0] == 1;
    if (!plain)
        memset(losses, 0, rows * sizeof *losses);
    for (uint32_t t = 0; t < a->n_tasks; t++) {
        struct fth_view z = column_of(&run->in[0], t), label = column_of(&run->in[1], t),
                        weight = column_of(&run->in[2], t), dz = column_of(&run->out[1], t);
        fth_kernels_get()->bce(rows, z.data, z.ld, fth_ops_dense_column(&label, scratch),
                               fth_ops_dense_column(&weight, scratch + stride), a->smoothing,
                               a->weights[t] / (float)run->mean_over, plain ? losses : of_task, dz.data,
                               dz.ld);
        if (!plain)
            add_weighted(rows, a->weights[t], of_task, losses);
    }
    fth_ops_column_written(loss, losses);
}

const struct fth_op fth_op_bce = {.name = "bce",
                                  .min_inputs = 3,
                                  .max_inputs = 3,
                                  .n_outputs = 2,
                                  .granularity = FTH_PER_TILE,
                                  .shape = shape,
                                  .gradient = gradient,
                                  .begins_backward = 1,
                                  .prepare = prepare,
                                  .cost = cost,
                                  .print = print,
                                  .run = run};
