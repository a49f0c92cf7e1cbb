/* Interactions of f vectors of d floats, plain: the reference of interact_simd.h. See kernels.def. */
#include "kernels/cpu/cpu_kernels.h"

void fth_k_fm_scalar(size_t m, size_t f, size_t d, const float *x, size_t ldx, float *out,
                     size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        float total = 0.0f;
        for (size_t c = 0; c < d; c++) {
            float sum = 0.0f, squares = 0.0f;
            for (size_t a = 0; a < f; a++) {
                float v = x[i * ldx + a * d + c];
                sum += v;
                squares += v * v;
            }
            total += sum * sum - squares;
        }
        out[i * ldo] = 0.5f * total;
    }
}

void fth_k_fm_grad_scalar(size_t m, size_t f, size_t d, const float *x, size_t ldx, const float *dout,
                          size_t lddo, float *dx, size_t lddx) {
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < d; c++) {
            float sum = 0.0f;
            for (size_t a = 0; a < f; a++)
                sum += x[i * ldx + a * d + c];
            for (size_t a = 0; a < f; a++)
                dx[i * lddx + a * d + c] = dout[i * lddo] * (sum - x[i * ldx + a * d + c]);
        }
}

void fth_k_dot_interaction_scalar(size_t m, size_t f, size_t d, const float *x, size_t ldx, float *out,
                                  size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        const float *v = x + i * ldx;
        float *o = out + i * ldo;
        for (size_t a = 1; a < f; a++)
            for (size_t b = 0; b < a; b++) {
                float sum = 0.0f;
                for (size_t c = 0; c < d; c++)
                    sum += v[a * d + c] * v[b * d + c];
                *o++ = sum;
            }
    }
}

void fth_k_dot_interaction_grad_scalar(size_t m, size_t f, size_t d, const float *x, size_t ldx,
                                       const float *dout, size_t lddo, float *dx, size_t lddx) {
    for (size_t i = 0; i < m; i++) {
        const float *v = x + i * ldx, *g = dout + i * lddo;
        float *dv = dx + i * lddx;
        for (size_t c = 0; c < f * d; c++)
            dv[c] = 0.0f;
        for (size_t a = 1; a < f; a++)
            for (size_t b = 0; b < a; b++, g++)
                for (size_t c = 0; c < d; c++) {
                    dv[a * d + c] += *g * v[b * d + c];
                    dv[b * d + c] += *g * v[a * d + c];
                }
    }
}
