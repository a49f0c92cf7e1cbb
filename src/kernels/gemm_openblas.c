/* OpenBLAS's sgemm.
 *
 * Threads: one number for the process, set to 1 by fth_gemm_thread_init. Instruction set: chosen
 * while the library is loaded, limited by the environment variable OPENBLAS_CORETYPE only.
 * Allocation: a call takes a working buffer from a table, the first one that no other thread has, and
 * maps it where nobody had it before; fth_openblas_reserve has all of them mapped beforehand. Its kernels
 * for small NN products on AVX-512 cores take a block from malloc for some n (177 of 1000 random shapes). */
#include <cblas.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "kernels/gemm_private.h"

/* What sgemm itself calls (OpenBLAS's interface/gemm.c); exported, but in no header. Where a build hides them, buffers
 * are mapped when they are first needed. */
extern void *blas_memory_alloc(int position) __attribute__((weak));
extern void blas_memory_free(void *buffer) __attribute__((weak));

/* Of a buffer on x86-64 (BUFFER_SIZE, common_x86_64.h). */
#define BUFFER_BYTES ((size_t)32 << 22)

static _Atomic int in_use;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t reserved; /* buffers that are there for certain */

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

static fth_status create(const struct fth_gemm_shape *shape, void **state, fth_error *err) {
    (void)shape;
    (void)state;
    (void)err;
    atomic_store(&in_use, 1);
    return FTH_OK;
}

/* blas_memory_alloc never returns without a buffer: where the system has none to give, it tries again for ever. */
static fth_status try_mapping(uint32_t n, void **buffers, fth_error *err) {
    uint32_t got = 0;
    while (got < n && (buffers[got] = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
        got++;
    fth_status status = FTH_OK;
    if (got < n)
        status = fth_fail(err, FTH_E_MEMORY,
                          "OpenBLAS needs %zu MB of address space, %zu a thread, of which the system gives %zu (%s): "
                          "raise the limit (ulimit -v) or lower threads",
                          n * (BUFFER_BYTES >> 20), BUFFER_BYTES >> 20, got * (BUFFER_BYTES >> 20),
                          strerror(errno));
    for (uint32_t i = 0; i < got; i++)
        munmap(buffers[i], BUFFER_BYTES);
    return status;
}

fth_status fth_openblas_reserve(uint32_t threads, fth_error *err) {
    if (!atomic_load(&in_use) || !blas_memory_alloc || !blas_memory_free)
        return FTH_OK;
    void **buffers = fth_alloc(threads, sizeof *buffers);
    if (!buffers)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the buffers of %u threads", threads);
    pthread_mutex_lock(&mutex);
    fth_status status = threads > reserved ? try_mapping(threads - reserved, buffers, err) : FTH_OK;
    if (status == FTH_OK && threads > reserved) {
        for (uint32_t i = 0; i < threads; i++)
            buffers[i] = blas_memory_alloc(0);
        for (uint32_t i = 0; i < threads; i++)
            blas_memory_free(buffers[i]);
        reserved = threads;
    }
    pthread_mutex_unlock(&mutex);
    fth_free(buffers);
    return status;
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
    .create = create,
    .run = run,
};
