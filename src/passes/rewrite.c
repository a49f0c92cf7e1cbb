/* Tools for rewriting a node list: see rewrite.h. */
#include "passes/rewrite.h"

#include <string.h>

uint32_t fth_rewrite_readers(const fth_graph *graph, fth_id value, struct fth_node **last) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->n_inputs; j++) {
            fth_id input = graph->nodes[i]->inputs[j];
            if (input == FTH_NONE || (input != value && graph->values[input].view_of != value))
                continue;
            n++;
            *last = graph->nodes[i];
        }
    return n;
}

int fth_rewrite_has_views(const fth_graph *graph, fth_id value) {
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].view_of == value)
            return 1;
    return 0;
}

uint32_t fth_rewrite_find(const fth_graph *graph, const struct fth_node *node) {
    uint32_t i = 0;
    while (i < graph->n_nodes && graph->nodes[i] != node)
        i++;
    return i;
}

void fth_rewrite_remove(fth_graph *graph, uint32_t index) {
    struct fth_node *node = graph->nodes[index];
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (graph->values[node->outputs[i]].producer == node->id)
            graph->values[node->outputs[i]].producer = FTH_NONE;
    graph->n_nodes--;
    memmove(&graph->nodes[index], &graph->nodes[index + 1],
            (graph->n_nodes - index) * sizeof(struct fth_node *));
}

void fth_rewrite_move_last(fth_graph *graph, uint32_t index) {
    struct fth_node *node = graph->nodes[graph->n_nodes - 1];
    memmove(&graph->nodes[index + 1], &graph->nodes[index],
            (graph->n_nodes - 1 - index) * sizeof(struct fth_node *));
    graph->nodes[index] = node;
}
