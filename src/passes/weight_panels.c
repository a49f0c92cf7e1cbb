/* Weights that matrix products read are kept in panels besides, which a product reads as one stream
 * (kernels/panels.h); their transposed copies are in panels, too. fp32 alone. */
#include "ops/ops.h"
#include "passes/passes.h"

static fth_status run(fth_graph *graph, fth_error *err) {
    (void)err;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_linear && graph->values[node->inputs[1]].role == FTH_ROLE_PARAMETER)
            graph->values[node->inputs[1]].panels = 1;
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_weight_panels = {
    .name = "weight_panels",
    .summary = "products read weights from panels, one stream each",
    .when = FTH_PASS_FORWARD,
    .run = run};
