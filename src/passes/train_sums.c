/* Rows of one number that are only summed (the linear terms of models) are trained by the gradient of the sum:
 * a row of copies of it, one a lookup, is never written. */
#include <string.h>

#include "base/memory.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static int trains_rows(const struct fth_node *node) {
    return node->op == &fth_op_embedding_update || node->op == &fth_op_row_squares;
}

/* Whether every reader of the spread gradient trains rows of one number with it. */
static int can_skip(const fth_graph *graph, fth_id spread) {
    if (fth_rewrite_has_views(graph, spread))
        return 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        for (uint32_t j = 0; j < node->n_inputs; j++) {
            if (node->inputs[j] != spread)
                continue;
            if (!trains_rows(node))
                return 0;
            const struct fth_row_update_attributes *a = node->attributes;
            for (uint32_t e = 0; e < a->n; e++)
                if (a->entries[e].input == j &&
                    (graph->lookups[a->entries[e].lookup].dim != 1 || a->entries[e].parts))
                    return 0;
        }
    }
    return 1;
}

/* Input j of a node that trains rows becomes the gradient of the sum. */
static fth_status point_at(fth_graph *graph, struct fth_node *node, uint32_t j, fth_id gradient,
                           fth_error *err) {
    const struct fth_row_update_attributes *old = node->attributes;
    size_t bytes = sizeof *old + old->n * sizeof old->entries[0];
    struct fth_row_update_attributes *a = fth_arena_alloc(graph->arena, 1, bytes);
    if (!a)
        return fth_fail(err, FTH_E_MEMORY, "updates: out of memory");
    memcpy(a, old, bytes);
    for (uint32_t e = 0; e < a->n; e++)
        if (a->entries[e].input == j)
            a->entries[e].column = 0;
    node->attributes = a;
    node->inputs[j] = gradient;
    return FTH_OK;
}

static fth_status skip(fth_graph *graph, const struct fth_node *spread, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->n_inputs; j++)
            if (graph->nodes[i]->inputs[j] == spread->outputs[0])
                FTH_TRY(point_at(graph, graph->nodes[i], j, spread->inputs[0], err));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, spread));
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        struct fth_node *node = graph->nodes[i];
        if (node->op == &fth_op_row_sum_grad && can_skip(graph, node->outputs[0]))
            FTH_TRY(skip(graph, node, err));
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_train_sums = {
    .name = "train_sums",
    .when = FTH_PASS_TRAINING,
    .run = run};
