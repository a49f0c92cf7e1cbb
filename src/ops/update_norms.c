/* Updates by optimizers that scale a parameter's step by norms of all of it (LAMB), in two nodes, each a task a block of
 * rows: update_direction(parameter, gradient, clip factor or none) moves the slots, writes the direction and, a row a
 * block, the sums of squares of the block's weights and of its direction, two doubles in the place of four floats;
 * update_scaled(parameter, direction, squares) adds the squares in the order of the blocks and steps. Biases, norms'
 * scales and what starts at 0, whose norm says nothing, step by the direction alone. Blocks follow from the parameter
 * alone, so neither the number of workers nor a pass that brings the gradient by tiles changes bits. */
#include "optim/optim.h"
#include "ops/ops_private.h"

struct state {
    struct fth_blocks blocks;
    const struct fth_optimizer *optimizer;
    int no_decay, unscaled, tiles;
};

static fth_status direction_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_update(graph, node, err));
    struct fth_value w = fth_ops_input(graph, node, 0);
    struct fth_blocks blocks;
    fth_ops_update_blocks(w.rows, w.columns, 0, &blocks);
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_WHOLE, -1, w.rows, w.columns, err));
    return fth_graph_output(graph, node, 1, FTH_WHOLE, -1, fth_blocks_count(&blocks), 4, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *w = &prepare->in[0];
    if (!prepare->optimizer->whole_parameter)
        return fth_fail(err, FTH_E_ARGUMENT, "%s has no norms", prepare->optimizer->name);
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    state->optimizer = prepare->optimizer;
    const struct fth_value *value = &prepare->graph->values[prepare->node->inputs[0]];
    state->no_decay = value->no_decay;
    state->unscaled = value->no_decay || value->init == FTH_PARAM_ZERO;
    fth_ops_update_blocks(w->rows, w->columns, 0, &state->blocks);
    prepare->tasks = fth_blocks_count(&state->blocks);
    return FTH_OK;
}

static fth_status direction_prepare(struct fth_prepare *node, fth_error *err) {
    FTH_TRY(prepare(node, err));
    struct state *state = node->prepared;
    state->tiles = node->graph->values[node->node->inputs[1]].extent == FTH_TILES;
    if (state->tiles)
        node->scratch_bytes =
            fth_ops_align((size_t)state->blocks.block_rows * node->in[0].columns * sizeof(float));
    return FTH_OK;
}

static void direction_run(const struct fth_run *run) {
    const struct state *state = run->prepared;
    const struct fth_view *w = &run->in[0], *g = &run->in[1], *out = &run->out[0];
    const struct fth_kernels *kernels = fth_kernels_get();
    struct fth_block_range range = fth_blocks_range(&state->blocks, run->task);
    struct fth_opt_args args = *(state->no_decay ? run->opt_no_decay : run->opt);
    if (run->node->n_inputs > 2 && run->in[2].data)
        args.grad_scale *= run->in[2].data[0];
    uint32_t ld;
    const float *gradient = fth_ops_block_gradient(g, state->tiles, range, w->columns, run->scratch, &ld);
    double squares[2] = {0, 0};
    for (uint32_t r = 0; r < range.rows; r++) {
        size_t at = (size_t)(range.row + r) * w->ld;
        float *slots[FTH_MAX_SLOTS], *direction = out->data + (size_t)(range.row + r) * out->ld;
        for (uint32_t s = 0; s < state->optimizer->n_slots; s++)
            slots[s] = w->slots[s] + at;
        state->optimizer->apply(kernels, w->columns, w->data + at, slots, gradient + (size_t)r * ld, &args,
                                direction);
        squares[0] += kernels->sum_squares(w->columns, w->data + at);
        squares[1] += kernels->sum_squares(w->columns, direction);
    }
    fth_ops_double_put(&run->out[1], run->task, 0, squares[0]);
    fth_ops_double_put(&run->out[1], run->task, 1, squares[1]);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    struct fth_value w = fth_ops_input(graph, node, 0);
    double weights = (double)w.rows * w.columns;
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 6 * weights;
    out->bytes += 2 * weights * sizeof(float); /* slots read and written, or weights and their copy */
}

const struct fth_op fth_op_update_direction = {.name = "update_direction",
                                               .min_inputs = 2,
                                               .max_inputs = 3,
                                               .n_outputs = 2,
                                               .granularity = FTH_WHOLE_BATCH,
                                               .shape = direction_shape,
                                               .prepare = direction_prepare,
                                               .release = fth_free,
                                               .cost = cost,
                                               .run = direction_run};

static fth_status scaled_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    for (uint32_t i = 0; i < 3; i++)
        FTH_TRY(fth_ops_need(graph, node, i, err));
    struct fth_value w = fth_ops_input(graph, node, 0);
    if (w.role != FTH_ROLE_PARAMETER)
        return fth_fail(err, FTH_E_ARGUMENT, "input 0 is no parameter");
    FTH_TRY(fth_ops_need_whole(graph, node, 1, w.rows, w.columns, err));
    return fth_ops_need_whole(graph, node, 2, fth_ops_input(graph, node, 2).rows, 4, err);
}

static void scaled_run(const struct fth_run *run) {
    const struct state *state = run->prepared;
    const struct fth_view *w = &run->in[0], *direction = &run->in[1], *parts = &run->in[2];
    struct fth_block_range range = fth_blocks_range(&state->blocks, run->task);
    double squares[2] = {0, 0};
    for (uint32_t block = 0; block < parts->rows; block++)
        for (uint32_t i = 0; i < 2; i++)
            squares[i] += fth_ops_double_get(parts, block, i);
    float factor = state->unscaled ? -run->opt->lr : fth_optimizer_norm_factor(run->opt->lr, squares[0], squares[1]);
    for (uint32_t r = range.row; r < range.row + range.rows; r++)
        fth_kernels_get()->axpy(w->columns, factor, direction->data + (size_t)r * direction->ld,
                                w->data + (size_t)r * w->ld);
    fth_ops_store_copies(w, range.row, range.column, range.rows, range.columns);
}

const struct fth_op fth_op_update_scaled = {.name = "update_scaled",
                                            .min_inputs = 3,
                                            .max_inputs = 3,
                                            .granularity = FTH_WHOLE_BATCH,
                                            .shape = scaled_shape,
                                            .prepare = prepare,
                                            .release = fth_free,
                                            .cost = cost,
                                            .run = scaled_run};
