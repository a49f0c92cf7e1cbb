/* segment_attention(x): scaled dot-product attention of several heads (Vaswani et al. 2017, sec. 3.2.1 and 3.2.2)
 * among the positions of a segment: of an example, or of a session. A row of x is the position's query, key and value
 * side by side, [P, 3 n], so that one linear layer makes all three; a head has n / heads columns of each. What stands
 * around it (the three projections, the one behind the heads) are linear nodes.
 *
 * The gradient works the weights out again from x: keeping them would take a number a head for each pair of
 * positions, far more than x, and their rows are of no fixed width; working them out costs one product of five. */
#include <math.h>

#include "ops/ops_private.h"

static const struct fth_segment_attention_attributes *attributes(const struct fth_node *node) {
    return node->attributes;
}

static fth_status check(fth_graph *graph, const struct fth_node *node, fth_error *err) {
    const struct fth_segment_attention_attributes *a = attributes(node);
    FTH_TRY(fth_ops_need_segments(graph, node, 0, a->sessions, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    if (!a->heads || columns % 3 || columns / 3 % a->heads)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "%u columns are not queries, keys and values of %u equal heads", columns,
                        a->heads);
    return FTH_OK;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    return fth_ops_output_like(graph, node, 0, 0, fth_ops_input(graph, node, 0).columns / 3, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[2] = {node->inputs[0], d_outputs[0]};
    return fth_graph_node(graph, &fth_op_segment_attention_grad, node->name, inputs, 2,
                          node->attributes, sizeof(struct fth_segment_attention_attributes), d_inputs,
                          err);
}

static uint32_t head_columns(const struct fth_node *node, const struct fth_view *x) {
    return x->columns / 3 / attributes(node)->heads;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *x = &prepare->in[0];
    prepare->scratch_bytes =
        fth_self_attention_scratch(head_columns(prepare->node, x), x->rows) * sizeof(float);
    return FTH_OK;
}

static struct fth_self_attention attention_of(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0];
    struct fth_segments segments = fth_ops_segments(run, x, attributes(run->node)->sessions);
    uint32_t n = x->columns / 3, d = head_columns(run->node, x);
    return (struct fth_self_attention){.m = segments.n,
                                       .heads = attributes(run->node)->heads,
                                       .d = d,
                                       .offsets = segments.offsets,
                                       .scale = 1.0f / sqrtf((float)d),
                                       .q = x->data,
                                       .k = x->data + n,
                                       .v = x->data + 2 * n,
                                       .ldx = x->ld};
}

static void run(const struct fth_run *run) {
    struct fth_self_attention attention = attention_of(run);
    fth_kernels_get()->self_attention(&attention, run->out[0].data, run->out[0].ld, run->scratch);
}

/* A position is compared with as many as an example has; sessions are shorter, which is not known here. */
static void pairs_cost(const fth_graph *graph, const struct fth_node *node, double products,
                       double examples, double positions, struct fth_cost *out) {
    double each = examples > 0 ? positions / examples : 0;
    const struct fth_sessions *sessions = fth_graph_sessions_of(graph, attributes(node)->sessions);
    if (sessions && each > sessions->length)
        each = sessions->length;
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * products * positions * each * (fth_ops_input(graph, node, 0).columns / 3);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    pairs_cost(graph, node, 2, examples, positions, out);
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "heads=%u", attributes(node)->heads);
    fth_ops_print_sessions(attributes(node)->sessions, out);
}

const struct fth_op fth_op_segment_attention = {.name = "segment_attention",
                                                .fp32 = 1,
                                                .min_inputs = 1,
                                                .max_inputs = 1,
                                                .n_outputs = 1,
                                                .granularity = FTH_PER_TILE,
                                                .shape = shape,
                                                .gradient = gradient,
                                                .prepare = prepare,
                                                .cost = cost,
                                                .print = print,
                                                .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    if (fth_ops_input(graph, node, 1).columns != columns / 3)
        return fth_fail(err, FTH_E_ARGUMENT, "input 1 is not the gradient of the attention's output");
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *x = &prepare->in[0];
    prepare->scratch_bytes =
        fth_self_attention_grad_scratch(head_columns(prepare->node, x), x->rows) * sizeof(float);
    return FTH_OK;
}

static void grad_run(const struct fth_run *run) {
    struct fth_self_attention attention = attention_of(run);
    const struct fth_view *dx = &run->out[0];
    uint32_t n = dx->columns / 3;
    fth_kernels_get()->self_attention_grad(&attention, run->in[1].data, run->in[1].ld, dx->data,
                                           dx->data + n, dx->data + 2 * n, dx->ld, run->scratch);
}

static void grad_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                      double positions, struct fth_cost *out) {
    pairs_cost(graph, node, 5, examples, positions, out);
}

const struct fth_op fth_op_segment_attention_grad = {.name = "segment_attention_grad",
                                                     .fp32 = 1,
                                                     .min_inputs = 2,
                                                     .max_inputs = 2,
                                                     .n_outputs = 1,
                                                     .granularity = FTH_PER_TILE,
                                                     .shape = grad_shape,
                                                     .prepare = grad_prepare,
                                                     .cost = grad_cost,
                                                     .print = print,
                                                     .run = grad_run};
