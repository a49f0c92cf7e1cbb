/* Sums and products by row and column, plain: the reference of reduce_simd.h. See kernels.def. */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"

void fth_k_col_sum_scalar(size_t m, size_t n, const float *x, size_t ldx, float *out) {
    for (size_t j = 0; j < n; j++)
        out[j] = 0.0f;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[j] += x[i * ldx + j];
}

void fth_k_col_dot_scalar(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                          float *out) {
    for (size_t j = 0; j < n; j++)
        out[j] = 0.0f;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[j] += a[i * lda + j] * b[i * ldb + j];
}

void fth_k_col_weighted_sum_scalar(size_t m, size_t n, const float *s, size_t lds, const float *x,
                                   size_t ldx, float *out) {
    for (size_t j = 0; j < n; j++)
        out[j] = 0.0f;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[j] += s[i * lds] * x[i * ldx + j];
}

void fth_k_col_moments_scalar(size_t m, size_t n, const float *x, size_t ldx, float *mean, float *m2) {
    for (size_t j = 0; j < n; j++)
        mean[j] = m2[j] = 0.0f;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            mean[j] += x[i * ldx + j] - x[j];
    for (size_t j = 0; j < n; j++)
        mean[j] = x[j] + mean[j] / (float)m;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float d = x[i * ldx + j] - mean[j];
            m2[j] += d * d;
        }
}

void fth_k_row_dot_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *w, float bias,
                          float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        float sum = 0.0f;
        for (size_t j = 0; j < n; j++)
            sum += x[i * ldx + j] * w[j];
        out[i * ldo] = bias + sum;
    }
}

void fth_k_row_dot_rows_scalar(size_t m, size_t n, const float *a, size_t lda, const float *b,
                               size_t ldb, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        float sum = 0.0f;
        for (size_t j = 0; j < n; j++)
            sum += a[i * lda + j] * b[i * ldb + j];
        out[i * ldo] = sum;
    }
}

void fth_k_outer_scalar(size_t m, size_t n, const float *s, size_t lds, const float *w, float *out,
                        size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = s[i * lds] * w[j];
}

void fth_k_scale_rows_scalar(size_t m, size_t n, const float *s, size_t lds, const float *x, size_t ldx,
                             const float *c, size_t ldc, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float v = s[i * lds] * x[i * ldx + j];
            out[i * ldo + j] = c ? v + c[i * ldc + j] : v;
        }
}

void fth_k_picked_dots_scalar(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                              const uint32_t *rows, float *out) {
    for (size_t i = 0; i < m; i++)
        fth_k_row_dot_rows_scalar(1, n, a + i * lda, lda, b + rows[i] * ldb, ldb, out + i, 1);
}

void fth_k_picked_grads_scalar(size_t m, size_t n, const float *s, size_t lds, const float *a, size_t lda,
                               const float *b, size_t ldb, const uint32_t *rows, float *da, size_t ldda,
                               float *db, size_t lddb) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            da[i * ldda + j] += s[i * lds] * b[rows[i] * ldb + j];
            db[rows[i] * lddb + j] += s[i * lds] * a[i * lda + j];
        }
}

double fth_k_sum_squares_scalar(size_t n, const float *x) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

void fth_k_layer_norm_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *gamma,
                             const float *beta, float eps, float *y, size_t ldy, float *mean,
                             float *rstd) {
    for (size_t i = 0; i < m; i++) {
        const float *row = x + i * ldx;
        float sum = 0.0f, squares = 0.0f;
        for (size_t j = 0; j < n; j++)
            sum += row[j];
        float average = n ? sum / (float)n : 0.0f;
        for (size_t j = 0; j < n; j++)
            squares += (row[j] - average) * (row[j] - average);
        float r = 1.0f / sqrtf((n ? squares / (float)n : 0.0f) + eps);
        for (size_t j = 0; j < n; j++)
            y[i * ldy + j] = (row[j] - average) * r * gamma[j] + beta[j];
        mean[i] = average;
        rstd[i] = r;
    }
}

/* dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gamma, xhat = (x - mean) * rstd. */
void fth_k_layer_norm_grad_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *gamma,
                                  const float *mean, const float *rstd, const float *dy, size_t lddy,
                                  float *dx, size_t lddx, float *dgamma, float *dbeta) {
    for (size_t j = 0; j < n; j++)
        dgamma[j] = dbeta[j] = 0.0f;
    for (size_t i = 0; i < m; i++) {
        const float *row = x + i * ldx, *d = dy + i * lddy;
        float sum = 0.0f, sum_xhat = 0.0f;
        for (size_t j = 0; j < n; j++) {
            float xhat = (row[j] - mean[i]) * rstd[i], g = d[j] * gamma[j];
            sum += g;
            sum_xhat += g * xhat;
            dgamma[j] += d[j] * xhat;
            dbeta[j] += d[j];
        }
        sum /= (float)n;
        sum_xhat /= (float)n;
        for (size_t j = 0; j < n; j++) {
            float xhat = (row[j] - mean[i]) * rstd[i];
            dx[i * lddx + j] = rstd[i] * (d[j] * gamma[j] - sum - xhat * sum_xhat);
        }
    }
}
