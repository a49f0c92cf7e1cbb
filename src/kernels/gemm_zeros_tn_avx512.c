/* Weight gradients without zeros by AVX-512: gemm_zeros_tn_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/gemm_zeros_tn_simd.h"

#define MOST_VECTORS_32K 5u /* where a core makes one multiply-add of 512 bits a cycle */

uint64_t fth_zeros_avx512_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    return count_elements(a, rows, columns, ld, every);
}

void fth_zeros_avx512_tn(const struct fth_gemm_shape *s, int wide, int of_b, uint32_t rows, const float *a,
                         const float *b, float *c, void *scratch) {
    weight_gradient(s, wide ? MOST_VECTORS : MOST_VECTORS_32K, of_b, rows, a, b, c, scratch);
}
