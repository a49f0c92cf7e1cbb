/* The first layer of an attention unit over [q, k, q - k, q k], q the same for all positions of an example: its
 * product is cut so that the query's part is computed once an example and added to the example's positions
 * (ops/attention_weights.c), and the query enters the keys' weights, so that a position costs a quarter
 * (ops/attention_layer.c). The weight stays the one matrix that checkpoints know. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

struct found {
    struct fth_node *linear, *concat, *expand, *sub, *mul;
    fth_id query, keys;
};

static struct fth_node *made_by(const fth_graph *graph, fth_id value, const struct fth_op *op) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (value != FTH_NONE && graph->nodes[i]->id == graph->values[value].producer)
            return graph->nodes[i]->op == op ? graph->nodes[i] : NULL;
    return NULL;
}

static int takes(const struct fth_node *node, fth_id a, fth_id b) {
    return node && node->inputs[0] == a && node->inputs[1] == b;
}

static int match(const fth_graph *graph, struct fth_node *linear, struct found *out) {
    struct fth_node *reader;
    struct fth_node *concat =
        linear->op == &fth_op_linear ? made_by(graph, linear->inputs[0], &fth_op_concat) : NULL;
    if (!concat || concat->n_inputs != 4 ||
        fth_rewrite_readers(graph, concat->outputs[0], &reader) != 1)
        return 0;
    fth_id query = concat->inputs[0], keys = concat->inputs[1];
    *out = (struct found){.linear = linear,
                          .concat = concat,
                          .expand = made_by(graph, query, &fth_op_expand),
                          .sub = made_by(graph, concat->inputs[2], &fth_op_sub),
                          .mul = made_by(graph, concat->inputs[3], &fth_op_mul),
                          .keys = keys};
    if (!out->expand || !takes(out->sub, query, keys) || !takes(out->mul, query, keys) ||
        fth_rewrite_readers(graph, query, &reader) != 3 ||
        fth_rewrite_readers(graph, out->sub->outputs[0], &reader) != 1 ||
        fth_rewrite_readers(graph, out->mul->outputs[0], &reader) != 1)
        return 0;
    out->query = out->expand->inputs[0];
    return 1;
}

/* A new node just before `before`. */
static fth_status insert(fth_graph *graph, const struct fth_node *before, const struct fth_op *op,
                         const fth_id *inputs, uint32_t n, fth_id *outputs, fth_error *err) {
    FTH_TRY(fth_graph_node(graph, op, before->name, inputs, n, NULL, 0, outputs, err));
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, before));
    return FTH_OK;
}

static fth_status split(fth_graph *graph, const struct found *found, fth_error *err) {
    struct fth_node *linear = found->linear;
    fth_id weights[4], query[3] = {found->query, FTH_NONE, FTH_NONE}, row;
    FTH_TRY(insert(graph, linear, &fth_op_attention_weights, &linear->inputs[1], 1, weights, err));
    query[1] = weights[1];
    query[2] = linear->n_inputs > 2 ? linear->inputs[2] : FTH_NONE;
    FTH_TRY(insert(graph, linear, &fth_op_linear, query, 3, &row, err));
    fth_id *inputs = fth_arena_alloc(graph->arena, 4, sizeof *inputs);
    if (!inputs)
        return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
    inputs[0] = found->keys;
    inputs[1] = found->query;
    inputs[2] = weights[0];
    inputs[3] = row;
    linear->op = &fth_op_attention_layer;
    linear->inputs = inputs;
    linear->n_inputs = 4;
    const struct fth_node *old[4] = {found->concat, found->mul, found->sub, found->expand};
    for (uint32_t i = 0; i < 4; i++)
        fth_rewrite_remove(graph, fth_rewrite_find(graph, old[i]));
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct found found;
        struct fth_node *node = graph->nodes[i];
        if (match(graph, node, &found)) {
            FTH_TRY(split(graph, &found, err));
            i = fth_rewrite_find(graph, node);
        }
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_split_attention = {
    .name = "split_attention",
    .when = FTH_PASS_FORWARD,
    .rounding = 1,
    .run = run};
