/* domain_linear_weight_grad(x, domain, dy): the weight gradients of all domains, [d n, m]; and
 * domain_update(shared, own, x, domain, dy): a block of them and, while it is in cache, the gradients of
 * what domain_weights or domain_combine multiplied and the optimizer's step on both (pass fuse_updates).
 * The same bits as domain_linear_weight_grad, domain_combine_grad and two updates in turn.
 *
 * Whole batch; a task has a block, of all domains where it updates: the shared weights' gradient is a sum
 * over them. A block of a domain is products over its rows, gathered STRETCH at a time, in the batch's
 * order, without the zeros that a ReLU left (pass skip_zeros). */
#include "optim/optim.h"
#include "ops/domain.h"
#include "ops/weight_blocks.h"

#define STRETCH 2048u

/* Blocks of every domain's weight gradient, x^T dy over its rows of the batch. */
struct domain_blocks {
    struct fth_blocks blocks;
    fth_gemm *gemms[4]; /* 2 * (last block down) + (last across); NULL: one column */
    uint32_t ldx, ldy, ld; /* ld: of the block that is made */
    size_t rows, x, y, more, own; /* where in scratch; more: the block by a stretch behind the first */
};

/* x and dy as prepare sees them, inputs `first` and two behind it; their scratch from *bytes on. */
static fth_status make_blocks(const struct fth_prepare *prepare, uint32_t first, uint32_t ld, struct domain_blocks *out,
                              size_t *bytes, fth_error *err) {
    const struct fth_view *x = &prepare->in[first], *dy = &prepare->in[first + 2];
    struct fth_blocks *b = &out->blocks;
    uint32_t stretch = x->rows < STRETCH ? x->rows : STRETCH;
    fth_weight_blocks_cut(prepare, x, dy, b);
    out->ld = ld;
    out->ldx = fth_padded_columns(b->block_rows);
    out->ldy = fth_padded_columns(b->block_columns);
    for (int i = 0; i < 4 && b->columns > 1; i++) {
        uint32_t down = i / 2 ? b->down - 1 : 0, across = i % 2 ? b->across - 1 : 0;
        struct fth_block_range range = fth_blocks_range(b, down * b->across + across);
        struct fth_gemm_shape shape = {.form = FTH_GEMM_TN,
                                       .m = range.rows,
                                       .n = range.columns,
                                       .k = stretch,
                                       .lda = out->ldx,
                                       .ldb = out->ldy,
                                       .ldc = ld,
                                       .zeros = fth_ops_zeros_of(prepare, prepare->node->inputs[first],
                                                                 prepare->node->inputs[first + 2])};
        FTH_TRY(fth_ops_product(prepare, &shape, &out->gemms[i], err));
    }
    out->rows = fth_ops_section(bytes, x->rows);
    out->x = fth_ops_section(bytes, (size_t)stretch * out->ldx);
    out->y = fth_ops_section(bytes, (size_t)stretch * out->ldy);
    out->more = fth_ops_section(bytes, x->rows > STRETCH ? (size_t)b->block_rows * ld : 0);
    out->own = *bytes;
    *bytes += fth_ops_align(fth_ops_products_scratch(out->gemms, 4, stretch));
    return FTH_OK;
}

static void free_blocks(struct domain_blocks *blocks) {
    for (int i = 0; i < 4; i++)
        fth_gemm_destroy(blocks->gemms[i]);
}

/* dw [columns] += sum of dy x, dy of one column. */
static void add_weighted(uint32_t n, const float *x, uint32_t ldx, const float *dy, uint32_t ldy,
                         uint32_t columns, float *dw, uint32_t ld) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < columns; j++)
            dw[(size_t)j * ld] += dy[(size_t)i * ldy] * x[(size_t)i * ldx + j];
}

/* Block `block` of domain d's gradient. */
static void run_block(const struct fth_run *run, const struct domain_blocks *blocks, const struct fth_view *x,
                      const struct fth_view *domain, const struct fth_view *dy, uint32_t d, uint32_t block, float *out) {
    const struct fth_blocks *b = &blocks->blocks;
    struct fth_block_range range = fth_blocks_range(b, block);
    const fth_gemm *gemm =
        blocks->gemms[2 * (block / b->across == b->down - 1) + (block % b->across == b->across - 1)];
    uint32_t *rows = (uint32_t *)fth_ops_at(run, blocks->rows), n = fth_domain_rows(domain, d, x->rows, rows);
    float *gx = fth_ops_at(run, blocks->x), *gy = fth_ops_at(run, blocks->y), *more = fth_ops_at(run, blocks->more);
    size_t ld = blocks->ld;
    for (uint32_t i = 0; i < range.rows && (n == 0 || !gemm); i++)
        memset(out + i * ld, 0, range.columns * sizeof *out);
    for (uint32_t first = 0; first < n; first += STRETCH) {
        uint32_t stretch = n - first < STRETCH ? n - first : STRETCH;
        fth_domain_gather(stretch, rows + first, x, range.row, range.rows, gx, blocks->ldx);
        fth_domain_gather(stretch, rows + first, dy, range.column, range.columns, gy, blocks->ldy);
        if (gemm)
            fth_gemm_run(gemm, stretch, gx, gy, first ? more : out, fth_ops_at(run, blocks->own));
        else
            add_weighted(stretch, gx, blocks->ldx, gy, blocks->ldy, range.rows, out, blocks->ld);
        if (gemm && first)
            fth_kernels_get()->add(range.rows, range.columns, out, ld, more, ld, out, ld);
    }
}

/* Inputs `first`, first + 1, first + 2: x, domain, dy. */
static fth_status need_parts(const fth_graph *graph, const struct fth_node *node, uint32_t first, uint32_t *rows,
                             uint32_t *columns, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, first + 1, first, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, first, first + 2, err));
    uint64_t all = (uint64_t)fth_ops_input(graph, node, first).columns *
                   fth_ops_input(graph, node, first + 1).columns;
    if (all > UINT32_MAX)
        return fth_fail(err, FTH_E_ARGUMENT, "%llu rows are too many", (unsigned long long)all);
    *rows = (uint32_t)all;
    *columns = fth_ops_input(graph, node, first + 2).columns;
    return FTH_OK;
}

static fth_status weight_grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t rows, columns;
    FTH_TRY(need_parts(graph, node, 0, &rows, &columns, err));
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, rows, columns, err);
}

static void weight_grad_release(void *prepared) {
    free_blocks(prepared);
    fth_free(prepared);
}

static fth_status weight_grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    struct domain_blocks *blocks = fth_ops_state(prepare, sizeof *blocks, err);
    size_t bytes = 0;
    if (!blocks)
        return FTH_E_MEMORY;
    FTH_TRY(make_blocks(prepare, 0, prepare->out[0].ld, blocks, &bytes, err));
    prepare->tasks = prepare->in[1].columns * fth_blocks_count(&blocks->blocks);
    prepare->scratch_bytes = bytes;
    return FTH_OK;
}

static void weight_grad_run(const struct fth_run *run) {
    const struct domain_blocks *blocks = run->prepared;
    const struct fth_view *dw = &run->out[0];
    uint32_t count = fth_blocks_count(&blocks->blocks), d = run->task / count, block = run->task % count;
    struct fth_block_range range = fth_blocks_range(&blocks->blocks, block);
    run_block(run, blocks, &run->in[0], &run->in[1], &run->in[2], d, block,
              dw->data + ((size_t)d * blocks->blocks.rows + range.row) * dw->ld + range.column);
}

static void weight_grad_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                             double positions, struct fth_cost *out) {
    struct fth_value x = fth_ops_input(graph, node, 0), dy = fth_ops_input(graph, node, 2);
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * x.columns * dy.columns;
}

const struct fth_op fth_op_domain_linear_weight_grad = {.name = "domain_linear_weight_grad",
                                                        .fp32 = 1,
                                                        .min_inputs = 3,
                                                        .max_inputs = 3,
                                                        .n_outputs = 1,
                                                        .granularity = FTH_WHOLE_BATCH,
                                                        .shape = weight_grad_shape,
                                                        .prepare = weight_grad_prepare,
                                                        .release = weight_grad_release,
                                                        .cost = weight_grad_cost,
                                                        .run = weight_grad_run};

/* ---- with the updates ---- */

struct update {
    struct domain_blocks blocks;
    const struct fth_optimizer *optimizer;
    int no_decay[2];
    size_t product, shared, row; /* where in scratch: a block of a domain's, the shared one's, a row */
};

static fth_status update_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    uint32_t rows, columns;
    FTH_TRY(need_parts(graph, node, 2, &rows, &columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 0, fth_ops_input(graph, node, 2).columns, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 1, rows, columns, err));
    for (uint32_t i = 0; i < 2; i++)
        if (fth_ops_input(graph, node, i).role != FTH_ROLE_PARAMETER)
            return fth_fail(err, FTH_E_ARGUMENT, "input %u is no parameter", i);
    return FTH_OK;
}

static void update_release(void *prepared) {
    struct update *state = prepared;
    free_blocks(&state->blocks);
    fth_free(state);
}

static fth_status update_prepare(struct fth_prepare *prepare, fth_error *err) {
    if (prepare->optimizer->whole_parameter)
        return fth_fail(err, FTH_E_ARGUMENT, "%s needs the whole gradient first", prepare->optimizer->name);
    struct update *state = fth_ops_state(prepare, sizeof *state, err);
    size_t bytes = 0;
    if (!state)
        return FTH_E_MEMORY;
    struct fth_blocks blocks;
    fth_weight_blocks_cut(prepare, &prepare->in[2], &prepare->in[4], &blocks);
    uint32_t ld = fth_padded_columns(blocks.block_columns);
    state->optimizer = prepare->optimizer;
    for (int i = 0; i < 2; i++)
        state->no_decay[i] = prepare->graph->values[prepare->node->inputs[i]].no_decay;
    state->product = fth_ops_section(&bytes, (size_t)blocks.block_rows * ld);
    state->shared = fth_ops_section(&bytes, (size_t)blocks.block_rows * ld);
    state->row = fth_ops_section(&bytes, ld);
    FTH_TRY(make_blocks(prepare, 2, ld, &state->blocks, &bytes, err));
    prepare->tasks = fth_blocks_count(&state->blocks.blocks);
    prepare->scratch_bytes = bytes;
    return FTH_OK;
}

/* The domain's own block: its gradient is the product's times the shared weights, which are still the
 * step's; and its part of the shared one's gradient. */
static void update_own(const struct fth_run *run, uint32_t d, struct fth_block_range range) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct update *state = run->prepared;
    const struct fth_view *shared = &run->in[0], *own = &run->in[1];
    const struct fth_opt_args *args = state->no_decay[1] ? run->opt_no_decay : run->opt;
    uint32_t ld = state->blocks.ld, n = range.columns;
    float *row = fth_ops_at(run, state->row);
    struct fth_block_range at = {d * shared->rows + range.row, 1, range.column, n};
    for (uint32_t r = 0; r < range.rows; r++, at.row++) {
        const float *dw = fth_ops_at(run, state->product) + (size_t)r * ld;
        const float *s = shared->data + (size_t)(range.row + r) * shared->ld + range.column;
        const float *o = own->data + (size_t)at.row * own->ld + range.column;
        float *ds = fth_ops_at(run, state->shared) + (size_t)r * ld;
        if (d == 0)
            kernels->mul(1, n, dw, ld, o, own->ld, ds, ld);
        else
            kernels->mul_add(1, n, dw, ld, o, own->ld, ds, ld, ds, ld);
        kernels->mul(1, n, dw, ld, s, shared->ld, row, ld);
        fth_ops_apply(state->optimizer, args, own, at, row, ld);
    }
}

static void update_run(const struct fth_run *run) {
    const struct update *state = run->prepared;
    const struct fth_view *domain = &run->in[3];
    struct fth_block_range range = fth_blocks_range(&state->blocks.blocks, run->task);
    for (uint32_t d = 0; d < domain->columns; d++) {
        run_block(run, &state->blocks, &run->in[2], domain, &run->in[4], d, run->task, fth_ops_at(run, state->product));
        update_own(run, d, range);
    }
    fth_ops_apply(state->optimizer, state->no_decay[0] ? run->opt_no_decay : run->opt, &run->in[0], range,
                  fth_ops_at(run, state->shared), state->blocks.ld);
}

static void update_cost(const fth_graph *graph, const struct fth_node *node, double examples, double positions,
                        struct fth_cost *out) {
    struct fth_value own = fth_ops_input(graph, node, 1), x = fth_ops_input(graph, node, 2),
                     dy = fth_ops_input(graph, node, 4);
    double weights = (double)own.rows * own.columns;
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * x.columns * dy.columns + 9 * weights;
    out->bytes += 3 * weights * sizeof(float); /* written back, a slot read and written */
}

const struct fth_op fth_op_domain_update = {.name = "domain_update",
                                            .fp32 = 1,
                                            .min_inputs = 5,
                                            .max_inputs = 5,
                                            .granularity = FTH_WHOLE_BATCH,
                                            .shape = update_shape,
                                            .prepare = update_prepare,
                                            .release = update_release,
                                            .cost = update_cost,
                                            .run = update_run};
