/* Batch normalisation: col_moments (a tile's mean and squared deviations), bn_finalize (Chan et al.
 * 1983: moments of parts combined, here in double in tile order), bn_apply ((x - mean) scale).
 *
 *   tiles: col_moments | whole batch: bn_finalize | tiles: bn_apply
 *
 * Training uses the batch's moments and keeps running ones; evaluation uses the running ones. Rows
 * are examples or positions; tiles without rows are left out. The gradient is in batch_norm_grad.c.
 */
#include <math.h>

#include "ops/ops_private.h"

#define TASK_COLUMNS 64

static fth_status moments_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    node->training_only = 1;
    FTH_TRY(fth_ops_output_tiles(graph, node, 0, columns, err));
    FTH_TRY(fth_ops_output_tiles(graph, node, 1, columns, err));
    return fth_ops_output_tiles(graph, node, 2, 1, err);
}

static void moments_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0];
    run->out[2].data[0] = (float)x->rows;
    if (x->rows) {
        fth_kernels_get()->col_moments(x->rows, x->columns, x->data, x->ld, run->out[0].data,
                                       run->out[1].data);
    } else {
        fth_ops_zero_row(&run->out[0]);
        fth_ops_zero_row(&run->out[1]);
    }
}

const struct fth_op fth_op_col_moments = {.name = "col_moments",
                                          .min_inputs = 1,
                                          .max_inputs = 1,
                                          .n_outputs = 3,
                                          .granularity = FTH_PER_TILE,
                                          .shape = moments_shape,
                                          .cost = fth_ops_cost,
                                          .run = moments_run};

static fth_status finalize_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_tiles(graph, node, 0, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_tiles(graph, node, 1, columns, err));
    FTH_TRY(fth_ops_need_tiles(graph, node, 2, 1, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 3, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 4, 1, columns, err));
    FTH_TRY(fth_graph_output(graph, node, 0, FTH_WHOLE, -1, 1, columns, err));
    FTH_TRY(fth_graph_output(graph, node, 1, FTH_WHOLE, -1, 1, columns, err));
    return fth_graph_output(graph, node, 2, FTH_WHOLE, -1, 1, 1, err);
}

static fth_status finalize_prepare(struct fth_prepare *prepare, fth_error *err) {
    prepare->tasks = (prepare->out[0].columns + TASK_COLUMNS - 1) / TASK_COLUMNS;
    return FTH_OK;
}

/* Columns [column, column + n) of all tiles' moments as the batch's; returns the number of rows. */
static double moments_combine(const struct fth_run *run, uint32_t column, uint32_t n, double *mean,
                              double *m2) {
    const struct fth_view *means = &run->in[0], *squares = &run->in[1], *counts = &run->in[2];
    double count = 0;
    for (uint32_t j = 0; j < n; j++)
        mean[j] = m2[j] = 0;
    for (uint32_t t = 0; t < means->rows; t++) {
        double more = counts->data[(size_t)t * counts->ld];
        if (!(more > 0))
            continue;
        const float *tile_mean = means->data + (size_t)t * means->ld + column;
        const float *tile_m2 = squares->data + (size_t)t * squares->ld + column;
        double part = more / (count + more), cross = count * part;
        for (uint32_t j = 0; j < n; j++) {
            double delta = tile_mean[j] - mean[j];
            mean[j] += delta * part;
            m2[j] += tile_m2[j] + delta * delta * cross;
        }
        count += more;
    }
    return count;
}

static void finalize_run(const struct fth_run *run) {
    float *scale = run->out[0].data, *middle = run->out[1].data;
    float *running_mean = run->in[3].data, *running_variance = run->in[4].data;
    uint32_t column = run->task * TASK_COLUMNS, n = run->out[0].columns - column;
    n = n < TASK_COLUMNS ? n : TASK_COLUMNS;
    double mean[TASK_COLUMNS], m2[TASK_COLUMNS];
    double count = run->training ? moments_combine(run, column, n, mean, m2) : 0;
    if (run->task == 0)
        run->out[2].data[0] = (float)count;
    for (uint32_t j = 0; j < n; j++) {
        double centre = running_mean[column + j], variance = running_variance[column + j];
        if (count > 0) {
            centre = mean[j];
            variance = m2[j] / count;
            running_mean[column + j] += (float)(FTH_NORM_MOMENTUM * (mean[j] - running_mean[column + j]));
        }
        if (count > 1) /* one row has no unbiased variance */
            running_variance[column + j] +=
                (float)(FTH_NORM_MOMENTUM * (m2[j] / (count - 1) - running_variance[column + j]));
        scale[column + j] = (float)(1 / sqrt(variance + FTH_NORM_EPS));
        middle[column + j] = (float)centre;
    }
}

const struct fth_op fth_op_bn_finalize = {.name = "bn_finalize",
                                          .min_inputs = 5,
                                          .max_inputs = 5,
                                          .n_outputs = 3,
                                          .granularity = FTH_WHOLE_BATCH,
                                          .shape = finalize_shape,
                                          .prepare = finalize_prepare,
                                          .cost = fth_ops_cost,
                                          .run = finalize_run};

static fth_status apply_shape(fth_graph *graph, struct fth_node *node, fth_error *err) {
    FTH_TRY(fth_ops_need_rows(graph, node, 0, err));
    uint32_t columns = fth_ops_input(graph, node, 0).columns;
    FTH_TRY(fth_ops_need_whole(graph, node, 1, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 2, 1, columns, err));
    FTH_TRY(fth_ops_need_whole(graph, node, 3, 1, 1, err));
    return fth_ops_output_like(graph, node, 0, 0, columns, err);
}

/* dx = scale (dy - mean(dy) - y mean(dy y)), y being this node's output. */
static fth_status apply_gradient(fth_graph *graph, const struct fth_node *node,
                                 const fth_id *d_outputs, fth_id *d_inputs, fth_error *err) {
    fth_id dy = d_outputs[0], y = node->outputs[0], sums[4], factors[3];
    fth_id products[2] = {dy, y};
    FTH_TRY(fth_graph_node(graph, &fth_op_col_sum, node->name, &dy, 1, NULL, 0, &sums[0], err));
    FTH_TRY(
        fth_graph_node(graph, &fth_op_col_dot, node->name, products, 2, NULL, 0, &sums[1], err));
    sums[2] = node->inputs[1];
    sums[3] = node->inputs[3];
    FTH_TRY(fth_graph_node(graph, &fth_op_bn_grad_finalize, node->name, sums, 4, NULL, 0, factors,
                           err));
    fth_id inputs[5] = {dy, y, factors[0], factors[1], factors[2]};
    return fth_graph_node(graph, &fth_op_bn_grad_apply, node->name, inputs, 5, NULL, 0, d_inputs,
                          err);
}

static void apply_run(const struct fth_run *run) {
    const struct fth_view *x = &run->in[0], *y = &run->out[0];
    fth_kernels_get()->standardise_cols(x->rows, x->columns, x->data, x->ld, run->in[1].data,
                                        run->in[2].data, y->data, y->ld);
}

const struct fth_op fth_op_bn_apply = {.name = "bn_apply",
                                       .min_inputs = 4,
                                       .max_inputs = 4,
                                       .n_outputs = 1,
                                       .granularity = FTH_PER_TILE,
                                       .shape = apply_shape,
                                       .gradient = apply_gradient,
                                       .cost = fth_ops_cost,
                                       .run = apply_run};
