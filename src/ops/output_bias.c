/* Which parameter moves a column of the logit as a whole (layers.h), found from the layers that made it: before passes
 * put others in their places. */
#include "ops/layers.h"
#include "ops/ops.h"

static int bias_of(const fth_graph *graph, fth_id value, uint32_t column, fth_id *bias, uint32_t *at);

/* Of the input that has the column. */
static int beside(const fth_graph *graph, const struct fth_node *concat, uint32_t column, fth_id *bias, uint32_t *at) {
    for (uint32_t i = 0; i < concat->n_inputs; i++) {
        uint32_t columns = graph->values[concat->inputs[i]].columns;
        if (column < columns)
            return bias_of(graph, concat->inputs[i], column, bias, at);
        column -= columns;
    }
    return 0;
}

static int bias_of(const fth_graph *graph, fth_id value, uint32_t column, fth_id *bias, uint32_t *at) {
    const struct fth_node *node = NULL;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->n_outputs && graph->nodes[i]->outputs[0] == value)
            node = graph->nodes[i];
    if (!node)
        return 0;
    if (node->op == &fth_op_add)
        return bias_of(graph, node->inputs[0], column, bias, at) || bias_of(graph, node->inputs[1], column, bias, at);
    if (node->op == &fth_op_concat)
        return beside(graph, node, column, bias, at);
    uint32_t input = node->op == &fth_op_bias_act ? 1 : 2;
    if ((node->op != &fth_op_bias_act && node->op != &fth_op_row_dot && node->op != &fth_op_linear) ||
        node->n_inputs <= input || node->inputs[input] == FTH_NONE)
        return 0;
    *bias = node->inputs[input];
    *at = column;
    return 1;
}

int fth_layer_output_bias(const fth_graph *graph, uint32_t task, fth_id *bias, uint32_t *column) {
    return bias_of(graph, graph->logit, task, bias, column);
}
