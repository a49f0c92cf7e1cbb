/* domain_linear(x, domain, W [d n, m], b [d, m]): x W_d + b_d by each row's own domain (STAR's layers, Sheng et al.
 * 2021, eq. 8), its data gradient dy W_d^T and its weight gradient.
 *
 * A tile mixes domains: the rows of one are gathered, multiplied at once, and put back. The weight gradient of a
 * domain is products over its rows, gathered STRETCH rows of the batch at a time, in the batch's order. Products
 * are fp32 whatever the precision: there are few rows of a domain in a tile. */
#include <string.h>

#include "ops/domain.h"

#define STRETCH 256

fth_status fth_domain_need(const fth_graph *graph, const struct fth_node *node, uint32_t i, uint32_t like,
                           fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, like, err));
    return fth_ops_need_same_rows(graph, node, like, i, err);
}

fth_status fth_domain_need_table(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                 uint32_t domain, uint32_t columns, fth_error *err) {
    return fth_ops_need_whole(graph, node, i, fth_ops_input(graph, node, domain).columns, columns, err);
}

static void gather(uint32_t n, const uint32_t *rows, const struct fth_view *from, uint32_t column,
                   uint32_t columns, float *to, uint32_t ld) {
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * ld, from->data + (size_t)rows[i] * from->ld + column, columns * sizeof *to);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    FTH_TRY(fth_ops_need(graph, node, 2, err));
    struct fth_value x = fth_ops_input(graph, node, 0), domain = fth_ops_input(graph, node, 1),
                     w = fth_ops_input(graph, node, 2);
    FTH_TRY(fth_ops_need_whole(graph, node, 2, domain.columns * x.columns, w.columns, err));
    FTH_TRY(fth_domain_need_table(graph, node, 3, 1, w.columns, err));
    return fth_ops_output_like(graph, node, 0, 0, w.columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id dy = d_outputs[0], domain = node->inputs[1];
    fth_id data[3] = {dy, domain, node->inputs[2]}, weight[3] = {node->inputs[0], domain, dy};
    fth_id bias[2] = {dy, domain};
    if (fth_ops_wants(graph, node, 0))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_linear_data_grad, node->name, data, 3, NULL, 0,
                               &d_inputs[0], err));
    if (fth_ops_wants(graph, node, 2))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_linear_weight_grad, node->name, weight, 3, NULL, 0,
                               &d_inputs[2], err));
    if (fth_ops_wants(graph, node, 3))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_sum, node->name, bias, 2, NULL, 0, &d_inputs[3], err));
    return FTH_OK;
}

/* A product over gathered rows of x into rows of y, W [k, n] or (backwards) [n, k]. */
struct product {
    fth_gemm *gemm; /* NULL: one column on W's side, no matrix product */
    uint32_t ldx, ldy;
    size_t rows, x, y, own; /* where in scratch */
};

static void product_release(void *prepared) {
    struct product *product = prepared;
    fth_gemm_destroy(product->gemm);
    fth_free(product);
}

static fth_status product_prepare(struct fth_prepare *prepare, int backwards, fth_error *err) {
    const struct fth_view *x = &prepare->in[0], *y = &prepare->out[0], *w = &prepare->in[2];
    struct product *product = fth_ops_state(prepare, sizeof *product, err);
    if (!product)
        return FTH_E_MEMORY;
    uint32_t rows = x->rows;
    size_t bytes = 0;
    product->ldx = fth_padded_columns(x->columns);
    product->ldy = fth_padded_columns(y->columns);
    product->rows = fth_ops_section(&bytes, rows);
    product->x = fth_ops_section(&bytes, (size_t)rows * product->ldx);
    product->y = fth_ops_section(&bytes, (size_t)rows * product->ldy);
    product->own = bytes;
    struct fth_gemm_shape gemm = {.form = backwards ? FTH_GEMM_NT : FTH_GEMM_NN,
                                  .m = rows,
                                  .n = y->columns,
                                  .k = x->columns,
                                  .lda = product->ldx,
                                  .ldb = w->ld,
                                  .ldc = product->ldy};
    if (w->columns > 1 && y->columns > 1)
        FTH_TRY(fth_ops_product(prepare, &gemm, &product->gemm, err));
    prepare->scratch_bytes = bytes + fth_ops_products_scratch(&product->gemm, 1, rows);
    return FTH_OK;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    return product_prepare(prepare, 0, err);
}

static fth_status data_grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    return product_prepare(prepare, 1, err);
}

static void cost(const fth_graph *graph, const struct fth_node *node, double examples, double positions,
                 struct fth_cost *out) {
    struct fth_value x = fth_ops_input(graph, node, 0), domain = fth_ops_input(graph, node, 1),
                     w = fth_ops_input(graph, node, 2);
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * w.columns * (w.rows / domain.columns);
}

/* y = x W_d, or y = x W_d^T where W_d is one column or y is: no product then. */
static void narrow(const struct fth_kernels *kernels, uint32_t n, const float *x, uint32_t ldx, uint32_t k,
                   const struct fth_view *w, uint32_t row, int backwards, float *y, uint32_t ldy,
                   uint32_t columns) {
    if (w->columns == 1 && backwards)
        kernels->outer(n, columns, x, ldx, w->data + row, y, ldy);
    else if (w->columns == 1)
        kernels->row_dot(n, k, x, ldx, w->data + row, 0, y, ldy);
    else /* backwards, one column of y: W_d is one row */
        kernels->row_dot(n, k, x, ldx, w->data + (size_t)row * w->ld, 0, y, ldy);
}

static void by_domain(const struct fth_run *run, int backwards) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct product *product = run->prepared;
    const struct fth_view *x = &run->in[0], *domain = &run->in[1], *w = &run->in[2], *y = &run->out[0];
    uint32_t *rows = (uint32_t *)fth_ops_at(run, product->rows), n_domains = domain->columns;
    uint32_t each = w->rows / n_domains;
    float *gx = fth_ops_at(run, product->x), *gy = fth_ops_at(run, product->y);
    for (uint32_t d = 0; d < n_domains; d++) {
        uint32_t n = fth_domain_rows(domain, d, 0, x->rows, rows);
        if (!n)
            continue;
        gather(n, rows, x, 0, x->columns, gx, product->ldx);
        if (product->gemm)
            fth_gemm_run(product->gemm, n, gx, w->data + (size_t)d * each * w->ld, gy,
                         fth_ops_at(run, product->own));
        else
            narrow(kernels, n, gx, product->ldx, x->columns, w, d * each, backwards, gy, product->ldy,
                   y->columns);
        if (!backwards)
            kernels->bias_act(n, y->columns, gy, product->ldy, run->in[3].data + (size_t)d * run->in[3].ld,
                              FTH_ACT_NONE, gy, product->ldy);
        for (uint32_t i = 0; i < n; i++)
            memcpy(y->data + (size_t)rows[i] * y->ld, gy + (size_t)i * product->ldy,
                   y->columns * sizeof(float));
    }
}

static void run(const struct fth_run *run) {
    by_domain(run, 0);
}

const struct fth_op fth_op_domain_linear = {.name = "domain_linear",
                                            .fp32 = 1,
                                            .min_inputs = 4,
                                            .max_inputs = 4,
                                            .n_outputs = 1,
                                            .granularity = FTH_PER_TILE,
                                            .resource = FTH_COMPUTE,
                                            .shape = shape,
                                            .gradient = gradient,
                                            .prepare = prepare,
                                            .release = product_release,
                                            .cost = cost,
                                            .run = run};

/* Inputs dy, domain, W. */
static fth_status data_grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    FTH_TRY(fth_ops_need(graph, node, 2, err));
    struct fth_value dy = fth_ops_input(graph, node, 0), domain = fth_ops_input(graph, node, 1),
                     w = fth_ops_input(graph, node, 2);
    FTH_TRY(fth_ops_need_whole(graph, node, 2, w.rows, dy.columns, err));
    if (w.rows % domain.columns)
        return fth_fail(err, FTH_E_ARGUMENT, "input 2 has %u rows, no multiple of the %u domains", w.rows,
                        domain.columns);
    return fth_ops_output_like(graph, node, 0, 0, w.rows / domain.columns, err);
}

static void data_grad_run(const struct fth_run *run) {
    by_domain(run, 1);
}

const struct fth_op fth_op_domain_linear_data_grad = {.name = "domain_linear_data_grad",
                                                      .fp32 = 1,
                                                      .min_inputs = 3,
                                                      .max_inputs = 3,
                                                      .n_outputs = 1,
                                                      .granularity = FTH_PER_TILE,
                                                      .resource = FTH_COMPUTE,
                                                      .shape = data_grad_shape,
                                                      .prepare = data_grad_prepare,
                                                      .release = product_release,
                                                      .cost = cost,
                                                      .run = data_grad_run};

/* ---- the weight gradient ---- */

/* Inputs x, domain, dy. */
static fth_status weight_grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 2, err));
    uint64_t rows = (uint64_t)fth_ops_input(graph, node, 0).columns * fth_ops_input(graph, node, 1).columns;
    if (rows > UINT32_MAX)
        return fth_fail(err, FTH_E_ARGUMENT, "%llu rows are too many", (unsigned long long)rows);
    return fth_graph_output(graph, node, 0, FTH_WHOLE, -1, (uint32_t)rows,
                            fth_ops_input(graph, node, 2).columns, err);
}

struct blocks {
    struct fth_blocks of_domain;
    fth_gemm *gemms[4]; /* 2 * (last block down) + (last across); NULL: one column */
    uint32_t ldx, ldy;
    size_t rows, x, y, own; /* where in scratch */
};

static void blocks_release(void *prepared) {
    struct blocks *blocks = prepared;
    for (int i = 0; i < 4; i++)
        fth_gemm_destroy(blocks->gemms[i]);
    fth_free(blocks);
}

static fth_status blocks_make(struct fth_prepare *prepare, struct blocks *out, fth_error *err) {
    const struct fth_blocks *b = &out->of_domain;
    for (int i = 0; i < 4 && b->columns > 1; i++) {
        uint32_t down = i / 2 ? b->down - 1 : 0, across = i % 2 ? b->across - 1 : 0;
        struct fth_block_range range = fth_blocks_range(b, down * b->across + across);
        struct fth_gemm_shape shape = {.form = FTH_GEMM_TN,
                                       .m = range.rows,
                                       .n = range.columns,
                                       .k = STRETCH,
                                       .lda = out->ldx,
                                       .ldb = out->ldy,
                                       .ldc = prepare->out[0].ld,
                                       .accumulate = 1};
        FTH_TRY(fth_ops_product(prepare, &shape, &out->gemms[i], err));
    }
    return FTH_OK;
}

static fth_status weight_grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    struct blocks *blocks = fth_ops_state(prepare, sizeof *blocks, err);
    size_t bytes = 0;
    if (!blocks)
        return FTH_E_MEMORY;
    fth_blocks_make(prepare->in[0].columns, prepare->in[2].columns, 128, 256, &blocks->of_domain);
    blocks->ldx = fth_padded_columns(blocks->of_domain.block_rows);
    blocks->ldy = fth_padded_columns(blocks->of_domain.block_columns);
    blocks->rows = fth_ops_section(&bytes, STRETCH);
    blocks->x = fth_ops_section(&bytes, (size_t)STRETCH * blocks->ldx);
    blocks->y = fth_ops_section(&bytes, (size_t)STRETCH * blocks->ldy);
    blocks->own = bytes;
    FTH_TRY(blocks_make(prepare, blocks, err));
    prepare->tasks = prepare->in[1].columns * fth_blocks_count(&blocks->of_domain);
    prepare->scratch_bytes = bytes + fth_ops_products_scratch(blocks->gemms, 4, STRETCH);
    return FTH_OK;
}

/* dw [columns] += sum of dy x, dy of one column. */
static void add_weighted(uint32_t n, const float *x, uint32_t ldx, const float *dy, uint32_t ldy,
                         uint32_t columns, float *dw) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < columns; j++)
            dw[j] += dy[(size_t)i * ldy] * x[(size_t)i * ldx + j];
}

/* One block of one domain's gradient. */
static void weight_grad_run(const struct fth_run *run) {
    const struct blocks *blocks = run->prepared;
    const struct fth_blocks *b = &blocks->of_domain;
    const struct fth_view *x = &run->in[0], *domain = &run->in[1], *dy = &run->in[2], *dw = &run->out[0];
    uint32_t count = fth_blocks_count(b), d = run->task / count, block = run->task % count;
    struct fth_block_range range = fth_blocks_range(b, block);
    const fth_gemm *gemm = blocks->gemms[2 * (block / b->across == b->down - 1) + (block % b->across == b->across - 1)];
    uint32_t *rows = (uint32_t *)fth_ops_at(run, blocks->rows);
    float *gx = fth_ops_at(run, blocks->x), *gy = fth_ops_at(run, blocks->y);
    float *out = dw->data + ((size_t)d * b->rows + range.row) * dw->ld + range.column;
    for (uint32_t i = 0; i < range.rows; i++)
        memset(out + (size_t)i * dw->ld, 0, range.columns * sizeof *out);
    for (uint32_t first = 0; first < x->rows; first += STRETCH) {
        uint32_t stretch = x->rows - first < STRETCH ? x->rows - first : STRETCH;
        uint32_t n = fth_domain_rows(domain, d, first, stretch, rows);
        if (!n)
            continue;
        gather(n, rows, x, range.row, range.rows, gx, blocks->ldx);
        gather(n, rows, dy, range.column, range.columns, gy, blocks->ldy);
        if (gemm)
            fth_gemm_run(gemm, n, gx, gy, out, fth_ops_at(run, blocks->own));
        else
            add_weighted(n, gx, blocks->ldx, gy, blocks->ldy, range.rows, out);
    }
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
                                                        .resource = FTH_COMPUTE,
                                                        .shape = weight_grad_shape,
                                                        .prepare = weight_grad_prepare,
                                                        .release = blocks_release,
                                                        .cost = weight_grad_cost,
                                                        .run = weight_grad_run};
