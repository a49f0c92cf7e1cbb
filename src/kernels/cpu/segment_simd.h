/* Ragged rows for any vector width: segment_avx2.c and segment_avx512.c include it. See
 * kernels.def. */
#ifndef FTH_KERNELS_CPU_SEGMENT_SIMD_H
#define FTH_KERNELS_CPU_SEGMENT_SIMD_H

void FTH_K(segment_expand)(size_t m, const uint32_t *offsets, size_t n, const float *x, size_t ldx,
                           float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i];
        FTH_K(copy)(rows, n, x + i * ldx, 0, out + begin * ldo, ldo);
    }
}

void FTH_K(segment_sum)(size_t m, const uint32_t *offsets, size_t n, const float *x, size_t ldx,
                        const float *w, size_t ldw, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i];
        if (w)
            FTH_K(col_weighted_sum)
            (rows, n, w + begin * ldw, ldw, x + begin * ldx, ldx, out + i * ldo);
        else
            FTH_K(col_sum)(rows, n, x + begin * ldx, ldx, out + i * ldo);
    }
}

void FTH_K(segment_sum_grad)(size_t m, const uint32_t *offsets, size_t n, const float *x,
                             size_t ldx, const float *w, size_t ldw, const float *dout, size_t lddo,
                             float *dx, size_t lddx, float *dw, size_t lddw) {
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i];
        const float *d = dout + i * lddo;
        if (dx && w)
            FTH_K(outer)(rows, n, w + begin * ldw, ldw, d, dx + begin * lddx, lddx);
        else if (dx)
            FTH_K(copy)(rows, n, d, 0, dx + begin * lddx, lddx);
        if (dw)
            FTH_K(row_dot)(rows, n, x + begin * ldx, ldx, d, 0.0f, dw + begin * lddw, lddw);
    }
}

/* One vector of columns down an example's rows; `rows` > 0. */
static FTH_INLINE void softmax_columns(int part, vt t, size_t rows, const float *x, size_t ldx,
                                       float *y, size_t ldy) {
    vf most = v_get(x, part, t), sum = v_zero();
    for (size_t i = 1; i < rows; i++)
        most = v_max(most, v_get(x + i * ldx, part, t));
    for (size_t i = 0; i < rows; i++) {
        vf e = v_exp(v_sub(v_get(x + i * ldx, part, t), most));
        sum = v_add(sum, e);
        v_put(y + i * ldy, part, t, e);
    }
    vf factor = v_div(v_set(1.0f), sum);
    for (size_t i = 0; i < rows; i++)
        v_put(y + i * ldy, part, t, v_mul(v_get(y + i * ldy, part, t), factor));
}

/* One column without gaps. */
static FTH_INLINE void softmax_vector(size_t n, const float *x, float *y) {
    vt t = v_tail(n % VW);
    size_t whole = n - n % VW;
    float most = x[0];
    for (size_t j = 1; j < n; j++)
        most = most > x[j] ? most : x[j];
    vf sum = v_zero(), m = v_set(most);
    for (size_t j = 0; j < n; j += VW) {
        int part = j == whole;
        vf e = v_exp(v_sub(part ? v_load_part(x + j, t) : v_load(x + j), m));
        if (part)
            e = v_keep_part(t, e);
        sum = v_add(sum, e);
        v_put(y + j, part, t, e);
    }
    float factor = 1.0f / v_sum(sum);
    FTH_K(scale)(1, n, y, n, factor, y, n);
}

void FTH_K(segment_softmax)(size_t m, const uint32_t *offsets, size_t n, const float *x, size_t ldx,
                            float *y, size_t ldy) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i], j = 0;
        const float *from = x + begin * ldx;
        float *to = y + begin * ldy;
        if (!rows)
            continue;
        if (n == 1 && ldx == 1 && ldy == 1) {
            softmax_vector(rows, from, to);
            continue;
        }
        for (; j + VW <= n; j += VW)
            softmax_columns(0, t, rows, from + j, ldx, to + j, ldy);
        if (j < n)
            softmax_columns(1, t, rows, from + j, ldx, to + j, ldy);
    }
}

static FTH_INLINE void softmax_grad_columns(int part, vt t, size_t rows, const float *y, size_t ldy,
                                            const float *dy, size_t lddy, float *dx, size_t lddx) {
    vf sum = v_zero();
    for (size_t i = 0; i < rows; i++)
        sum = v_fma(v_get(y + i * ldy, part, t), v_get(dy + i * lddy, part, t), sum);
    for (size_t i = 0; i < rows; i++)
        v_put(dx + i * lddx, part, t,
              v_mul(v_get(y + i * ldy, part, t), v_sub(v_get(dy + i * lddy, part, t), sum)));
}

static FTH_INLINE void softmax_grad_vector(size_t n, const float *y, const float *dy, float *dx) {
    float sum;
    FTH_K(row_dot_rows)(1, n, y, n, dy, n, &sum, 1);
    vt t = v_tail(n % VW);
    size_t whole = n - n % VW;
    vf s = v_set(sum);
    for (size_t j = 0; j < n; j += VW) {
        int part = j == whole;
        v_put(dx + j, part, t, v_mul(v_get(y + j, part, t), v_sub(v_get(dy + j, part, t), s)));
    }
}

void FTH_K(segment_softmax_grad)(size_t m, const uint32_t *offsets, size_t n, const float *y,
                                 size_t ldy, const float *dy, size_t lddy, float *dx, size_t lddx) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i], j = 0;
        const float *a = y + begin * ldy, *b = dy + begin * lddy;
        float *to = dx + begin * lddx;
        if (n == 1 && ldy == 1 && lddy == 1 && lddx == 1) {
            softmax_grad_vector(rows, a, b, to);
            continue;
        }
        for (; j + VW <= n; j += VW)
            softmax_grad_columns(0, t, rows, a + j, ldy, b + j, lddy, to + j, lddx);
        if (j < n)
            softmax_grad_columns(1, t, rows, a + j, ldy, b + j, lddy, to + j, lddx);
    }
}

#endif
