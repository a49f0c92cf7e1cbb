/* Matrix products through one interface: oneDNN, OpenBLAS and libxsmm, called single-threaded from
 * our workers, chosen by shape from a table, never by timing.
 *
 * Threads: create from one thread; a created fth_gemm is read-only and may run on any number of threads
 * at once, each with its own scratch. fth_gemm_thread_init must be called once by every thread
 * that runs one (it tells the providers' own thread pools to stay out). */
#ifndef FTH_KERNELS_GEMM_H
#define FTH_KERNELS_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/error.h"

/* All row-major. NN: C[m,n] = A[m,k] B[k,n]      (forward X W; data gradient dY W^T by W's transposed copy)
 *                NT: C[m,n] = A[m,k] B[n,k]^T
 *                TN: C[m,n] = A[k,m]^T B[k,n]    (weight gradient X^T dY, k = examples) */
typedef enum fth_gemm_form { FTH_GEMM_NN, FTH_GEMM_NT, FTH_GEMM_TN, FTH_GEMM_FORMS } fth_gemm_form;

typedef enum fth_precision { FTH_FP32, FTH_BF16 } fth_precision;

typedef enum fth_gemm_provider {
    FTH_GEMM_AUTO = -1, /* by the table */
    FTH_GEMM_REFERENCE, /* plain loops, the oracle of the tests */
    FTH_GEMM_ONEDNN,
    FTH_GEMM_OPENBLAS,
    FTH_GEMM_XSMM,
    FTH_GEMM_PROVIDERS
} fth_gemm_provider;

struct fth_gemm_shape {
    fth_gemm_form form;
    uint32_t m, n, k;       /* the usual size; the dimension of examples (m for NN and NT, k for TN)
                               may be any other number in a call */
    uint32_t lda, ldb, ldc; /* floats */
    int accumulate;         /* C += instead of C = */
    fth_precision precision; /* BF16: A and B rounded to bf16 (nearest even), products summed in fp32 */
};

/* A tuning file's content: which provider for which shape (docs/tuning.md). NULL means the built-in
 * table. */
typedef struct fth_tuning fth_tuning;
fth_status fth_tuning_load(const char *path, fth_tuning **out, fth_error *err);
void fth_tuning_destroy(fth_tuning *tuning); /* NULL-safe */
/* Hash of the choices, recorded in checkpoints: 0 for the built-in table. */
uint64_t fth_tuning_digest(const fth_tuning *tuning);
/* Times every provider on the given shapes and writes the file (atomically). */
fth_status fth_tuning_measure(const struct fth_gemm_shape *shapes, size_t n, const char *path,
                              fth_error *err);

typedef struct fth_gemm fth_gemm;

/* Refuses (FTH_E_UNSUPPORTED, with the reason) BF16 where the CPU has neither AMX nor AVX512-BF16.
 * Owned: fth_gemm_destroy. */
fth_status fth_gemm_create(const struct fth_gemm_shape *shape, fth_gemm_provider provider,
                           const fth_tuning *tuning, fth_gemm **out, fth_error *err);
void fth_gemm_destroy(fth_gemm *gemm); /* NULL-safe */
fth_gemm_provider fth_gemm_chosen(const fth_gemm *gemm);
const char *fth_gemm_provider_name(fth_gemm_provider provider);

/* Bytes of scratch that a run over at most `rows` examples needs (0 for fp32), 64-byte aligned. */
size_t fth_gemm_scratch(const fth_gemm *gemm, uint32_t rows);

void fth_gemm_thread_init(void);

/* Runs the product; rows = number of examples (0 is allowed: TN without accumulate then writes zeros).
 * No allocation and no system call. */
void fth_gemm_run(const fth_gemm *gemm, uint32_t rows, const float *a, const float *b, float *c,
                  void *scratch);

#endif
