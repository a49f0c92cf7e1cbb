/* linear (or attention_layer, domain_linear) then ReLU, sigmoid or tanh becomes one node: the activation is
 * applied while the product's tile is in the first cache, and one value less is written. GELU stays apart:
 * its gradient needs its input. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static int fusable(const fth_graph *graph, const struct fth_node *linear, struct fth_node **next) {
    const struct fth_linear_attributes *a = linear->attributes;
    fth_id y = linear->outputs[0];
    if ((linear->op != &fth_op_linear && linear->op != &fth_op_attention_layer &&
         linear->op != &fth_op_domain_linear) ||
        (a && a->act != FTH_ACT_NONE) || y == graph->logit || fth_rewrite_has_views(graph, y) ||
        fth_rewrite_readers(graph, y, next) != 1 || (*next)->op != &fth_op_bias_act)
        return 0;
    const struct fth_act_attributes *act = (*next)->attributes;
    return ((*next)->n_inputs < 2 || (*next)->inputs[1] == FTH_NONE) && act->act != FTH_ACT_GELU;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *linear = graph->nodes[i], *next = NULL;
        if (!fusable(graph, linear, &next))
            continue;
        struct fth_linear_attributes *a = fth_arena_alloc(graph->arena, 1, sizeof *a);
        if (!a)
            return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
        a->act = ((const struct fth_act_attributes *)next->attributes)->act;
        linear->attributes = a;
        fth_id y = next->outputs[0];
        fth_rewrite_remove(graph, fth_rewrite_find(graph, next));
        graph->values[linear->outputs[0]].producer = FTH_NONE;
        linear->outputs[0] = y;
        graph->values[y].producer = linear->id;
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_fuse_activations = {
    .name = "fuse_activations",
    .when = FTH_PASS_FORWARD,
    .run = run};
