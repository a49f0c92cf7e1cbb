/* Weight gradients without zeros by AVX2: gemm_zeros_tn_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"

#define MOST_VECTORS 12u /* 24 KB of X */
#include "kernels/gemm_zeros_tn_simd.h"

void fth_zeros_avx2_tn(const struct fth_gemm_shape *s, int of_b, uint32_t rows, const float *a, const float *b, float *c,
                       void *scratch) {
    weight_gradient(s, MOST_VECTORS, of_b, rows, a, b, c, scratch);
}
