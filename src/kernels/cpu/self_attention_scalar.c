/* Self-attention within segments and their maxima, plain: the reference of self_attention_simd.h. See
 * kernels.def. */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"

static float dot(size_t n, const float *a, const float *b) {
    float sum = 0.0f;
    for (size_t j = 0; j < n; j++)
        sum += a[j] * b[j];
    return sum;
}

/* p[j] = softmax over the rows j of k of scale <q, k[j]>. */
static void weights(const struct fth_self_attention *a, size_t rows, const float *q, const float *k,
                    float *p) {
    float most = -INFINITY, sum = 0.0f;
    for (size_t j = 0; j < rows; j++) {
        p[j] = dot(a->d, q, k + j * a->ldx);
        most = p[j] > most || isnan(p[j]) ? p[j] : most;
    }
    for (size_t j = 0; j < rows; j++) {
        p[j] = expf(a->scale * (p[j] - most));
        sum += p[j];
    }
    for (size_t j = 0; j < rows; j++)
        p[j] /= sum;
}

void fth_k_self_attention_scalar(const struct fth_self_attention *a, float *y, size_t ldy,
                                 float *scratch) {
    for (size_t i = 0; i < a->m; i++) {
        size_t begin = a->offsets[i] - a->offsets[0], rows = a->offsets[i + 1] - a->offsets[i];
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = begin * a->ldx + h * a->d;
            for (size_t t = 0; t < rows; t++) {
                float *out = y + (begin + t) * ldy + h * a->d;
                weights(a, rows, a->q + at + t * a->ldx, a->k + at, scratch);
                for (size_t e = 0; e < a->d; e++)
                    out[e] = 0.0f;
                for (size_t j = 0; j < rows; j++)
                    for (size_t e = 0; e < a->d; e++)
                        out[e] += scratch[j] * a->v[at + j * a->ldx + e];
            }
        }
    }
}

/* One query's share of a head's gradients; p: its weights, dp: room for as many. */
static void query_grad(const struct fth_self_attention *a, size_t rows, size_t t, size_t at,
                       const float *dy, float *dq, float *dk, float *dv, size_t lddx, float *p,
                       float *dp) {
    const float *q = a->q + at + t * a->ldx;
    float mean = 0.0f;
    weights(a, rows, q, a->k + at, p);
    for (size_t j = 0; j < rows; j++) {
        dp[j] = dot(a->d, dy, a->v + at + j * a->ldx);
        mean += p[j] * dp[j];
    }
    for (size_t j = 0; j < rows; j++) {
        float ds = a->scale * p[j] * (dp[j] - mean);
        for (size_t e = 0; e < a->d; e++) {
            dq[t * lddx + e] += ds * a->k[at + j * a->ldx + e];
            dk[j * lddx + e] += ds * q[e];
            dv[j * lddx + e] += p[j] * dy[e];
        }
    }
}

void fth_k_self_attention_grad_scalar(const struct fth_self_attention *a, const float *dy, size_t lddy,
                                      float *dq, float *dk, float *dv, size_t lddx, float *scratch) {
    for (size_t i = 0; i < a->m; i++) {
        size_t begin = a->offsets[i] - a->offsets[0], rows = a->offsets[i + 1] - a->offsets[i];
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = begin * a->ldx + h * a->d, to = begin * lddx + h * a->d;
            for (size_t t = 0; t < rows; t++)
                for (size_t e = 0; e < a->d; e++)
                    dq[to + t * lddx + e] = dk[to + t * lddx + e] = dv[to + t * lddx + e] = 0.0f;
            for (size_t t = 0; t < rows; t++)
                query_grad(a, rows, t, at, dy + (begin + t) * lddy + h * a->d, dq + to, dk + to,
                           dv + to, lddx, scratch, scratch + rows);
        }
    }
}

void fth_k_segment_max_scalar(size_t m, const uint32_t *offsets, size_t n, const float *x, size_t ldx,
                              float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i];
        for (size_t j = 0; j < n; j++) {
            float most = rows ? x[begin * ldx + j] : 0.0f;
            for (size_t t = 1; t < rows; t++)
                most = x[(begin + t) * ldx + j] > most ? x[(begin + t) * ldx + j] : most;
            out[i * ldo + j] = most;
        }
    }
}

void fth_k_segment_max_grad_scalar(size_t m, const uint32_t *offsets, size_t n, const float *x,
                                   size_t ldx, const float *y, size_t ldy, const float *dy,
                                   size_t lddy, float *dx, size_t lddx) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float left = dy[i * lddy + j];
            for (size_t t = offsets[i] - offsets[0]; t < offsets[i + 1] - offsets[0]; t++) {
                int first = !(x[t * ldx + j] < y[i * ldy + j]);
                dx[t * lddx + j] = first ? left : 0.0f;
                left = first ? 0.0f : left;
            }
        }
}
