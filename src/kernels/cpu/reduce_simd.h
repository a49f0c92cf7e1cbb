/* Sums and products by row and column for any vector width: reduce_avx2.c and reduce_avx512.c
 * include it. A column's sum runs down the rows in one register; a row's runs in four vectors whose
 * lanes are added at the end, the same way for every row, so that a row's result does not depend on
 * its neighbours. See kernels.def. */
#ifndef FTH_KERNELS_CPU_REDUCE_SIMD_H
#define FTH_KERNELS_CPU_REDUCE_SIMD_H

#include <math.h>

/* What a column sums: x; x y; s x with s one number a row; x - y and (x - y)^2 with y one row. */
enum column_kind { COLUMN_SUM, COLUMN_DOT, COLUMN_WEIGHTED, COLUMN_DISTANCES, COLUMN_SQUARES };

/* Sums `vectors` (at most 4, a constant) vectors of columns down m rows. */
static FTH_INLINE void column_block(enum column_kind kind, int part, vt t, int vectors, size_t m,
                                    const float *x, size_t ldx, const float *y, size_t ldy,
                                    float *out) {
    vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    for (size_t i = 0; i < m; i++, x += ldx, y += ldy) {
        vf weight = kind == COLUMN_WEIGHTED ? v_set(*y) : v_zero();
        for (int c = 0; c < vectors; c++) {
            vf v = v_get(x + c * VW, part, t);
            if (kind == COLUMN_SUM) {
                sum[c] = v_add(sum[c], v);
            } else if (kind == COLUMN_WEIGHTED) {
                sum[c] = v_fma(weight, v, sum[c]);
            } else {
                vf u = v_get(y + c * VW, part, t), d = v_sub(v, u);
                sum[c] = kind == COLUMN_DOT         ? v_fma(v, u, sum[c])
                         : kind == COLUMN_DISTANCES ? v_add(sum[c], d)
                                                    : v_fma(d, d, sum[c]);
            }
        }
    }
    for (int c = 0; c < vectors; c++)
        v_put(out + c * VW, part, t, sum[c]);
}

static FTH_INLINE void column_sums(enum column_kind kind, size_t m, size_t n, const float *x,
                                   size_t ldx, const float *y, size_t ldy, float *out) {
    vt t = v_tail(n % VW);
    size_t j = 0, step = kind != COLUMN_SUM && kind != COLUMN_WEIGHTED; /* does y have columns? */
    for (; j + 4 * VW <= n; j += 4 * VW)
        column_block(kind, 0, t, 4, m, x + j, ldx, y + j * step, ldy, out + j);
    for (; j + VW <= n; j += VW)
        column_block(kind, 0, t, 1, m, x + j, ldx, y + j * step, ldy, out + j);
    if (j < n)
        column_block(kind, 1, t, 1, m, x + j, ldx, y + j * step, ldy, out + j);
}

void FTH_K(col_sum)(size_t m, size_t n, const float *x, size_t ldx, float *out) {
    column_sums(COLUMN_SUM, m, n, x, ldx, x, 0, out);
}

void FTH_K(col_dot)(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                    float *out) {
    column_sums(COLUMN_DOT, m, n, a, lda, b, ldb, out);
}

void FTH_K(col_weighted_sum)(size_t m, size_t n, const float *s, size_t lds, const float *x,
                             size_t ldx, float *out) {
    column_sums(COLUMN_WEIGHTED, m, n, x, ldx, s, lds, out);
}

void FTH_K(col_moments)(size_t m, size_t n, const float *x, size_t ldx, float *mean, float *m2) {
    column_sums(COLUMN_DISTANCES, m, n, x, ldx, x, 0, mean);
    for (size_t j = 0; j < n; j++)
        mean[j] = x[j] + mean[j] / (float)m;
    column_sums(COLUMN_SQUARES, m, n, x, ldx, mean, 0, m2);
}

static FTH_INLINE float dot_row(size_t n, vt t, const float *a, const float *b) {
    vf sum0 = v_zero(), sum1 = v_zero(), sum2 = v_zero(), sum3 = v_zero();
    size_t j = 0;
    for (; j + 4 * VW <= n; j += 4 * VW) {
        sum0 = v_fma(v_load(a + j), v_load(b + j), sum0);
        sum1 = v_fma(v_load(a + j + VW), v_load(b + j + VW), sum1);
        sum2 = v_fma(v_load(a + j + 2 * VW), v_load(b + j + 2 * VW), sum2);
        sum3 = v_fma(v_load(a + j + 3 * VW), v_load(b + j + 3 * VW), sum3);
    }
    for (; j + VW <= n; j += VW)
        sum0 = v_fma(v_load(a + j), v_load(b + j), sum0);
    if (j < n)
        sum1 = v_fma(v_load_part(a + j, t), v_load_part(b + j, t), sum1);
    return v_sum(v_add(v_add(sum0, sum1), v_add(sum2, sum3)));
}

void FTH_K(row_dot)(size_t m, size_t n, const float *x, size_t ldx, const float *w, float bias,
                    float *out, size_t ldo) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++)
        out[i * ldo] = bias + dot_row(n, t, x + i * ldx, w);
}

void FTH_K(row_dot_rows)(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                         float *out, size_t ldo) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++)
        out[i * ldo] = dot_row(n, t, a + i * lda, b + i * ldb);
}

static FTH_INLINE void scale_row_lanes(int part, vt t, vf s, const float *x, const float *c,
                                       float *out) {
    vf v = v_mul(s, v_get(x, part, t));
    v_put(out, part, t, c ? v_add(v, v_get(c, part, t)) : v);
}

void FTH_K(scale_rows)(size_t m, size_t n, const float *s, size_t lds, const float *x, size_t ldx,
                       const float *c, size_t ldc, float *out, size_t ldo) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, out += ldo, s += lds) {
        const float *addend = c ? c + i * ldc : NULL;
        vf by = v_set(*s);
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            scale_row_lanes(0, t, by, x + j, addend ? addend + j : NULL, out + j);
        if (j < n)
            scale_row_lanes(1, t, by, x + j, addend ? addend + j : NULL, out + j);
    }
}

void FTH_K(outer)(size_t m, size_t n, const float *s, size_t lds, const float *w, float *out,
                  size_t ldo) {
    FTH_K(scale_rows)(m, n, s, lds, w, 0, NULL, 0, out, ldo);
}

void FTH_K(picked_dots)(size_t m, size_t n, const float *a, size_t lda, const float *b, size_t ldb,
                        const uint32_t *rows, float *out) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++)
        out[i] = dot_row(n, t, a + i * lda, b + rows[i] * ldb);
}

static FTH_INLINE void picked_lanes(int part, vt t, vf s, const float *a, const float *b, float *da, float *db) {
    v_put(da, part, t, v_add(v_mul(s, v_get(b, part, t)), v_get(da, part, t)));
    v_put(db, part, t, v_add(v_mul(s, v_get(a, part, t)), v_get(db, part, t)));
}

void FTH_K(picked_grads)(size_t m, size_t n, const float *s, size_t lds, const float *a, size_t lda, const float *b,
                         size_t ldb, const uint32_t *rows, float *da, size_t ldda, float *db, size_t lddb) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, a += lda, da += ldda) {
        const float *picked = b + rows[i] * ldb;
        float *d_picked = db + rows[i] * lddb;
        vf by = v_set(s[i * lds]);
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            picked_lanes(0, t, by, a + j, picked + j, da + j, d_picked + j);
        if (j < n)
            picked_lanes(1, t, by, a + j, picked + j, da + j, d_picked + j);
    }
}

double FTH_K(sum_squares)(size_t n, const float *x) {
    vd low = vd_zero(), high = vd_zero();
    size_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf v = v_load(x + i);
        low = vd_square_low(low, v);
        high = vd_square_high(high, v);
    }
    if (i < n) {
        vf v = v_load_part(x + i, v_tail(n - i));
        low = vd_square_low(low, v);
        high = vd_square_high(high, v);
    }
    return vd_sum(vd_add(low, high));
}

static FTH_INLINE float row_sum(size_t n, vt t, const float *x) {
    vf sum = v_zero(), tail = v_zero();
    size_t j = 0;
    for (; j + VW <= n; j += VW)
        sum = v_add(sum, v_load(x + j));
    if (j < n)
        tail = v_load_part(x + j, t);
    return v_sum(v_add(sum, tail));
}

static FTH_INLINE float row_squares(size_t n, vt t, const float *x, float mean) {
    vf sum = v_zero(), from = v_set(mean);
    size_t j = 0;
    for (; j + VW <= n; j += VW) {
        vf d = v_sub(v_load(x + j), from);
        sum = v_fma(d, d, sum);
    }
    if (j < n) {
        vf d = v_keep_part(t, v_sub(v_load_part(x + j, t), from));
        sum = v_fma(d, d, sum);
    }
    return v_sum(sum);
}

static FTH_INLINE void layer_norm_lanes(int part, vt t, const float *x, vf mean, vf rstd,
                                        const float *gamma, const float *beta, float *y) {
    vf xhat = v_mul(v_sub(v_get(x, part, t), mean), rstd);
    v_put(y, part, t, v_add(v_mul(xhat, v_get(gamma, part, t)), v_get(beta, part, t)));
}

void FTH_K(layer_norm)(size_t m, size_t n, const float *x, size_t ldx, const float *gamma,
                       const float *beta, float eps, float *y, size_t ldy, float *mean,
                       float *rstd) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++, x += ldx, y += ldy) {
        mean[i] = n ? row_sum(n, t, x) / (float)n : 0.0f;
        rstd[i] = 1.0f / sqrtf((n ? row_squares(n, t, x, mean[i]) / (float)n : 0.0f) + eps);
        vf average = v_set(mean[i]), factor = v_set(rstd[i]);
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            layer_norm_lanes(0, t, x + j, average, factor, gamma + j, beta + j, y + j);
        if (j < n)
            layer_norm_lanes(1, t, x + j, average, factor, gamma + j, beta + j, y + j);
    }
}

/* First pass over a row: the sums of g = dy gamma and g xhat; dgamma and dbeta get their share. */
static FTH_INLINE void norm_sums_lanes(int part, vt t, const float *x, vf mean, vf rstd,
                                       const float *gamma, const float *dy, float *dgamma,
                                       float *dbeta, vf *sum, vf *sum_xhat) {
    vf xhat = v_mul(v_sub(v_get(x, part, t), mean), rstd), d = v_get(dy, part, t);
    vf g = v_mul(d, v_get(gamma, part, t));
    *sum = v_add(*sum, g);
    *sum_xhat = v_fma(g, xhat, *sum_xhat);
    v_put(dgamma, part, t, v_fma(d, xhat, v_get(dgamma, part, t)));
    v_put(dbeta, part, t, v_add(d, v_get(dbeta, part, t)));
}

/* Second pass: dx = rstd (g - mean(g) - xhat mean(g xhat)). */
static FTH_INLINE void norm_grad_lanes(int part, vt t, const float *x, vf mean, vf rstd,
                                       const float *gamma, const float *dy, vf sum, vf sum_xhat,
                                       float *dx) {
    vf xhat = v_mul(v_sub(v_get(x, part, t), mean), rstd);
    vf g = v_mul(v_get(dy, part, t), v_get(gamma, part, t));
    v_put(dx, part, t, v_mul(rstd, v_fnma(xhat, sum_xhat, v_sub(g, sum))));
}

void FTH_K(layer_norm_grad)(size_t m, size_t n, const float *x, size_t ldx, const float *gamma,
                            const float *mean, const float *rstd, const float *dy, size_t lddy,
                            float *dx, size_t lddx, float *dgamma, float *dbeta) {
    vt t = v_tail(n % VW);
    for (size_t j = 0; j < n; j++)
        dgamma[j] = dbeta[j] = 0.0f;
    for (size_t i = 0; i < m; i++, x += ldx, dy += lddy, dx += lddx) {
        vf average = v_set(mean[i]), factor = v_set(rstd[i]), sum = v_zero(), sum_xhat = v_zero();
        size_t j = 0;
        for (; j + VW <= n; j += VW)
            norm_sums_lanes(0, t, x + j, average, factor, gamma + j, dy + j, dgamma + j, dbeta + j,
                            &sum, &sum_xhat);
        if (j < n)
            norm_sums_lanes(1, t, x + j, average, factor, gamma + j, dy + j, dgamma + j, dbeta + j,
                            &sum, &sum_xhat);
        vf first = v_set(v_sum(sum) / (float)n), second = v_set(v_sum(sum_xhat) / (float)n);
        for (j = 0; j + VW <= n; j += VW)
            norm_grad_lanes(0, t, x + j, average, factor, gamma + j, dy + j, first, second, dx + j);
        if (j < n)
            norm_grad_lanes(1, t, x + j, average, factor, gamma + j, dy + j, first, second, dx + j);
    }
}

#endif
