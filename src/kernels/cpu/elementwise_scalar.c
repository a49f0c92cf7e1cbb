/* Elementwise kernels, plain: the reference of elementwise_simd.h. See kernels.def. */
#include <math.h>

#include "base/random.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/scalar_math.h"

static float act_apply(fth_act act, float x) {
    switch (act) {
    case FTH_ACT_RELU: return 0.0f > x ? 0.0f : x; /* NaN stays */
    case FTH_ACT_SIGMOID: return fth_scalar_sigmoid(x);
    case FTH_ACT_TANH: return tanhf(x);
    case FTH_ACT_GELU: return x * fth_scalar_normal_cdf(x);
    default: return x;
    }
}

void fth_k_bias_act_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *bias,
                           fth_act act, float *y, size_t ldy) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            y[i * ldy + j] = act_apply(act, bias ? x[i * ldx + j] + bias[j] : x[i * ldx + j]);
}

static float act_derivative(fth_act act, float saved) {
    switch (act) {
    case FTH_ACT_SIGMOID: return saved * (1.0f - saved);
    case FTH_ACT_TANH: return 1.0f - saved * saved;
    case FTH_ACT_GELU: return fth_scalar_normal_cdf(saved) + saved * fth_scalar_normal_pdf(saved);
    default: return 1.0f;
    }
}

void fth_k_act_grad_scalar(fth_act act, size_t m, size_t n, const float *saved, size_t lds,
                           const float *dy, size_t lddy, float *dx, size_t lddx) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float s = saved[i * lds + j], d = dy[i * lddy + j];
            /* A choice, not a product, for ReLU: an infinite dy at a closed unit gives 0. */
            if (act == FTH_ACT_RELU)
                dx[i * lddx + j] = s <= 0.0f ? 0.0f : d;
            else
                dx[i * lddx + j] = act == FTH_ACT_NONE ? d : d * act_derivative(act, s);
        }
}

void fth_k_copy_scalar(size_t m, size_t n, const float *a, size_t lda, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = a[i * lda + j];
}

void fth_k_transpose_scalar(size_t m, size_t n, const float *a, size_t lda, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[j * ldo + i] = a[i * lda + j];
}

void fth_k_add_scalar(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                      float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = a[i * lda + j] + b[i * ldb + j];
}

void fth_k_sub_scalar(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                      float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = a[i * lda + j] - b[i * ldb + j];
}

void fth_k_mul_scalar(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                      float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = a[i * lda + j] * b[i * ldb + j];
}

void fth_k_mul_add_scalar(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                          const float *c, size_t ldc, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = a[i * lda + j] * b[i * ldb + j] + c[i * ldc + j];
}

void fth_k_cross_scalar(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                        const float *bias, const float *c, size_t ldc, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = bias ? b[i * ldb + j] + bias[j] : b[i * ldb + j];
            out[i * ldo + j] = a[i * lda + j] * sum + c[i * ldc + j];
        }
}

void fth_k_cross_grad_scalar(size_t m, size_t n, const float *dy, size_t lddy, const float *a, size_t lda,
                             const float *b, size_t ldb, const float *bias, const float *sum, size_t lds,
                             int with_dy, float *da, size_t ldda, float *db, size_t lddb) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float d = dy[i * lddy + j], x = bias ? b[i * ldb + j] + bias[j] : b[i * ldb + j];
            float out = d * x;
            if (sum)
                out = sum[i * lds + j] + out;
            da[i * ldda + j] = with_dy ? out + d : out;
            db[i * lddb + j] = d * a[i * lda + j];
        }
}

void fth_k_scale_scalar(size_t m, size_t n, const float *x, size_t ldx, float factor, float *out,
                        size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = x[i * ldx + j] * factor;
}

void fth_k_affine_cols_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                              const float *shift, float *y, size_t ldy) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            y[i * ldy + j] = x[i * ldx + j] * scale[j] + shift[j];
}

void fth_k_standardise_cols_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                                   const float *mean, float *y, size_t ldy) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            y[i * ldy + j] = (x[i * ldx + j] - mean[j]) * scale[j];
}

void fth_k_affine2_cols_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *y,
                               size_t ldy, const float *a, const float *b, const float *c, float *out,
                               size_t ldo) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            out[i * ldo + j] = a[j] * x[i * ldx + j] + b[j] * y[i * ldy + j] + c[j];
}

void fth_k_prelu_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *alpha, float *y,
                        size_t ldy) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float v = x[i * ldx + j];
            y[i * ldy + j] = v > 0.0f ? v : alpha[j] * v;
        }
}

void fth_k_prelu_grad_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *alpha,
                             const float *dy, size_t lddy, float *dx, size_t lddx, float *dalpha) {
    for (size_t j = 0; j < n; j++)
        dalpha[j] = 0.0f;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float v = x[i * ldx + j], d = dy[i * lddy + j];
            dx[i * lddx + j] = v > 0.0f ? d : alpha[j] * d;
            dalpha[j] += v > 0.0f ? 0.0f : v * d;
        }
}

void fth_k_dice_gate_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *xn,
                            size_t ldxn, const float *alpha, float *y, size_t ldy) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float p = fth_scalar_sigmoid(xn[i * ldxn + j]);
            y[i * ldy + j] = (p + (1.0f - p) * alpha[j]) * x[i * ldx + j];
        }
}

void fth_k_dice_gate_grad_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *xn,
                                 size_t ldxn, const float *alpha, const float *dy, size_t lddy,
                                 float *dx, size_t lddx, float *dxn, size_t lddxn, float *dalpha) {
    for (size_t j = 0; j < n; j++)
        dalpha[j] = 0.0f;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float p = fth_scalar_sigmoid(xn[i * ldxn + j]), q = 1.0f - p;
            float d = dy[i * lddy + j], dv = d * x[i * ldx + j];
            dx[i * lddx + j] = d * (p + q * alpha[j]);
            dxn[i * lddxn + j] = dv * (1.0f - alpha[j]) * (p * q);
            dalpha[j] += dv * q;
        }
}

void fth_k_dice_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                       const float *mean, const float *alpha, float *y, size_t ldy) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float v = x[i * ldx + j], p = fth_scalar_sigmoid((v - mean[j]) * scale[j]);
            y[i * ldy + j] = (p + (1.0f - p) * alpha[j]) * v;
        }
}

void fth_k_dice_sums_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                            const float *mean, const float *alpha, const float *dy, size_t lddy,
                            float *sum, float *dot, float *dalpha, float *y, size_t ldy) {
    for (size_t j = 0; j < n; j++)
        sum[j] = dot[j] = dalpha[j] = 0.0f;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float v = x[i * ldx + j], xn = (v - mean[j]) * scale[j], dv = dy[i * lddy + j] * v;
            float p = fth_scalar_sigmoid(xn), q = 1.0f - p, dxn = dv * (1.0f - alpha[j]) * (p * q);
            sum[j] += dxn;
            dot[j] += dxn * xn;
            dalpha[j] += dv * q;
            y[i * ldy + j] = (p + q * alpha[j]) * v;
        }
}

void fth_k_dice_grad_scalar(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                            const float *mean, const float *alpha, const float *dy, size_t lddy,
                            const float *a, const float *b, const float *c, float *dx, size_t lddx) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float v = x[i * ldx + j], xn = (v - mean[j]) * scale[j], d = dy[i * lddy + j];
            float p = fth_scalar_sigmoid(xn), q = 1.0f - p, dxn = d * v * (1.0f - alpha[j]) * (p * q);
            float through = a[j] * dxn + b[j] * xn + c[j];
            dx[i * lddx + j] = d * (p + q * alpha[j]) + through;
        }
}

void fth_k_dropout_scalar(size_t m, size_t n, const float *x, size_t ldx, uint64_t seed, uint64_t step,
                          uint32_t node, uint64_t row0, float keep, float *y, size_t ldy) {
    for (size_t i = 0; i < m; i++)
        for (size_t block = 0; block < n; block += 64)
            for (size_t lane = block; lane < block + 16 && lane < n; lane++) {
                uint32_t words[4];
                fth_random_draw(seed, FTH_RANDOM_DROPOUT, step,
                                fth_dropout_counter(node, row0 + i, lane), words);
                for (size_t j = lane; j < n && j < block + 64; j += 16)
                    y[i * ldy + j] = fth_random_unit(words[fth_dropout_word(j)]) < keep
                                         ? x[i * ldx + j] / keep
                                         : 0.0f;
            }
}
