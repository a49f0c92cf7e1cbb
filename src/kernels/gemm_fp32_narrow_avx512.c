/* fp32 weight gradients by AVX-512, C[m, n] = A[k, m]^T B[k, n], of at most 32 columns, where rows of A are short: those of a
 * factorised field (ops/factor_update.c). For cores that make two multiply-adds of 512 bits a cycle: tiles of 8 x 32, 10
 * loads for 16. Nothing is packed, which gemm_fp32_wide_avx512.c does as long as it multiplies here.
 *
 * Every element of C is summed in increasing k: the same bits as gemm_fp32_avx512.c. Threads: pure functions. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/gemm_fp32.h"

#define ROWS 8

struct strip {
    const float *a, *b;
    size_t lda, ldb, ldc;
    uint32_t k;
    int add;
    float *c;
    vt last; /* lanes of C's last vector */
};

/* m rows of v vectors. */
static FTH_INLINE void run_strip(const int m, const int v, const struct strip *s) {
    vf sums[ROWS][2];
    const float *a = s->a, *b = s->b;
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            sums[i][j] = s->add ? v_load_part(s->c + i * s->ldc + j * VW, j + 1 < v ? v_tail(VW) : s->last) : v_zero();
    for (uint32_t k = s->k; k > 0; k--, a += s->lda, b += s->ldb) {
        vf y[2];
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            y[j] = v_load_part(b + j * VW, j + 1 < v ? v_tail(VW) : s->last);
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            vf x = v_set(a[i]);
#pragma GCC unroll 2
            for (int j = 0; j < v; j++)
                sums[i][j] = v_fma(x, y[j], sums[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int j = 0; j < v; j++)
            v_store_part(s->c + i * s->ldc + j * VW, j + 1 < v ? v_tail(VW) : s->last, sums[i][j]);
}

#define HEIGHTS(OF) OF(1) OF(2) OF(3) OF(4) OF(5) OF(6) OF(7) OF(8)
#define DEFINE(m) \
    static void strip_##m##_1(const struct strip *s) { run_strip(m, 1, s); } \
    static void strip_##m##_2(const struct strip *s) { run_strip(m, 2, s); }
HEIGHTS(DEFINE)
#define NAMES(m) [m] = {strip_##m##_1, strip_##m##_2},
static void (*const strips[ROWS + 1][2])(const struct strip *) = {HEIGHTS(NAMES)};

void fth_fp32_narrow_avx512_run(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                                const struct fth_gemm_step *step) {
    int two = s->n > VW;
    struct strip strip = {.a = a, .b = b, .c = c, .lda = s->lda, .ldb = s->ldb, .ldc = s->ldc, .k = rows,
                          .add = s->accumulate, .last = v_tail(two ? s->n - VW : s->n)};
    for (uint32_t i = 0; i < s->m; i += ROWS) {
        strips[s->m - i < ROWS ? s->m - i : ROWS][two](&strip);
        strip.a += ROWS;
        strip.c += ROWS * strip.ldc;
    }
    if (step)
        fth_step_avx512_run(step, s->m, s->n, c, s->ldc);
}
