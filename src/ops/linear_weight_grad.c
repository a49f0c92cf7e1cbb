/* linear_weight_grad(x, dy): the whole dW = x^T dy [k, n], a task a block. What the update needs
 * when the whole gradient must be known first (clipping), and the plain form that linear_update is
 * compared with. */
#include "ops/weight_blocks.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 1, err));
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, fth_ops_input(graph, node, 0).columns,
                            fth_ops_input(graph, node, 1).columns, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    struct fth_weight_blocks *blocks = fth_ops_state(prepare, sizeof *blocks, err);
    if (!blocks)
        return FTH_E_MEMORY;
    int zeros = fth_ops_zeros_of(prepare, prepare->node->inputs[0], prepare->node->inputs[1]);
    FTH_TRY(fth_weight_blocks_make(prepare, &prepare->in[0], &prepare->in[1], zeros, prepare->out[0].ld, blocks, err));
    prepare->tasks = fth_blocks_count(&blocks->blocks);
    prepare->scratch_bytes = fth_weight_blocks_scratch(blocks, prepare->in[0].rows);
    return FTH_OK;
}

static void release(void *prepared) {
    fth_weight_blocks_free(prepared);
    fth_free(prepared);
}

void fth_ops_weight_grad_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                              double positions, struct fth_cost *out) {
    struct fth_value x = fth_ops_input(graph, node, 0), dy = fth_ops_input(graph, node, 1);
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * x.columns * dy.columns;
}

static void run(const struct fth_run *run) {
    const struct fth_weight_blocks *blocks = run->prepared;
    struct fth_block_range range = fth_blocks_range(&blocks->blocks, run->task);
    float *c = run->out[0].data + (size_t)range.row * run->out[0].ld + range.column;
    fth_weight_blocks_run(blocks, run->task, &run->in[0], &run->in[1], c, run->scratch);
}

const struct fth_op fth_op_linear_weight_grad = {.name = "linear_weight_grad",
                                                 .min_inputs = 2,
                                                 .max_inputs = 2,
                                                 .n_outputs = 1,
                                                 .granularity = FTH_WHOLE_BATCH,
                                                 .shape = shape,
                                                 .prepare = prepare,
                                                 .release = release,
                                                 .cost = fth_ops_weight_grad_cost,
                                                 .run = run};
