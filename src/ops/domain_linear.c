/* domain_linear(x, domain, W [d n, m], b [d, m], panels): act(x W_d + b_d) by each row's own domain
 * (STAR's layers, Sheng et al. 2021, eq. 8), and its data gradient dy W_d^T. The weight gradient is
 * domain_weight_grad.c's.
 *
 * A tile mixes domains: the rows of one are gathered, multiplied at once, and put back, with bias and
 * activation (backwards with the gradient of the activation before). The products read panels of W and of
 * its transposed copies, made by domain_weights, unless a side of W_d is one number: then W itself.
 * Products are fp32 whatever the precision: there are few rows of a domain in a tile. */
#include <string.h>

#include "kernels/panels.h"
#include "ops/domain.h"

fth_status fth_domain_need(const fth_graph *graph, const struct fth_node *node, uint32_t i, uint32_t like,
                           fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, like, err));
    return fth_ops_need_same_rows(graph, node, like, i, err);
}

fth_status fth_domain_need_table(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                 uint32_t columns, fth_error *err) {
    return fth_ops_need_whole(graph, node, i, fth_ops_input(graph, node, 1).columns, columns, err);
}

void fth_domain_gather(uint32_t n, const uint32_t *rows, const struct fth_view *from, uint32_t column,
                       uint32_t columns, float *to, uint32_t ld) {
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * ld, from->data + (size_t)rows[i] * from->ld + column, columns * sizeof *to);
}

/* Input i has the panels of each domain's [rows, columns], unless a side of it is 1. */
static fth_status need_panels(const fth_graph *graph, const struct fth_node *node, uint32_t i, uint32_t rows,
                              uint32_t columns, fth_error *err) {
    if (rows == 1 || columns == 1)
        return FTH_OK;
    return fth_domain_need_table(graph, node, i, (uint32_t)fth_panels_floats(rows, columns), err);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    FTH_TRY(fth_ops_need(graph, node, 2, err));
    struct fth_value x = fth_ops_input(graph, node, 0), domain = fth_ops_input(graph, node, 1),
                     w = fth_ops_input(graph, node, 2);
    FTH_TRY(fth_ops_need_whole(graph, node, 2, domain.columns * x.columns, w.columns, err));
    FTH_TRY(fth_domain_need_table(graph, node, 3, w.columns, err));
    FTH_TRY(need_panels(graph, node, 4, x.columns, w.columns, err));
    if (fth_linear_act(node) == FTH_ACT_GELU)
        return fth_fail(err, FTH_E_ARGUMENT, "GELU cannot be fused: its gradient needs its input");
    return fth_ops_output_like(graph, node, 0, 0, w.columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id dy = d_outputs[0], domain = node->inputs[1];
    if (fth_linear_act(node) != FTH_ACT_NONE) {
        struct fth_act_attributes act = {fth_linear_act(node)};
        fth_id inputs[2] = {node->outputs[0], dy};
        FTH_TRY(fth_graph_node(graph, &fth_op_act_grad, node->name, inputs, 2, &act, sizeof act, &dy, err));
    }
    fth_id data[4] = {dy, domain, node->inputs[2], fth_domain_panels(graph, node->inputs[2], 1)};
    fth_id weight[3] = {node->inputs[0], domain, dy}, bias[2] = {dy, domain};
    if (fth_ops_wants(graph, node, 0))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_linear_data_grad, node->name, data, 4, NULL, 0,
                               &d_inputs[0], err));
    if (fth_ops_wants(graph, node, 2))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_linear_weight_grad, node->name, weight, 3, NULL, 0,
                               &d_inputs[2], err));
    if (fth_ops_wants(graph, node, 3))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_sum, node->name, bias, 2, NULL, 0, &d_inputs[3], err));
    return FTH_OK;
}

/* A product over gathered rows of x into rows of y. */
struct product {
    fth_gemm *gemm; /* NULL: one column on W's side, no matrix product */
    uint32_t ldx, ldy;
    size_t rows, x, y, own; /* where in scratch */
};

/* Products of rows in fours: kernels for less than that go through all weights for a row. */
static uint32_t in_fours(uint32_t rows) {
    return (rows + 3) / 4 * 4;
}

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
    uint32_t rows = in_fours(x->rows);
    size_t bytes = 0;
    product->ldx = fth_padded_columns(x->columns);
    product->ldy = fth_padded_columns(y->columns);
    product->rows = fth_ops_section(&bytes, rows);
    product->x = fth_ops_section(&bytes, (size_t)rows * product->ldx);
    product->y = fth_ops_section(&bytes, (size_t)rows * product->ldy);
    product->own = bytes;
    struct fth_gemm_shape gemm = {.form = FTH_GEMM_NN,
                                  .m = rows,
                                  .n = y->columns,
                                  .k = x->columns,
                                  .lda = product->ldx,
                                  .ldb = w->ld,
                                  .ldc = product->ldy,
                                  .panels = x->columns > 1 && y->columns > 1,
                                  .zeros = fth_ops_zeros_of(prepare, prepare->node->inputs[0], FTH_NONE)};
    if (gemm.panels || (w->columns > 1 && !backwards))
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

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "act=%s", fth_ops_act_name(fth_linear_act(node)));
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

/* The rows of one domain, multiplied: n rows of the result at gy. */
static void multiply(const struct fth_run *run, uint32_t d, uint32_t n, const float *gx, float *gy, int backwards) {
    const struct product *product = run->prepared;
    const struct fth_view *x = &run->in[0], *w = &run->in[2];
    const struct fth_view *of = x->columns == 1 ? w : &run->in[backwards ? 3 : 4]; /* a row a domain, all three */
    if (product->gemm)
        fth_gemm_run(product->gemm, in_fours(n), gx, of->data + (size_t)d * of->ld, gy,
                     fth_ops_at(run, product->own));
    else
        narrow(fth_kernels_get(), n, gx, product->ldx, x->columns, w, d * (w->rows / run->in[1].columns), backwards,
               gy, product->ldy, run->out[0].columns);
}

/* Puts the result's rows into place, with bias and activation. */
static void put(const struct fth_run *run, uint32_t d, uint32_t n, const uint32_t *rows, const float *from,
                uint32_t ld) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *y = &run->out[0];
    const float *bias = run->in[3].data + (size_t)d * run->in[3].ld;
    for (uint32_t i = 0; i < n; i++)
        kernels->bias_act(1, y->columns, from + (size_t)i * ld, ld, bias, fth_linear_act(run->node),
                          y->data + (size_t)rows[i] * y->ld, y->ld);
}

/* With the gradient of the activation whose output (of GELU: input) is `saved`, where there is one. */
static void put_grad(const struct fth_run *run, uint32_t n, const uint32_t *rows, const float *from, uint32_t ld) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *y = &run->out[0], *saved = run->node->n_inputs > 4 ? &run->in[4] : NULL;
    for (uint32_t i = 0; i < n; i++) {
        float *to = y->data + (size_t)rows[i] * y->ld;
        if (saved)
            kernels->act_grad(fth_linear_act(run->node), 1, y->columns, saved->data + (size_t)rows[i] * saved->ld, saved->ld,
                              from + (size_t)i * ld, ld, to, y->ld);
        else
            memcpy(to, from + (size_t)i * ld, y->columns * sizeof *to);
    }
}

static void by_domain(const struct fth_run *run, int backwards) {
    const struct product *product = run->prepared;
    const struct fth_view *x = &run->in[0], *domain = &run->in[1];
    uint32_t *rows = (uint32_t *)fth_ops_at(run, product->rows);
    float *gx = fth_ops_at(run, product->x), *gy = fth_ops_at(run, product->y);
    for (uint32_t d = 0; d < domain->columns; d++) {
        uint32_t n = fth_domain_rows(domain, d, x->rows, rows);
        if (!n)
            continue;
        fth_domain_gather(n, rows, x, 0, x->columns, gx, product->ldx);
        for (uint32_t i = n; i < in_fours(n); i++)
            memset(gx + (size_t)i * product->ldx, 0, x->columns * sizeof *gx);
        multiply(run, d, n, gx, gy, backwards);
        if (backwards)
            put_grad(run, n, rows, gy, product->ldy);
        else
            put(run, d, n, rows, gy, product->ldy);
    }
}

static void run(const struct fth_run *run) {
    by_domain(run, 0);
}

const struct fth_op fth_op_domain_linear = {.name = "domain_linear",
                                            .fp32 = 1,
                                            .min_inputs = 4,
                                            .max_inputs = 5,
                                            .n_outputs = 1,
                                            .granularity = FTH_PER_TILE,
                                            .shape = shape,
                                            .gradient = gradient,
                                            .prepare = prepare,
                                            .release = product_release,
                                            .cost = cost,
                                            .print = print,
                                            .run = run};

/* Inputs dy, domain, W, panels of its transposed copies, what the activation before saved or none. */
static fth_status data_grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    FTH_TRY(fth_ops_need(graph, node, 2, err));
    struct fth_value dy = fth_ops_input(graph, node, 0), domain = fth_ops_input(graph, node, 1),
                     w = fth_ops_input(graph, node, 2);
    FTH_TRY(fth_ops_need_whole(graph, node, 2, w.rows, dy.columns, err));
    if (w.rows % domain.columns)
        return fth_fail(err, FTH_E_ARGUMENT, "input 2 has %u rows, no multiple of the %u domains", w.rows,
                        domain.columns);
    uint32_t columns = w.rows / domain.columns;
    FTH_TRY(need_panels(graph, node, 3, w.columns, columns, err));
    if (fth_ops_input(graph, node, 4).id != FTH_NONE) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 4, err));
        if (fth_ops_input(graph, node, 4).columns != columns)
            return fth_fail(err, FTH_E_ARGUMENT, "input 4 has %u columns, the gradient %u",
                            fth_ops_input(graph, node, 4).columns, columns);
    }
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static void data_grad_run(const struct fth_run *run) {
    by_domain(run, 1);
}

const struct fth_op fth_op_domain_linear_data_grad = {.name = "domain_linear_data_grad",
                                                      .fp32 = 1,
                                                      .min_inputs = 3,
                                                      .max_inputs = 5,
                                                      .n_outputs = 1,
                                                      .granularity = FTH_PER_TILE,
                                                      .shape = data_grad_shape,
                                                      .prepare = data_grad_prepare,
                                                      .release = product_release,
                                                      .cost = cost,
                                                      .print = print,
                                                      .run = data_grad_run};
