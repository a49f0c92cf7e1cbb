/* Products that leave out the zeros of A, by AVX2: NN element by element, by 64 columns, which are four strips
 * (panels.h):
 *
 *     for 64 rows:  for 64 of k:  A's elements that are no zeros into lists
 *         for 64 columns (64 x 64 of B, which stays in the first cache):  for row:  C[row, columns] += list B
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include "kernels/cpu/simd_avx2.h"

#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define ROWS FTH_ZEROS_ROWS
#define DEPTH 64u
#define STRIP 16u
#define COLUMNS 64u

/* Row i has those from begin[i] to begin[i + 1]; whole vectors are stored at the end. */
struct lists {
    float value[ROWS * DEPTH + VW];
    uint32_t k[ROWS * DEPTH + VW];
    uint32_t begin[ROWS + 1];
};

/* 64 columns of C or fewer; vector j of row k of B lies at b + j / 2 strip + j % 2 VW + k ld. */
struct piece {
    const float *b;
    size_t ld, strip;
    float *c;
    size_t ldc;
    vt lanes; /* of the last vector */
    int add;
};

uint64_t fth_zeros_avx2_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    uint64_t counted = 0;
    for (uint32_t i = 0; i < rows; i += every)
        for (uint32_t j = 0; j < columns; j += VW) {
            vf x = v_load_part(a + (size_t)i * ld + j, v_tail(columns - j < VW ? columns - j : VW));
            int mask = _mm256_movemask_ps(_mm256_cmp_ps(x, v_zero(), _CMP_NEQ_UQ));
            counted += (uint32_t)__builtin_popcount((unsigned)mask);
        }
    return counted;
}

static void make_lists(const float *a, size_t lda, uint32_t rows, uint32_t depth, struct lists *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows; i++) {
        out->begin[i] = n;
        for (uint32_t k = 0; k < depth; k += VW) {
            vf x = v_load_part(a + i * lda + k, v_tail(depth - k < VW ? depth - k : VW));
            n += v_pack(x, k, out->value + n, out->k + n);
        }
    }
    out->begin[rows] = n;
}

/* A piece of m vectors. */
static FTH_INLINE void run_piece(const uint32_t m, const struct lists *lists, uint32_t rows, const struct piece *p) {
    const vt lanes = p->lanes;
    for (uint32_t i = 0; i < rows; i++) {
        float *c = p->c + i * p->ldc;
        vf sums[8];
#pragma GCC unroll 8
        for (uint32_t j = 0; j < m; j++)
            sums[j] = !p->add       ? v_zero()
                      : j + 1 == m  ? v_load_part(c + j * VW, lanes)
                                    : v_load(c + j * VW);
        for (uint32_t at = lists->begin[i]; at < lists->begin[i + 1]; at++) {
            const float *b = p->b + lists->k[at] * p->ld;
            vf x = v_set(lists->value[at]);
#pragma GCC unroll 8
            for (uint32_t j = 0; j < m; j++) {
                const float *y = b + j / 2 * p->strip + j % 2 * VW;
                sums[j] = v_fma(x, j + 1 == m ? v_load_part(y, lanes) : v_load(y), sums[j]);
            }
        }
#pragma GCC unroll 8
        for (uint32_t j = 0; j + 1 < m; j++)
            v_store(c + j * VW, sums[j]);
        v_store_part(c + (m - 1) * VW, lanes, sums[m - 1]);
    }
}

#define PIECES(PIECE) PIECE(1) PIECE(2) PIECE(3) PIECE(4) PIECE(5) PIECE(6) PIECE(7) PIECE(8)
#define DEFINE(m) \
    static void piece_##m(const struct lists *lists, uint32_t rows, const struct piece *p) { run_piece(m, lists, rows, p); }
PIECES(DEFINE)
#define NAME(m) piece_##m,
static void (*const pieces[])(const struct lists *, uint32_t, const struct piece *) = {PIECES(NAME)};

static void run_rows(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                     const struct fth_gemm_finish *finish) {
    struct lists lists;
    for (uint32_t k = 0; k < s->k; k += DEPTH) {
        int end = s->k - k <= DEPTH;
        make_lists(a + k, s->lda, rows, end ? s->k - k : DEPTH, &lists);
        for (uint32_t column = 0; column < s->n; column += COLUMNS) {
            uint32_t columns = s->n - column < COLUMNS ? s->n - column : COLUMNS, m = (columns + VW - 1) / VW;
            size_t ld = s->panels ? STRIP : s->ldb, strip = s->panels ? (size_t)STRIP * s->k : STRIP;
            struct piece p = {.b = b + column / STRIP * strip + k * ld,
                              .ld = ld,
                              .strip = strip,
                              .c = c + column,
                              .ldc = s->ldc,
                              .lanes = v_tail(columns - (m - 1) * VW),
                              .add = s->accumulate || k > 0};
            pieces[m - 1](&lists, rows, &p);
            if (end && finish)
                finish->done(finish->ctx, column, columns);
        }
    }
}

void fth_zeros_avx2_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish) {
    fth_zeros_by_rows(s, rows, a, b, c, finish, run_rows);
}
