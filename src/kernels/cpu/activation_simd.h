/* Activations, PReLU, Dice and dropout for any vector width: elementwise_avx2.c and
 * elementwise_avx512.c include it. See kernels.def for what each computes, elementwise_scalar.c for
 * the plain form. */
#ifndef FTH_KERNELS_CPU_ACTIVATION_SIMD_H
#define FTH_KERNELS_CPU_ACTIVATION_SIMD_H

#include "base/random.h"
#include "kernels/cpu/elementwise_simd.h"

static FTH_INLINE vf act_apply(fth_act act, vf x) {
    vf bell;
    switch (act) {
    case FTH_ACT_RELU: return v_max(v_zero(), x); /* NaN stays: it is the second operand */
    case FTH_ACT_SIGMOID: return v_sigmoid(x);
    case FTH_ACT_TANH: return v_tanh(x);
    case FTH_ACT_GELU: return v_mul(x, v_normal_cdf(x, &bell));
    default: return x;
    }
}

static FTH_INLINE void bias_act_lanes(int part, vt t, fth_act act, const float *x,
                                      const float *bias, float *y) {
    vf v = v_get(x, part, t);
    if (bias)
        v = v_add(v, v_get(bias, part, t));
    v_put(y, part, t, act_apply(act, v));
}

/* `act` is a constant at every call, so that the loop holds one activation only. */
static FTH_INLINE void bias_act_rows(fth_act act, size_t m, size_t n, const float *x, size_t ldx,
                                     const float *bias, float *y, size_t ldy) {
    join_rows(!bias && ldx == n && ldy == n, &m, &n);
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, y += ldy) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            bias_act_lanes(0, t, act, x + j, bias ? bias + j : NULL, y + j);
        if (j < n)
            bias_act_lanes(1, t, act, x + j, bias ? bias + j : NULL, y + j);
    }
}

void FTH_K(bias_act)(size_t m, size_t n, const float *x, size_t ldx, const float *bias, fth_act act,
                     float *y, size_t ldy) {
    switch (act) {
    case FTH_ACT_RELU: bias_act_rows(FTH_ACT_RELU, m, n, x, ldx, bias, y, ldy); break;
    case FTH_ACT_SIGMOID: bias_act_rows(FTH_ACT_SIGMOID, m, n, x, ldx, bias, y, ldy); break;
    case FTH_ACT_TANH: bias_act_rows(FTH_ACT_TANH, m, n, x, ldx, bias, y, ldy); break;
    case FTH_ACT_GELU: bias_act_rows(FTH_ACT_GELU, m, n, x, ldx, bias, y, ldy); break;
    default: bias_act_rows(FTH_ACT_NONE, m, n, x, ldx, bias, y, ldy); break;
    }
}

static FTH_INLINE void act_grad_lanes(int part, vt t, fth_act act, const float *saved,
                                      const float *dy, float *dx) {
    vf s = v_get(saved, part, t), d = v_get(dy, part, t), one = v_set(1.0f), bell, cdf;
    switch (act) {
    case FTH_ACT_RELU: d = v_select(v_le(s, v_zero()), v_zero(), d); break;
    case FTH_ACT_SIGMOID: d = v_mul(d, v_mul(s, v_sub(one, s))); break;
    case FTH_ACT_TANH: d = v_mul(d, v_sub(one, v_mul(s, s))); break;
    case FTH_ACT_GELU:
        cdf = v_normal_cdf(s, &bell);
        d = v_mul(d, v_add(cdf, v_mul(s, v_mul(v_set(0.39894228040143268f), bell))));
        break;
    default: break;
    }
    v_put(dx, part, t, d);
}

static FTH_INLINE void act_grad_rows(fth_act act, size_t m, size_t n, const float *saved,
                                     size_t lds, const float *dy, size_t lddy, float *dx,
                                     size_t lddx) {
    join_rows(lds == n && lddy == n && lddx == n, &m, &n);
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, saved += lds, dy += lddy, dx += lddx) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            act_grad_lanes(0, t, act, saved + j, dy + j, dx + j);
        if (j < n)
            act_grad_lanes(1, t, act, saved + j, dy + j, dx + j);
    }
}

void FTH_K(act_grad)(fth_act act, size_t m, size_t n, const float *saved, size_t lds,
                     const float *dy, size_t lddy, float *dx, size_t lddx) {
    switch (act) {
    case FTH_ACT_RELU: act_grad_rows(FTH_ACT_RELU, m, n, saved, lds, dy, lddy, dx, lddx); break;
    case FTH_ACT_SIGMOID:
        act_grad_rows(FTH_ACT_SIGMOID, m, n, saved, lds, dy, lddy, dx, lddx);
        break;
    case FTH_ACT_TANH: act_grad_rows(FTH_ACT_TANH, m, n, saved, lds, dy, lddy, dx, lddx); break;
    case FTH_ACT_GELU: act_grad_rows(FTH_ACT_GELU, m, n, saved, lds, dy, lddy, dx, lddx); break;
    default: FTH_K(copy)(m, n, dy, lddy, dx, lddx); break;
    }
}

static FTH_INLINE void prelu_lanes(int part, vt t, const float *x, const float *alpha, float *y) {
    vf v = v_get(x, part, t);
    v_put(y, part, t, v_select(v_gt(v, v_zero()), v, v_mul(v_get(alpha, part, t), v)));
}

void FTH_K(prelu)(size_t m, size_t n, const float *x, size_t ldx, const float *alpha, float *y,
                  size_t ldy) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, y += ldy) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            prelu_lanes(0, t, x + j, alpha + j, y + j);
        if (j < n)
            prelu_lanes(1, t, x + j, alpha + j, y + j);
    }
}

/* One vector of columns down all rows, so that alpha's gradient stays in a register. */
static FTH_INLINE void prelu_grad_columns(int part, vt t, size_t m, const float *x, size_t ldx,
                                          const float *alpha, const float *dy, size_t lddy,
                                          float *dx, size_t lddx, float *dalpha) {
    vf slope = v_get(alpha, part, t), sum = v_zero(), zero = v_zero();
    for (size_t i = 0; i < m; i++) {
        vf v = v_get(x + i * ldx, part, t), d = v_get(dy + i * lddy, part, t);
        vm up = v_gt(v, zero);
        v_put(dx + i * lddx, part, t, v_select(up, d, v_mul(slope, d)));
        sum = v_add(sum, v_select(up, zero, v_mul(v, d)));
    }
    v_put(dalpha, part, t, sum);
}

void FTH_K(prelu_grad)(size_t m, size_t n, const float *x, size_t ldx, const float *alpha,
                       const float *dy, size_t lddy, float *dx, size_t lddx, float *dalpha) {
    vt t = v_tail(n % VW);
    size_t j = 0;
    for (; j + VW <= n; j += VW)
        prelu_grad_columns(0, t, m, x + j, ldx, alpha + j, dy + j, lddy, dx + j, lddx, dalpha + j);
    if (j < n)
        prelu_grad_columns(1, t, m, x + j, ldx, alpha + j, dy + j, lddy, dx + j, lddx, dalpha + j);
}

static FTH_INLINE void dice_lanes(int part, vt t, const float *x, const float *xn,
                                  const float *alpha, float *y) {
    vf p = v_sigmoid(v_get(xn, part, t));
    vf gate = v_add(p, v_mul(v_sub(v_set(1.0f), p), v_get(alpha, part, t)));
    v_put(y, part, t, v_mul(gate, v_get(x, part, t)));
}

void FTH_K(dice_gate)(size_t m, size_t n, const float *x, size_t ldx, const float *xn, size_t ldxn,
                      const float *alpha, float *y, size_t ldy) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, xn += ldxn, y += ldy) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            dice_lanes(0, t, x + j, xn + j, alpha + j, y + j);
        if (j < n)
            dice_lanes(1, t, x + j, xn + j, alpha + j, y + j);
    }
}

static FTH_INLINE void dice_grad_columns(int part, vt t, size_t m, const float *x, size_t ldx,
                                         const float *xn, size_t ldxn, const float *alpha,
                                         const float *dy, size_t lddy, float *dx, size_t lddx,
                                         float *dxn, size_t lddxn, float *dalpha) {
    vf one = v_set(1.0f), slope = v_get(alpha, part, t), rest = v_sub(one, slope), sum = v_zero();
    for (size_t i = 0; i < m; i++) {
        vf p = v_sigmoid(v_get(xn + i * ldxn, part, t)), q = v_sub(one, p);
        vf d = v_get(dy + i * lddy, part, t), dv = v_mul(d, v_get(x + i * ldx, part, t));
        v_put(dx + i * lddx, part, t, v_mul(d, v_add(p, v_mul(q, slope))));
        v_put(dxn + i * lddxn, part, t, v_mul(v_mul(dv, rest), v_mul(p, q)));
        sum = v_add(sum, v_mul(dv, q));
    }
    v_put(dalpha, part, t, sum);
}

void FTH_K(dice_gate_grad)(size_t m, size_t n, const float *x, size_t ldx, const float *xn,
                           size_t ldxn, const float *alpha, const float *dy, size_t lddy, float *dx,
                           size_t lddx, float *dxn, size_t lddxn, float *dalpha) {
    vt t = v_tail(n % VW);
    size_t j = 0;
    for (; j + VW <= n; j += VW)
        dice_grad_columns(0, t, m, x + j, ldx, xn + j, ldxn, alpha + j, dy + j, lddy, dx + j, lddx,
                          dxn + j, lddxn, dalpha + j);
    if (j < n)
        dice_grad_columns(1, t, m, x + j, ldx, xn + j, ldxn, alpha + j, dy + j, lddy, dx + j, lddx,
                          dxn + j, lddxn, dalpha + j);
}

static FTH_INLINE vf dice_normal(int part, vt t, vf x, const float *scale, const float *mean) {
    return v_mul(v_sub(x, v_get(mean, part, t)), v_get(scale, part, t));
}

static FTH_INLINE void dice_whole_lanes(int part, vt t, const float *x, const float *scale,
                                        const float *mean, const float *alpha, float *y) {
    vf v = v_get(x, part, t), p = v_sigmoid(dice_normal(part, t, v, scale, mean));
    vf gate = v_add(p, v_mul(v_sub(v_set(1.0f), p), v_get(alpha, part, t)));
    v_put(y, part, t, v_mul(gate, v));
}

void FTH_K(dice)(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                 const float *mean, const float *alpha, float *y, size_t ldy) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, y += ldy) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            dice_whole_lanes(0, t, x + j, scale + j, mean + j, alpha + j, y + j);
        if (j < n)
            dice_whole_lanes(1, t, x + j, scale + j, mean + j, alpha + j, y + j);
    }
}

/* The sums stay in the first cache; row after row, so that x and dy are read as they lie. */
static FTH_INLINE void dice_sums_lanes(int part, vt t, const float *x, const float *scale,
                                       const float *mean, const float *alpha, const float *dy,
                                       float *sum, float *dot, float *dalpha, float *y) {
    vf one = v_set(1.0f), v = v_get(x, part, t), xn = dice_normal(part, t, v, scale, mean);
    vf p = v_sigmoid(xn), q = v_sub(one, p), dv = v_mul(v_get(dy, part, t), v);
    vf slope = v_get(alpha, part, t), dxn = v_mul(v_mul(dv, v_sub(one, slope)), v_mul(p, q));
    v_put(y, part, t, v_mul(v_add(p, v_mul(q, slope)), v));
    v_put(sum, part, t, v_add(v_get(sum, part, t), dxn));
    v_put(dot, part, t, v_fma(dxn, xn, v_get(dot, part, t)));
    v_put(dalpha, part, t, v_add(v_get(dalpha, part, t), v_mul(dv, q)));
}

void FTH_K(dice_sums)(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                      const float *mean, const float *alpha, const float *dy, size_t lddy,
                      float *sum, float *dot, float *dalpha, float *y, size_t ldy) {
    vt t = v_tail(n % VW);
    for (size_t j = 0; j < n; j++)
        sum[j] = dot[j] = dalpha[j] = 0.0f;
    for (size_t i = 0; i < m; i++, x += ldx, dy += lddy, y += ldy) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            dice_sums_lanes(0, t, x + j, scale + j, mean + j, alpha + j, dy + j, sum + j, dot + j,
                            dalpha + j, y + j);
        if (j < n)
            dice_sums_lanes(1, t, x + j, scale + j, mean + j, alpha + j, dy + j, sum + j, dot + j,
                            dalpha + j, y + j);
    }
}

static FTH_INLINE void dice_grad_lanes(int part, vt t, const float *x, const float *scale,
                                       const float *mean, const float *alpha, const float *dy,
                                       const float *a, const float *b, const float *c, float *dx) {
    vf one = v_set(1.0f), v = v_get(x, part, t), xn = dice_normal(part, t, v, scale, mean);
    vf p = v_sigmoid(xn), q = v_sub(one, p), slope = v_get(alpha, part, t);
    vf d = v_get(dy, part, t), direct = v_mul(d, v_add(p, v_mul(q, slope)));
    vf dxn = v_mul(v_mul(v_mul(d, v), v_sub(one, slope)), v_mul(p, q));
    vf through = v_add(v_mul(v_get(a, part, t), dxn), v_mul(v_get(b, part, t), xn));
    v_put(dx, part, t, v_add(direct, v_add(through, v_get(c, part, t))));
}

void FTH_K(dice_grad)(size_t m, size_t n, const float *x, size_t ldx, const float *scale,
                      const float *mean, const float *alpha, const float *dy, size_t lddy,
                      const float *a, const float *b, const float *c, float *dx, size_t lddx) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, dy += lddy, dx += lddx) {
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            dice_grad_lanes(0, t, x + j, scale + j, mean + j, alpha + j, dy + j, a + j, b + j,
                            c + j, dx + j);
        if (j < n)
            dice_grad_lanes(1, t, x + j, scale + j, mean + j, alpha + j, dy + j, a + j, b + j,
                            c + j, dx + j);
    }
}

static FTH_INLINE void dropout_lanes(int part, vt t, const float *x, vi words, vf keep, float *y) {
    vf unit = v_mul(vi_to_floats(vi_shr(words, 8)), v_set(0x1p-24f));
    v_put(y, part, t, v_select(v_lt(unit, keep), v_div(v_get(x, part, t), keep), v_zero()));
}

void FTH_K(dropout)(size_t m, size_t n, const float *x, size_t ldx, uint64_t seed, uint64_t step,
                    uint32_t node, uint64_t row0, float keep, float *y, size_t ldy) {
    uint64_t key = fth_random_key(seed, FTH_RANDOM_DROPOUT);
    vt t = v_tail(n % VW);
    vf kept = v_set(keep);
    for (size_t i = 0; i < m; i++, x += ldx, y += ldy)
        for (size_t block = 0; block < n; block += 64)
            for (size_t lane = block; lane < block + 16 && lane < n; lane += VW) {
                /* The lanes' counters differ in the lowest 4 bits only. */
                uint64_t b = fth_dropout_counter(node, row0 + i, lane);
                vi words[4] = {vi_set((uint32_t)step), vi_set((uint32_t)(step >> 32)),
                               vi_add(vi_set((uint32_t)b), vi_lanes()),
                               vi_set((uint32_t)(b >> 32))};
                vi_philox(words, key);
                for (size_t w = 0, j = lane; w < 4 && j < n; w++, j += 16)
                    if (j + VW <= n)
                        dropout_lanes(0, t, x + j, words[w], kept, y + j);
                    else
                        dropout_lanes(1, t, x + j, words[w], kept, y + j);
            }
}

#endif
