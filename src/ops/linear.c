/* linear: act(x W + bias) on a tile's rows, and its data gradient dx = dy W^T, which reads the
 * transposed copy of W that updates keep; both read panels where W has them. Bias and activation are applied to a
 * panel's columns when they are made; so is, to the data gradient, the gradient of the activation before the
 * layer (pass fuse_act_grads), and what else its input's gradient is the sum of is added (fuse_crosses), given whole or
 * as a number a row times columns of a row (round_once). The weight gradient is linear_weight_grad.
 *
 * W may be made by attention_weights: then the data gradient takes the transposed copy that that node makes, and
 * the weight gradient is one part a tile. */
#include "kernels/gemm.h"
#include "ops/ops_private.h"

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    struct fth_value x = fth_ops_input(graph, node, 0), w = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 1, x.columns, w.columns, err));
    if (fth_ops_input(graph, node, 2).id != FTH_NONE)
        FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, w.columns, err));
    if (w.columns == 1)
        return fth_fail(err, FTH_E_ARGUMENT, "one column out is row_dot, no matrix product");
    if (fth_linear_act(node) == FTH_ACT_GELU)
        return fth_fail(err, FTH_E_ARGUMENT, "GELU cannot be fused: its gradient needs its input");
    return fth_ops_output_like(graph, node, 0, 0, w.columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id dy = d_outputs[0], transposed = fth_ops_transposed(graph, node->inputs[1]);
    if (fth_linear_act(node) != FTH_ACT_NONE) {
        struct fth_act_attributes act = {fth_linear_act(node)};
        fth_id inputs[2] = {node->outputs[0], dy};
        FTH_TRY(fth_graph_node(graph, &fth_op_act_grad, node->name, inputs, 2, &act, sizeof act,
                               &dy, err));
    }
    if (fth_ops_wants(graph, node, 2))
        FTH_TRY(fth_graph_node(graph, &fth_op_col_sum, node->name, &dy, 1, NULL, 0, &d_inputs[2],
                               err));
    if (fth_ops_wants(graph, node, 1)) {
        fth_id inputs[2] = {node->inputs[0], dy};
        const struct fth_op *op =
            transposed == FTH_NONE ? &fth_op_linear_weight_grad : &fth_op_linear_tile_grad;
        FTH_TRY(fth_graph_node(graph, op, node->name, inputs, 2, NULL, 0, &d_inputs[1], err));
    }
    if (fth_ops_wants(graph, node, 0)) {
        fth_id inputs[3] = {dy, node->inputs[1], transposed};
        FTH_TRY(fth_graph_node(graph, &fth_op_linear_data_grad, node->name, inputs,
                               transposed == FTH_NONE ? 2 : 3, NULL, 0, &d_inputs[0], err));
    }
    return FTH_OK;
}

/* Rows of a product that are finished while they are in cache. */
static uint32_t rows_at_once(const struct fth_run *run) {
    return fth_gemm_cut(fth_gemm_precision(run->prepared)).tile;
}

static fth_status gemm_prepare(struct fth_prepare *prepare, uint32_t n, uint32_t k, uint32_t ldb,
                               fth_error *err) {
    struct fth_gemm_shape gemm = {.form = FTH_GEMM_NN,
                                  .m = prepare->in[0].rows,
                                  .n = n,
                                  .k = k,
                                  .lda = prepare->in[0].ld,
                                  .ldb = ldb,
                                  .ldc = prepare->out[0].ld,
                                  .tiles = prepare->in[0].tiles != 0,
                                  .panels = prepare->graph->values[prepare->node->inputs[1]].panels != 0,
                                  .zeros = fth_ops_zeros_of(prepare, prepare->node->inputs[0], FTH_NONE),
                                  .precision = (fth_precision)prepare->precision};
    fth_gemm *product;
    FTH_TRY(fth_ops_product(prepare, &gemm, &product, err));
    prepare->prepared = product;
    prepare->scratch_bytes = fth_gemm_scratch(product, gemm.m);
    return FTH_OK;
}

static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *w = &prepare->in[1];
    return gemm_prepare(prepare, w->columns, w->rows, w->ld, err);
}

static fth_status grad_prepare(struct fth_prepare *prepare, fth_error *err) {
    const struct fth_view *w = &prepare->in[1];
    if (w->rows == 1) /* one column out: no matrix product */
        return FTH_OK;
    int own = prepare->node->n_inputs > 2 && prepare->node->inputs[2] != FTH_NONE;
    return gemm_prepare(prepare, w->rows, w->columns, own ? prepare->in[2].ld : w->ld_transposed,
                        err);
}

static void release(void *prepared) {
    fth_gemm_destroy(prepared);
}

void fth_ops_product_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                          double positions, struct fth_cost *out) {
    struct fth_value x = fth_ops_input(graph, node, 0), w = fth_ops_input(graph, node, 1);
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 2 * fth_ops_rows(&x, examples, positions) * w.rows * w.columns;
}

static void print(const struct fth_node *node, struct fth_text *out) {
    fth_text_printf(out, "act=%s", fth_ops_act_name(fth_linear_act(node)));
}

static void run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    const float *weights = run->in[1].panels ? run->in[1].panels : run->in[1].data;
    struct fth_ops_bias_act f = {
        .act = fth_linear_act(run->node), .ld = y->ld, .bias = run->node->n_inputs > 2 ? run->in[2].data : NULL};
    const struct fth_gemm_finish finish = {.done = fth_ops_bias_act, .ctx = &f};
    uint32_t chunk = rows_at_once(run);
    for (uint32_t row = 0; row < x->rows; row += chunk) {
        const float *from = x->data + (size_t)row * x->ld;
        f.rows = x->rows - row < chunk ? x->rows - row : chunk;
        f.y = y->data + (size_t)row * y->ld;
        fth_gemm_run_finish(run->prepared, f.rows, from, weights, f.y, run->scratch, &finish);
    }
}

const struct fth_op fth_op_linear = {.name = "linear",
                                     .min_inputs = 2,
                                     .max_inputs = 3,
                                     .n_outputs = 1,
                                     .granularity = FTH_PER_TILE,
                                     .spans = 1,
                                     .inputs_in_panels = 1 << 1,
                                     .shape = shape,
                                     .gradient = gradient,
                                     .prepare = prepare,
                                     .release = release,
                                     .cost = fth_ops_product_cost,
                                     .print = print,
                                     .run = run};

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    struct fth_value dy = fth_ops_input(graph, node, 0), w = fth_ops_input(graph, node, 1);
    FTH_TRY(fth_ops_need_whole(graph, node, 1, w.rows, dy.columns, err));
    if (fth_ops_input(graph, node, 2).id != FTH_NONE)
        FTH_TRY(fth_ops_need_whole(graph, node, 2, dy.columns, w.rows, err));
    else if (w.role != FTH_ROLE_PARAMETER)
        return fth_fail(err, FTH_E_ARGUMENT, "input 1 is no parameter, its transposed copy is missing");
    if (fth_ops_input(graph, node, 3).id != FTH_NONE) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 3, err));
        if (fth_ops_input(graph, node, 3).columns != w.rows || w.rows == 1)
            return fth_fail(err, FTH_E_ARGUMENT, "input 3 has %u columns, the gradient %u (at least 2)",
                            fth_ops_input(graph, node, 3).columns, w.rows);
    }
    if (fth_ops_input(graph, node, 5).id != FTH_NONE) {
        const struct fth_linear_attributes *a = node->attributes;
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 4, err));
        FTH_TRY(fth_ops_need_outer(graph, node, 4, 5, a->column, w.rows, err));
    } else if (fth_ops_input(graph, node, 4).id != FTH_NONE) {
        FTH_TRY(fth_ops_need_same_rows(graph, node, 0, 4, err));
        if (fth_ops_input(graph, node, 4).columns != w.rows || w.rows == 1)
            return fth_fail(err, FTH_E_ARGUMENT, "input 4 has %u columns, the gradient %u (at least 2)",
                            fth_ops_input(graph, node, 4).columns, w.rows);
    }
    return fth_ops_output_like(graph, node, 0, 0, w.rows, err);
}

/* The activation's gradient of rows of dx, and an addition to them, of columns when the product has made them. */
struct grad_finish {
    fth_act act;
    uint32_t rows, ld, ld_saved, ld_other;
    float *dx;
    const float *saved, *other; /* NULL: none */
    const float *row;           /* or NULL: `other` is a number a row, times this */
};

static void finish_grad(void *ctx, uint32_t column, uint32_t columns) {
    const struct grad_finish *f = ctx;
    const struct fth_kernels *k = fth_kernels_get();
    float *dx = f->dx + column;
    if (f->saved)
        k->act_grad(f->act, f->rows, columns, f->saved + column, f->ld_saved, dx, f->ld, dx, f->ld);
    if (f->row)
        k->scale_rows(f->rows, columns, f->other, f->ld_other, f->row + column, 0, dx, f->ld, dx, f->ld);
    else if (f->other)
        k->add(f->rows, columns, f->other + column, f->ld_other, dx, f->ld, dx, f->ld);
}

static const float *row_of(const struct fth_view *view, uint32_t row) {
    return view->data ? view->data + (size_t)row * view->ld : NULL;
}

/* With the gradient of the activation whose output (of GELU: input) is input 3, and input 4, times 5, added. */
static void grad_run_finish(const struct fth_run *run, const float *weights) {
    const struct fth_view none = {0}, *dy = &run->in[0], *saved = &run->in[3], *dx = &run->out[0];
    const struct fth_view *other = run->node->n_inputs > 4 ? &run->in[4] : &none;
    const struct fth_linear_attributes *a = run->node->attributes;
    struct grad_finish f = {.act = fth_linear_act(run->node), .ld = dx->ld, .ld_saved = saved->ld, .ld_other = other->ld,
                            .row = run->node->n_inputs > 5 ? run->in[5].data + a->column : NULL};
    const struct fth_gemm_finish finish = {.done = finish_grad, .ctx = &f};
    uint32_t chunk = rows_at_once(run);
    for (uint32_t row = 0; row < dy->rows; row += chunk) {
        f.rows = dy->rows - row < chunk ? dy->rows - row : chunk;
        f.dx = dx->data + (size_t)row * dx->ld;
        f.saved = row_of(saved, row);
        f.other = row_of(other, row);
        fth_gemm_run_finish(run->prepared, f.rows, dy->data + (size_t)row * dy->ld, weights, f.dx, run->scratch,
                            &finish);
    }
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *w = &run->in[1], *dx = &run->out[0];
    const float *weights = w->transposed ? w->transposed : run->node->n_inputs > 2 ? run->in[2].data : NULL;
    if (w->rows == 1)
        fth_kernels_get()->row_dot(dy->rows, dy->columns, dy->data, dy->ld, w->data, 0.0f, dx->data,
                                   dx->ld);
    else if (run->node->n_inputs > 3)
        grad_run_finish(run, weights);
    else
        fth_gemm_run(run->prepared, dy->rows, dy->data, weights, dx->data, run->scratch);
}

const struct fth_op fth_op_linear_data_grad = {.name = "linear_data_grad",
                                               .min_inputs = 2,
                                               .max_inputs = 6,
                                               .n_outputs = 1,
                                               .granularity = FTH_PER_TILE,
                                               .spans = 1,
                                               .inputs_transposed = 1 << 1,
                                               .inputs_in_panels = 1 << 1,
                                               .shape = grad_shape,
                                               .prepare = grad_prepare,
                                               .release = release,
                                               .cost = fth_ops_product_cost,
                                               .print = print,
                                               .run = grad_run};
