/* A cross layer of DCN-V2 reads x0, whose gradient is a sum over the layers and over everything else that reads x0.
 * Autodiff adds them up one by one. Here a layer's part is added by the node that makes it:
 *
 *   p, db = mul_add_grad(dy, x0, b, bias)            s, db = mul_add_grad(dy, x0, b, bias, a)
 *   s     = add(a, p)                          ->
 *   t     = add(s, dy)                               the first layer, which reads x0 in both ways: with dy
 *
 * The same sums in the same order, and in place where nobody else reads what is added to. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static fth_status no_memory(fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
}

/* The mul_add_grad whose first gradient the value is, when the addition alone reads it. */
static struct fth_node *made_alone(const fth_graph *graph, fth_id value) {
    struct fth_node *node = fth_graph_producer(graph, value), *reader;
    if (!node || node->op != &fth_op_mul_add_grad || node->outputs[0] != value)
        return NULL;
    return fth_rewrite_readers(graph, value, &reader) == 1 ? node : NULL;
}

static int with_dy(const struct fth_node *node) {
    const struct fth_mul_add_grad_attributes *a = node->attributes;
    return a->with_dy;
}

/* add(other, part): the node adds what there is before it runs. */
static fth_status add_to(fth_graph *graph, struct fth_node *node, struct fth_node *add, fth_id other, int *done,
                         fth_error *err) {
    const struct fth_node *before = fth_graph_producer(graph, other);
    uint32_t at = fth_rewrite_find(graph, node);
    if (node->n_inputs > 4 || with_dy(node) || !before || fth_rewrite_find(graph, before) >= at)
        return FTH_OK;
    fth_id *inputs = fth_arena_alloc(graph->arena, 5, sizeof *inputs), sum = add->outputs[0];
    if (!inputs)
        return no_memory(err);
    for (uint32_t i = 0; i < 4; i++)
        inputs[i] = node->inputs[i];
    inputs[4] = other;
    node->inputs = inputs;
    node->n_inputs = 5;
    fth_rewrite_take_over(graph, node, add);
    if (graph->values[sum].view_of == FTH_NONE && fth_rewrite_may_overwrite(graph, other, at))
        fth_rewrite_home(graph, sum, fth_graph_root(graph, other), fth_graph_column(graph, other));
    *done = 1;
    return FTH_OK;
}

static fth_status add_dy(fth_graph *graph, struct fth_node *node, struct fth_node *add, int *done, fth_error *err) {
    struct fth_mul_add_grad_attributes *a = fth_arena_alloc(graph->arena, 1, sizeof *a);
    if (!a)
        return no_memory(err);
    fth_id part = node->outputs[0], sum = add->outputs[0];
    if (graph->values[sum].view_of != FTH_NONE)
        return FTH_OK;
    a->with_dy = 1;
    node->attributes = a;
    fth_rewrite_take_over(graph, node, add);
    if (graph->values[part].view_of != FTH_NONE)
        fth_rewrite_home(graph, sum, graph->values[part].view_of, graph->values[part].view_column);
    *done = 1;
    return FTH_OK;
}

static fth_status fuse(fth_graph *graph, struct fth_node *add, int *done, fth_error *err) {
    for (int i = 0; i < 2 && !*done; i++) {
        fth_id part = add->inputs[i], other = add->inputs[1 - i];
        struct fth_node *node = part == other ? NULL : made_alone(graph, part);
        if (node && node->inputs[0] == other && !with_dy(node))
            FTH_TRY(add_dy(graph, node, add, done, err));
        else if (node)
            FTH_TRY(add_to(graph, node, add, other, done, err));
    }
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes;) {
        int done = 0;
        if (graph->nodes[i]->op == &fth_op_add && graph->nodes[i]->stage == FTH_BACKWARD)
            FTH_TRY(fuse(graph, graph->nodes[i], &done, err));
        i += !done; /* a node that was taken out left its place to the next one */
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_fuse_crosses = {
    .name = "fuse_crosses",
    .when = FTH_PASS_TRAINING,
    .run = run};
