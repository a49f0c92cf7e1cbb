/* Weights that matrix products read are kept in panels besides, which a product reads as one stream
 * (kernels/panels.h); their transposed copies are in panels, too. In bf16 and bf16x3 the panels are already rounded. */
#include "ops/ops.h"
#include "passes/passes.h"

static void mark(fth_graph *graph, fth_id weight, int precision) {
    if (weight != FTH_NONE && graph->values[weight].role == FTH_ROLE_PARAMETER)
        graph->values[weight].panels = 1 + precision;
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
    return FTH_OK;
}

const struct fth_pass fth_pass_weight_panels = {
    .name = "weight_panels",
    .summary = "products read weights from panels, one stream each",
    .when = FTH_PASS_FORWARD,
    .run = run};
