/* Dice over batch normalisation becomes one node that reads and writes once, forwards and backwards
 * (ops/dice.c): bn_apply(x) read only by dice_gate(x, .). */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static fth_status fuse(fth_graph *graph, struct fth_node *apply, fth_error *err) {
    struct fth_node *gate = NULL;
    if (apply->outputs[0] == graph->logit || fth_rewrite_has_views(graph, apply->outputs[0]) ||
        fth_rewrite_readers(graph, apply->outputs[0], &gate) != 1 || gate->op != &fth_op_dice_gate ||
        gate->inputs[0] != apply->inputs[0])
        return FTH_OK;
    fth_id *inputs = fth_arena_alloc(graph->arena, 5, sizeof *inputs);
    if (!inputs)
        return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
    for (uint32_t i = 0; i < 4; i++)
        inputs[i] = apply->inputs[i];
    inputs[4] = gate->inputs[2];
    gate->op = &fth_op_dice;
    gate->inputs = inputs;
    gate->n_inputs = 5;
    fth_rewrite_remove(graph, fth_rewrite_find(graph, apply));
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = graph->n_nodes; i-- > 0;)
        if (graph->nodes[i]->op == &fth_op_bn_apply)
            FTH_TRY(fuse(graph, graph->nodes[i], err));
    return FTH_OK;
}

const struct fth_pass fth_pass_fuse_dice = {
    .name = "fuse_dice",
    .when = FTH_PASS_FORWARD,
    .run = run};
