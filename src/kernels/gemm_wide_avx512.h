/* Tiles of 6 x 64 of C by AVX-512, 24 sums in registers: a step of k is four loads of B, six elements of A and 24
 * multiply-adds, 10 loads. For cores that make two multiply-adds of 512 bits a cycle. What gemm_fp32_wide_avx512.c (TN)
 * and gemm_fp32_nn_avx512.c share; nothing else includes it. */
#ifndef FTH_KERNELS_GEMM_WIDE_AVX512_H
#define FTH_KERNELS_GEMM_WIDE_AVX512_H

#include "kernels/cpu/simd_avx512.h"

#define ROWS 6u
#define VECTORS 4u
#define COLUMNS (VECTORS * VW)
#define GROUP 4u   /* steps of k a turn of the loop */
#define FETCHES 2u /* lines fetched meanwhile of what comes next */

#define ALL ((vt)0xffff)

/* Heights of strips: six as long as there are, the rest is cut into those below. */
#define HEIGHTS(OF) OF(1) OF(2) OF(4) OF(6)
static inline uint32_t strip_height(uint32_t left) {
    return left >= ROWS ? ROWS : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* A tile of m rows and v vectors, of whose last one `columns` count. from: NULL for zeros. */
static FTH_INLINE void load_sums(const int m, const int v, const float *from, size_t ldc, vt columns, vf *sums) {
#pragma GCC unroll 6
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < v; j++)
            sums[i * v + j] = !from       ? v_zero()
                              : j + 1 < v ? v_load(from + i * ldc + j * VW)
                                          : v_load_part(from + i * ldc + j * VW, columns);
}

/* One row of B; the elements of A lie `lda` apart, a3 is the fourth. (Two pointers, so that every element has an
 * address within an instruction.) */
static FTH_INLINE void step_of_k(const int m, const int v, const float *a, const float *a3, size_t lda, const float *b,
                                 vt columns, vf *sums) {
    vf y[VECTORS];
#pragma GCC unroll 4
    for (int j = 0; j < v; j++)
        y[j] = j + 1 < v ? v_load(b + j * VW) : v_load_part(b + j * VW, columns);
#pragma GCC unroll 6
    for (int i = 0; i < m; i++) {
        vf x = v_set(i < 3 ? a[i * lda] : a3[(i - 3) * lda]);
#pragma GCC unroll 4
        for (int j = 0; j < v; j++)
            sums[i * v + j] = v_fma(x, y[j], sums[i * v + j]);
    }
}

static FTH_INLINE void store_sums(const int m, const int v, float *to, size_t ldc, vt columns, const vf *sums) {
#pragma GCC unroll 6
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < v; j++)
            if (j + 1 < v)
                v_store(to + i * ldc + j * VW, sums[i * v + j]);
            else
                v_store_part(to + i * ldc + j * VW, columns, sums[i * v + j]);
}

#endif
