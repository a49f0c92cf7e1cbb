/* oneDNN's sgemm.
 *
 * Threads: oneDNN asks OpenMP for the number of threads of the calling thread, which
 * fth_gemm_thread_init has set to 1. Allocation: counted over 3000 random shapes, oneDNN 2.6.3
 * takes one block from malloc a call in every form, on AVX-512 and AVX2 (16 KB to 1 MB), but for TN
 * on AVX2, where only its copying driver does, for a large C (none of 6000 random shapes up to
 * FTH_ONEDNN_QUIET_MN). */
#include <dnnl.h>
#include <pthread.h>
#include <stdio.h>

#include "kernels/gemm_private.h"

static pthread_once_t limit_once = PTHREAD_ONCE_INIT;

/* Effective only before oneDNN's first product, hence from refusal(), which every creation calls.
 */
static void limit_isa(void) {
    static const dnnl_cpu_isa_t isa[FTH_ISA_COUNT] = {
        [FTH_ISA_SCALAR] = dnnl_cpu_isa_sse41,
        [FTH_ISA_AVX2] = dnnl_cpu_isa_avx2,
        [FTH_ISA_AVX512] = dnnl_cpu_isa_all,
    };
    dnnl_set_max_cpu_isa(isa[fth_cpu_get()->isa]);
}

static void version(char out[96]) {
    const dnnl_version_t *v = dnnl_version();
    pthread_once(&limit_once, limit_isa);
    snprintf(out, 96, "%d.%d.%d (limited to %s)", v->major, v->minor, v->patch,
             fth_isa_name(fth_cpu_get()->isa));
}

static const char *refusal(fth_gemm_form form, fth_precision precision) {
    pthread_once(&limit_once, limit_isa);
    return precision != FTH_FP32 ? "bf16 is done by fathom only" : NULL;
}

static int allocates(const struct fth_gemm_shape *s) {
    return s->form != FTH_GEMM_TN || fth_cpu_get()->isa != FTH_ISA_AVX2 ||
           (uint64_t)s->m * s->n > FTH_ONEDNN_QUIET_MN;
}

static void run(const struct fth_gemm_shape *s, const void *state, uint32_t rows, const float *a,
                const float *b, float *c, void *scratch) {
    dnnl_dim_t m = s->form == FTH_GEMM_TN ? s->m : rows;
    dnnl_dim_t k = s->form == FTH_GEMM_TN ? rows : s->k;
    dnnl_status_t status =
        dnnl_sgemm(s->form == FTH_GEMM_TN ? 'T' : 'N', s->form == FTH_GEMM_NT ? 'T' : 'N', m, s->n,
                   k, 1.0f, a, s->lda, b, s->ldb, s->accumulate ? 1.0f : 0.0f, c, s->ldc);
    /* Out of memory for its block: the product must still be whole. */
    if (status != dnnl_success)
        fth_gemm_backend_reference.run(s, NULL, rows, a, b, c, NULL);
}

const struct fth_gemm_backend fth_gemm_backend_onednn = {
    .name = "onednn",
    .version = version,
    .refusal = refusal,
    .allocates = allocates,
    .run = run,
};
