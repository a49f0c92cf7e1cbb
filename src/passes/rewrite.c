/* Tools for rewriting a node list: see rewrite.h. */
#include "passes/rewrite.h"

#include <string.h>

#include "ops/ops.h"

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

int fth_rewrite_updates(const struct fth_node *node) {
    return node->op == &fth_op_update || node->op == &fth_op_update_direction || node->op == &fth_op_update_scaled;
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

void fth_rewrite_take_over(fth_graph *graph, struct fth_node *node, const struct fth_node *gone) {
    fth_id taken = gone->outputs[0];
    fth_rewrite_remove(graph, fth_rewrite_find(graph, gone));
    graph->values[node->outputs[0]].producer = FTH_NONE;
    node->outputs[0] = taken;
    graph->values[taken].producer = node->id;
}

void fth_rewrite_move_last(fth_graph *graph, uint32_t index) {
    struct fth_node *node = graph->nodes[graph->n_nodes - 1];
    memmove(&graph->nodes[index + 1], &graph->nodes[index],
            (graph->n_nodes - 1 - index) * sizeof(struct fth_node *));
    graph->nodes[index] = node;
}

void fth_rewrite_move(fth_graph *graph, uint32_t from, uint32_t to) {
    struct fth_node *node = graph->nodes[from];
    if (from < to)
        memmove(&graph->nodes[from], &graph->nodes[from + 1], (to - from) * sizeof(struct fth_node *));
    else
        memmove(&graph->nodes[to + 1], &graph->nodes[to], (from - to) * sizeof(struct fth_node *));
    graph->nodes[to] = node;
}

void fth_rewrite_home(fth_graph *graph, fth_id value, fth_id into, uint32_t column) {
    if (value == into)
        return;
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].view_of == value) {
            graph->values[i].view_of = into;
            graph->values[i].view_column += column;
        }
    graph->values[value].view_of = into;
    graph->values[value].view_column = column;
}

static int overlap(const fth_graph *graph, fth_id a, fth_id b) {
    uint32_t from_a = fth_graph_column(graph, a), from_b = fth_graph_column(graph, b);
    return fth_graph_root(graph, a) == fth_graph_root(graph, b) &&
           from_a < from_b + graph->values[b].columns && from_b < from_a + graph->values[a].columns;
}

int fth_rewrite_may_overwrite(const fth_graph *graph, fth_id value, uint32_t at) {
    if (graph->values[value].role != FTH_ROLE_NORMAL ||
        (graph->logit != FTH_NONE && overlap(graph, value, graph->logit)))
        return 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->n_inputs; j++) {
            fth_id input = graph->nodes[i]->inputs[j];
            if (input == FTH_NONE || i == at || !overlap(graph, input, value))
                continue;
            if (i > at || graph->nodes[i]->op->granularity != FTH_PER_TILE)
                return 0;
        }
    return 1;
}

int fth_rewrite_writes(const fth_graph *graph, const struct fth_node *node, fth_id root) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (fth_graph_root(graph, node->outputs[i]) == root)
            return 1;
    return 0;
}
