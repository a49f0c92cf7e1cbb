/* After split_attention a gradient reaches the keys of an attention unit by two ways, which autodiff adds up over
 * all positions:
 *
 *   a, dw     = segment_sum_grad(k, w, dout)     ->  dw     = segment_dot(k, dout)
 *   b, dq, .. = attention_layer_grad(..)             dk, .. = attention_layer_grad(.., w, dout)
 *   dk        = add(a, b)
 *
 * The same sums in the same order, in one write. */
#include <string.h>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* The node that makes the value, when it is of this op. */
static struct fth_node *made_by(const fth_graph *graph, fth_id value, const struct fth_op *op) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->id == graph->values[value].producer)
            return graph->nodes[i]->op == op ? graph->nodes[i] : NULL;
    return NULL;
}

/* Nothing but the addition reads it. */
static int only_added(const fth_graph *graph, fth_id value) {
    struct fth_node *reader;
    return !fth_rewrite_has_views(graph, value) && fth_rewrite_readers(graph, value, &reader) == 1;
}

static fth_status fuse(fth_graph *graph, const struct fth_node *add, struct fth_node *sum,
                       struct fth_node *layer, fth_error *err) {
    fth_id keys[2] = {sum->inputs[0], sum->inputs[2]}, dw = sum->outputs[1], dk = add->outputs[0], made;
    fth_id *inputs = fth_arena_alloc(graph->arena, 8, sizeof *inputs);
    if (!inputs)
        return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
    memcpy(inputs, layer->inputs, 6 * sizeof *inputs);
    inputs[6] = sum->inputs[1];
    inputs[7] = sum->inputs[2];
    fth_stage stage = graph->stage;
    graph->stage = FTH_BACKWARD;
    fth_status status =
        fth_graph_node(graph, &fth_op_segment_dot, sum->name, keys, 2, NULL, 0, &made, err);
    graph->stage = stage;
    FTH_TRY(status);
    struct fth_node *dot = graph->nodes[graph->n_nodes - 1];
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, sum));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, sum));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, add));
    graph->values[made].producer = FTH_NONE;
    graph->values[layer->outputs[0]].producer = FTH_NONE;
    dot->outputs[0] = dw;
    graph->values[dw].producer = dot->id;
    layer->outputs[0] = dk;
    graph->values[dk].producer = layer->id;
    layer->inputs = inputs;
    layer->n_inputs = 8;
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *add = graph->nodes[i];
        if (add->op != &fth_op_add)
            continue;
        struct fth_node *sum = made_by(graph, add->inputs[0], &fth_op_segment_sum_grad);
        struct fth_node *layer = made_by(graph, add->inputs[1], &fth_op_attention_layer_grad);
        if (!sum || !layer || sum->outputs[0] != add->inputs[0] || layer->outputs[0] != add->inputs[1] ||
            sum->inputs[0] != layer->inputs[2] || layer->n_inputs != 6 ||
            !only_added(graph, add->inputs[0]) || !only_added(graph, add->inputs[1]))
            continue;
        FTH_TRY(fuse(graph, add, sum, layer, err));
        i = 0; /* nodes before this one went */
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_fuse_key_grads = {
    .name = "fuse_key_grads",
    .when = FTH_PASS_TRAINING,
    .run = run};
