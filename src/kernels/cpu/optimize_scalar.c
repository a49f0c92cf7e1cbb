/* Optimizer steps, plain: the reference of optimize_simd.h, which computes the same expressions in the
 * same order without fused multiply-adds, so that all instruction sets agree to the bit (rowwise
 * Adagrad's mean apart). See kernels.def. */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"

static float gradient(float g, float w, const struct fth_opt_args *a) {
    return g * a->grad_scale + a->l2 * w;
}

void fth_k_opt_sgd_scalar(size_t n, float *w, const float *g, const struct fth_opt_args *a) {
    for (size_t i = 0; i < n; i++)
        w[i] -= a->lr * gradient(g[i], w[i], a);
}

void fth_k_opt_momentum_scalar(size_t n, float *w, float *s, const float *g,
                               const struct fth_opt_args *a) {
    for (size_t i = 0; i < n; i++) {
        s[i] = a->momentum * s[i] + gradient(g[i], w[i], a);
        w[i] -= a->lr * s[i];
    }
}

void fth_k_opt_adagrad_scalar(size_t n, float *w, float *s, const float *g,
                              const struct fth_opt_args *a) {
    for (size_t i = 0; i < n; i++) {
        float d = gradient(g[i], w[i], a);
        s[i] += d * d;
        w[i] -= a->lr * d / (sqrtf(s[i]) + a->eps);
    }
}

void fth_k_opt_rowwise_adagrad_scalar(size_t n, float *w, float *s, const float *g,
                                      const struct fth_opt_args *a) {
    if (n == 0)
        return;
    float squares = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float d = gradient(g[i], w[i], a);
        squares += d * d;
    }
    *s += squares / (float)n;
    float divisor = sqrtf(*s) + a->eps;
    for (size_t i = 0; i < n; i++)
        w[i] -= a->lr * gradient(g[i], w[i], a) / divisor;
}

void fth_k_opt_adam_scalar(size_t n, float *w, float *m, float *v, const float *g,
                           const struct fth_opt_args *a) {
    float rate = a->lr / a->correction1, root = sqrtf(a->correction2);
    float rest1 = 1.0f - a->beta1, rest2 = 1.0f - a->beta2, decay = a->lr * a->weight_decay;
    for (size_t i = 0; i < n; i++) {
        float d = gradient(g[i], w[i], a);
        m[i] = a->beta1 * m[i] + rest1 * d;
        v[i] = a->beta2 * v[i] + rest2 * (d * d);
        w[i] = (w[i] - decay * w[i]) - rate * m[i] / (sqrtf(v[i]) / root + a->eps);
    }
}

/* z says what w is by this step's rate, so rates that change from step to step would change w without a gradient: the
 * schedule is in z's gradients. */
void fth_k_opt_ftrl_scalar(size_t n, float *w, float *z, float *nn, const float *g,
                           const struct fth_opt_args *a) {
    int by_root = a->lr_power == -0.5f;
    for (size_t i = 0; i < n; i++) {
        float d = g[i] * a->grad_scale;
        float squares = nn[i] + d * d;
        float before = by_root ? sqrtf(nn[i]) : powf(nn[i], -a->lr_power);
        float after = by_root ? sqrtf(squares) : powf(squares, -a->lr_power);
        float zi = z[i] + (a->schedule * d - (after - before) / a->lr * w[i]);
        float shrunk = zi - copysignf(a->l1, zi), divisor = (a->beta + after) / a->lr + a->l2;
        nn[i] = squares;
        z[i] = zi;
        w[i] = fabsf(zi) <= a->l1 || divisor == 0 ? 0.0f : -shrunk / divisor;
    }
}

void fth_k_opt_lamb_direction_scalar(size_t n, const float *w, float *m, float *v, const float *g,
                                     const struct fth_opt_args *a, float *r) {
    float rest1 = 1.0f - a->beta1, rest2 = 1.0f - a->beta2;
    for (size_t i = 0; i < n; i++) {
        float d = gradient(g[i], w[i], a);
        m[i] = a->beta1 * m[i] + rest1 * d;
        v[i] = a->beta2 * v[i] + rest2 * (d * d);
        r[i] = m[i] / a->correction1 / (sqrtf(v[i] / a->correction2) + a->eps) + a->weight_decay * w[i];
    }
}

void fth_k_axpy_scalar(size_t n, float factor, const float *r, float *w) {
    for (size_t i = 0; i < n; i++)
        w[i] += factor * r[i];
}
