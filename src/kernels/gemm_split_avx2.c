/* Weight gradients of dense and thin columns by AVX2: gemm_split_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"

#include "kernels/gemm_fp32.h"
#define MOST_SUMS 12u
#include "kernels/gemm_split_simd.h"

size_t fth_split_avx2_scratch(const struct fth_gemm_shape *s) {
    return too_wide(s) ? 0 : scratch_of(s) + fth_fp32_scratch(s);
}

int fth_split_avx2_tn(const struct fth_gemm_shape *s, int of_b, uint32_t rows, const float *a, const float *b, float *c,
                      void *scratch) {
    return split_product(s, fth_fp32_run, of_b, rows, a, b, c, scratch);
}
