/* A recurrent layer's gradient writes the gates' gradients over what the layer kept of the gates, which it alone reads, a
 * position's columns over the same columns:
 *
 *   gates, before, .. = gru_grad(dy, U, .., states, kept)    gates: columns [0, 4 n) of kept
 *
 * So both are one value less in cache. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum { KEPT = 5, GATES = 0 };

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (node->op != &fth_op_gru_grad && node->op != &fth_op_lstm_grad)
            continue;
        fth_id kept = node->inputs[KEPT], gates = node->outputs[GATES];
        if (graph->values[gates].view_of == FTH_NONE && fth_rewrite_may_overwrite(graph, kept, i))
            fth_rewrite_home(graph, gates, fth_graph_root(graph, kept), fth_graph_column(graph, kept));
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_gates_in_place = {
    .name = "gates_in_place",
    .when = FTH_PASS_TRAINING,
    .run = run};
