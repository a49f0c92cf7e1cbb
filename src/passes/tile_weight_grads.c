/* Weight gradients are computed tile by tile, while the layer's input and output gradient are in cache, and not from
 * copies of both for the whole batch, where a part of them a tile is less to write: in layers over positions with few
 * weights, as an example has many positions; and, where AMX multiplies and the way of its operands to memory is most of what a
 * small product costs, in layers whose parts are smaller than these. Where several nodes use the weights the parts are
 * added to the others' gradients. Not where others read the gradient (clipping). */
#include "kernels/gemm.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

#define MOST_WEIGHTS (32 * 1024) /* a part stays in L2 beside the tile's values */

/* A part is written and read once, 8 bytes a weight; x and dy likewise, in bf16 4 bytes a number, of a tile as large as it
 * gets. */
static int fits(const fth_graph *graph, const struct fth_value *x, const struct fth_value *dy) {
    uint64_t weights = (uint64_t)x->columns * dy->columns;
    struct fth_gemm_cut cut = fth_gemm_cut((fth_precision)graph->precision);
    int small = x->extent == FTH_POSITIONS ||
                (x->extent == FTH_EXAMPLES && cut.tiles && 8 * weights <= 4ull * cut.tile * (x->columns + dy->columns));
    return small && weights <= MOST_WEIGHTS;
}

static fth_status rewrite(fth_graph *graph, struct fth_node *gradient, fth_error *err) {
    const struct fth_value *x = &graph->values[gradient->inputs[0]];
    const struct fth_value *dy = &graph->values[gradient->inputs[1]];
    fth_id old = gradient->outputs[0], parts;
    struct fth_node *reader = NULL;
    if (!fits(graph, x, dy) ||
        fth_rewrite_readers(graph, old, &reader) != 1 ||
        (!fth_rewrite_updates(reader) && reader->op != &fth_op_add_whole))
        return FTH_OK;
    fth_stage stage = graph->stage;
    graph->stage = gradient->stage;
    fth_status status = fth_graph_node(graph, &fth_op_linear_tile_grad, gradient->name,
                                       gradient->inputs, 2, NULL, 0, &parts, err);
    graph->stage = stage;
    FTH_TRY(status);
    fth_rewrite_move_last(graph, fth_rewrite_find(graph, gradient));
    fth_rewrite_remove(graph, fth_rewrite_find(graph, gradient));
    for (uint32_t j = 0; j < reader->n_inputs; j++)
        if (reader->inputs[j] == old)
            reader->inputs[j] = parts;
    if (fth_rewrite_updates(reader))
        graph->values[reader->inputs[0]].gradient = parts;
    return FTH_OK;
}

static fth_status run(fth_graph *graph, fth_error *err) {
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->op == &fth_op_linear_weight_grad)
            FTH_TRY(rewrite(graph, graph->nodes[i], err));
    return FTH_OK;
}

const struct fth_pass fth_pass_tile_weight_grads = {
    .name = "tile_weight_grads",
    .when = FTH_PASS_TRAINING,
    .rounding = 1,
    .run = run};
