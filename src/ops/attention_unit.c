/* attention_unit(k, q, W, r, W2, b2, v, c): an attention unit of two hidden layers, example by example, so that what
 * one step makes the next finds in the first cache:
 *   y = act(k W0 + (q k) W1 + r)   (attention_layer.c)      h = act(y W2 + b2)
 *   weight = h v + c               a position               out = sum of weight k over the positions
 * Outputs out, y, h, weight; all but the first are kept for the gradient.
 *
 * attention_unit_grad(dout, k, q, W, W^T, y, h, weight, W2, v): the gradients of k, q, W, r, W2, b2, v, c, those of
 * parameters one part a tile; what lies between is never written beyond an example. Always fp32. */
#include "ops/attention.h"

enum { K, Q, W, R, W2, B2, V, C };

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, W2, err));
    struct fth_value w2 = fth_ops_input(graph, node, W2);
    FTH_TRY(fth_ops_need_attention(graph, node, K, w2.rows, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, R, w2.rows, err));
    FTH_TRY(fth_ops_need_whole(graph, node, W2, w2.rows, w2.columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, B2, 1, w2.columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, V, 1, w2.columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, C, 1, 1, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, Q, fth_ops_input(graph, node, K).columns, err));
    FTH_TRY(fth_ops_output_like(graph, node, 1, K, w2.rows, err));
    FTH_TRY(fth_ops_output_like(graph, node, 2, K, w2.columns, err));
    return fth_ops_output_like(graph, node, 3, K, 1, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    struct fth_linear_attributes act = {.act = fth_linear_act(node)};
    const fth_id *in = node->inputs, *out = node->outputs;
    fth_id inputs[] = {d_outputs[0], in[K],  in[Q],  in[W],  fth_ops_transposed(graph, in[W]),
                       out[1],       out[2], out[3], in[W2], in[V]};
    return fth_graph_node(graph, &fth_op_attention_unit_grad, node->name, inputs, 10, &act, sizeof act,
                          d_inputs, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *w2 = &prepare->in[W2];
    prepare->scratch_bytes = sizeof(float) * fth_attention_unit_scratch(prepare->in[K].columns,
                                                                        w2->rows, w2->columns);
    return FTH_OK;
}

static void run(const struct fth_run *run) {
    const struct fth_view *in = run->in, *out = run->out;
    struct fth_attention layer = fth_ops_attention(run, K, in[W2].rows);
    layer.r = in[R].data;
    layer.ldr = in[R].ld;
    struct fth_attention_unit unit = {.n = in[W2].columns,
                                      .w = in[W2].data,
                                      .ldw = in[W2].ld,
                                      .b = in[B2].data,
                                      .v = in[V].data,
                                      .bias = in[C].data[0],
                                      .out = out[0].data,
                                      .ldo = out[0].ld,
                                      .h = out[2].data,
                                      .ldh = out[2].ld,
                                      .weight = out[3].data,
                                      .ld_weight = out[3].ld};
    fth_kernels_get()->attention_unit(&layer, out[1].data, out[1].ld, &unit, run->scratch);
}

static double second_flops(const fth_graph *graph, const struct fth_node *node, uint32_t weights,
                           double positions) {
    struct fth_value w = fth_ops_input(graph, node, weights);
    return 2 * positions * w.rows * w.columns;
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    fth_ops_attention_cost(graph, node, W, 1, examples, positions, out);
    out->flops += second_flops(graph, node, W2, positions);
}

const struct fth_op fth_op_attention_unit = {.name = "attention_unit",
                                             .fp32 = 1,
                                             .min_inputs = 8,
                                             .max_inputs = 8,
                                             .n_outputs = 4,
                                             .granularity = FTH_PER_TILE,
                                             .shape = shape,
                                             .gradient = gradient,
                                             .prepare = prepare,
                                             .cost = cost,
                                             .print = fth_ops_attention_print,
                                             .run = run};

enum { G_DOUT, G_K, G_Q, G_W, G_WT, G_Y, G_H, G_WEIGHT, G_W2, G_V };

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, G_W2, err));
    struct fth_value w2 = fth_ops_input(graph, node, G_W2);
    uint32_t d = fth_ops_input(graph, node, G_K).columns;
    FTH_TRY(fth_ops_need_attention(graph, node, G_K, w2.rows, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, G_DOUT, d, err));
    FTH_TRY(fth_ops_need_whole(graph, node, G_WT, w2.rows, 2 * d, err));
    FTH_TRY(fth_ops_need_whole(graph, node, G_V, 1, w2.columns, err));
    const uint32_t columns[] = {w2.rows, w2.columns, 1};
    for (uint32_t i = 0; i < 3; i++) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, G_K, G_Y + i, err));
        if (fth_ops_input(graph, node, G_Y + i).columns != columns[i])
            return fth_fail(err, FTH_E_ARGUMENT, "input %u has %u columns, not %u", G_Y + i,
                            fth_ops_input(graph, node, G_Y + i).columns, columns[i]);
    }
    FTH_TRY(fth_ops_output_like(graph, node, K, G_K, d, err));
    FTH_TRY(fth_ops_output_like(graph, node, Q, G_Q, d, err));
    FTH_TRY(fth_ops_output_tiles(graph, node, W, 2 * d * w2.rows, err));
    FTH_TRY(fth_ops_output_like(graph, node, R, G_Q, w2.rows, err));
    FTH_TRY(fth_ops_output_tiles(graph, node, W2, w2.rows * w2.columns, err));
    FTH_TRY(fth_ops_output_tiles(graph, node, B2, w2.columns, err));
    FTH_TRY(fth_ops_output_tiles(graph, node, V, w2.columns, err));
    return fth_ops_output_tiles(graph, node, C, 1, err);
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *k = &prepare->in[G_K], *w2 = &prepare->in[G_W2];
    prepare->scratch_bytes =
        sizeof(float) * fth_attention_unit_grad_scratch(k->columns, w2->rows, w2->columns, k->rows);
    return FTH_OK;
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *in = run->in, *out = run->out;
    struct fth_attention layer = fth_ops_attention(run, G_K, in[G_W2].rows);
    struct fth_attention_grad grad = {.wt = in[G_WT].data,
                                      .ldwt = in[G_WT].ld,
                                      .y = in[G_Y].data,
                                      .ldy = in[G_Y].ld,
                                      .weight = in[G_WEIGHT].data,
                                      .ld_weight = in[G_WEIGHT].ld,
                                      .dout = in[G_DOUT].data,
                                      .lddo = in[G_DOUT].ld,
                                      .dk = out[K].data,
                                      .lddk = out[K].ld,
                                      .dq = out[Q].data,
                                      .lddq = out[Q].ld,
                                      .dr = out[R].data,
                                      .lddr = out[R].ld,
                                      .dw = out[W].data};
    struct fth_attention_unit_grad unit = {.n = in[G_W2].columns,
                                           .wt = in[G_W2].transposed,
                                           .ldwt = in[G_W2].ld_transposed,
                                           .h = in[G_H].data,
                                           .ldh = in[G_H].ld,
                                           .v = in[G_V].data,
                                           .dw = out[W2].data,
                                           .db = out[B2].data,
                                           .dv = out[V].data,
                                           .dbias = out[C].data};
    fth_kernels_get()->attention_unit_grad(&layer, &grad, &unit, run->scratch);
}

static void grad_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                      double positions, struct fth_cost *out) {
    fth_ops_attention_cost(graph, node, G_W, 2, examples, positions, out);
    out->flops += 2 * second_flops(graph, node, G_W2, positions);
}

const struct fth_op fth_op_attention_unit_grad = {.name = "attention_unit_grad",
                                                  .fp32 = 1,
                                                  .min_inputs = 10,
                                                  .max_inputs = 10,
                                                  .n_outputs = 8,
                                                  .granularity = FTH_PER_TILE,
                                                  .inputs_transposed = 1 << G_W2,
                                                  .shape = grad_shape,
                                                  .prepare = grad_prepare,
                                                  .cost = grad_cost,
                                                  .print = fth_ops_attention_print,
                                                  .run = grad_run};
