/* The gates' inputs of a recurrent layer do not depend on its states: x W leaves the loop over time as one product over
 * all positions, an ordinary linear layer with ordinary gradients. Only the products with the states stay, and the bias,
 * which a step adds as it reads its rows. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static fth_status split(fth_graph *graph, uint32_t index, fth_error *err) {
    struct fth_node *node = graph->nodes[index];
    struct fth_linear_attributes none = {.act = FTH_ACT_NONE};
    fth_id inputs[2] = {node->inputs[FTH_RECURRENT_X], node->inputs[FTH_RECURRENT_W]};
    fth_id gates;
    FTH_TRY(fth_graph_node(graph, &fth_op_linear, node->name, inputs, 2, &none, sizeof none, &gates, err));
    graph->nodes[graph->n_nodes - 1]->training_only = node->training_only;
    fth_rewrite_move_last(graph, index);
    node->inputs[FTH_RECURRENT_X] = gates;
    node->inputs[FTH_RECURRENT_W] = FTH_NONE;
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if ((node->op == &fth_op_gru || node->op == &fth_op_lstm) &&
            node->inputs[FTH_RECURRENT_W] != FTH_NONE)
            FTH_TRY(split(graph, i, err));
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_gate_split = {
    .name = "gate_split",
    .when = FTH_PASS_FORWARD,
    .rounding = 1,
    .run = run};
