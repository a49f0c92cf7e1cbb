/* attention_weights(W): the first layer of an attention unit reads [q, k, q - k, q k] of a query q (one an
 * example) and a key k (one a position). Its product is
 *
 *   q (W0 + W2) + k (W1 - W2) + (q k) W3        W = [W0; W1; W2; W3], d rows each
 *
 * so the query's part is needed once an example. Outputs, once a step: the keys' weights [W1 - W2; W3] [2 d, n],
 * the query's W0 + W2 [d, n], and both transposed, which the data gradients read.
 *
 * attention_weights_grad(dkeys, dquery), one partial sum a tile: dW = [dquery; dkeys0; dquery - dkeys0; dkeys1]. */
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    struct fth_value w = fth_ops_input(graph, node, 0);
    FTH_TRY(fth_ops_need_whole(graph, node, 0, w.rows, w.columns, err));
    if (w.rows % 4)
        return fth_fail(err, FTH_E_ARGUMENT, "the weights have %u rows, no multiple of 4", w.rows);
    uint32_t d = w.rows / 4, n = w.columns;
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_WHOLE, -1, 2 * d, n, err));
    FTH_TRY(fth_graph_output(graph, node, 1, FTH_WHOLE, -1, d, n, err));
    FTH_TRY(fth_graph_output(graph, node, 2, FTH_WHOLE, -1, n, 2 * d, err));
    return fth_graph_output(graph, node, 3, FTH_WHOLE, -1, n, d, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    return fth_graph_node(graph, &fth_op_attention_weights_grad, node->name, d_outputs, 2, NULL, 0,
                          d_inputs, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->tasks = 1; /* some ten thousand numbers */
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *w = &run->in[0], *keys = &run->out[0], *query = &run->out[1];
    const struct fth_view *keys_t = &run->out[2], *query_t = &run->out[3];
    uint32_t d = query->rows, n = w->columns;
    size_t part = (size_t)d * w->ld;
    kernels->add(d, n, w->data, w->ld, w->data + 2 * part, w->ld, query->data, query->ld);
    kernels->sub(d, n, w->data + part, w->ld, w->data + 2 * part, w->ld, keys->data, keys->ld);
    kernels->copy(d, n, w->data + 3 * part, w->ld, keys->data + (size_t)d * keys->ld, keys->ld);
    kernels->transpose(2 * d, n, keys->data, keys->ld, keys_t->data, keys_t->ld);
    kernels->transpose(d, n, query->data, query->ld, query_t->data, query_t->ld);
}

const struct fth_op fth_op_attention_weights = {.name = "attention_weights",
                                                .min_inputs = 1,
                                                .max_inputs = 1,
                                                .n_outputs = 4,
                                                .granularity = FTH_WHOLE_BATCH,
                                                .shape = shape,
                                                .gradient = gradient,
                                                .prepare = prepare,
                                                .cost = fth_ops_cost,
                                                .run = run};

fth_id fth_ops_transposed(const fth_graph *graph, fth_id weights) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        for (uint32_t o = 0; node->op == &fth_op_attention_weights && o < 2; o++)
            if (node->outputs[o] == weights)
                return node->outputs[o + 2];
    }
    return FTH_NONE;
}

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_tiles(graph, node, 1, 0, err));
    uint32_t query = fth_ops_input(graph, node, 1).columns;
    FTH_TRY(fth_ops_need_tiles(graph, node, 0, 2 * query, err));
    return fth_ops_output_tiles(graph, node, 0, 4 * query, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const float *keys = run->in[0].data, *query = run->in[1].data;
    float *dw = run->out[0].data;
    size_t part = run->in[1].columns;
    kernels->copy(1, part, query, part, dw, part);
    kernels->copy(1, part, keys, part, dw + part, part);
    kernels->sub(1, part, query, part, keys, part, dw + 2 * part, part);
    kernels->copy(1, part, keys + part, part, dw + 3 * part, part);
}

const struct fth_op fth_op_attention_weights_grad = {.name = "attention_weights_grad",
                                                     .min_inputs = 2,
                                                     .max_inputs = 2,
                                                     .n_outputs = 1,
                                                     .granularity = FTH_PER_TILE,
                                                     .shape = grad_shape,
                                                     .cost = fth_ops_cost,
                                                     .run = grad_run};
