/* segment_pool(x): sum, mean or maximum of the rows of a segment's positions, [P, n] -> one row an example or a
 * session; without positions zeros. And its gradient: the maximum's goes to the first position that has it. */
#include "ops/ops_private.h"

static const struct fth_segment_pool_attributes *attributes(const struct fth_node *node) {
    return node->attributes;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    if (attributes(node)->pooling == FTH_POOL_NONE)
        return fth_fail(err, FTH_E_ARGUMENT, "pooling is sum, mean or max");
    return fth_ops_output_segments(graph, node, attributes(node)->sessions, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    struct fth_segment_pool_attributes a = *attributes(node);
    fth_id inputs[3] = {d_outputs[0], node->inputs[0], node->outputs[0]};
    a.group = fth_ops_input(graph, node, 0).group;
    return fth_graph_node(graph, &fth_op_segment_pool_grad, node->name, inputs,
                          a.pooling == FTH_POOL_MAX ? 3 : 1, &a, sizeof a, d_inputs, err);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    static const char *const names[] = {"none", "sum", "mean", "max"};
    fth_text_printf(out, "%s", names[attributes(node)->pooling]);
    fth_ops_print_sessions(attributes(node)->sessions, out);
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    const struct fth_kernels *k = fth_kernels_get();
    struct fth_segments s = fth_ops_segments(run, x, attributes(run->node)->sessions);
    if (attributes(run->node)->pooling == FTH_POOL_MAX) {
        k->segment_max(s.n, s.offsets, x->columns, x->data, x->ld, y->data, y->ld);
        return;
    }
    k->segment_sum(s.n, s.offsets, x->columns, x->data, x->ld, NULL, 0, y->data, y->ld);
    for (uint32_t i = 0; attributes(run->node)->pooling == FTH_POOL_MEAN && i < s.n; i++) {
        uint32_t rows = s.offsets[i + 1] - s.offsets[i];
        float *row = y->data + (size_t)i * y->ld;
        if (rows)
            k->scale(1, y->columns, row, y->ld, 1.0f / (float)rows, row, y->ld);
    }
}

const struct fth_op fth_op_segment_pool = {.name = "segment_pool",
                                           .min_inputs = 1,
                                           .max_inputs = 1,
                                           .n_outputs = 1,
                                           .granularity = FTH_PER_TILE,
                                           .shape = shape,
                                           .gradient = gradient,
                                           .cost = fth_ops_cost,
                                           .print = print,
                                           .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_segment_pool_attributes *a = attributes(node);
    if (a->pooling == FTH_POOL_MAX) {
        FTH_TRY(fth_ops_need_segments(graph, node, 1, a->sessions, err));
        FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    }
    return fth_ops_output_positions(graph, node, a->sessions, a->group, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_segment_pool_attributes *a = attributes(run->node);
    const struct fth_view *dy = &run->in[0], *dx = &run->out[0];
    const struct fth_kernels *k = fth_kernels_get();
    struct fth_segments s = fth_ops_segments(run, dx, a->sessions);
    if (a->pooling == FTH_POOL_MAX) {
        const struct fth_view *x = &run->in[1], *y = &run->in[2];
        k->segment_max_grad(s.n, s.offsets, dx->columns, x->data, x->ld, y->data, y->ld, dy->data,
                            dy->ld, dx->data, dx->ld);
        return;
    }
    for (uint32_t i = 0; i < s.n; i++) {
        uint32_t rows = s.offsets[i + 1] - s.offsets[i];
        float factor = a->pooling == FTH_POOL_MEAN && rows ? 1.0f / (float)rows : 1.0f;
        k->scale(rows, dx->columns, dy->data + (size_t)i * dy->ld, 0, factor,
                 dx->data + (size_t)(s.offsets[i] - s.offsets[0]) * dx->ld, dx->ld);
    }
}

const struct fth_op fth_op_segment_pool_grad = {.name = "segment_pool_grad",
                                                .min_inputs = 1,
                                                .max_inputs = 3,
                                                .n_outputs = 1,
                                                .granularity = FTH_PER_TILE,
                                                .shape = grad_shape,
                                                .cost = fth_ops_cost,
                                                .print = print,
                                                .run = grad_run};
