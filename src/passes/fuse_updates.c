/* A matrix product's weight gradient and its update become one node: each block of the gradient is used
 * while it is in cache and never written out; so do STAR's gradients by domain, those of the shared and the
 * domains' own weights and both updates. Not where the whole gradient is needed first (clipping). */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static fth_status fuse(fth_graph *graph, struct fth_node *update, fth_error *err) {
    fth_id weights = update->inputs[0], gradient = update->inputs[1];
    struct fth_node *reader = NULL, *from = fth_graph_producer(graph, gradient);
    int clipped = update->n_inputs > 2 && update->inputs[2] != FTH_NONE;
    if (clipped || !from || from->op != &fth_op_linear_weight_grad ||
        fth_rewrite_readers(graph, gradient, &reader) != 1)
        return FTH_OK;
    fth_id inputs[3] = {weights, from->inputs[0], from->inputs[1]};
    fth_stage stage = graph->stage;
    graph->stage = FTH_UPDATE;
    fth_status status = fth_graph_node(graph, &fth_op_linear_update, update->name, inputs, 3, NULL, 0,
                                       NULL, err);
    graph->stage = stage;
    FTH_TRY(status);
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, update));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, update));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, from));
    return FTH_OK;
}

/* The update, unless clipped, that alone reads the gradient; NULL: there is none. */
static struct fth_node *only_update(const fth_graph *graph, fth_id gradient) {
    struct fth_node *reader = NULL;
    if (fth_rewrite_readers(graph, gradient, &reader) != 1 || reader->op != &fth_op_update ||
        (reader->n_inputs > 2 && reader->inputs[2] != FTH_NONE))
        return NULL;
    return reader;
}

/* `own` updates what domain_combine_grad's output 1 is the gradient of. */
static fth_status fuse_domains(fth_graph *graph, struct fth_node *own, fth_error *err) {
    struct fth_node *combine = fth_graph_producer(graph, own->inputs[1]), *from = NULL, *reader = NULL, *shared = NULL;
    if (combine && combine->op == &fth_op_domain_combine_grad && combine->outputs[1] == own->inputs[1])
        from = fth_graph_producer(graph, combine->inputs[2]);
    if (!from || from->op != &fth_op_domain_linear_weight_grad || only_update(graph, own->inputs[1]) != own ||
        !(shared = only_update(graph, combine->outputs[0])) ||
        fth_rewrite_readers(graph, from->outputs[0], &reader) != 1)
        return FTH_OK;
    fth_id inputs[5] = {shared->inputs[0], own->inputs[0], from->inputs[0], from->inputs[1], from->inputs[2]};
    fth_stage stage = graph->stage;
    graph->stage = FTH_UPDATE;
    fth_status status = fth_graph_node(graph, &fth_op_domain_update, shared->name, inputs, 5, NULL, 0, NULL, err);
    graph->stage = stage;
    FTH_TRY(status);
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, own));
    struct fth_node *gone[] = {own, shared, combine, from};
    for (uint32_t i = 0; i < 4; i++)
        fth_rewrite_remove(graph, fth_rewrite_find(graph, gone[i]));
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        if (i >= graph->n_nodes)
            continue;
        if (graph->nodes[i]->op == &fth_op_update)
            FTH_TRY(fuse(graph, graph->nodes[i], err));
        if (i < graph->n_nodes && graph->nodes[i]->op == &fth_op_update)
            FTH_TRY(fuse_domains(graph, graph->nodes[i], err));
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_fuse_updates = {
    .name = "fuse_updates",
    .when = FTH_PASS_TRAINING,
    .run = run};
