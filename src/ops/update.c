/* update(parameter, gradient, clip factor or none): the dense optimizer on blocks of whole rows of
 * a parameter, and its transposed copy where one is read. The gradient is whole, or one partial sum
 * a tile, summed here in a fixed tree. Optimizers that need the whole parameter (LAMB): update_norms.c. */
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

struct fth_gemm_step fth_ops_step(const struct fth_optimizer *optimizer, const struct fth_opt_args *args,
                                  const struct fth_view *w, struct fth_block_range range) {
    size_t corner = (size_t)range.row * w->ld + range.column;
    struct fth_gemm_step step = {.kind = optimizer->step, .args = args, .w = w->data ? w->data + corner : NULL, .ld = w->ld,
                                 .row = range.row, .column = range.column,
                                 .panels = {w->panels, w->rows, w->columns, w->precision},
                                 .transposed = {w->transposed, w->columns, w->rows, w->precision},
                                 .transposed_ld = w->panels ? 0 : w->ld_transposed};
    for (uint32_t i = 0; i < optimizer->n_slots; i++)
        step.slots[i] = w->slots[i] + corner;
    return step;
}

/* The step and the copies in one go, where there are copies that the step can write. */
static int apply_at_once(const struct fth_optimizer *optimizer, const struct fth_opt_args *args,
                         const struct fth_view *w, struct fth_block_range range, const float *gradient,
                         uint32_t ld) {
    if (w->panels ? w->precision != FTH_FP32 || range.row % 16 || range.column % 16 : !w->transposed)
        return 0;
    struct fth_gemm_step step = fth_ops_step(optimizer, args, w, range);
    return fth_gemm_step(&step, range.rows, range.columns, gradient, ld);
}

/* Row by row, the range's corner of W being w[ld_w]. */
static void apply_rows(const struct fth_optimizer *optimizer, const struct fth_opt_args *args,
                       const struct fth_view *view, struct fth_block_range range, float *w, size_t ld_w,
                       const float *gradient, uint32_t ld) {
    for (uint32_t r = 0; r < range.rows; r++) {
        float *slots[FTH_MAX_SLOTS];
        for (uint32_t s = 0; s < optimizer->n_slots; s++)
            slots[s] = view->slots[s] + (size_t)(range.row + r) * view->ld + range.column;
        optimizer->apply(fth_kernels_get(), range.columns, w + r * ld_w, slots, gradient + (size_t)r * ld, args, NULL);
    }
}

/* Panel by panel, where W lies in panels alone; the transposed copy. */
static void apply_in_panels(const struct fth_optimizer *optimizer, const struct fth_opt_args *args,
                            const struct fth_view *w, struct fth_block_range range, const float *gradient,
                            uint32_t ld) {
    struct fth_panels_target straight = {w->panels, w->rows, w->columns, w->precision};
    struct fth_panels_target transposed = {w->transposed, w->columns, w->rows, w->precision};
    struct fth_block_range part = range;
    for (uint32_t done = 0; done < range.columns; done += part.columns) {
        part.column = range.column + done;
        struct fth_panels_place p = fth_panels_at(&straight, part.row, part.column);
        part.columns = p.columns < range.columns - done ? p.columns : range.columns - done;
        apply_rows(optimizer, args, w, part, p.start, p.ld, gradient + done, ld);
        if (w->transposed)
            fth_panels_store_transposed(&transposed, part.row, part.column, part.rows, part.columns, p.start, p.ld);
    }
}

void fth_ops_apply(const struct fth_optimizer *optimizer, const struct fth_opt_args *args,
                   const struct fth_view *w, struct fth_block_range range, const float *gradient,
                   uint32_t ld) {
    if (apply_at_once(optimizer, args, w, range, gradient, ld))
        return;
    if (!w->data) {
        apply_in_panels(optimizer, args, w, range, gradient, ld);
        return;
    }
    apply_rows(optimizer, args, w, range, w->data + (size_t)range.row * w->ld + range.column, w->ld, gradient, ld);
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

void fth_ops_update_blocks(uint32_t rows, uint32_t columns, int tiles, struct fth_blocks *out) {
    uint32_t most = (tiles ? TILES_BLOCK_NUMBERS : BLOCK_NUMBERS) / columns;
    fth_blocks_make(rows, columns, most ? most : 1, columns, out);
}

const float *fth_ops_block_gradient(const struct fth_view *gradient, int tiles, struct fth_block_range range,
                                    uint32_t columns, float *scratch, uint32_t *ld) {
    *ld = tiles ? columns : gradient->ld;
    if (!tiles)
        return gradient->data + (size_t)range.row * gradient->ld;
    fth_ops_sum_rows(gradient, range.row * columns, range.rows * columns, scratch);
    return scratch;
}

fth_status fth_ops_need_update(const fth_graph *graph, const struct fth_node *node, fth_error *err) {
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

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    return fth_ops_need_update(graph, node, err);
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_graph *graph = prepare->graph;
    const struct fth_view *w = &prepare->in[0];
    if (prepare->optimizer->whole_parameter)
        return fth_fail(err, FTH_E_ARGUMENT, "%s needs norms of the whole parameter first",
                        prepare->optimizer->name);
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    state->optimizer = prepare->optimizer;
    state->no_decay = graph->values[prepare->node->inputs[0]].no_decay;
    state->tiles = graph->values[prepare->node->inputs[1]].extent == FTH_TILES;
    fth_ops_update_blocks(w->rows, w->columns, state->tiles, &state->blocks);
    if (state->tiles)
        prepare->scratch_bytes =
            fth_ops_align((size_t)state->blocks.block_rows * w->columns * sizeof(float));
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

static void run(const struct fth_run *run) {
    const struct state *state = run->prepared;
    const struct fth_view *w = &run->in[0], *g = &run->in[1];
    struct fth_opt_args args = *(state->no_decay ? run->opt_no_decay : run->opt);
    if (run->node->n_inputs > 2 && run->in[2].data)
        args.grad_scale *= run->in[2].data[0];
    struct fth_block_range range = fth_blocks_range(&state->blocks, run->task);
    uint32_t ld;
    const float *gradient = fth_ops_block_gradient(g, state->tiles, range, w->columns, run->scratch, &ld);
    fth_ops_apply(state->optimizer, &args, w, range, gradient, ld);
}

const struct fth_op fth_op_update = {.name = "update",
                                     .min_inputs = 2,
                                     .max_inputs = 3,
                                     .granularity = FTH_WHOLE_BATCH,
                                     .shape = shape,
                                     .prepare = prepare,
                                     .release = fth_free,
                                     .cost = cost,
                                     .run = run};
