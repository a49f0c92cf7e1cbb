/* bf16 by AMX: what layers multiply, activations and their gradients, is rounded once, in the tiles that the instructions
 * load (kernels/tiles.h), and not by each product that reads it. Weight gradients read half the bytes, and floats that
 * only products read do not leave the worker's scratch. The same bits. */
#include "kernels/gemm.h"
#include "kernels/tiles.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* Which input of a weight gradient is x; dy follows it. -1: it is none. */
static int weight_grad(const struct fth_node *node) {
    return node->op == &fth_op_linear_update ? 1 : node->op == &fth_op_linear_weight_grad ? 0 : -1;
}

/* Which input is one that the node multiplies, weight gradients as TURNED their x and as PAIRS their dy; -1: none. */
static int operand(const fth_graph *graph, const struct fth_node *node, fth_tiles_way way) {
    int at = weight_grad(node);
    if (at >= 0)
        return at + (way == FTH_TILES_PAIRS);
    int is_product = node->op == &fth_op_linear || (node->op == &fth_op_linear_data_grad &&
                                                    graph->values[node->inputs[1]].rows > 1);
    return is_product ? 0 : -1;
}

static fth_status append(fth_graph *graph, fth_id value, fth_tiles_way way, const struct fth_node *before,
                         fth_id tiles[2], fth_error *err) {
    struct fth_to_tiles_attributes attributes = {way};
    fth_stage stage = graph->stage;
    graph->stage = before->stage == FTH_FORWARD ? FTH_FORWARD : FTH_BACKWARD;
    fth_status status = fth_graph_node(graph, &fth_op_to_tiles, before->name, &value, 1, &attributes, sizeof attributes,
                                       tiles, err);
    graph->stage = stage;
    FTH_TRY(status);
    graph->nodes[graph->n_nodes - 1]->training_only = before->training_only;
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, before));
    return FTH_OK;
}

/* Every product that reads the floats reads tiles. */
static fth_status round_value(fth_graph *graph, fth_id value, fth_tiles_way way, fth_error *err) {
    fth_id tiles[2] = {FTH_NONE, FTH_NONE};
    if (graph->values[value].tiles)
        return FTH_OK;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        int at = operand(graph, node, way);
        if (at < 0 || node->inputs[at] != value)
            continue;
        if (tiles[0] == FTH_NONE)
            FTH_TRY(append(graph, value, way, node, tiles, err));
        node->inputs[at] = tiles[weight_grad(node) >= 0];
    }
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    if (!fth_gemm_cut((fth_precision)graph->precision).tiles)
        return FTH_OK;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *node = graph->nodes[i];
        int at = weight_grad(node);
        if (at < 0 || graph->values[node->inputs[at]].extent != FTH_EXAMPLES)
            continue;
        FTH_TRY(round_value(graph, node->inputs[at], FTH_TILES_TURNED, err));
        FTH_TRY(round_value(graph, node->inputs[at + 1], FTH_TILES_PAIRS, err));
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_round_once = {
    .name = "round_once",
    .summary = "bf16 by AMX: operands are rounded once, in the order in which it takes them",
    .when = FTH_PASS_TRAINING,
    .run = run};
