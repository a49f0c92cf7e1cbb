/* Weight gradients without zeros by AVX2: gemm_zeros_tn_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"

#define MOST_VECTORS 12u /* 24 KB of X */
#include "kernels/gemm_zeros_tn_simd.h"

uint64_t fth_zeros_avx2_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    return count_elements(a, rows, columns, ld, every);
}

void fth_zeros_avx2_tn(const struct fth_gemm_shape *s, int of_b, uint32_t rows, const float *a, const float *b, float *c,
                       void *scratch) {
    weight_gradient(s, MOST_VECTORS, of_b, rows, a, b, c, scratch);
}
