/* A concatenation's inputs are written where the concatenation would copy them: each becomes a view of its
 * output. Inputs that cannot (the batch's own floats, values that have another home already) keep one copy. */
#include "graph/op.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* Whether the producer may write straight into the concatenation. */
static int can_move(const fth_graph *graph, const struct fth_node *concat, uint32_t input) {
    const struct fth_value *value = &graph->values[concat->inputs[input]];
    if (value->role != FTH_ROLE_NORMAL || value->view_of != FTH_NONE || value->id == graph->logit)
        return 0;
    for (uint32_t j = 0; j < input; j++)
        if (concat->inputs[j] == value->id)
            return 0;
    /* A concatenation inside this one was taken apart before: its inputs write into it. */
    uint32_t writers = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t o = 0; o < graph->nodes[i]->n_outputs; o++) {
            fth_id output = graph->nodes[i]->outputs[o];
            if (output != value->id && graph->values[output].view_of != value->id)
                continue;
            if (graph->nodes[i]->op->granularity != FTH_PER_TILE)
                return 0;
            writers++;
        }
    return writers > 0;
}

/* A node that copies `input` into columns [column, ...) of the concatenation's output. */
static fth_status copy_there(fth_graph *graph, struct fth_node *concat, uint32_t input, uint32_t column,
                             fth_error *err) {
    fth_id copy;
    fth_stage stage = graph->stage;
    graph->stage = concat->stage;
    fth_status status = fth_graph_node(graph, &fth_op_concat, concat->name, &concat->inputs[input], 1,
                                       NULL, 0, &copy, err);
    graph->stage = stage;
    FTH_TRY(status);
    graph->nodes[graph->n_nodes - 1]->training_only = concat->training_only;
    graph->values[copy].view_of = concat->outputs[0];
    graph->values[copy].view_column = column;
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, concat));
    return FTH_OK;
}

static fth_status in_place(fth_graph *graph, struct fth_node *concat, fth_error *err) {
    uint32_t column = 0, movable = 0;
    for (uint32_t i = 0; i < concat->n_inputs; i++)
        movable += (uint32_t)can_move(graph, concat, i);
    if (!movable)
        return FTH_OK;
    for (uint32_t i = 0; i < concat->n_inputs; i++) {
        uint32_t columns = graph->values[concat->inputs[i]].columns;
        if (can_move(graph, concat, i)) {
            fth_rewrite_home(graph, concat->inputs[i], concat->outputs[0], column);
        } else {
            FTH_TRY(copy_there(graph, concat, i, column, err));
        }
        column += columns;
    }
    fth_rewrite_remove(graph, fth_rewrite_find(graph, concat));
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes;) {
        struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_concat && node->n_inputs > 1 &&
            graph->values[node->outputs[0]].view_of == FTH_NONE)
            FTH_TRY(in_place(graph, node, err));
        /* A node that was taken out left its place to the next one. */
        if (i < graph->n_nodes && graph->nodes[i] == node)
            i++;
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_concat_in_place = {
    .name = "concat_in_place",
    .when = FTH_PASS_TRAINING,
    .run = run};
