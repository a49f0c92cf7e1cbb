/* factor_update(W, x', dy) -> row gradients: the weight gradient of a factorised layer, a block at a time, with the
 * optimizer while the block is in cache; factor_weight_grad(W, x', dy) -> row gradients, dW: the same without.
 *
 * Tasks of factorised fields: a part of W's columns
 *     for block of 32 columns:  dy's block brought together, to stay in the second cache
 *       for field, some unique rows at a time:
 *         S = dy summed over the examples of each        row gradients += S W^T       dW += E_unique^T S
 *       the field's dW is complete: the update of W[field, block]
 * Row gradients of the parts of columns stay apart; the rows' update adds them up. Each task reads W
 * where it alone writes it, and before it does.
 * Tasks of the rest: blocks of x'^T dy over the batch, as for any other layer. */
#include <string.h>

#include "ops/factor.h"
#include "ops/weight_blocks.h"
#include "optim/optim.h"

#define UNIQUE_ROWS 128 /* summed at a time: 16 kB */

struct state {
    const struct fth_optimizer *optimizer; /* NULL: dW is written */
    int no_decay;
    uint32_t parts, field_tasks;
    struct fth_factor_blocks columns;
    fth_gemm *rows[2][2]; /* [last block][not the part's first] */
    fth_gemm *weights[2]; /* [last block] */
    size_t sums_at, block_at, product_at; /* in scratch, behind dy's block */
    /* the rest, by the number of lookups that are not factorised; none where `there` is 0 */
    struct rest {
        int there;
        struct fth_weight_blocks weights;
        uint32_t ld;
        size_t bytes; /* of a block */
    } rest[FTH_FACTOR_LOOKUPS + 1];
};

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    const struct fth_factor_attributes *a = node->attributes;
    FTH_TRY(fth_ops_need_rows(graph, node, 1, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 1, 2, err));
    struct fth_value x = fth_ops_input(graph, node, 1), dy = fth_ops_input(graph, node, 2);
    FTH_TRY(fth_ops_need_whole(graph, node, 0, x.columns, dy.columns, err));
    FTH_TRY(fth_factor_check(graph, a, x.columns, err));
    uint64_t columns = (uint64_t)a->n_lookups * fth_factor_parts(dy.columns) * a->dim;
    if (columns > UINT32_MAX / 64)
        return fth_fail(err, FTH_E_ARGUMENT, "%llu columns are too many",
                        (unsigned long long)columns);
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_EXAMPLES, -1, 0, (uint32_t)columns, err));
    if (node->n_outputs > 1)
        return fth_graph_output(graph, node, 1, FTH_WHOLE, -1, x.columns, dy.columns, err);
    return FTH_OK;
}

static void release(void *prepared) {
    struct state *state = prepared;
    for (int last = 0; last < 2; last++) {
        fth_gemm_destroy(state->rows[last][0]);
        fth_gemm_destroy(state->rows[last][1]);
        fth_gemm_destroy(state->weights[last]);
    }
    for (uint32_t i = 0; i <= FTH_FACTOR_LOOKUPS; i++)
        if (state->rest[i].there)
            fth_weight_blocks_free(&state->rest[i].weights);
    fth_free(state);
}

static fth_status prepare_fields(struct fth_prepare *prepare, struct state *state, fth_error *err) {
    const struct fth_factor_attributes *a = prepare->node->attributes;
    const struct fth_view *w = &prepare->in[0];
    for (int last = 0; last < 2; last++) {
        uint32_t columns = last ? state->columns.last : FTH_FACTOR_BLOCK;
        struct fth_gemm_shape rows = {.form = FTH_GEMM_NN,
                                      .m = 64,
                                      .n = a->dim,
                                      .k = columns,
                                      .lda = state->columns.ld,
                                      .ldb = w->ld_transposed,
                                      .ldc = a->dim};
        struct fth_gemm_shape weights = {.form = FTH_GEMM_TN,
                                         .m = a->dim,
                                         .n = columns,
                                         .k = UNIQUE_ROWS,
                                         .lda = fth_padded_columns(a->dim),
                                         .ldb = state->columns.ld,
                                         .ldc = state->columns.ld,
                                         .accumulate = 1};
        if (!last && state->columns.count == 1)
            continue;
        for (int add = 0; add < 2; add++) {
            rows.accumulate = add;
            FTH_TRY(fth_gemm_create(&rows, FTH_GEMM_AUTO, prepare->tuning, &state->rows[last][add],
                                    err));
        }
        FTH_TRY(fth_gemm_create(&weights, FTH_GEMM_AUTO, prepare->tuning, &state->weights[last],
                                err));
    }
    size_t row = state->columns.ld * sizeof(float);
    state->sums_at = prepare->batch * row;
    state->block_at = state->sums_at + UNIQUE_ROWS * row;
    state->product_at = state->block_at + a->dim * row;
    prepare->scratch_bytes = state->product_at + fth_ops_products_scratch(state->weights, 2, UNIQUE_ROWS);
    return FTH_OK;
}

static fth_status prepare_rest(struct fth_prepare *prepare, struct state *state, fth_error *err) {
    const struct fth_factor_attributes *a = prepare->node->attributes;
    uint32_t most = 0;
    int zeros = fth_ops_zeros_of(prepare, FTH_NONE, prepare->node->inputs[2]);
    for (uint32_t plain = 0; plain <= a->n_lookups; plain++) {
        struct rest *rest = &state->rest[plain];
        struct fth_view x = prepare->in[1];
        struct fth_prepare quiet = *prepare;
        struct fth_blocks blocks;
        x.columns = fth_factor_columns(a, FTH_FACTOR_WEIGHTS, plain);
        if (!x.columns)
            continue;
        if (plain < a->n_lookups)
            quiet.on_product = NULL; /* of many similar ones only the largest is worth tuning */
        fth_weight_blocks_cut(prepare, &x, &prepare->in[2], &blocks);
        rest->ld = fth_padded_columns(blocks.block_columns);
        FTH_TRY(fth_weight_blocks_make(&quiet, &x, &prepare->in[2], zeros, rest->ld, &rest->weights, err));
        rest->there = 1;
        rest->bytes = (size_t)blocks.block_rows * rest->ld * sizeof(float);
        size_t bytes = rest->bytes + fth_weight_blocks_scratch(&rest->weights, x.rows);
        if (bytes > prepare->scratch_bytes)
            prepare->scratch_bytes = bytes;
        if (fth_blocks_count(&blocks) > most)
            most = fth_blocks_count(&blocks);
    }
    prepare->tasks = state->field_tasks + most;
    return FTH_OK;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    struct state *state = fth_ops_state(prepare, sizeof *state, err);
    if (!state)
        return FTH_E_MEMORY;
    state->columns = fth_factor_blocks_make(prepare->in[0].columns);
    state->parts = fth_factor_parts(prepare->in[0].columns);
    state->field_tasks = state->parts;
    state->no_decay = prepare->graph->values[prepare->node->inputs[0]].no_decay;
    if (prepare->node->n_outputs == 1) {
        if (prepare->optimizer->whole_parameter)
            return fth_fail(err, FTH_E_ARGUMENT, "%s needs the whole gradient first",
                            prepare->optimizer->name);
        state->optimizer = prepare->optimizer;
    }
    FTH_TRY(prepare_fields(prepare, state, err));
    return prepare_rest(prepare, state, err);
}

/* What becomes of the finished gradient of a range of W. */
static void finish(const struct fth_run *run, struct fth_block_range range, const float *gradient,
                   uint32_t ld) {
    const struct state *state = run->prepared;
    if (state->optimizer) {
        fth_ops_apply(state->optimizer, state->no_decay ? run->opt_no_decay : run->opt, &run->in[0],
                      range, gradient, ld);
        return;
    }
    const struct fth_view *out = &run->out[1];
    fth_kernels_get()->copy(range.rows, range.columns, gradient, ld,
                            out->data + (size_t)range.row * out->ld + range.column, out->ld);
}

/* ---- factorised fields ---- */

struct block {
    uint32_t column, columns;
    int last, add; /* add: the part's row gradients have begun */
};

/* rows: the field's row gradients of this part. */
static void run_field(const struct fth_run *run, const struct fth_factor_field *field, float *rows,
                      const struct block *block) {
    const struct fth_factor_attributes *a = run->node->attributes;
    const struct state *state = run->prepared;
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *w = &run->in[0];
    const struct fth_unique_rows *unique = field->unique;
    const float *dy = run->scratch;
    float *sums = (float *)(void *)((char *)run->scratch + state->sums_at);
    float *gradient = (float *)(void *)((char *)run->scratch + state->block_at);
    uint32_t ld = state->columns.ld;
    memset(gradient, 0, (size_t)a->dim * ld * sizeof *gradient);
    for (uint32_t u = 0; u < unique->n; u += UNIQUE_ROWS) {
        uint32_t n = unique->n - u < UNIQUE_ROWS ? unique->n - u : UNIQUE_ROWS;
        kernels->sum_lists(n, unique->begin + u, unique->examples, dy, ld, block->columns, sums, ld);
        fth_gemm_run(state->rows[block->last][block->add], n, sums,
                     w->transposed + (size_t)block->column * w->ld_transposed + field->column,
                     rows + (size_t)u * a->dim, NULL);
        fth_gemm_run(state->weights[block->last], n, unique->rows + (size_t)u * unique->ld, sums,
                     gradient, (char *)run->scratch + state->product_at);
    }
    finish(run,
           (struct fth_block_range){.row = field->column,
                                    .rows = a->dim,
                                    .column = block->column,
                                    .columns = block->columns},
           gradient, ld);
}

#define FETCHED 16 /* rows of dy asked for together: each is another page */

static void bring_together(const struct fth_view *dy, const struct block *block, float *out,
                           uint32_t ld) {
    const float *from = dy->data + block->column;
    for (uint32_t i = 0; i < dy->rows; i += FETCHED) {
        uint32_t n = dy->rows - i < FETCHED ? dy->rows - i : FETCHED;
        for (uint32_t j = i + FETCHED; j < i + 2 * FETCHED && j < dy->rows; j++)
            for (uint32_t c = 0; c < block->columns; c += FTH_CACHE_LINE / sizeof(float))
                __builtin_prefetch(from + (size_t)j * dy->ld + c);
        fth_kernels_get()->copy(n, block->columns, from + (size_t)i * dy->ld, dy->ld,
                                out + (size_t)i * ld, ld);
    }
}

static void run_fields(const struct fth_run *run, const struct fth_factor_layout *layout) {
    const struct fth_factor_attributes *a = run->node->attributes;
    const struct state *state = run->prepared;
    const struct fth_view *dy = &run->in[2];
    uint32_t part = run->task;
    if (!layout->n_fields)
        return;
    uint32_t begin = state->columns.count * part / state->parts;
    uint32_t end = state->columns.count * (part + 1) / state->parts;
    for (uint32_t b = begin; b < end; b++) {
        struct block block = {.column = b * FTH_FACTOR_BLOCK,
                              .columns = fth_factor_block_columns(&state->columns, b),
                              .last = b + 1 == state->columns.count,
                              .add = b > begin};
        bring_together(dy, &block, run->scratch, state->columns.ld);
        for (uint32_t f = 0; f < layout->n_fields; f++) {
            const struct fth_factor_field *field = &layout->fields[f];
            size_t row = (size_t)part * layout->unique_rows + field->first;
            run_field(run, field, run->out[0].data + row * a->dim, &block);
        }
    }
}

/* ---- the rest ---- */

static void run_rest(const struct fth_run *run, const struct fth_factor_layout *layout,
                     uint32_t task) {
    const struct fth_factor_attributes *a = run->node->attributes;
    const struct state *state = run->prepared;
    const struct rest *rest = &state->rest[a->n_lookups - layout->n_fields];
    if (!rest->there || task >= fth_blocks_count(&rest->weights.blocks))
        return;
    struct fth_block_range block = fth_blocks_range(&rest->weights.blocks, task);
    float *gradient = run->scratch;
    fth_weight_blocks_run(&rest->weights, task, &run->in[1], &run->in[2], gradient,
                          (char *)run->scratch + rest->bytes);
    /* The block's rows are x' columns; in W they lie apart. */
    for (uint32_t i = 0; i < layout->n_ranges; i++) {
        const struct fth_factor_range *range = &layout->ranges[i];
        uint32_t from = range->at > block.row ? range->at : block.row;
        uint32_t to = range->at + range->columns, end = block.row + block.rows;
        to = to < end ? to : end;
        if (from < to)
            finish(run,
                   (struct fth_block_range){.row = range->column + from - range->at,
                                            .rows = to - from,
                                            .column = block.column,
                                            .columns = block.columns},
                   gradient + (size_t)(from - block.row) * rest->ld, rest->ld);
    }
}

static void run(const struct fth_run *run) {
    const struct state *state = run->prepared;
    struct fth_factor_layout layout;
    fth_factor_layout_make(run, FTH_FACTOR_WEIGHTS, &layout);
    if (run->task < state->field_tasks)
        run_fields(run, &layout);
    else
        run_rest(run, &layout, run->task - state->field_tasks);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples,
                 double positions, struct fth_cost *out) {
    struct fth_value w = fth_ops_input(graph, node, 0), x = fth_ops_input(graph, node, 1);
    double weights = (double)w.rows * w.columns;
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * weights;
    if (node->n_outputs == 1) {
        out->flops += 6 * weights;
        out->bytes += 4 * weights * sizeof(float); /* as linear_update */
    }
}

#define OP(called, outputs)                                                                        \
    {                                                                                              \
        .name = called, .min_inputs = 3, .max_inputs = 3, .n_outputs = outputs,                    \
        .granularity = FTH_WHOLE_BATCH, .inputs_transposed = 1 << 0,                               \
        .shape = shape, .prepare = prepare, .release = release, .cost = cost,                      \
        .print = fth_factor_print, .run = run                                                      \
    }

const struct fth_op fth_op_factor_update = OP("factor_update", 1);
const struct fth_op fth_op_factor_weight_grad = OP("factor_weight_grad", 2);
