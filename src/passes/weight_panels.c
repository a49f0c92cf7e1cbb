/* Weights that matrix products read are kept in panels, which a product reads as one stream (kernels/panels.h); their
 * transposed copies are in panels, too. Whether they lie in rows besides: runtime/parameters.h. In bf16 the panels are
 * already rounded, so a weight that one product reads rounded and another does not is left as it is. */
#include "ops/ops.h"
#include "passes/passes.h"

#define BOTH (-1) /* read in two precisions */

static void mark(fth_graph *graph, fth_id weight, int precision) {
    if (weight == FTH_NONE || graph->values[weight].role != FTH_ROLE_PARAMETER)
        return;
    int *panels = &graph->values[weight].panels;
    *panels = *panels == 0 || *panels == 1 + precision ? 1 + precision : BOTH;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    (void)err;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_linear)
            mark(graph, node->inputs[1], graph->precision);
        if (node->op == &fth_op_gru || node->op == &fth_op_lstm) {
            mark(graph, node->inputs[FTH_RECURRENT_U], 0); /* always fp32 */
            mark(graph, node->inputs[FTH_RECURRENT_W], 0);
        }
    }
    for (uint32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].panels == BOTH)
            graph->values[v].panels = 0;
    return FTH_OK;
}

const struct fth_pass fth_pass_weight_panels = {
    .name = "weight_panels",
    .when = FTH_PASS_FORWARD,
    .run = run};
