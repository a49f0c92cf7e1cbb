/* batch_softmax(u, v, c or none, label, weight): the loss of two towers over the items of a batch (Yi et al., RecSys 2019,
 * section 3, eq. 3 to 5). Row i's item stands against all items of the batch: with s_ij = <u_i, v_j> - c_j, c the
 * logarithm of an item's frequency (a constant in all c_j, such as the total's, changes nothing),
 *   loss_i = r_i (log sum_j exp(s_ij) - s_ii),   r_i = label_i weight_i.
 * Only rows with r_i > 0 count; the columns are the items of all rows. Outputs: loss, log of the sum, and u's gradient of the
 * batch's mean (backward begins here). batch_softmax_grad(u, v, c, label, weight, log of the sum) is v's.
 *
 * The n x n scores never exist: a task takes 64 rows (of u; backwards of v) and goes over the others in blocks of 256, with
 * running maxima and sums; the gradient's task makes its scores again. Rows that do not count are left out before the
 * products. Whole batch, tasks by rows, sums in the order of the batch: the same bits at any number of threads. */
#include <math.h>
#include <string.h>

#include "ops/ops_private.h"

#define ROWS 64u   /* a task's */
#define BLOCK 256u /* of the others */

enum { U, V, C, LABEL, WEIGHT, LOG_SUM };
enum { SCORES, SUMS };

struct batch_softmax {
    uint32_t k, ld, block;   /* ld: of rows in scratch */
    fth_gemm *products[2];   /* scores u v^T; sums P v, backward P^T u */
    size_t u, v, s, sum, vectors, gemm; /* where in scratch */
};

static fth_status check(const fth_graph *graph, const struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need(graph, node, U, err));
    FTH_TRY(fth_ops_need_same(graph, node, U, V, err));
    uint32_t k = fth_ops_input(graph, node, U).columns;
    if (k < 2)
        return fth_fail(err, FTH_E_ARGUMENT, "vectors of one number");
    FTH_TRY(fth_ops_need_example_row(graph, node, U, k, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, LABEL, 1, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, WEIGHT, 1, err));
    return fth_ops_input(graph, node, C).id == FTH_NONE ? FTH_OK : fth_ops_need_example_row(graph, node, C, 1, err);
}

static fth_status shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_output_like(graph, node, 0, U, 1, err));
    FTH_TRY(fth_ops_output_like(graph, node, 1, U, 1, err));
    return fth_ops_output_like(graph, node, 2, U, fth_ops_input(graph, node, U).columns, err);
}

static fth_status gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err) {
    fth_id inputs[6] = {node->inputs[U],     node->inputs[V],      node->inputs[C],
                        node->inputs[LABEL], node->inputs[WEIGHT], node->outputs[1]};
    (void)d_outputs;
    d_inputs[U] = node->outputs[2];
    return fth_graph_node(graph, &fth_op_batch_softmax_grad, node->name, inputs, 6, NULL, 0, &d_inputs[V], err);
}

static void release(void *prepared) {
    struct batch_softmax *softmax = prepared;
    fth_gemm_destroy(softmax->products[SCORES]);
    fth_gemm_destroy(softmax->products[SUMS]);
    fth_free(softmax);
}

/* Forward: ROWS of u against blocks of v. Backward: blocks of u against ROWS of v. */
static fth_status prepare(struct fth_prepare *prepare, fth_error *err) {
    int backward = prepare->node->op == &fth_op_batch_softmax_grad;
    struct batch_softmax *softmax = fth_ops_state(prepare, sizeof *softmax, err);
    if (!softmax)
        return FTH_E_MEMORY;
    uint32_t k = softmax->k = prepare->in[U].columns, ld = softmax->ld = fth_padded_columns(k);
    uint32_t m = backward ? BLOCK : ROWS, n = softmax->block = backward ? ROWS : BLOCK;
    struct fth_gemm_shape scores = {.form = FTH_GEMM_NT, .m = m, .n = n, .k = k, .lda = ld, .ldb = ld, .ldc = n,
                                    .precision = FTH_FP32};
    struct fth_gemm_shape sums = {.form = FTH_GEMM_NN, .m = m, .n = k, .k = n, .lda = n, .ldb = ld, .ldc = ld,
                                  .accumulate = 1, .precision = FTH_FP32};
    if (backward)
        sums = (struct fth_gemm_shape){.form = FTH_GEMM_TN, .m = n, .n = k, .k = m, .lda = n, .ldb = ld, .ldc = ld,
                                       .accumulate = 1, .precision = FTH_FP32};
    FTH_TRY(fth_ops_product(prepare, &scores, &softmax->products[SCORES], err));
    FTH_TRY(fth_ops_product(prepare, &sums, &softmax->products[SUMS], err));
    size_t bytes = 0;
    softmax->u = fth_ops_section(&bytes, (size_t)m * ld);
    softmax->v = fth_ops_section(&bytes, (size_t)n * ld);
    softmax->s = fth_ops_section(&bytes, (size_t)m * n);
    softmax->sum = fth_ops_section(&bytes, (size_t)(backward ? n : m) * ld);
    softmax->vectors = fth_ops_section(&bytes, 5 * BLOCK);
    softmax->gemm = bytes;
    prepare->scratch_bytes = bytes + fth_ops_products_scratch(softmax->products, 2, m);
    prepare->tasks = (prepare->batch + ROWS - 1) / ROWS;
    return FTH_OK;
}

/* For rows that all count (only_positive). */
static void cost(const fth_graph *graph, const struct fth_node *node, double examples, double positions,
                 struct fth_cost *out) {
    fth_ops_cost(graph, node, examples, positions, out);
    out->flops = 4 * examples * examples * fth_ops_input(graph, node, U).columns;
}

static float weight_of(const struct fth_run *run, uint32_t i) {
    const struct fth_view *label = &run->in[LABEL], *weight = &run->in[WEIGHT];
    float r = label->data[(size_t)i * label->ld];
    return weight->data ? r * weight->data[(size_t)i * weight->ld] : r;
}

/* Rows [first, first + n) of v in scratch and their c; past the batch's end zeros that take no part. */
static void take_items(const struct fth_run *run, const struct batch_softmax *softmax, uint32_t first, uint32_t n,
                       float *c) {
    const struct fth_view *v = &run->in[V], *shift = &run->in[C];
    float *items = fth_ops_at(run, softmax->v);
    uint32_t rows = v->rows - first < n ? v->rows - first : n;
    fth_kernels_get()->copy(rows, softmax->k, v->data + (size_t)first * v->ld, v->ld, items, softmax->ld);
    memset(items + (size_t)rows * softmax->ld, 0, (size_t)(n - rows) * softmax->ld * sizeof *items);
    for (uint32_t j = 0; j < n; j++)
        c[j] = j >= rows ? 1e30f : shift->data ? shift->data[(size_t)(first + j) * shift->ld] : 0;
}

/* The rows of u that count among [first, first + n): in scratch, which they are and their r. */
static uint32_t take_rows(const struct fth_run *run, const struct batch_softmax *softmax, uint32_t first, uint32_t n,
                          uint32_t *which, float *r) {
    const struct fth_view *u = &run->in[U];
    uint32_t taken = 0;
    for (uint32_t i = first; i < first + n && i < u->rows; i++) {
        float weight = weight_of(run, i);
        if (!(weight > 0))
            continue;
        fth_kernels_get()->copy(1, softmax->k, u->data + (size_t)i * u->ld, u->ld,
                                fth_ops_at(run, softmax->u) + (size_t)taken * softmax->ld, softmax->ld);
        which[taken] = i;
        r[taken++] = weight;
    }
    return taken;
}

/* A row's loss, log of the sum and gradient from what its blocks have left. */
static void finish_row(const struct fth_run *run, const struct batch_softmax *softmax, uint32_t i, float r,
                       float log_sum, float inverse, const float *mean) {
    const struct fth_kernels *k = fth_kernels_get();
    const struct fth_view *u = &run->in[U], *v = &run->in[V], *c = &run->in[C];
    float *du = run->out[2].data + (size_t)i * run->out[2].ld, dot, scale = r / (float)run->mean_over;
    const float *item = v->data + (size_t)i * v->ld;
    k->row_dot_rows(1, softmax->k, u->data + (size_t)i * u->ld, u->ld, item, v->ld, &dot, 1);
    if (c->data)
        dot -= c->data[(size_t)i * c->ld];
    run->out[0].data[(size_t)i * run->out[0].ld] = r * (log_sum - dot);
    run->out[1].data[(size_t)i * run->out[1].ld] = log_sum;
    k->scale(1, softmax->k, mean, softmax->ld, scale * inverse, du, softmax->k);
    k->axpy(softmax->k, -scale, item, du);
}

static void run(const struct fth_run *run) {
    const struct batch_softmax *softmax = run->prepared;
    const struct fth_kernels *k = fth_kernels_get();
    uint32_t first = run->task * ROWS, which[ROWS], n = run->in[U].rows;
    float r[ROWS], *u = fth_ops_at(run, softmax->u), *v = fth_ops_at(run, softmax->v), *s = fth_ops_at(run, softmax->s);
    float *sum = fth_ops_at(run, softmax->sum), *vectors = fth_ops_at(run, softmax->vectors);
    float *c = vectors, *most = c + BLOCK, *total = most + BLOCK, *factor = total + BLOCK;
    if (first >= n)
        return;
    uint32_t rows = n - first < ROWS ? n - first : ROWS;
    for (uint32_t i = first; i < first + rows; i++) {
        run->out[0].data[(size_t)i * run->out[0].ld] = run->out[1].data[(size_t)i * run->out[1].ld] = 0;
        memset(run->out[2].data + (size_t)i * run->out[2].ld, 0, softmax->k * sizeof *s);
    }
    uint32_t m = take_rows(run, softmax, first, rows, which, r);
    memset(sum, 0, (size_t)m * softmax->ld * sizeof *sum);
    for (uint32_t i = 0; i < m; i++) {
        most[i] = -1e30f;
        total[i] = 0;
    }
    for (uint32_t j = 0; m && j < n; j += BLOCK) {
        take_items(run, softmax, j, BLOCK, c);
        fth_gemm_run(softmax->products[SCORES], m, u, v, s, fth_ops_at(run, softmax->gemm));
        k->softmax_block(m, BLOCK, s, BLOCK, c, most, total, factor);
        k->scale_rows(m, softmax->k, factor, 1, sum, softmax->ld, NULL, 0, sum, softmax->ld);
        fth_gemm_run(softmax->products[SUMS], m, s, v, sum, fth_ops_at(run, softmax->gemm));
    }
    for (uint32_t i = 0; i < m; i++)
        finish_row(run, softmax, which[i], r[i], most[i] + logf(total[i]), 1 / total[i],
                   sum + (size_t)i * softmax->ld);
}

const struct fth_op fth_op_batch_softmax = {.name = "batch_softmax",
                                            .fp32 = 1,
                                            .min_inputs = 5,
                                            .max_inputs = 5,
                                            .n_outputs = 3,
                                            .granularity = FTH_WHOLE_BATCH,
                                            .shape = shape,
                                            .gradient = gradient,
                                            .begins_backward = 1,
                                            .prepare = prepare,
                                            .release = release,
                                            .only_positive = 1,
                                            .cost = cost,
                                            .run = run};

/* ---- v's gradient ---- */

static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(check(graph, node, err));
    FTH_TRY(fth_ops_need_example_row(graph, node, LOG_SUM, 1, err));
    return fth_ops_output_like(graph, node, 0, V, fth_ops_input(graph, node, V).columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct batch_softmax *softmax = run->prepared;
    const struct fth_kernels *k = fth_kernels_get();
    const struct fth_view *u = &run->in[U], *log_sum = &run->in[LOG_SUM], *dv = &run->out[0];
    uint32_t first = run->task * ROWS, which[BLOCK], n = u->rows, ld = softmax->ld;
    float r[BLOCK], *rows_u = fth_ops_at(run, softmax->u), *s = fth_ops_at(run, softmax->s);
    float *sum = fth_ops_at(run, softmax->sum), *vectors = fth_ops_at(run, softmax->vectors);
    float *c = vectors, *most = c + BLOCK, *total = most + BLOCK, *factor = total + BLOCK;
    if (first >= n)
        return;
    uint32_t rows = n - first < ROWS ? n - first : ROWS;
    take_items(run, softmax, first, ROWS, c);
    memset(sum, 0, (size_t)ROWS * ld * sizeof *sum);
    for (uint32_t i = 0; i < n; i += BLOCK) {
        uint32_t m = take_rows(run, softmax, i, BLOCK, which, r);
        if (!m)
            continue;
        fth_gemm_run(softmax->products[SCORES], m, rows_u, fth_ops_at(run, softmax->v), s,
                     fth_ops_at(run, softmax->gemm));
        for (uint32_t t = 0; t < m; t++) {
            most[t] = log_sum->data[(size_t)which[t] * log_sum->ld];
            total[t] = 0;
            r[t] /= (float)run->mean_over;
        }
        k->softmax_block(m, ROWS, s, ROWS, c, most, total, factor);
        k->scale_rows(m, ROWS, r, 1, s, ROWS, NULL, 0, s, ROWS);
        fth_gemm_run(softmax->products[SUMS], m, s, rows_u, sum, fth_ops_at(run, softmax->gemm));
    }
    for (uint32_t j = first; j < first + rows; j++) {
        float *row = sum + (size_t)(j - first) * ld, weight = weight_of(run, j);
        if (weight > 0)
            k->axpy(softmax->k, -weight / (float)run->mean_over, u->data + (size_t)j * u->ld, row);
        k->copy(1, softmax->k, row, ld, dv->data + (size_t)j * dv->ld, dv->ld);
    }
}

const struct fth_op fth_op_batch_softmax_grad = {.name = "batch_softmax_grad",
                                                 .fp32 = 1,
                                                 .min_inputs = 6,
                                                 .max_inputs = 6,
                                                 .n_outputs = 1,
                                                 .granularity = FTH_WHOLE_BATCH,
                                                 .shape = grad_shape,
                                                 .prepare = prepare,
                                                 .release = release,
                                                 .only_positive = 1,
                                                 .cost = cost,
                                                 .run = grad_run};
