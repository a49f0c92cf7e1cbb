/* row_softmax(x): exp(x - max) by their sum, row by row; mix_experts(gate, experts): sum_e gate[e] x_e, the
 * row's n blocks of h columns weighted by its n gates (MMoE's gates, Ma et al. 2018, eq. 6 and 8). */
#include <math.h>

#include "ops/ops_private.h"

static fth_status softmax_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns, err);
}

static fth_status softmax_gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                                   fth_id *d_inputs, fth_error *err) {
    fth_id inputs[2] = {node->outputs[0], d_outputs[0]};
    if (!fth_ops_wants(graph, node, 0))
        return FTH_OK;
    return fth_graph_node(graph, &fth_op_row_softmax_grad, node->name, inputs, 2, NULL, 0, d_inputs, err);
}

static void softmax_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                         double positions, struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops *= 20; /* an exponential */
}

static void softmax_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    for (uint32_t i = 0; i < x->rows; i++) {
        const float *from = x->data + (size_t)i * x->ld;
        float *to = y->data + (size_t)i * y->ld, most = from[0], sum = 0;
        for (uint32_t j = 1; j < x->columns; j++)
            most = from[j] > most ? from[j] : most;
        for (uint32_t j = 0; j < x->columns; j++)
            sum += to[j] = expf(from[j] - most);
        for (uint32_t j = 0; j < x->columns; j++)
            to[j] /= sum;
    }
}

const struct fth_op fth_op_row_softmax = {.name = "row_softmax",
                                          .min_inputs = 1,
                                          .max_inputs = 1,
                                          .n_outputs = 1,
                                          .granularity = FTH_PER_TILE,
                                          .shape = softmax_shape,
                                          .gradient = softmax_gradient,
                                          .cost = softmax_cost,
                                          .run = softmax_run};

/* dx = y (dy - sum dy y) */
static void softmax_grad_run(const struct fth_run *run) {
    const struct fth_view *y = &run->in[0], *dy = &run->in[1], *dx = &run->out[0];
    for (uint32_t i = 0; i < y->rows; i++) {
        const float *a = y->data + (size_t)i * y->ld, *b = dy->data + (size_t)i * dy->ld;
        float *to = dx->data + (size_t)i * dx->ld, dot = 0;
        for (uint32_t j = 0; j < y->columns; j++)
            dot += a[j] * b[j];
        for (uint32_t j = 0; j < y->columns; j++)
            to[j] = a[j] * (b[j] - dot);
    }
}

const struct fth_op fth_op_row_softmax_grad = {.name = "row_softmax_grad",
                                               .min_inputs = 2,
                                               .max_inputs = 2,
                                               .n_outputs = 1,
                                               .granularity = FTH_PER_TILE,
                                               .shape = fth_ops_shape_alike,
                                               .cost = fth_ops_cost,
                                               .run = softmax_grad_run};

/* ---- the mixture ---- */

/* Input `wide` has as many blocks as input `gate` has columns; their width in *h. */
static fth_status blocks_of(const fth_graph *graph, const struct fth_node *node, uint32_t gate,
                            uint32_t wide, uint32_t *h, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, gate, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, gate, wide, err));
    uint32_t n = fth_ops_input(graph, node, gate).columns, columns = fth_ops_input(graph, node, wide).columns;
    if (columns % n)
        return fth_fail(err, FTH_E_ARGUMENT, "input %u has %u columns, no multiple of the %u gates", wide,
                        columns, n);
    *h = columns / n;
    return FTH_OK;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t h = 0;
    FTH_TRY(blocks_of(graph, node, 0, 1, &h, err));
    return fth_ops_output_like(graph, node, 0, 0, h, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id gate[2] = {d_outputs[0], node->inputs[1]}, experts[2] = {node->inputs[0], d_outputs[0]};
    if (fth_ops_wants(graph, node, 0))
        FTH_TRY(fth_graph_node(graph, &fth_op_mix_experts_gate_grad, node->name, gate, 2, NULL, 0,
                               &d_inputs[0], err));
    if (fth_ops_wants(graph, node, 1))
        FTH_TRY(fth_graph_node(graph, &fth_op_mix_experts_data_grad, node->name, experts, 2, NULL, 0,
                               &d_inputs[1], err));
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    const struct fth_view *gate = &run->in[0], *x = &run->in[1], *y = &run->out[0];
    for (uint32_t e = 0; e < gate->columns; e++)
        fth_kernels_get()->scale_rows(y->rows, y->columns, gate->data + e, gate->ld,
                                      x->data + (size_t)e * y->columns, x->ld, e ? y->data : NULL,
                                      e ? y->ld : 0, y->data, y->ld);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples, double positions,
                 struct fth_cost *out) {
    struct fth_value gate = fth_ops_input(graph, node, 0), wide = fth_ops_input(graph, node, 1);
    uint32_t columns = wide.columns > gate.columns ? wide.columns : gate.columns;
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&gate, examples, positions) * columns;
}

const struct fth_op fth_op_mix_experts = {.name = "mix_experts",
                                          .min_inputs = 2,
                                          .max_inputs = 2,
                                          .n_outputs = 1,
                                          .granularity = FTH_PER_TILE,
                                          .shape = shape,
                                          .gradient = gradient,
                                          .cost = cost,
                                          .run = run};

/* d gate[e] = dy . x_e; inputs dy and experts */
static fth_status gate_grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    uint32_t h = fth_ops_input(graph, node, 0).columns, columns = fth_ops_input(graph, node, 1).columns;
    if (columns % h)
        return fth_fail(err, FTH_E_ARGUMENT, "input 1 has %u columns, no multiple of %u", columns, h);
    return fth_ops_output_like(graph, node, 0, 0, columns / h, err);
}

static void gate_grad_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *x = &run->in[1], *dgate = &run->out[0];
    for (uint32_t e = 0; e < dgate->columns; e++)
        fth_kernels_get()->row_dot_rows(dy->rows, dy->columns, dy->data, dy->ld,
                                        x->data + (size_t)e * dy->columns, x->ld, dgate->data + e,
                                        dgate->ld);
}

const struct fth_op fth_op_mix_experts_gate_grad = {.name = "mix_experts_gate_grad",
                                                    .min_inputs = 2,
                                                    .max_inputs = 2,
                                                    .n_outputs = 1,
                                                    .granularity = FTH_PER_TILE,
                                                    .shape = gate_grad_shape,
                                                    .cost = cost,
                                                    .run = gate_grad_run};

/* d x_e = gate[e] dy; inputs gate and dy */
static fth_status data_grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    uint64_t columns = (uint64_t)fth_ops_input(graph, node, 0).columns * fth_ops_input(graph, node, 1).columns;
    if (columns > UINT32_MAX / 64)
        return fth_fail(err, FTH_E_ARGUMENT, "%llu columns are too many", (unsigned long long)columns);
    return fth_ops_output_like(graph, node, 0, 0, (uint32_t)columns, err);
}

static void data_grad_run(const struct fth_run *run) {
    const struct fth_view *gate = &run->in[0], *dy = &run->in[1], *dx = &run->out[0];
    for (uint32_t e = 0; e < gate->columns; e++)
        fth_kernels_get()->scale_rows(dy->rows, dy->columns, gate->data + e, gate->ld, dy->data, dy->ld,
                                      NULL, 0, dx->data + (size_t)e * dy->columns, dx->ld);
}

const struct fth_op fth_op_mix_experts_data_grad = {.name = "mix_experts_data_grad",
                                                    .min_inputs = 2,
                                                    .max_inputs = 2,
                                                    .n_outputs = 1,
                                                    .granularity = FTH_PER_TILE,
                                                    .shape = data_grad_shape,
                                                    .cost = cost,
                                                    .run = data_grad_run};
