/* OpenBLAS's sgemm.
 *
 * Threads: one number for the process, set to 1 by fth_gemm_thread_init. Instruction set: chosen
 * while the library is loaded, limited by the environment variable OPENBLAS_CORETYPE only.
 * Allocation: its working buffers are mapped once for each thread that is inside at the same time;
 * its kernels for small NN products on AVX-512 cores take a block from malloc for some n (177 of
 * 1000 random shapes). */
#include <cblas.h>
#include <stdio.h>

#include "kernels/gemm_private.h"

static void version(char out[96]) {
    /* openblas_get_config: "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
    char name[32] = "", number[32] = "";
    if (sscanf(openblas_get_config(), "%31s %31s", name, number) != 2)
        snprintf(number, sizeof number, "of unknown version");
    snprintf(out, 96, "%s (kernels for %s)", number, openblas_get_corename());
}

static const char *refusal(fth_gemm_form form, fth_precision precision) {
    return precision != FTH_FP32 ? "bf16 is done by fathom only" : NULL;
}

static int allocates(const struct fth_gemm_shape *s) {
    return s->form == FTH_GEMM_NN;
}

static void run(const struct fth_gemm_shape *s, const void *state, uint32_t rows, const float *a,
                const float *b, float *c, void *scratch) {
    uint32_t m = s->form == FTH_GEMM_TN ? s->m : rows;
    uint32_t k = s->form == FTH_GEMM_TN ? rows : s->k;
    cblas_sgemm(CblasRowMajor, s->form == FTH_GEMM_TN ? CblasTrans : CblasNoTrans,
                s->form == FTH_GEMM_NT ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)s->n,
                (blasint)k, 1.0f, a, (blasint)s->lda, b, (blasint)s->ldb,
                s->accumulate ? 1.0f : 0.0f, c, (blasint)s->ldc);
}

const struct fth_gemm_backend fth_gemm_backend_openblas = {
    .name = "openblas",
    .version = version,
    .refusal = refusal,
    .allocates = allocates,
    .run = run,
};
