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

/* One vector of columns down an example's positions, so that q's gradient stays in a register. */
static FTH_INLINE void keys_grad_columns(int part, vt t, size_t rows, const float *direct,
                                         const float *product, size_t lddx, const float *k,
                                         size_t ldk, const float *q, const float *w, size_t ldw,
                                         const float *dout, float *dk, size_t lddk, float *dq) {
    vf query = v_get(q, part, t), out = v_get(dout, part, t), sum = v_zero();
    for (size_t i = 0; i < rows; i++) {
        vf p = v_get(product + i * lddx, part, t);
        vf d = v_add(v_mul(v_set(w[i * ldw]), out), v_get(direct + i * lddx, part, t));
        v_put(dk + i * lddk, part, t, v_add(d, v_mul(p, query)));
        sum = v_fma(p, v_get(k + i * ldk, part, t), sum);
    }
    v_put(dq, part, t, sum);
}

void FTH_K(segment_keys_grad)(size_t m, const uint32_t *offsets, size_t n, const float *dx,
                              size_t lddx, const float *k, size_t ldk, const float *q, size_t ldq,
                              const float *w, size_t ldw, const float *dout, size_t lddo, float *dk,
                              size_t lddk, float *dq, size_t lddq) {
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i], j = 0;
        const float *direct = dx + begin * lddx, *product = direct + n, *keys = k + begin * ldk;
        float *to = dk + begin * lddk;
        for (; j + VW <= n; j += VW)
            keys_grad_columns(0, t, rows, direct + j, product + j, lddx, keys + j, ldk,
                              q + i * ldq + j, w + begin * ldw, ldw, dout + i * lddo + j, to + j,
                              lddk, dq + i * lddq + j);
        if (j < n)
            keys_grad_columns(1, t, rows, direct + j, product + j, lddx, keys + j, ldk,
                              q + i * ldq + j, w + begin * ldw, ldw, dout + i * lddo + j, to + j,
                              lddk, dq + i * lddq + j);
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

#endif
