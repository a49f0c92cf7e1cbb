/* Which products leave out zeros: by shape when they are made, by counting in every run (gemm_zeros.h). Measured:
 * docs/performance.md. Threads: pure functions. */
#include "kernels/gemm_zeros.h"

#include "base/memory.h"

#define LEAST 48u /* columns and depth below which nothing is gained */
#define TILE_SAMPLE 4u /* of so many pairs or triples of rows one is counted */

int fth_gemm_zeros_of(const struct fth_gemm_shape *s) {
    fth_isa isa = fth_cpu_get()->isa;
    if (s->precision != FTH_FP32 || isa == FTH_ISA_SCALAR || s->n < LEAST)
        return 0;
    if (s->form == FTH_GEMM_NN)
        return s->k < LEAST ? 0 : s->zeros & FTH_ZEROS_A;
    return s->form != FTH_GEMM_TN || s->m < LEAST || s->accumulate ? 0 : s->zeros;
}

static uint64_t count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    return fth_cpu_get()->isa == FTH_ISA_AVX2 ? fth_zeros_avx2_count(a, rows, columns, ld, every)
                                              : fth_zeros_avx512_count(a, rows, columns, ld, every);
}

/* Tiles gain up to 3/4 of the columns of the rows that are multiplied together. */
static int many_in_tile(const struct fth_gemm_shape *s, uint32_t rows, const float *a) {
    int avx2 = fth_cpu_get()->isa == FTH_ISA_AVX2;
    uint32_t every = TILE_SAMPLE * (avx2 ? 3 : 2);
    uint64_t all = (uint64_t)((rows + every - 1) / every) * s->k;
    uint64_t columns = avx2 ? fth_zeros_avx2_triples(a, rows, s->k, s->lda, TILE_SAMPLE)
                            : fth_zeros_avx512_pairs(a, rows, s->k, s->lda, TILE_SAMPLE);
    return 4 * columns <= 3 * all ? FTH_ZEROS_A : 0;
}

/* A weight gradient gains below 3/8 of the elements. */
int fth_gemm_zeros_many(const struct fth_gemm_shape *s, int zeros, uint32_t rows, const float *a, const float *b) {
    if (!zeros || rows == 0)
        return 0;
    if (s->form == FTH_GEMM_NN)
        return many_in_tile(s, rows, a);
    uint64_t sampled = (rows + FTH_ZEROS_SAMPLE - 1) / FTH_ZEROS_SAMPLE;
    uint64_t of_a = sampled * s->m, of_b = sampled * s->n, all_a = of_a, all_b = of_b;
    if (zeros & FTH_ZEROS_A)
        of_a = count(a, rows, s->m, s->lda, FTH_ZEROS_SAMPLE);
    if (zeros & FTH_ZEROS_B)
        of_b = count(b, rows, s->n, s->ldb, FTH_ZEROS_SAMPLE);
    int of = of_a * all_b <= of_b * all_a ? FTH_ZEROS_A : FTH_ZEROS_B;
    return 8 * (of == FTH_ZEROS_A ? of_a : of_b) <= 3 * (of == FTH_ZEROS_A ? all_a : all_b) ? of : 0;
}

void fth_zeros_by_rows(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish, fth_zeros_rows *run) {
    if (rows <= FTH_ZEROS_ROWS) {
        run(s, rows, a, b, c, finish);
        return;
    }
    for (uint32_t i = 0; i < rows; i += FTH_ZEROS_ROWS)
        run(s, rows - i < FTH_ZEROS_ROWS ? rows - i : FTH_ZEROS_ROWS, a + (size_t)i * s->lda, b, c + (size_t)i * s->ldc,
            NULL);
    if (finish)
        finish->done(finish->ctx, 0, s->n);
}

void fth_gemm_zeros_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish) {
    if (fth_cpu_get()->isa == FTH_ISA_AVX2)
        fth_zeros_avx2_nn(s, rows, a, b, c, finish);
    else
        fth_zeros_avx512_nn(s, fth_cpu_get()->two_fmas, rows, a, b, c, finish);
}

size_t fth_zeros_tn_scratch(const struct fth_gemm_shape *s) {
    size_t split = fth_cpu_get()->isa == FTH_ISA_AVX2 ? fth_split_avx2_scratch(s) : fth_split_avx512_scratch(s);
    size_t turned = s->zeros & FTH_ZEROS_B ? (size_t)s->n * fth_padded_columns(s->m) * sizeof(float) : 0;
    return split > turned ? split : turned;
}

void fth_gemm_zeros_tn(const struct fth_gemm_shape *s, int of_b, uint32_t rows, const float *a, const float *b, float *c,
                       void *scratch) {
    int avx2 = fth_cpu_get()->isa == FTH_ISA_AVX2, wide = fth_cpu_get()->two_fmas;
    if (avx2 ? fth_split_avx2_tn(s, of_b, rows, a, b, c, scratch)
             : fth_split_avx512_tn(s, wide, of_b, rows, a, b, c, scratch))
        return;
    if (avx2)
        fth_zeros_avx2_tn(s, of_b, rows, a, b, c, scratch);
    else
        fth_zeros_avx512_tn(s, wide, of_b, rows, a, b, c, scratch);
}
