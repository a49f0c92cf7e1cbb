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

#endif
