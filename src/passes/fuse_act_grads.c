/* linear_data_grad (or domain_linear_data_grad) then act_grad becomes one node: the activation's gradient
 * is applied to the product's columns while they are in the first cache, and one value less is written. The
 * same bits. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* Which input is what the activation saved. */
static uint32_t saved_input(const struct fth_node *product) {
    return product->op == &fth_op_domain_linear_data_grad ? 4 : 3;
}

/* The product whose output the activation's gradient alone reads. */
static struct fth_node *fusable(const fth_graph *graph, const struct fth_node *act) {
    fth_id dy = act->inputs[1];
    struct fth_node *product = fth_graph_producer(graph, dy), *reader;
    if (!product ||
        (product->op != &fth_op_linear_data_grad && product->op != &fth_op_domain_linear_data_grad) ||
        product->n_inputs > saved_input(product) || product->outputs[0] != dy ||
        graph->values[dy].view_of != FTH_NONE || graph->values[dy].columns < 2 || fth_rewrite_has_views(graph, dy) ||
        fth_rewrite_readers(graph, dy, &reader) != 1)
        return NULL;
    return product;
}

static fth_status fuse(fth_graph *graph, struct fth_node *product, struct fth_node *act, fth_error *err) {
    struct fth_linear_attributes *a = fth_arena_alloc(graph->arena, 1, sizeof *a);
    uint32_t saved = saved_input(product);
    fth_id *inputs = fth_arena_alloc(graph->arena, saved + 1, sizeof *inputs), dx = act->outputs[0];
    if (!a || !inputs)
        return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
    a->act = ((const struct fth_act_attributes *)act->attributes)->act;
    for (uint32_t i = 0; i < saved; i++)
        inputs[i] = i < product->n_inputs ? product->inputs[i] : FTH_NONE;
    inputs[saved] = act->inputs[0];
    uint32_t at = fth_rewrite_find(graph, act);
    fth_rewrite_move(graph, fth_rewrite_find(graph, product), at);
    fth_rewrite_remove(graph, at - 1);
    graph->values[product->outputs[0]].producer = FTH_NONE;
    product->inputs = inputs;
    product->n_inputs = saved + 1;
    product->attributes = a;
    product->outputs[0] = dx;
    graph->values[dx].producer = product->id;
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *act = graph->nodes[i];
        struct fth_node *product = act->op == &fth_op_act_grad ? fusable(graph, act) : NULL;
        if (!product)
            continue;
        FTH_TRY(fuse(graph, product, act, err));
        i--; /* a node before this one went */
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_fuse_act_grads = {
    .name = "fuse_act_grads",
    .when = FTH_PASS_TRAINING,
    .run = run};
