/* linear_update(W, x, dy): a block of dW and the optimizer's step on that block of W and its copies, on the way where
 * the product's provider makes steps (gemm.h), else in turn: the gradient in scratch, the optimizer row by row
 * while it is in cache, the copies. The same bits as linear_weight_grad and update in turn. */
#include "optim/optim.h"
#include "ops/weight_blocks.h"

struct state {
    struct fth_weight_blocks blocks;
    const struct fth_optimizer *optimizer;
    int no_decay;
    uint32_t ld; /* of the block in scratch */
    size_t block_bytes;
};

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 1, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 1, 2, err));
    return fth_ops_need_whole(graph, node, 0, fth_ops_input(graph, node, 1).columns,
                              fth_ops_input(graph, node, 2).columns, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *x = &prepare->in[1], *dy = &prepare->in[2];
    if (prepare->optimizer->whole_parameter)
        return fth_fail(err, FTH_E_ARGUMENT, "%s needs the whole gradient first",
                        prepare->optimizer->name);
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    struct fth_blocks blocks;
    int zeros = fth_ops_zeros_of(prepare, prepare->node->inputs[1], prepare->node->inputs[2]);
    fth_weight_blocks_cut(prepare, x, dy, &blocks);
    state->ld = fth_padded_columns(blocks.block_columns);
    FTH_TRY(fth_weight_blocks_make(prepare, x, dy, zeros, state->ld, &state->blocks, err));
    state->optimizer = prepare->optimizer;
    state->no_decay = prepare->graph->values[prepare->node->inputs[0]].no_decay;
    state->block_bytes = (size_t)blocks.block_rows * state->ld * sizeof(float);
    prepare->tasks = fth_blocks_count(&blocks);
    prepare->scratch_bytes =
        state->block_bytes + fth_weight_blocks_scratch(&state->blocks, x->rows);
    return FTH_OK;
}

static void release(void *prepared) {
    struct state *state = prepared;
    fth_weight_blocks_free(&state->blocks);
    fth_free(state);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    struct fth_value w = fth_ops_input(graph, node, 0), x = fth_ops_input(graph, node, 1);
    double weights = (double)w.rows * w.columns;
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * weights + 6 * weights;
    out->bytes += 4 * weights * sizeof(float); /* written back, a slot read and written, the copy */
}

static void run(const struct fth_run *run) {
    const struct state *state = run->prepared;
    const struct fth_view *w = &run->in[0];
    const struct fth_opt_args *args = state->no_decay ? run->opt_no_decay : run->opt;
    struct fth_block_range range = fth_blocks_range(&state->blocks.blocks, run->task);
    float *block = run->scratch;
    void *scratch = (char *)run->scratch + state->block_bytes;
    if (fth_weight_blocks_step(&state->blocks, run->task, &run->in[1], &run->in[2], block, state->optimizer, args, w))
        return;
    fth_weight_blocks_run(&state->blocks, run->task, &run->in[1], &run->in[2], block, scratch);
    fth_ops_apply(state->optimizer, args, w, range, block, state->ld);
}

const struct fth_op fth_op_linear_update = {.name = "linear_update",
                                            .min_inputs = 3,
                                            .max_inputs = 3,
                                            .granularity = FTH_WHOLE_BATCH,
                                            .inputs_in_panels = 1 << 0,
                                            .shape = shape,
                                            .prepare = prepare,
                                            .release = release,
                                            .cost = cost,
                                            .run = run};
