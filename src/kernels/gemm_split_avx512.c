/* Weight gradients of dense and thin columns by AVX-512: gemm_split_simd.h at this width, dense ones by tiles of 16 x 16
 * or, wide, of 6 x 64. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/gemm_fp32.h"
#include "kernels/gemm_split_simd.h"

static void multiply(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c, void *scratch) {
    (void)scratch;
    fth_fp32_avx512_run(s, rows, a, b, c, NULL);
}

static void multiply_wide(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                          void *scratch) {
    (void)scratch;
    fth_fp32_wide_avx512_run(s, rows, a, b, c, NULL);
}

size_t fth_split_avx512_scratch(const struct fth_gemm_shape *s) {
    return too_wide(s) ? 0 : scratch_of(s);
}

int fth_split_avx512_tn(const struct fth_gemm_shape *s, int wide, int of_b, uint32_t rows, const float *a, const float *b,
                        float *c, void *scratch) {
    return split_product(s, wide ? multiply_wide : multiply, of_b, rows, a, b, c, scratch);
}
