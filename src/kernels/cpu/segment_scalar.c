/* Ragged rows, plain: the reference of segment_simd.h. See kernels.def. */
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
