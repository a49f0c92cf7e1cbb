/* row_normalise(x): each row divided by its length: y = x / sqrt(<x, x> + 1e-12), and 1 / length as a second output for the
 * gradient, row_normalise_grad(y, 1 / length, dy): dx = (dy - <y, dy> y) / length. */
#include <math.h>

#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err));
    return fth_ops_output_like(graph, node, 1, 0, 1, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[3] = {node->outputs[0], node->outputs[1], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_row_normalise_grad, node->name, inputs, 3, NULL, 0, d_inputs, err);
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0], *inverse = &run->out[1];
    const struct fth_kernels *k = fth_kernels_get();
    k->row_dot_rows(x->rows, x->columns, x->data, x->ld, x->data, x->ld, inverse->data, inverse->ld);
    for (uint32_t i = 0; i < x->rows; i++) {
        float *number = inverse->data + (size_t)i * inverse->ld;
        *number = 1 / sqrtf(*number + 1e-12f);
    }
    k->scale_rows(x->rows, x->columns, inverse->data, inverse->ld, x->data, x->ld, NULL, 0, y->data, y->ld);
}

const struct fth_op fth_op_row_normalise = {.name = "row_normalise",
                                            .min_inputs = 1,
                                            .max_inputs = 1,
                                            .n_outputs = 2,
                                            .granularity = FTH_PER_TILE,
                                            .shape = shape,
                                            .gradient = gradient,
                                            .cost = fth_ops_cost,
                                            .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    (void)err;
    prepare->scratch_bytes = fth_ops_align(prepare->in[0].rows * sizeof(float));
    return FTH_OK;
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *y = &run->in[0], *inverse = &run->in[1], *dy = &run->in[2], *dx = &run->out[0];
    const struct fth_kernels *k = fth_kernels_get();
    float *dots = run->scratch;
    k->row_dot_rows(y->rows, y->columns, y->data, y->ld, dy->data, dy->ld, dots, 1);
    for (uint32_t i = 0; i < y->rows; i++)
        dots[i] *= -inverse->data[(size_t)i * inverse->ld];
    k->scale_rows(y->rows, y->columns, inverse->data, inverse->ld, dy->data, dy->ld, NULL, 0, dx->data, dx->ld);
    k->scale_rows(y->rows, y->columns, dots, 1, y->data, y->ld, dx->data, dx->ld, dx->data, dx->ld);
}

const struct fth_op fth_op_row_normalise_grad = {.name = "row_normalise_grad",
                                                 .min_inputs = 3,
                                                 .max_inputs = 3,
                                                 .n_outputs = 1,
                                                 .granularity = FTH_PER_TILE,
                                                 .shape = grad_shape,
                                                 .prepare = grad_prepare,
                                                 .cost = fth_ops_cost,
                                                 .run = grad_run};
