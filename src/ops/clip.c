/* Clipping by the global norm: grad_squares (a dense gradient), row_squares (all embedding rows'
 * gradients, summed per unique row), clip_factor. Partial sums are doubles, one a task, each in the
 * place of two floats of its task's row; clip_factor adds them in order. */
#include <math.h>

#include "graph/rows.h"
#include "ops/ops_private.h"

#define BLOCK_NUMBERS (16 * 1024)

/* Partial sums over the tiles count as one row. */
static void blocks_of(const struct fth_value *gradient, struct fth_blocks *out) {
    if (gradient->extent == FTH_TILES) {
        fth_blocks_make(1, gradient->columns, 1, BLOCK_NUMBERS, out);
        return;
    }
    uint32_t rows = BLOCK_NUMBERS / gradient->columns;
    fth_blocks_make(gradient->rows, gradient->columns, rows ? rows : 1, gradient->columns, out);
}

static fth_status squares_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    struct fth_blocks blocks;
    FTH_TRY(fth_ops_need(graph, node, 0, err));
    struct fth_value gradient = fth_ops_input(graph, node, 0);
    if (gradient.extent != FTH_TILES && gradient.extent != FTH_WHOLE)
        return fth_fail(err, FTH_E_ARGUMENT, "input 0 is no parameter's gradient");
    blocks_of(&gradient, &blocks);
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, fth_blocks_count(&blocks), 2, err);
}

struct squares {
    struct fth_blocks blocks;
    int tiles; /* the gradient is one partial sum a tile */
};

static fth_status squares_prepare(struct fth_prepare *prepare, fth_error *err) {
    struct squares *squares = fth_ops_state(prepare, sizeof *squares, err);
    if (!squares)
        return FTH_E_MEMORY;
    struct fth_value gradient = fth_ops_input(prepare->graph, prepare->node, 0);
    blocks_of(&gradient, &squares->blocks);
    squares->tiles = gradient.extent == FTH_TILES;
    prepare->tasks = fth_blocks_count(&squares->blocks);
    if (squares->tiles)
        prepare->scratch_bytes = fth_ops_align(squares->blocks.block_columns * sizeof(float));
    return FTH_OK;
}

static void squares_run(const struct fth_run *run) {
    const struct squares *squares = run->prepared;
    const struct fth_view *gradient = &run->in[0];
    struct fth_block_range range = fth_blocks_range(&squares->blocks, run->task);
    double sum = 0;
    if (squares->tiles) {
        fth_ops_sum_rows(gradient, range.column, range.columns, run->scratch);
        sum = fth_kernels_get()->sum_squares(range.columns, run->scratch);
    } else {
        for (uint32_t r = range.row; r < range.row + range.rows; r++)
            sum += fth_kernels_get()->sum_squares(range.columns,
                                                  gradient->data + (size_t)r * gradient->ld);
    }
    fth_ops_double_put(&run->out[0], run->task, 0, sum);
}

const struct fth_op fth_op_grad_squares = {.name = "grad_squares",
                                           .min_inputs = 1,
                                           .max_inputs = 1,
                                           .n_outputs = 1,
                                           .granularity = FTH_WHOLE_BATCH,
                                           .shape = squares_shape,
                                           .prepare = squares_prepare,
                                           .release = fth_free,
                                           .cost = fth_ops_cost,
                                           .run = squares_run};

static fth_status rows_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_check_row_entries(graph, node, node->attributes, err));
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, FTH_ROW_TASKS_MAX, 2, err);
}

static fth_status rows_prepare(struct fth_prepare *prepare, fth_error *err) {
    if (prepare->row_update_tasks > FTH_ROW_TASKS_MAX)
        return fth_fail(err, FTH_E_ARGUMENT, "%u row update tasks, there is room for %d",
                        prepare->row_update_tasks, FTH_ROW_TASKS_MAX);
    uint32_t *tasks = fth_ops_state(prepare, sizeof *tasks, err);
    if (!tasks)
        return FTH_E_MEMORY;
    prepare->tasks = *tasks = prepare->row_update_tasks;
    prepare->scratch_bytes =
        fth_ops_row_entries_bytes(prepare->node->attributes) + prepare->row_update_scratch;
    return FTH_OK;
}

static void rows_run(const struct fth_run *run) {
    const struct fth_row_update_attributes *a = run->node->attributes;
    const uint32_t *tasks = run->prepared;
    uint32_t n;
    const struct fth_row_gradient *gradients = fth_ops_row_entries(run, a, &n);
    double sum = run->rows->gradient_squares(run->rows->ctx, gradients, n, run->task,
                                             (char *)run->scratch + fth_ops_row_entries_bytes(a));
    fth_ops_double_put(&run->out[0], run->task, 0, sum);
    for (uint32_t row = *tasks; run->task == 0 && row < run->out[0].rows; row++)
        fth_ops_double_put(&run->out[0], row, 0, 0);
}

const struct fth_op fth_op_row_squares = {.name = "row_squares",
                                          .min_inputs = 1,
                                          .max_inputs = UINT32_MAX,
                                          .n_outputs = 1,
                                          .granularity = FTH_WHOLE_BATCH,
                                          .shape = rows_shape,
                                          .prepare = rows_prepare,
                                          .release = fth_free,
                                          .cost = fth_ops_cost,
                                          .run = rows_run};

static fth_status factor_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_clip_attributes *a = node->attributes;
    if (!(a->norm > 0))
        return fth_fail(err, FTH_E_ARGUMENT, "the norm to clip to is %g, it takes a positive one",
                        (double)a->norm);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        FTH_TRY(fth_ops_need(graph, node, i, err));
        FTH_TRY(fth_ops_need_whole(graph, node, i, fth_ops_input(graph, node, i).rows, 2, err));
    }
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, 1, 1, err);
}

static fth_status factor_prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->tasks = 1;
    return FTH_OK;
}

static void factor_print(const struct fth_node *node, struct fth_text *out) {
    const struct fth_clip_attributes *a = node->attributes;
    fth_text_printf(out, "norm=%g", (double)a->norm);
}

static void factor_run(const struct fth_run *run) {
    const struct fth_clip_attributes *a = run->node->attributes;
    double sum = 0;
    for (uint32_t i = 0; i < run->node->n_inputs; i++)
        for (uint32_t row = 0; row < run->in[i].rows; row++)
            sum += fth_ops_double_get(&run->in[i], row, 0);
    double factor = (double)a->norm / (sqrt(sum) + 1e-6); /* as PyTorch's clip_grad_norm_ */
    run->out[0].data[0] = factor < 1 ? (float)factor : 1.0f;
}

const struct fth_op fth_op_clip_factor = {.name = "clip_factor",
                                          .min_inputs = 1,
                                          .max_inputs = UINT32_MAX,
                                          .n_outputs = 1,
                                          .granularity = FTH_WHOLE_BATCH,
                                          .shape = factor_shape,
                                          .prepare = factor_prepare,
                                          .cost = fth_ops_cost,
                                          .print = factor_print,
                                          .run = factor_run};
