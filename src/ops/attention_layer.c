/* attention_layer(k, q, W, r): the first layer of an attention unit over keys k (positions) and their example's query
 * q and row r: act(k W0 + (q k) W1 + r), W = [W0; W1] made by attention_weights. Since q is one an example, that is
 * k (W0 + diag(q) W1): one small product an example, and q k is never made (kernels/cpu/attention_simd.h).
 *
 * attention_layer_grad(y, dy, k, q, W, W^T, weight, dout): dk, dq, dr and the tile's part of dW, all in one go while
 * an example is in the first cache. With the last two inputs (pass fuse_key_grads) dk has weight dout, the gradient
 * by the unit's weighted sum, added. Always fp32: reduced precision has no product of this size. */
#include "ops/attention.h"

fth_status fth_ops_need_attention(fth_graph *graph, const struct fth_node *node, uint32_t at, uint32_t n,
                                  fth_error *err) {
    FTH_TRY(fth_ops_need_positions(graph, node, at, err));
    uint32_t d = fth_ops_input(graph, node, at).columns;
    FTH_TRY(fth_ops_need_example_row(graph, node, at + 1, d, err));
    if (fth_linear_act(node) == FTH_ACT_GELU)
        return fth_fail(err, FTH_E_ARGUMENT, "GELU cannot be fused: its gradient needs its input");
    return fth_ops_need_whole(graph, node, at + 2, 2 * d, n, err);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, 2, err));
    uint32_t n = fth_ops_input(graph, node, 2).columns;
    FTH_TRY(fth_ops_need_attention(graph, node, 0, n, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, 3, n, err));
    return fth_ops_output_like(graph, node, 0, 0, n, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    struct fth_linear_attributes act = {.act = fth_linear_act(node)};
    fth_id inputs[6] = {node->outputs[0], d_outputs[0],    node->inputs[0],
                        node->inputs[1],  node->inputs[2], fth_ops_transposed(graph, node->inputs[2])};
    return fth_graph_node(graph, &fth_op_attention_layer_grad, node->name, inputs, 6, &act, sizeof act,
                          d_inputs, err);
}

struct fth_attention fth_ops_attention(const struct fth_run *run, uint32_t at, uint32_t n) {
    const struct fth_view *k = &run->in[at], *q = &run->in[at + 1], *w = &run->in[at + 2];
    return (struct fth_attention){.m = q->rows,
                                  .d = k->columns,
                                  .n = n,
                                  .offsets = k->offsets,
                                  .act = fth_linear_act(run->node),
                                  .k = k->data,
                                  .q = q->data,
                                  .ldk = k->ld,
                                  .ldq = q->ld,
                                  .w = w->data,
                                  .ldw = w->ld};
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->scratch_bytes =
        fth_attention_scratch(prepare->in[0].columns, prepare->out[0].columns) * sizeof(float);
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    struct fth_attention layer = fth_ops_attention(run, 0, run->out[0].columns);
    layer.r = run->in[3].data;
    layer.ldr = run->in[3].ld;
    fth_kernels_get()->attention_layer(&layer, run->out[0].data, run->out[0].ld, run->scratch);
}

void fth_ops_attention_cost(const fth_graph *graph, const struct fth_node *node, uint32_t weights,
                            double products, double examples, double positions, struct fth_cost *out) {
    struct fth_value w = fth_ops_input(graph, node, weights);
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = products * (examples + positions) * w.rows * w.columns;
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_attention_cost(graph, node, 2, 1, examples, positions, out);
}

void fth_ops_attention_print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "act=%s", fth_ops_act_name(fth_linear_act(node)));
}

const struct fth_op fth_op_attention_layer = {.name = "attention_layer",
                                              .fp32 = 1,
                                              .min_inputs = 4,
                                              .max_inputs = 4,
                                              .n_outputs = 1,
                                              .granularity = FTH_PER_TILE,
                                              .shape = shape,
                                              .gradient = gradient,
                                              .prepare = prepare,
                                              .cost = cost,
                                              .print = fth_ops_attention_print,
                                              .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_same(graph, node, 0, 1, err));
    uint32_t n = fth_ops_input(graph, node, 1).columns, d = fth_ops_input(graph, node, 2).columns;
    FTH_TRY(fth_ops_need_attention(graph, node, 2, n, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 2, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 5, n, 2 * d, err));
    if (fth_ops_input(graph, node, 6).id != FTH_NONE) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 6, err));
        if (fth_ops_input(graph, node, 6).columns != 1)
            return fth_fail(err, FTH_E_ARGUMENT, "input 6 is not one weight a position");
        FTH_TRY(fth_ops_need_example_row(graph, node, 7, d, err));
    }
    FTH_TRY(fth_ops_output_like(graph, node, 0, 2, d, err));
    FTH_TRY(fth_ops_output_like(graph, node, 1, 3, d, err));
    FTH_TRY(fth_ops_output_tiles(graph, node, 2, 2 * d * n, err));
    return fth_ops_output_like(graph, node, 3, 3, n, err);
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *y = &prepare->in[0];
    prepare->scratch_bytes =
        fth_attention_grad_scratch(prepare->in[2].columns, y->columns, y->rows) * sizeof(float);
    return FTH_OK;
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *in = run->in, *out = run->out;
    struct fth_attention layer = fth_ops_attention(run, 2, in[0].columns);
    struct fth_attention_grad grad = {.wt = in[5].data,
                                      .ldwt = in[5].ld,
                                      .y = in[0].data,
                                      .ldy = in[0].ld,
                                      .dy = in[1].data,
                                      .lddy = in[1].ld,
                                      .dk = out[0].data,
                                      .lddk = out[0].ld,
                                      .dq = out[1].data,
                                      .lddq = out[1].ld,
                                      .dw = out[2].data,
                                      .dr = out[3].data,
                                      .lddr = out[3].ld};
    if (run->node->n_inputs > 6) {
        grad.weight = in[6].data;
        grad.ld_weight = in[6].ld;
        grad.dout = in[7].data;
        grad.lddo = in[7].ld;
    }
    fth_kernels_get()->attention_layer_grad(&layer, &grad, run->scratch);
}

static void grad_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                      double positions, struct fth_cost *out) {
    fth_ops_attention_cost(graph, node, 4, 2, examples, positions, out);
}

const struct fth_op fth_op_attention_layer_grad = {.name = "attention_layer_grad",
                                                   .fp32 = 1,
                                                   .min_inputs = 6,
                                                   .max_inputs = 8,
                                                   .n_outputs = 4,
                                                   .granularity = FTH_PER_TILE,
                                                   .shape = grad_shape,
                                                   .prepare = grad_prepare,
                                                   .cost = grad_cost,
                                                   .print = fth_ops_attention_print,
                                                   .run = grad_run};
