/* Between a Dice layer's forward and backward lie statistics of the whole batch, so whatever both use is written for
 * the whole batch and read again. Two such values are cheaper made again: Dice's output, which dice_sums gives
 * beside its sums, for the next layer's weight gradient; and the output gradient of a layer under an output of one
 * column, which dice_sums and dice_grad both read. The same bits. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static int reads_again(const struct fth_node *node, fth_id y) {
    return node->stage == FTH_BACKWARD && node->inputs[0] == y &&
           (node->op == &fth_op_linear_weight_grad || node->op == &fth_op_linear_tile_grad ||
            node->op == &fth_op_row_dot_weight_grad);
}

static const struct fth_node *find(const fth_graph *graph, const struct fth_op *op, fth_id x,
                                   fth_id slope) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (node->op == op && node->inputs[0] == x && node->inputs[4] == slope)
            return node;
    }
    return NULL;
}

/* Weight gradients that read y take it from dice_sums, and stand behind it. */
static void use_again(fth_graph *graph, const struct fth_node *dice) {
    const struct fth_node *sums = find(graph, &fth_op_dice_sums, dice->inputs[0], dice->inputs[4]);
    for (uint32_t i = 0; sums && i < fth_rewrite_find(graph, sums); i++) {
        struct fth_node *node = graph->nodes[i];
        if (node->n_inputs < 2 || !reads_again(node, dice->outputs[0]))
            continue;
        node->inputs[0] = sums->outputs[3];
        uint32_t last = fth_rewrite_find(graph, sums);
        for (uint32_t at = i--; at < last; at++)
            graph->nodes[at] = graph->nodes[at + 1];
        graph->nodes[last] = node;
    }
}

/* dice_grad's own copy of an output gradient that is one number a row times a row. */
static fth_status copy_outer(fth_graph *graph, struct fth_node *grad, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *outer = graph->nodes[i];
        if (outer->op != &fth_op_row_dot_data_grad || outer->outputs[0] != grad->inputs[5])
            continue;
        fth_stage stage = graph->stage;
        graph->stage = outer->stage;
        fth_status status = fth_graph_node(graph, outer->op, outer->name, outer->inputs, 2, NULL, 0,
                                           &grad->inputs[5], err);
        graph->stage = stage;
        FTH_TRY(status);
        fth_rewrite_move_last(graph, fth_rewrite_find(graph, grad));
        return FTH_OK;
    }
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_dice)
            use_again(graph, node);
        if (node->op == &fth_op_dice_grad) {
            FTH_TRY(copy_outer(graph, node, err));
            i = fth_rewrite_find(graph, node);
        }
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_recompute_dice = {
    .name = "recompute_dice",
    .when = FTH_PASS_TRAINING,
    .run = run};
