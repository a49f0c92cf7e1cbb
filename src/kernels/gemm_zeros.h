/* Products with an operand that is mostly zeros, as what a ReLU and its gradient leave: what gemm.c and the kernels
 * share. Only src/kernels/gemm*.c include this. */
#ifndef FTH_KERNELS_GEMM_ZEROS_H
#define FTH_KERNELS_GEMM_ZEROS_H

#include "kernels/gemm.h"

#define FTH_ZEROS_LEAST 48u /* columns and depth below which nothing is gained */

/* Whether at most half of the elements of a[rows][columns] are no zeros, by every fourth row. AVX-512. */
int fth_zeros_avx512_many(const float *a, uint32_t rows, uint32_t columns, uint32_t ld);

/* NN by AVX-512, B as it is or in panels: C[m, n] = A B without A's zeros, or added to C; every element summed in increasing k by
 * fused multiply-adds. finish: or NULL. */
void fth_zeros_avx512_nn(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b, float *c,
                         const struct fth_gemm_finish *finish);

#endif
