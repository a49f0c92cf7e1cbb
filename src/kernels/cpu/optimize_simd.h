/* Optimizer steps for any vector width: optimize_avx2.c and optimize_avx512.c include it. True
 * square roots and divisions, no fused multiply-adds, the scalar form's order: the results are the
 * scalar ones to the bit (rowwise Adagrad's mean apart). See kernels.def. */
#ifndef FTH_KERNELS_CPU_OPTIMIZE_SIMD_H
#define FTH_KERNELS_CPU_OPTIMIZE_SIMD_H

#include <math.h>

#include "kernels/cpu/optimize_lanes_simd.h"

void FTH_K(opt_sgd)(size_t n, float *w, const float *g, const struct fth_opt_args *args) {
    const struct fth_opt_args a = *args; /* a copy, so that stores to w cannot change it */
    vt t = v_tail(n % VW);
    size_t i = 0;
    for (; i + VW <= n; i += VW)
        sgd_lanes(0, t, w + i, g + i, &a);
    if (i < n)
        sgd_lanes(1, t, w + i, g + i, &a);
}

static FTH_INLINE void momentum_lanes(int part, vt t, float *w, float *s, const float *g,
                                      const struct fth_opt_args *a) {
    vf x = v_get(w, part, t);
    vf speed = v_add(v_mul(v_set(a->momentum), v_get(s, part, t)), gradient(part, t, g, x, a));
    v_put(s, part, t, speed);
    v_put(w, part, t, v_sub(x, v_mul(v_set(a->lr), speed)));
}

void FTH_K(opt_momentum)(size_t n, float *w, float *s, const float *g,
                         const struct fth_opt_args *args) {
    const struct fth_opt_args a = *args;
    vt t = v_tail(n % VW);
    size_t i = 0;
    for (; i + VW <= n; i += VW)
        momentum_lanes(0, t, w + i, s + i, g + i, &a);
    if (i < n)
        momentum_lanes(1, t, w + i, s + i, g + i, &a);
}

void FTH_K(opt_adagrad)(size_t n, float *w, float *s, const float *g,
                        const struct fth_opt_args *args) {
    const struct fth_opt_args a = *args;
    vt t = v_tail(n % VW);
    size_t i = 0;
    for (; i + VW <= n; i += VW)
        adagrad_lanes(0, t, w + i, s + i, g + i, &a);
    if (i < n)
        adagrad_lanes(1, t, w + i, s + i, g + i, &a);
}

static FTH_INLINE vf square_lanes(int part, vt t, const float *w, const float *g,
                                  const struct fth_opt_args *a, vf sum) {
    vf d = gradient(part, t, g, v_get(w, part, t), a);
    return v_add(sum, v_mul(d, d));
}

static FTH_INLINE void rowwise_lanes(int part, vt t, float *w, const float *g, vf divisor,
                                     const struct fth_opt_args *a) {
    vf x = v_get(w, part, t), d = gradient(part, t, g, x, a);
    v_put(w, part, t, v_sub(x, v_div(v_mul(v_set(a->lr), d), divisor)));
}

void FTH_K(opt_rowwise_adagrad)(size_t n, float *w, float *s, const float *g,
                                const struct fth_opt_args *args) {
    const struct fth_opt_args a = *args;
    vt t = v_tail(n % VW);
    vf sum = v_zero();
    size_t i = 0;
    if (n == 0)
        return;
    for (; i + VW <= n; i += VW)
        sum = square_lanes(0, t, w + i, g + i, &a, sum);
    if (i < n)
        sum = square_lanes(1, t, w + i, g + i, &a, sum);
    *s += v_sum(sum) / (float)n;
    vf divisor = v_set(sqrtf(*s) + a.eps);
    for (i = 0; i + VW <= n; i += VW)
        rowwise_lanes(0, t, w + i, g + i, divisor, &a);
    if (i < n)
        rowwise_lanes(1, t, w + i, g + i, divisor, &a);
}

void FTH_K(opt_adam)(size_t n, float *w, float *m, float *v, const float *g,
                     const struct fth_opt_args *args) {
    const struct fth_opt_args a = *args;
    float rate = a.lr / a.correction1, root = sqrtf(a.correction2);
    vt t = v_tail(n % VW);
    size_t i = 0;
    for (; i + VW <= n; i += VW)
        adam_lanes(0, t, w + i, m + i, v + i, g + i, &a, rate, root);
    if (i < n)
        adam_lanes(1, t, w + i, m + i, v + i, g + i, &a, rate, root);
}

/* lr_power -0.5: the power is a square root. */
static FTH_INLINE void ftrl_lanes(int part, vt t, float *w, float *z, float *nn, const float *g,
                                  const struct fth_opt_args *a) {
    vf d = v_mul(v_get(g, part, t), v_set(a->grad_scale)), rate = v_set(a->lr), l1 = v_set(a->l1);
    vf before = v_get(nn, part, t), after = v_add(before, v_mul(d, d)), root = v_sqrt(after);
    vf sigma = v_div(v_sub(root, v_sqrt(before)), rate);
    vf zi = v_add(v_get(z, part, t), v_sub(v_mul(d, v_set(a->schedule)), v_mul(sigma, v_get(w, part, t))));
    vf shrunk = v_neg(v_sub(zi, v_with_sign(l1, zi)));
    vf divisor = v_add(v_div(v_add(v_set(a->beta), root), rate), v_set(a->l2));
    v_put(nn, part, t, after);
    v_put(z, part, t, zi);
    vf weight = v_select(v_le(v_abs(zi), l1), v_zero(), v_div(shrunk, divisor));
    v_put(w, part, t, v_select(v_le(divisor, v_zero()), v_zero(), weight));
}

void FTH_K(opt_ftrl)(size_t n, float *w, float *z, float *nn, const float *g,
                     const struct fth_opt_args *args) {
    const struct fth_opt_args a = *args;
    if (a.lr_power != -0.5f) {
        fth_k_opt_ftrl_scalar(n, w, z, nn, g, args);
        return;
    }
    vt t = v_tail(n % VW);
    size_t i = 0;
    for (; i + VW <= n; i += VW)
        ftrl_lanes(0, t, w + i, z + i, nn + i, g + i, &a);
    if (i < n)
        ftrl_lanes(1, t, w + i, z + i, nn + i, g + i, &a);
}

static FTH_INLINE void lamb_lanes(int part, vt t, const float *w, float *m, float *v,
                                  const float *g, const struct fth_opt_args *a, float *r) {
    vf x = v_get(w, part, t), first, second;
    averages(part, t, gradient(part, t, g, x, a), m, v, a, &first, &second);
    vf divisor = v_add(v_sqrt(v_div(second, v_set(a->correction2))), v_set(a->eps));
    vf step = v_div(v_div(first, v_set(a->correction1)), divisor);
    v_put(r, part, t, v_add(step, v_mul(v_set(a->weight_decay), x)));
}

void FTH_K(opt_lamb_direction)(size_t n, const float *w, float *m, float *v, const float *g,
                               const struct fth_opt_args *args, float *r) {
    const struct fth_opt_args a = *args;
    vt t = v_tail(n % VW);
    size_t i = 0;
    for (; i + VW <= n; i += VW)
        lamb_lanes(0, t, w + i, m + i, v + i, g + i, &a, r + i);
    if (i < n)
        lamb_lanes(1, t, w + i, m + i, v + i, g + i, &a, r + i);
}

static FTH_INLINE void axpy_lanes(int part, vt t, vf factor, const float *r, float *w) {
    v_put(w, part, t, v_add(v_get(w, part, t), v_mul(factor, v_get(r, part, t))));
}

void FTH_K(axpy)(size_t n, float factor, const float *r, float *w) {
    vt t = v_tail(n % VW);
    vf by = v_set(factor);
    size_t i = 0;
    for (; i + VW <= n; i += VW)
        axpy_lanes(0, t, by, r + i, w + i);
    if (i < n)
        axpy_lanes(1, t, by, r + i, w + i);
}

#endif
