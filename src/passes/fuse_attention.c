/* After split_attention and fuse_activations an attention unit of two hidden layers is
 *
 *   y = attention_layer(k, q, W, r)   h = linear(y, W2, b2)   weight = row_dot(h, v, c)   out = segment_sum(k, weight)
 *
 * with one activation that is applied in both layers: one node, attention_unit, whose forward and backward go
 * example by example. Units with Dice, PReLU or GELU, or another number of layers, stay as they are. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* The only node that reads the value, when it is of this op and reads it as input `which`. */
static struct fth_node *reader(const fth_graph *graph, fth_id value, const struct fth_op *op,
                               uint32_t which) {
    struct fth_node *node;
    if (value == graph->logit || fth_rewrite_has_views(graph, value) ||
        fth_rewrite_readers(graph, value, &node) != 1 || node->op != op ||
        node->n_inputs <= which || node->inputs[which] != value)
        return NULL;
    return node;
}

static int has_bias(const struct fth_node *node) {
    return node->n_inputs > 2 && node->inputs[2] != FTH_NONE;
}

static fth_status fuse(fth_graph *graph, struct fth_node *const nodes[4], fth_error *err) {
    const struct fth_node *first = nodes[0], *second = nodes[1], *dot = nodes[2], *sum = nodes[3];
    fth_id inputs[8] = {first->inputs[0],  first->inputs[1],  first->inputs[2], first->inputs[3],
                        second->inputs[1], second->inputs[2], dot->inputs[1],   dot->inputs[2]};
    fth_id outputs[4] = {sum->outputs[0], first->outputs[0], second->outputs[0], dot->outputs[0]}, made[4];
    struct fth_linear_attributes act = {.act = fth_linear_act(first)};
    FTH_TRY(fth_graph_node(graph, &fth_op_attention_unit, first->name, inputs, 8, &act, sizeof act,
                           made, err));
    struct fth_node *unit = graph->nodes[graph->n_nodes - 1];
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, sum));
    for (uint32_t i = 0; i < 4; i++)
        fth_rewrite_remove(graph, fth_rewrite_find(graph, nodes[i]));
    for (uint32_t o = 0; o < 4; o++) {
        graph->values[made[o]].producer = FTH_NONE;
        unit->outputs[o] = outputs[o];
        graph->values[outputs[o]].producer = unit->id;
    }
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *nodes[4] = {graph->nodes[i]};
        if (nodes[0]->op != &fth_op_attention_layer)
            continue;
        nodes[1] = reader(graph, nodes[0]->outputs[0], &fth_op_linear, 0);
        nodes[2] = nodes[1] ? reader(graph, nodes[1]->outputs[0], &fth_op_row_dot, 0) : NULL;
        nodes[3] = nodes[2] ? reader(graph, nodes[2]->outputs[0], &fth_op_segment_sum, 1) : NULL;
        if (!nodes[3] || nodes[3]->inputs[0] != nodes[0]->inputs[0] || !has_bias(nodes[1]) ||
            !has_bias(nodes[2]) || fth_linear_act(nodes[0]) != fth_linear_act(nodes[1]))
            continue;
        FTH_TRY(fuse(graph, nodes, err));
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_fuse_attention = {
    .name = "fuse_attention",
    .when = FTH_PASS_FORWARD,
    .rounding = 1,
    .run = run};
