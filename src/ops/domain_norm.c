/* Partitioned normalisation (STAR, Sheng et al. 2021, eq. 4 and 5), each domain with statistics of its own:
 *
 *   whole batch: domain_moments | tiles: domain_standardise, domain_affine
 *   backwards, whole batch: domain_sum (of dy, of dy y) | tiles: domain_standardise_grad
 *
 * Sums over the batch's rows run in their order, in double; a task has some columns of all domains.
 * Training uses the batch's moments and keeps running ones, as batch_norm.c does; a domain that is not in the
 * batch keeps its own, and evaluation uses them. */
#include <math.h>
#include <string.h>

#include "ops/domain.h"

#define TASK_COLUMNS 32
#define SUM_COLUMNS 256 /* a sum's task */
#define ROWS_AHEAD 4

static uint32_t tasks_for(uint32_t columns) {
    return (columns + TASK_COLUMNS - 1) / TASK_COLUMNS;
}

static fth_status tables(fth_graph *graph, struct fth_node *node, uint32_t n, uint32_t domains,
                         uint32_t columns, fth_error *err) {
    for (uint32_t i = 0; i < n; i++)
        FTH_TRY(fth_graph_output(graph, node, i, FTH_WHOLE, -1, domains, columns, err));
    return FTH_OK;
}

/* ---- domain_sum(a, domain, b or none): sums of a, or of a b, by domain: [d, n] ---- */

static fth_status sum_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    if (fth_ops_input(graph, node, 2).id != FTH_NONE)
        FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    return tables(graph, node, 1, fth_ops_input(graph, node, 1).columns,
                  fth_ops_input(graph, node, 0).columns, err);
}

static fth_status sum_prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->tasks = (prepare->out[0].columns + SUM_COLUMNS - 1) / SUM_COLUMNS;
    prepare->scratch_bytes = fth_ops_align(sizeof(double) * SUM_COLUMNS * prepare->in[1].columns);
    return FTH_OK;
}

/* A row some ahead, of which the hardware fetches the first lines too late. */
static void fetch_row(const struct fth_view *x, uint32_t i, uint32_t column, uint32_t n) {
    if (i + ROWS_AHEAD < x->rows)
        for (uint32_t j = 0; j < n; j += FTH_CACHE_LINE / sizeof(float))
            __builtin_prefetch(x->data + (size_t)(i + ROWS_AHEAD) * x->ld + column + j);
}

static void add_row(uint32_t n, const float *restrict x, double *restrict to) {
    for (uint32_t j = 0; j < n; j++)
        to[j] += (double)x[j];
}

static void add_products(uint32_t n, const float *restrict x, const float *restrict y, double *restrict to) {
    for (uint32_t j = 0; j < n; j++)
        to[j] += (double)x[j] * (double)y[j];
}

static void sum_run(const struct fth_run *run) {
    const struct fth_view *a = &run->in[0], *domain = &run->in[1], *out = &run->out[0];
    const struct fth_view *b = run->node->n_inputs > 2 && run->in[2].data ? &run->in[2] : NULL;
    uint32_t column = run->task * SUM_COLUMNS, n = out->columns - column;
    double *sums = run->scratch;
    n = n < SUM_COLUMNS ? n : SUM_COLUMNS;
    memset(sums, 0, sizeof *sums * SUM_COLUMNS * domain->columns);
    for (uint32_t i = 0; i < a->rows; i++) {
        double *to = sums + (size_t)fth_domain_of(domain, i) * SUM_COLUMNS;
        const float *x = a->data + (size_t)i * a->ld + column;
        fetch_row(a, i, column, n);
        if (b) {
            fetch_row(b, i, column, n);
            add_products(n, x, b->data + (size_t)i * b->ld + column, to);
        } else
            add_row(n, x, to);
    }
    for (uint32_t d = 0; d < domain->columns; d++)
        for (uint32_t j = 0; j < n; j++)
            out->data[(size_t)d * out->ld + column + j] = (float)sums[(size_t)d * SUM_COLUMNS + j];
}

const struct fth_op fth_op_domain_sum = {.name = "domain_sum",
                                         .min_inputs = 2,
                                         .max_inputs = 3,
                                         .n_outputs = 1,
                                         .granularity = FTH_WHOLE_BATCH,
                                         .shape = sum_shape,
                                         .prepare = sum_prepare,
                                         .cost = fth_ops_cost,
                                         .run = sum_run};

/* ---- domain_moments(x, domain, running mean, running variance): 1 / deviation, mean, rows of each domain ---- */

static fth_status moments_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns, domains = fth_ops_input(graph, node, 1).columns;
    FTH_TRY(fth_domain_need_table(graph, node, 2, columns, err));
    FTH_TRY(fth_domain_need_table(graph, node, 3, columns, err));
    FTH_TRY(tables(graph, node, 2, domains, columns, err));
    return fth_graph_output(graph, node, 2, FTH_WHOLE, -1, domains, 1, err);
}

static fth_status moments_prepare(struct fth_prepare *prepare, fth_error *err) {
    uint32_t domains = prepare->in[1].columns;
    prepare->tasks = tasks_for(prepare->in[0].columns);
    prepare->scratch_bytes = fth_ops_align(sizeof(double) * domains * (2 * TASK_COLUMNS + 1));
    return FTH_OK;
}

/* Means, then squared deviations from them; counts. */
static void moments(const struct fth_view *x, const struct fth_view *domain, uint32_t column, uint32_t n,
                    double *mean, double *m2, double *count) {
    uint32_t domains = domain->columns;
    for (uint32_t i = 0; i < x->rows; i++) {
        uint32_t d = fth_domain_of(domain, i);
        fetch_row(x, i, column, n);
        const float *row = x->data + (size_t)i * x->ld + column;
        count[d] += 1;
        for (uint32_t j = 0; j < n; j++)
            mean[(size_t)d * TASK_COLUMNS + j] += (double)row[j];
    }
    for (uint32_t d = 0; d < domains; d++)
        for (uint32_t j = 0; j < n; j++)
            mean[(size_t)d * TASK_COLUMNS + j] /= count[d] > 0 ? count[d] : 1;
    for (uint32_t i = 0; i < x->rows; i++) {
        size_t at = (size_t)fth_domain_of(domain, i) * TASK_COLUMNS;
        fetch_row(x, i, column, n);
        const float *row = x->data + (size_t)i * x->ld + column;
        for (uint32_t j = 0; j < n; j++)
            m2[at + j] += ((double)row[j] - mean[at + j]) * ((double)row[j] - mean[at + j]);
    }
}

static void moments_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *domain = &run->in[1], *scale = &run->out[0], *middle = &run->out[1];
    uint32_t column = run->task * TASK_COLUMNS, n = x->columns - column, domains = domain->columns;
    n = n < TASK_COLUMNS ? n : TASK_COLUMNS;
    double *mean = run->scratch, *m2 = mean + (size_t)domains * TASK_COLUMNS;
    double *count = m2 + (size_t)domains * TASK_COLUMNS;
    memset(mean, 0, sizeof *mean * domains * (2 * TASK_COLUMNS + 1));
    if (run->training)
        moments(x, domain, column, n, mean, m2, count);
    for (uint32_t d = 0; d < domains; d++) {
        float *running_mean = run->in[2].data + (size_t)d * run->in[2].ld + column;
        float *running_variance = run->in[3].data + (size_t)d * run->in[3].ld + column;
        if (run->task == 0)
            run->out[2].data[(size_t)d * run->out[2].ld] = (float)count[d];
        for (uint32_t j = 0; j < n; j++) {
            double centre = (double)running_mean[j], variance = (double)running_variance[j];
            double squares = m2[(size_t)d * TASK_COLUMNS + j];
            if (count[d] > 0) {
                centre = mean[(size_t)d * TASK_COLUMNS + j];
                variance = squares / count[d];
                running_mean[j] += (float)(FTH_NORM_MOMENTUM * (centre - (double)running_mean[j]));
            }
            if (count[d] > 1) /* one row has no unbiased variance */
                running_variance[j] +=
                    (float)(FTH_NORM_MOMENTUM * (squares / (count[d] - 1) - (double)running_variance[j]));
            double factor = 1 / sqrt(variance + FTH_NORM_EPS);
            scale->data[(size_t)d * scale->ld + column + j] = (float)factor;
            middle->data[(size_t)d * middle->ld + column + j] = (float)centre;
        }
    }
}

const struct fth_op fth_op_domain_moments = {.name = "domain_moments",
                                             .min_inputs = 4,
                                             .max_inputs = 4,
                                             .n_outputs = 3,
                                             .granularity = FTH_WHOLE_BATCH,
                                             .shape = moments_shape,
                                             .prepare = moments_prepare,
                                             .cost = fth_ops_cost,
                                             .run = moments_run};

/* ---- domain_affine(x, domain, scale, shift or none), domain_standardise(x, domain, scale, mean, counts) ---- */

static fth_status affine_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_domain_need_table(graph, node, 2, columns, err));
    if (fth_ops_input(graph, node, 3).id != FTH_NONE)
        FTH_TRY(fth_domain_need_table(graph, node, 3, columns, err));
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static fth_status affine_gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                                  fth_id *d_inputs, fth_error *err) {
    fth_id dy = d_outputs[0], domain = node->inputs[1];
    fth_id data[3] = {dy, domain, node->inputs[2]}, sums[3] = {dy, domain, node->inputs[0]};
    if (fth_ops_wants(graph, node, 3))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_sum, node->name, sums, 2, NULL, 0, &d_inputs[3], err));
    if (fth_ops_wants(graph, node, 2))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_sum, node->name, sums, 3, NULL, 0, &d_inputs[2], err));
    if (fth_ops_wants(graph, node, 0))
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_affine, node->name, data, 3, NULL, 0, &d_inputs[0], err));
    return FTH_OK;
}

static void affine_run(const struct fth_run *run) {
    const struct fth_kernels *kernels = fth_kernels_get();
    const struct fth_view *x = &run->in[0], *domain = &run->in[1], *scale = &run->in[2], *y = &run->out[0];
    const struct fth_view *shift = run->node->n_inputs > 3 && run->in[3].data ? &run->in[3] : NULL;
    for (uint32_t i = 0; i < x->rows; i++) {
        size_t d = fth_domain_of(domain, i);
        const float *from = x->data + (size_t)i * x->ld, *factor = scale->data + d * scale->ld;
        float *to = y->data + (size_t)i * y->ld;
        if (shift)
            kernels->affine_cols(1, x->columns, from, x->ld, factor, shift->data + d * shift->ld, to, y->ld);
        else
            kernels->mul(1, x->columns, from, x->ld, factor, scale->ld, to, y->ld);
    }
}

const struct fth_op fth_op_domain_affine = {.name = "domain_affine",
                                            .min_inputs = 3,
                                            .max_inputs = 4,
                                            .n_outputs = 1,
                                            .granularity = FTH_PER_TILE,
                                            .shape = affine_shape,
                                            .gradient = affine_gradient,
                                            .cost = fth_ops_cost,
                                            .run = affine_run};

static fth_status standardise_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(affine_shape(graph, node, err));
    return fth_domain_need_table(graph, node, 4, 1, err);
}

static void standardise_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *scale = &run->in[2], *mean = &run->in[3], *y = &run->out[0];
    for (uint32_t i = 0; i < x->rows; i++) {
        size_t d = fth_domain_of(&run->in[1], i);
        fth_kernels_get()->standardise_cols(1, x->columns, x->data + (size_t)i * x->ld, x->ld, scale->data + d * scale->ld,
                                            mean->data + d * mean->ld, y->data + (size_t)i * y->ld, y->ld);
    }
}

/* dx = scale (dy - mean(dy) - y mean(dy y)) over the domain's rows, y being this node's output. */
static fth_status standardise_gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                                       fth_id *d_inputs, fth_error *err) {
    fth_id dy = d_outputs[0], y = node->outputs[0], domain = node->inputs[1], sums[3] = {dy, domain, y};
    fth_id inputs[7] = {dy, domain, y, node->inputs[2], FTH_NONE, FTH_NONE, node->inputs[4]};
    FTH_TRY(fth_graph_node(graph, &fth_op_domain_sum, node->name, sums, 2, NULL, 0, &inputs[4], err));
    FTH_TRY(fth_graph_node(graph, &fth_op_domain_sum, node->name, sums, 3, NULL, 0, &inputs[5], err));
    return fth_graph_node(graph, &fth_op_domain_standardise_grad, node->name, inputs, 7, NULL, 0, d_inputs,
                          err);
}

const struct fth_op fth_op_domain_standardise = {.name = "domain_standardise",
                                                 .min_inputs = 5,
                                                 .max_inputs = 5,
                                                 .n_outputs = 1,
                                                 .granularity = FTH_PER_TILE,
                                                 .shape = standardise_shape,
                                                 .gradient = standardise_gradient,
                                                 .cost = fth_ops_cost,
                                                 .run = standardise_run};

/* Inputs dy, domain, y, scale, sums of dy, sums of dy y, counts. */
static fth_status grad_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_domain_need(graph, node, 1, 0, err));
    FTH_TRY(fth_ops_need_same(graph, node, 0, 2, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    for (uint32_t i = 3; i < 6; i++)
        FTH_TRY(fth_domain_need_table(graph, node, i, columns, err));
    FTH_TRY(fth_domain_need_table(graph, node, 6, 1, err));
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

static void grad_run(const struct fth_run *run) {
    const struct fth_view *dy = &run->in[0], *domain = &run->in[1], *y = &run->in[2], *scale = &run->in[3];
    const struct fth_view *sum = &run->in[4], *dot = &run->in[5], *counts = &run->in[6], *dx = &run->out[0];
    for (uint32_t i = 0; i < dy->rows; i++) {
        size_t d = fth_domain_of(domain, i);
        float share = 1 / counts->data[d * counts->ld]; /* this row is one of them */
        const float *g = dy->data + (size_t)i * dy->ld, *at = y->data + (size_t)i * y->ld;
        const float *a = scale->data + d * scale->ld, *s = sum->data + d * sum->ld, *t = dot->data + d * dot->ld;
        float *to = dx->data + (size_t)i * dx->ld;
        for (uint32_t j = 0; j < dy->columns; j++)
            to[j] = a[j] * (g[j] - share * (s[j] + at[j] * t[j]));
    }
}

const struct fth_op fth_op_domain_standardise_grad = {.name = "domain_standardise_grad",
                                                      .min_inputs = 7,
                                                      .max_inputs = 7,
                                                      .n_outputs = 1,
                                                      .granularity = FTH_PER_TILE,
                                                      .shape = grad_shape,
                                                      .cost = fth_ops_cost,
                                                      .run = grad_run};
