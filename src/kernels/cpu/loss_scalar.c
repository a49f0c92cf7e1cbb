/* Binary cross-entropy and blocks of a softmax, plain: the reference of loss_simd.h. See kernels.def. */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/scalar_math.h"

void fth_k_bce_scalar(size_t m, const float *z, size_t ldz, const float *y, const float *weights,
                      float smoothing, float scale, float *loss, float *dz, size_t lddz) {
    for (size_t i = 0; i < m; i++) {
        float v = z[i * ldz], w = weights ? weights[i] : 1.0f;
        float t = y[i] * (1.0f - smoothing) + smoothing * 0.5f;
        float positive = 0.0f > v ? 0.0f : v;
        loss[i] = w * (positive - v * t + log1pf(expf(-fabsf(v))));
        dz[i * lddz] = w * scale * (fth_scalar_sigmoid(v) - t);
    }
}

void fth_k_softmax_block_scalar(size_t m, size_t n, float *x, size_t ldx, const float *shift, float *most,
                                float *sum, float *factor) {
    for (size_t i = 0; i < m; i++) {
        float *row = x + i * ldx, largest = most[i], total = 0;
        for (size_t j = 0; j < n; j++) {
            row[j] -= shift[j];
            largest = row[j] > largest ? row[j] : largest;
        }
        for (size_t j = 0; j < n; j++)
            total += row[j] = expf(row[j] - largest);
        factor[i] = expf(most[i] - largest);
        sum[i] = sum[i] * factor[i] + total;
        most[i] = largest;
    }
}
