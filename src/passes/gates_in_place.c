/* A recurrent layer keeps what it made of the gates where their inputs came from, which it alone reads, and its gradient
 * writes the gates' gradients over what was kept, which it alone reads; a position's columns over the same columns:
 *
 *   x = linear(..)                  x: columns [0, 3 n) of kept (lstm: 4 n)
 *   states, kept = gru(x, U, ..)
 *   gates, before, .. = gru_grad(dy, U, .., states, kept)    gates: columns [0, 4 n) of kept
 *
 * So all three are one value in cache. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum { KEPT = 1 };
enum { GATES = 0, GRAD_KEPT = 5 };

static int has_no_home(const fth_graph *graph, fth_id value) {
    return graph->values[value].view_of == FTH_NONE;
}

static void keep_in_place(fth_graph *graph, uint32_t at) {
    const struct fth_node *node = graph->nodes[at];
    fth_id x = node->inputs[FTH_RECURRENT_X], kept = node->outputs[KEPT];
    if (node->inputs[FTH_RECURRENT_W] == FTH_NONE && has_no_home(graph, x) && has_no_home(graph, kept) &&
        fth_rewrite_may_overwrite(graph, x, at))
        fth_rewrite_home(graph, x, kept, 0);
}

static void gates_over_kept(fth_graph *graph, uint32_t at) {
    const struct fth_node *node = graph->nodes[at];
    fth_id kept = node->inputs[GRAD_KEPT], gates = node->outputs[GATES];
    if (has_no_home(graph, gates) && fth_rewrite_may_overwrite(graph, kept, at))
        fth_rewrite_home(graph, gates, fth_graph_root(graph, kept), fth_graph_column(graph, kept));
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_op *op = graph->nodes[i]->op;
        if (op == &fth_op_gru || op == &fth_op_lstm)
            keep_in_place(graph, i);
        if (op == &fth_op_gru_grad || op == &fth_op_lstm_grad)
            gates_over_kept(graph, i);
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_gates_in_place = {
    .name = "gates_in_place",
    .when = FTH_PASS_TRAINING,
    .run = run};
