/* The reference provider: plain loops with sums in double, what every other provider is tested
 * against. Never chosen by the built-in table. Threads: pure functions. */
#include <stdio.h>

#include "kernels/gemm_private.h"

static void version(char out[96]) {
    snprintf(out, 96, "plain loops, sums in double");
}

static const char *refusal(fth_gemm_form form, fth_precision precision) {
    return NULL;
}

static int allocates(const struct fth_gemm_shape *shape) {
    return 0;
}

/* What the precision makes of x y. */
static double product(fth_precision precision, float x, float y) {
    if (precision == FTH_FP32)
        return (double)x * (double)y;
    float x_parts[FTH_GEMM_PARTS], y_parts[FTH_GEMM_PARTS];
    uint32_t parts = fth_gemm_parts(precision);
    for (uint32_t i = 0; i < parts; i++) {
        x_parts[i] = fth_bf16_to_float(fth_bf16_from_float(x));
        y_parts[i] = fth_bf16_to_float(fth_bf16_from_float(y));
        x -= x_parts[i];
        y -= y_parts[i];
    }
    double sum = 0;
    for (uint32_t size = parts; size-- > 0;)
        for (uint32_t i = size + 1; i-- > 0;)
            sum += (double)x_parts[i] * (double)y_parts[size - i];
    return sum;
}

static void run(const struct fth_gemm_shape *s, const void *state, uint32_t rows, const float *a,
                const float *b, float *c, void *scratch) {
    uint32_t m = s->form == FTH_GEMM_TN ? s->m : rows;
    uint32_t k = s->form == FTH_GEMM_TN ? rows : s->k;
    /* The distance between neighbours along k and along m (A) or n (B). */
    size_t a_k = s->form == FTH_GEMM_TN ? s->lda : 1, a_m = s->form == FTH_GEMM_TN ? 1 : s->lda;
    size_t b_k = s->form == FTH_GEMM_NT ? 1 : s->ldb, b_n = s->form == FTH_GEMM_NT ? s->ldb : 1;
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t j = 0; j < s->n; j++) {
            float *out = &c[(size_t)i * s->ldc + j];
            double sum = s->accumulate ? (double)*out : 0.0;
            for (uint32_t p = 0; p < k; p++)
                sum += product(s->precision, a[i * a_m + p * a_k], b[j * b_n + p * b_k]);
            *out = (float)sum;
        }
    }
}

const struct fth_gemm_backend fth_gemm_backend_reference = {
    .name = "reference",
    .version = version,
    .refusal = refusal,
    .allocates = allocates,
    .run = run,
};
