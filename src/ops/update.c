/* update(parameter, gradient, clip factor or none): the dense optimizer on blocks of whole rows of
 * a parameter, and its transposed copy where one is read. The gradient is whole, or one partial sum
 * a tile, summed here in a fixed tree. Optimizers that need the whole parameter (LAMB) run as one
 * task on a compact copy. */
#include <string.h>

#include "kernels/panels.h"
#include "optim/optim.h"
#include "ops/ops.h"
#include "ops/ops_private.h"

/* About what a task should have to do; partial sums are read once a tile. */
#define BLOCK_NUMBERS (16 * 1024)
#define TILES_BLOCK_NUMBERS (2 * 1024)

struct state {
    struct fth_blocks blocks;
    const struct fth_optimizer *optimizer;
    int no_decay, tiles;
};

void fth_ops_apply(const struct fth_optimizer *optimizer, const struct fth_opt_args *args,
                   const struct fth_view *w, struct fth_block_range range, const float *gradient,
                   uint32_t ld) {
    const struct fth_kernels *kernels = fth_kernels_get();
    size_t corner = (size_t)range.row * w->ld + range.column;
    for (uint32_t r = 0; r < range.rows; r++) {
        size_t at = corner + (size_t)r * w->ld;
        float *slots[FTH_MAX_SLOTS];
        for (uint32_t s = 0; s < optimizer->n_slots; s++)
            slots[s] = w->slots[s] + at;
        optimizer->apply(kernels, range.columns, w->data + at, slots, gradient + (size_t)r * ld,
                         args, NULL);
    }
    fth_ops_store_copies(w, range.row, range.column, range.rows, range.columns);
}

void fth_ops_store_copies(const struct fth_view *w, uint32_t row, uint32_t column, uint32_t rows,
                          uint32_t columns) {
    const float *block = w->data + (size_t)row * w->ld + column;
    if (w->panels) {
        struct fth_panels_target straight = {w->panels, w->rows, w->columns, w->precision};
        fth_panels_store(&straight, row, column, rows, columns, block, w->ld);
    }
    if (w->transposed && w->panels) {
        struct fth_panels_target transposed = {w->transposed, w->columns, w->rows, w->precision};
        fth_panels_store_transposed(&transposed, row, column, rows, columns, block, w->ld);
    } else if (w->transposed) {
        fth_kernels_get()->transpose(rows, columns, block, w->ld,
                                     w->transposed + (size_t)column * w->ld_transposed + row,
                                     w->ld_transposed);
    }
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, 0, err));
    FTH_TRY(fth_ops_need(graph, node, 1, err));
    struct fth_value w = fth_ops_input(graph, node, 0), g = fth_ops_input(graph, node, 1);
    if (w.role != FTH_ROLE_PARAMETER)
        return fth_fail(err, FTH_E_ARGUMENT, "input 0 is no parameter");
    if (g.extent == FTH_TILES)
        FTH_TRY(fth_ops_need_tiles(graph, node, 1, w.rows * w.columns, err));
    else
        FTH_TRY(fth_ops_need_whole(graph, node, 1, w.rows, w.columns, err));
    if (fth_ops_input(graph, node, 2).id != FTH_NONE)
        FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, 1, err));
    return FTH_OK;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_graph *graph = prepare->graph;
    const struct fth_view *w = &prepare->in[0];
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    state->optimizer = prepare->optimizer;
    state->no_decay = graph->values[prepare->node->inputs[0]].no_decay;
    state->tiles = graph->values[prepare->node->inputs[1]].extent == FTH_TILES;
    size_t all = (size_t)w->rows * w->columns;
    if (prepare->optimizer->whole_parameter) {
        /* gradient, weights, slots and the optimizer's own scratch, without padding */
        fth_blocks_make(w->rows, w->columns, w->rows, w->columns, &state->blocks);
        prepare->scratch_bytes =
            (3 + prepare->optimizer->n_slots) * fth_ops_align(all * sizeof(float));
    } else {
        uint32_t rows = (state->tiles ? TILES_BLOCK_NUMBERS : BLOCK_NUMBERS) / w->columns;
        fth_blocks_make(w->rows, w->columns, rows ? rows : 1, w->columns, &state->blocks);
        if (state->tiles)
            prepare->scratch_bytes =
                fth_ops_align((size_t)state->blocks.block_rows * w->columns * sizeof(float));
    }
    prepare->tasks = fth_blocks_count(&state->blocks);
    return FTH_OK;
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    struct fth_value w = fth_ops_input(graph, node, 0);
    double weights = (double)w.rows * w.columns;
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 6 * weights;
    out->bytes += 4 * weights * sizeof(float); /* written back, a slot read and written, the copy */
}

static void rows_copy(uint32_t rows, uint32_t columns, const float *from, uint32_t ld_from,
                      float *to, uint32_t ld_to) {
    for (uint32_t r = 0; r < rows; r++)
        memcpy(to + (size_t)r * ld_to, from + (size_t)r * ld_from, columns * sizeof *to);
}

static void whole_run(const struct fth_run *run, const struct fth_opt_args *args) {
    const struct state *state = run->prepared;
    const struct fth_view *w = &run->in[0], *g = &run->in[1];
    uint32_t n_slots = state->optimizer->n_slots, rows = w->rows, columns = w->columns;
    size_t all = (size_t)rows * columns;
    size_t stride = fth_ops_align(all * sizeof(float)) / sizeof(float);
    float *gradient = run->scratch, *weights = gradient + stride, *rest = weights + stride;
    float *slots[FTH_MAX_SLOTS];
    if (state->tiles)
        fth_ops_sum_rows(g, 0, (uint32_t)all, gradient);
    else
        rows_copy(rows, columns, g->data, g->ld, gradient, columns);
    rows_copy(rows, columns, w->data, w->ld, weights, columns);
    for (uint32_t s = 0; s < n_slots; s++) {
        slots[s] = rest + (s + 1) * stride;
        rows_copy(rows, columns, w->slots[s], w->ld, slots[s], columns);
    }
    state->optimizer->apply(fth_kernels_get(), all, weights, slots, gradient, args, rest);
    rows_copy(rows, columns, weights, columns, w->data, w->ld);
    for (uint32_t s = 0; s < n_slots; s++)
        rows_copy(rows, columns, slots[s], columns, w->slots[s], w->ld);
    fth_ops_store_copies(w, 0, 0, rows, columns);
}

static void run(const struct fth_run *run) {
    const struct state *state = run->prepared;
    const struct fth_view *w = &run->in[0], *g = &run->in[1];
    struct fth_opt_args args = *(state->no_decay ? run->opt_no_decay : run->opt);
    if (run->node->n_inputs > 2 && run->in[2].data)
        args.grad_scale *= run->in[2].data[0];
    if (state->optimizer->whole_parameter) {
        whole_run(run, &args);
        return;
    }
    struct fth_block_range range = fth_blocks_range(&state->blocks, run->task);
    const float *gradient = g->data + (size_t)range.row * g->ld;
    uint32_t ld = g->ld;
    if (state->tiles) {
        ld = w->columns;
        fth_ops_sum_rows(g, range.row * ld, range.rows * ld, run->scratch);
        gradient = run->scratch;
    }
    fth_ops_apply(state->optimizer, &args, w, range, gradient, ld);
}

const struct fth_op fth_op_update = {.name = "update",
                                     .min_inputs = 2,
                                     .max_inputs = 3,
                                     .granularity = FTH_WHOLE_BATCH,
                                     .resource = FTH_MEMORY,
                                     .shape = shape,
                                     .prepare = prepare,
                                     .release = fth_free,
                                     .cost = cost,
                                     .run = run};
