/* Ragged rows, plain: the reference of segment_simd.h. See kernels.def. */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"

void fth_k_segment_expand_scalar(size_t m, const uint32_t *offsets, size_t n, const float *x,
                                 size_t ldx, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t t = offsets[i] - offsets[0]; t < offsets[i + 1] - offsets[0]; t++)
            for (size_t j = 0; j < n; j++)
                out[t * ldo + j] = x[i * ldx + j];
}

void fth_k_segment_sum_scalar(size_t m, const uint32_t *offsets, size_t n, const float *x, size_t ldx,
                              const float *w, size_t ldw, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = 0.0f;
        for (size_t t = offsets[i] - offsets[0]; t < offsets[i + 1] - offsets[0]; t++)
            for (size_t j = 0; j < n; j++)
                out[i * ldo + j] += w ? w[t * ldw] * x[t * ldx + j] : x[t * ldx + j];
    }
}

void fth_k_segment_sum_grad_scalar(size_t m, const uint32_t *offsets, size_t n, const float *x,
                                   size_t ldx, const float *w, size_t ldw, const float *dout,
                                   size_t lddo, float *dx, size_t lddx, float *dw, size_t lddw) {
    for (size_t i = 0; i < m; i++)
        for (size_t t = offsets[i] - offsets[0]; t < offsets[i + 1] - offsets[0]; t++) {
            const float *d = dout + i * lddo;
            if (dx)
                for (size_t j = 0; j < n; j++)
                    dx[t * lddx + j] = w ? w[t * ldw] * d[j] : d[j];
            if (dw) {
                float sum = 0.0f;
                for (size_t j = 0; j < n; j++)
                    sum += x[t * ldx + j] * d[j];
                dw[t * lddw] = sum;
            }
        }
}

void fth_k_segment_softmax_scalar(size_t m, const uint32_t *offsets, size_t n, const float *x,
                                  size_t ldx, float *y, size_t ldy) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            size_t begin = offsets[i] - offsets[0], end = offsets[i + 1] - offsets[0];
            float most = -INFINITY, sum = 0.0f;
            for (size_t t = begin; t < end; t++)
                most = fmaxf(most, x[t * ldx + j]);
            for (size_t t = begin; t < end; t++) {
                y[t * ldy + j] = expf(x[t * ldx + j] - most);
                sum += y[t * ldy + j];
            }
            for (size_t t = begin; t < end; t++)
                y[t * ldy + j] /= sum;
        }
}

void fth_k_segment_softmax_grad_scalar(size_t m, const uint32_t *offsets, size_t n, const float *y,
                                       size_t ldy, const float *dy, size_t lddy, float *dx,
                                       size_t lddx) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            size_t begin = offsets[i] - offsets[0], end = offsets[i + 1] - offsets[0];
            float sum = 0.0f;
            for (size_t t = begin; t < end; t++)
                sum += y[t * ldy + j] * dy[t * lddy + j];
            for (size_t t = begin; t < end; t++)
                dx[t * lddx + j] = y[t * ldy + j] * (dy[t * lddy + j] - sum);
        }
}
