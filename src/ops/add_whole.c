/* add_whole(a, b): the sum of two gradients of one parameter that several nodes use. Each is whole
 * or one partial sum a tile; the sum is whole. */
#include "ops/ops_private.h"

static const struct fth_add_whole_attributes *shape_of(const struct fth_node *node) {
    return node->attributes;
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_add_whole_attributes *of = shape_of(node);
    for (uint32_t i = 0; i < 2; i++) {
        if (fth_ops_input(graph, node, i).extent == FTH_TILES)
            FTH_TRY(fth_ops_need_tiles(graph, node, i, of->rows * of->columns, err));
        else
            FTH_TRY(fth_ops_need_whole(graph, node, i, of->rows, of->columns, err));
    }
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, of->rows, of->columns, err);
}

struct state {
    int tiles[2]; /* the input is one partial sum a tile */
};

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    for (uint32_t i = 0; i < 2; i++)
        state->tiles[i] = fth_ops_input(prepare->graph, prepare->node, i).extent == FTH_TILES;
    prepare->tasks = shape_of(prepare->node)->rows;
    prepare->scratch_bytes = fth_ops_align(shape_of(prepare->node)->columns * sizeof(float));
    return FTH_OK;
}

/* Row `row` of a gradient: in place, or its sum over the tiles in `scratch`. */
static const float *gradient_row(const struct fth_run *run, uint32_t i, uint32_t row,
                                 float *scratch) {
    const struct state *state = run->prepared;
    const struct fth_view *g = &run->in[i];
    uint32_t columns = shape_of(run->node)->columns;
    if (!state->tiles[i])
        return g->data + (size_t)row * g->ld;
    fth_ops_sum_rows(g, row * columns, columns, scratch);
    return scratch;
}

static void run(const struct fth_run *run) {
    const struct fth_view *out = &run->out[0];
    float *sum = out->data + (size_t)run->task * out->ld;
    const float *a = gradient_row(run, 0, run->task, sum);
    const float *b = gradient_row(run, 1, run->task, run->scratch);
    fth_kernels_get()->add(1, out->columns, a, out->columns, b, out->columns, sum, out->columns);
}

const struct fth_op fth_op_add_whole = {.name = "add_whole",
                                        .min_inputs = 2,
                                        .max_inputs = 2,
                                        .n_outputs = 1,
                                        .granularity = FTH_WHOLE_BATCH,
                                        .shape = shape,
                                        .prepare = prepare,
                                        .release = fth_free,
                                        .cost = fth_ops_cost,
                                        .run = run};
