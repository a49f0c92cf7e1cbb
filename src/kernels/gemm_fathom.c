/* The provider of our own products: fp32 by AVX2 and AVX-512, bf16 of one part to three by AVX512-BF16
 * or AMX.
 *
 * On a batch's way: chosen by gemm_table.c. Threads: pure functions; each run has its own scratch. */
#include <stdio.h>

#include "kernels/gemm_bf16.h"
#include "kernels/gemm_fp32.h"
#include "kernels/gemm_private.h"
#include "kernels/panels.h"

static const struct fth_bf16_kernel *bf16_kernel(void) {
    return fth_cpu_get()->amx_bf16 ? &fth_bf16_amx : &fth_bf16_avx512;
}

uint32_t fth_panels_strip(void) {
    return bf16_kernel()->strip;
}

/* Zen 4 makes a multiply-add of 512 bits a cycle and has loads to spare: tiles of 16 x 16 run at its peak, and leave
 * registers to the optimizer's step. Where a core makes two, they load too much. Rows of A so short that they
 * stay together in the first cache need not be packed. */
#define SHORT_ROW 64u
#define NARROW 32u

static fth_fp32_avx512_kernel *fp32_avx512_kernel(const struct fth_gemm_shape *s) {
    if (!fth_cpu_get()->two_fmas)
        return fth_fp32_avx512_run;
    return s->n <= NARROW && s->lda <= SHORT_ROW ? fth_fp32_narrow_avx512_run : fth_fp32_wide_avx512_run;
}

static void version(char out[96]) {
    static const char *const fp32[FTH_ISA_COUNT] = {"not with this instruction set", "AVX2", "AVX-512"};
    snprintf(out, 96, "fp32 products (%s), bf16 products (%s)", fp32[fth_cpu_get()->isa],
             fth_cpu_get()->avx512_bf16 ? bf16_kernel()->name : "not on this CPU");
}

static const char *refusal(fth_gemm_form form, fth_precision precision) {
    if (precision != FTH_FP32)
        return NULL;
    if (fth_cpu_get()->isa == FTH_ISA_SCALAR)
        return "fathom's own fp32 products need AVX2";
    return form == FTH_GEMM_NT ? "fathom has no fp32 product with the second matrix transposed; use "
                                 "onednn or openblas, or a transposed copy and nn"
                               : NULL;
}

static int allocates(const struct fth_gemm_shape *shape) {
    (void)shape;
    return 0;
}

static size_t scratch_bytes(const struct fth_gemm_shape *s, const void *state) {
    (void)state;
    if (s->precision != FTH_FP32)
        return fth_bf16_scratch(s, bf16_kernel());
    return fth_cpu_get()->isa == FTH_ISA_AVX512 || fth_small_avx2(s) ? 0 : fth_fp32_scratch(s);
}

static void run_avx2(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                     void *scratch) {
    if (!fth_small_avx2(s))
        fth_fp32_run(s, rows, a, b, c, scratch);
    else if (s->form == FTH_GEMM_NN)
        fth_small_avx2_nn(s, rows, a, b, c, NULL);
    else
        fth_small_avx2_tn(s, rows, a, b, c);
}

static void run(const struct fth_gemm_shape *s, const void *state, uint32_t rows, const float *a,
                const float *b, float *c, void *scratch) {
    (void)state;
    if (s->precision != FTH_FP32)
        fth_bf16_run(s, bf16_kernel(), rows, a, b, c, scratch, NULL);
    else if (fth_cpu_get()->isa == FTH_ISA_AVX512 && s->form == FTH_GEMM_NN)
        fth_fp32_nn_avx512_run(s, rows, a, b, c, NULL);
    else if (fth_cpu_get()->isa == FTH_ISA_AVX512)
        fp32_avx512_kernel(s)(s, rows, a, b, c, NULL);
    else
        run_avx2(s, rows, a, b, c, scratch);
}

static void run_finish(const struct fth_gemm_shape *s, const void *state, uint32_t rows, const float *a,
                       const float *b, float *c, void *scratch, const struct fth_gemm_finish *finish) {
    (void)state;
    if (s->precision != FTH_FP32)
        fth_bf16_run(s, bf16_kernel(), rows, a, b, c, scratch, finish);
    else if (fth_cpu_get()->isa == FTH_ISA_AVX512)
        fth_fp32_nn_avx512_run(s, rows, a, b, c, finish);
    else if (fth_small_avx2(s))
        fth_small_avx2_nn(s, rows, a, b, c, finish);
    else
        fth_fp32_run_finish(s, rows, a, b, c, finish);
}

static int run_step(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                    const struct fth_gemm_step *step) {
    if (s->precision != FTH_FP32 || fth_cpu_get()->isa != FTH_ISA_AVX512)
        return 0;
    fp32_avx512_kernel(s)(s, rows, a, b, c, step);
    return 1;
}

const struct fth_gemm_backend fth_gemm_backend_fathom = {.name = "fathom",
                                                         .panels = 1,
                                                         .version = version,
                                                         .refusal = refusal,
                                                         .allocates = allocates,
                                                         .scratch = scratch_bytes,
                                                         .run = run,
                                                         .run_finish = run_finish,
                                                         .run_step = run_step};
