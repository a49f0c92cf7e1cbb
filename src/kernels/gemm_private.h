/* What the providers of kernels/gemm share: one table of functions each. Only src/kernels/gemm*.c
 * include this.
 *
 * Threads: `create` and `destroy` from one thread; `run` from any, the state being read-only by
 * then. */
#ifndef FTH_KERNELS_GEMM_PRIVATE_H
#define FTH_KERNELS_GEMM_PRIVATE_H

#include <string.h>

#include "kernels/gemm.h"

struct fth_gemm_backend {
    const char *name;
    int panels; /* run takes B in panels; otherwise gemm.c calls it panel by panel */
    void (*version)(char out[96]);
    /* NULL when it can do this form and precision on this CPU, else the reason. */
    const char *(*refusal)(fth_gemm_form form, fth_precision precision);
    int (*allocates)(const struct fth_gemm_shape *shape);
    /* *state is what run gets (NULL is fine); owned: destroy. Any of create, destroy and scratch
     * may be NULL: nothing to make, nothing to free, no scratch. */
    fth_status (*create)(const struct fth_gemm_shape *shape, void **state, fth_error *err);
    void (*destroy)(void *state);
    size_t (*scratch)(const struct fth_gemm_shape *shape, const void *state);
    /* rows > 0 */
    void (*run)(const struct fth_gemm_shape *shape, const void *state, uint32_t rows,
                const float *a, const float *b, float *c, void *scratch);
    /* NN with fth_gemm_finish, rows > 0, finish not NULL; NULL: gemm.c calls it behind run. */
    void (*run_finish)(const struct fth_gemm_shape *shape, const void *state, uint32_t rows,
                       const float *a, const float *b, float *c, void *scratch,
                       const struct fth_gemm_finish *finish);
    /* TN with the optimizer's step (fth_gemm_run_step), rows > 0; NULL: cannot. */
    int (*run_step)(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b, float *c,
                    const struct fth_gemm_step *step);
};

extern const struct fth_gemm_backend fth_gemm_backend_reference;
extern const struct fth_gemm_backend fth_gemm_backend_onednn;
extern const struct fth_gemm_backend fth_gemm_backend_openblas;
extern const struct fth_gemm_backend fth_gemm_backend_xsmm;
extern const struct fth_gemm_backend fth_gemm_backend_fathom;

/* gemm_openblas.c: fth_gemm_reserve. */
fth_status fth_openblas_reserve(uint32_t threads, fth_error *err);

const struct fth_gemm_backend *fth_gemm_backend_get(fth_gemm_provider provider);

/* The built-in table's choice: by shape, instruction set and FMAs a cycle; B's panels change nothing, so that they change
 * no bits. */
fth_gemm_provider fth_gemm_table_choose(const struct fth_gemm_shape *shape, const struct fth_cpu *cpu);

/* The tuning's choice, or FTH_GEMM_AUTO when it has none for this shape (or is NULL). */
fth_gemm_provider fth_tuning_choose(const fth_tuning *tuning, const struct fth_gemm_shape *shape);

/* Elements of C up to which oneDNN calls no malloc in TN on AVX2 (gemm_onednn.c). */
#define FTH_ONEDNN_QUIET_MN (1u << 18)

const char *fth_gemm_form_name(fth_gemm_form form); /* "nn", "nt", "tn" */

/* Round to nearest even; a NaN stays a NaN. */
static inline uint16_t fth_bf16_from_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline float fth_bf16_to_float(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

#endif
