/* What a product's data gradient is added to is added by the product, panel by panel in cache:
 *
 *   dx = linear_data_grad(dy, W)
 *   s  = add(a, dx)                ->    s = linear_data_grad(dy, W, -, -, a)
 *
 * The same sums in the same order. Behind fuse_crosses, which makes some of these additions itself, and
 * factorise_first_layer, which looks for products of their own. */
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* The product whose gradient the addition alone reads. */
static struct fth_node *product_alone(const fth_graph *graph, fth_id value) {
    struct fth_node *node = fth_graph_producer(graph, value), *reader;
    if (!node || node->op != &fth_op_linear_data_grad || node->n_inputs > 4 ||
        node->outputs[0] != value || graph->values[value].view_of != FTH_NONE || graph->values[value].columns < 2 ||
        fth_rewrite_has_views(graph, value) || fth_rewrite_readers(graph, value, &reader) != 1)
        return NULL;
    return node;
}

/* Whether the node may run as late as at `to`: nobody writes over what it reads before. */
static int may_wait(const fth_graph *graph, const struct fth_node *node, uint32_t to) {
    for (uint32_t i = fth_rewrite_find(graph, node) + 1; i <= to; i++)
        for (uint32_t j = 0; j < node->n_inputs; j++)
            if (node->inputs[j] != FTH_NONE &&
                fth_rewrite_writes(graph, graph->nodes[i], fth_graph_root(graph, node->inputs[j])))
                return 0;
    return 1;
}

static fth_status add_in_product(fth_graph *graph, struct fth_node *node, struct fth_node *add, fth_id other, int *done,
                                 fth_error *err) {
    uint32_t at = fth_rewrite_find(graph, add);
    if (fth_graph_root(graph, add->outputs[0]) == fth_graph_root(graph, other) || !may_wait(graph, node, at))
        return FTH_OK; /* in the first case the product would write over it */
    fth_id *inputs = fth_arena_alloc(graph->arena, 5, sizeof *inputs);
    if (!inputs)
        return fth_fail(err, FTH_E_MEMORY, "no memory to rewrite the graph");
    for (uint32_t i = 0; i < 4; i++)
        inputs[i] = i < node->n_inputs ? node->inputs[i] : FTH_NONE;
    inputs[4] = other;
    node->inputs = inputs;
    node->n_inputs = 5;
    fth_rewrite_move(graph, fth_rewrite_find(graph, node), at);
    fth_rewrite_take_over(graph, node, add);
    *done = 1;
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct fth_node *add = graph->nodes[i];
        int done = 0;
        for (uint32_t j = 0; add->op == &fth_op_add && add->stage == FTH_BACKWARD && j < 2 && !done; j++) {
            struct fth_node *node = product_alone(graph, add->inputs[j]);
            if (node && add->inputs[0] != add->inputs[1])
                FTH_TRY(add_in_product(graph, node, add, add->inputs[1 - j], &done, err));
        }
        i -= (uint32_t)done;
    }
    return FTH_OK;
}

const struct fth_pass fth_pass_sum_in_product = {
    .name = "sum_in_product",
    .when = FTH_PASS_TRAINING,
    .run = run};
