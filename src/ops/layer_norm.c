/* layer_norm(x, gamma, beta): each row normalised by its own moments (Ba et al. 2016), which are
 * outputs for the gradient; and the gradient: dx and a tile's parts of dgamma and dbeta. */
#include "ops/ops_private.h"

#define EPS 1e-5f

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, 1, 0, 1, err));
    return fth_ops_output_like(graph, node, 2, 0, 1, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[5] = {node->inputs[0], node->inputs[1], node->outputs[1], node->outputs[2],
                        d_outputs[0]};
    return fth_graph_node(graph, &fth_op_layer_norm_grad, node->name, inputs, 5, NULL, 0, d_inputs,
                          err);
}

/* Room for mean and 1 / deviation of each row, where they do not lie densely. */
static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->scratch_bytes = 2 * fth_ops_align(prepare->in[0].rows * sizeof(float));
    return FTH_OK;
}

static float *second(const struct fth_run *run) {
    return (float *)run->scratch + fth_ops_align(run->in[0].rows * sizeof(float)) / sizeof(float);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 8;
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    float *mean = fth_ops_column_target(&run->out[1], run->scratch);
    float *rstd = fth_ops_column_target(&run->out[2], second(run));
    fth_kernels_get()->layer_norm(x->rows, x->columns, x->data, x->ld, run->in[1].data,
                                  run->in[2].data, EPS, y->data, y->ld, mean, rstd);
    fth_ops_column_written(&run->out[1], mean);
    fth_ops_column_written(&run->out[2], rstd);
}

const struct fth_op fth_op_layer_norm = {.name = "layer_norm",
                                         .min_inputs = 3,
                                         .max_inputs = 3,
                                         .n_outputs = 3,
                                         .granularity = FTH_PER_TILE,
                                         .shape = shape,
                                         .gradient = gradient,
                                         .prepare = prepare,
                                         .cost = cost,
                                         .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, columns, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 2, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 3, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 4, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, columns, err));
    FTH_TRY(fth_ops_output_tiles(graph, node, 1, columns, err));
    return fth_ops_output_tiles(graph, node, 2, columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *dy = &run->in[4], *dx = &run->out[0];
    if (!x->rows) {
        fth_ops_zero_row(&run->out[1]);
        fth_ops_zero_row(&run->out[2]);
        return;
    }
    const float *mean = fth_ops_dense_column(&run->in[2], run->scratch);
    const float *rstd = fth_ops_dense_column(&run->in[3], second(run));
    fth_kernels_get()->layer_norm_grad(x->rows, x->columns, x->data, x->ld, run->in[1].data, mean,
                                       rstd, dy->data, dy->ld, dx->data, dx->ld, run->out[1].data,
                                       run->out[2].data);
}

const struct fth_op fth_op_layer_norm_grad = {.name = "layer_norm_grad",
                                              .min_inputs = 5,
                                              .max_inputs = 5,
                                              .n_outputs = 3,
                                              .granularity = FTH_PER_TILE,
                                              .shape = grad_shape,
                                              .prepare = prepare,
                                              .cost = cost,
                                              .run = grad_run};
