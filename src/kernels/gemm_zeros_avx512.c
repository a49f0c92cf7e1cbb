/* Products that leave out the zeros of A, by AVX-512.
 *
 * NN, C[m, n] = A[m, k] B[k, n], by panels (panels.h), whether or not B lies in them: of 64 rows and 64 columns of A the
 * elements that are no zeros are brought together, row by row; then each costs as many multiply-adds as a panel is
 * wide in vectors:
 *
 *     for 64 rows:  for 64 of k:  A's elements into lists
 *         for panel (64 x 64 of B, which stays in the first cache):  for row:  C[row, panel] += list B
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define ROWS FTH_ZEROS_ROWS
#define DEPTH 64u

/* A's elements of a piece; row i has those from begin[i] to begin[i + 1]. A whole vector is stored at the end. */
struct lists {
    float value[ROWS * DEPTH + VW];
    uint32_t k[ROWS * DEPTH + VW];
    uint32_t begin[ROWS + 1];
};

uint64_t fth_zeros_avx512_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    uint64_t counted = 0;
    for (uint32_t i = 0; i < rows; i += every)
        for (uint32_t j = 0; j < columns; j += VW) {
            vt t = v_tail(columns - j < VW ? columns - j : VW);
            counted += v_count(v_not_zero(v_load_part(a + (size_t)i * ld + j, t)));
        }
    return counted;
}

static void make_lists(const float *a, size_t lda, uint32_t rows, uint32_t depth, struct lists *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows; i++) {
        out->begin[i] = n;
        for (uint32_t k = 0; k < depth; k += VW) {
            vf x = v_load_part(a + i * lda + k, v_tail(depth - k < VW ? depth - k : VW));
            vm there = v_not_zero(x);
            v_store(out->value + n, _mm512_maskz_compress_ps(there, x));
            _mm512_storeu_si512(out->k + n, _mm512_maskz_compress_epi32(there, vi_add(vi_lanes(), vi_set(k))));
            n += v_count(there);
        }
    }
    out->begin[rows] = n;
}

/* A panel's columns are m vectors, of the last one the lanes t. */
struct panel {
    const float *b;
    size_t ld;
    float *c;
    size_t ldc;
    vt t;
    int add;
};

static FTH_INLINE void run_panel(const uint32_t m, const struct lists *lists, uint32_t rows, const struct panel *p) {
    for (uint32_t i = 0; i < rows; i++) {
        float *c = p->c + i * p->ldc;
        vf sums[5];
#pragma GCC unroll 5
        for (uint32_t j = 0; j < m; j++)
            sums[j] = p->add ? v_load_part(c + j * VW, j + 1 == m ? p->t : v_tail(VW)) : v_zero();
        for (uint32_t at = lists->begin[i]; at < lists->begin[i + 1]; at++) {
            const float *b = p->b + lists->k[at] * p->ld;
            vf x = v_set(lists->value[at]);
#pragma GCC unroll 5
            for (uint32_t j = 0; j + 1 < m; j++)
                sums[j] = v_fma(x, v_load(b + j * VW), sums[j]);
            sums[m - 1] = v_fma(x, v_load_part(b + (m - 1) * VW, p->t), sums[m - 1]);
        }
#pragma GCC unroll 5
        for (uint32_t j = 0; j < m; j++)
            v_store_part(c + j * VW, j + 1 == m ? p->t : v_tail(VW), sums[j]);
    }
}

static void run_any_panel(uint32_t m, const struct lists *lists, uint32_t rows, const struct panel *p) {
    switch (m) {
    case 1:
        run_panel(1, lists, rows, p);
        break;
    case 2:
        run_panel(2, lists, rows, p);
        break;
    case 3:
        run_panel(3, lists, rows, p);
        break;
    case 4:
        run_panel(4, lists, rows, p);
        break;
    default:
        run_panel(5, lists, rows, p);
    }
}

static void run_rows(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                     const struct fth_gemm_finish *finish) {
    struct fth_panels panels = fth_panels_of(s->n);
    struct lists lists;
    for (uint32_t k = 0; k < s->k; k += DEPTH) {
        int end = s->k - k <= DEPTH;
        make_lists(a + k, s->lda, rows, end ? s->k - k : DEPTH, &lists);
        for (uint32_t i = 0; i < panels.count; i++) {
            uint32_t column = i * panels.width, last = i + 1 == panels.count;
            uint32_t columns = last ? panels.last : panels.width, m = (columns + VW - 1) / VW;
            size_t ld = !s->panels ? s->ldb : last ? panels.ld_last : panels.width;
            struct panel p = {.b = b + (s->panels ? (size_t)column * s->k : column) + k * ld,
                              .ld = ld,
                              .c = c + column,
                              .ldc = s->ldc,
                              .t = v_tail(columns - (m - 1) * VW),
                              .add = s->accumulate || k > 0};
            run_any_panel(m, &lists, rows, &p);
            if (end && finish)
                finish->done(finish->ctx, column, columns);
        }
    }
}

void fth_zeros_avx512_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                         const struct fth_gemm_finish *finish) {
    fth_zeros_by_rows(s, rows, a, b, c, finish, run_rows);
}
