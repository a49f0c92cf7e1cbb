/* fp32 products of our own: what the provider (gemm_fathom.c) and their kernels share. Only
 * src/kernels/gemm*.c include this. */
#ifndef FTH_KERNELS_GEMM_FP32_H
#define FTH_KERNELS_GEMM_FP32_H

#include "kernels/gemm.h"

/* By AVX2. Bytes of scratch of a run over any number of examples (64-byte aligned): TN only. */
size_t fth_fp32_scratch(const struct fth_gemm_shape *shape);
/* NN, by rows or panels, and TN. */
void fth_fp32_run(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b,
                  float *c, void *scratch);

void fth_fp32_run_finish(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b,
                         float *c, const struct fth_gemm_finish *finish);

/* By AVX2: whether a product is so small that these multiply it faster, with the same bits, without scratch. At least one
 * row, one example. finish: or NULL. */
int fth_small_avx2(const struct fth_gemm_shape *shape);
void fth_small_avx2_nn(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish);
void fth_small_avx2_tn(const struct fth_gemm_shape *shape, uint32_t examples, const float *a, const float *b, float *c);

/* TN by AVX-512; step: the optimizer's, or NULL. Three kernels, the same bits: tiles of 16 x 16, of 6 x 64, and of 8 x 32
 * where n is at most 32. */
typedef void fth_fp32_avx512_kernel(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b,
                                    float *c, const struct fth_gemm_step *step);
fth_fp32_avx512_kernel fth_fp32_avx512_run, fth_fp32_wide_avx512_run, fth_fp32_narrow_avx512_run;

/* The optimizer's step alone; what fth_gemm_step says. */
void fth_step_avx2_run(const struct fth_gemm_step *step, uint32_t m, uint32_t n, const float *gradient, size_t ld);
void fth_step_avx512_run(const struct fth_gemm_step *step, uint32_t m, uint32_t n, const float *gradient, size_t ld);

/* NN by AVX-512, by rows or panels; finish: or NULL. */
void fth_fp32_nn_avx512_run(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b,
                            float *c, const struct fth_gemm_finish *finish);

#endif
