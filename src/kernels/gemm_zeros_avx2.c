/* Products that leave out the zeros of A, by AVX2: NN as gemm_zeros_avx512.c makes it, but 64 columns are four strips
 * (panels.h), and lists are made one element after the other:
 *
 *     for 64 rows:  for 64 of k:  A's elements that are no zeros into lists
 *         for 64 columns (64 x 64 of B, which stays in the first cache):  for row:  C[row, columns] += list B
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include <immintrin.h>
#include <string.h>

#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define INLINE static inline __attribute__((always_inline))
#define ROWS FTH_ZEROS_ROWS
#define DEPTH 64u
#define LANES 8u
#define STRIP 16u
#define COLUMNS 64u

struct element {
    uint32_t k;
    float value;
};

/* Row i has those from begin[i] to begin[i + 1]; one more is written behind the last. */
struct lists {
    struct element elements[ROWS * DEPTH + 1];
    uint32_t begin[ROWS + 1];
};

/* 64 columns of C or fewer; vector j of row k of B lies at b + j / 2 strip + j % 2 LANES + k ld. */
struct piece {
    const float *b;
    size_t ld, strip;
    float *c;
    size_t ldc;
    __m256i lanes; /* of the last vector */
    int add;
};

static int no_zero(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7fffffffu) != 0;
}

static __m256i first_lanes(uint32_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

uint64_t fth_zeros_avx2_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    uint64_t counted = 0;
    for (uint32_t i = 0; i < rows; i += every)
        for (uint32_t j = 0; j < columns; j += LANES) {
            __m256 x = _mm256_maskload_ps(a + (size_t)i * ld + j, first_lanes(columns - j < LANES ? columns - j : LANES));
            int mask = _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_UQ));
            counted += (uint32_t)__builtin_popcount((unsigned)mask);
        }
    return counted;
}

static void make_lists(const float *a, size_t lda, uint32_t rows, uint32_t depth, struct lists *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows; i++) {
        out->begin[i] = n;
        for (uint32_t k = 0; k < depth; k++) {
            float x = a[i * lda + k];
            out->elements[n] = (struct element){k, x};
            n += (uint32_t)no_zero(x);
        }
    }
    out->begin[rows] = n;
}

/* A piece of m vectors. */
INLINE void run_piece(const uint32_t m, const struct lists *lists, uint32_t rows, const struct piece *p) {
    const __m256i lanes = p->lanes;
    for (uint32_t i = 0; i < rows; i++) {
        float *c = p->c + i * p->ldc;
        __m256 sums[8];
#pragma GCC unroll 8
        for (uint32_t j = 0; j < m; j++)
            sums[j] = !p->add       ? _mm256_setzero_ps()
                      : j + 1 == m  ? _mm256_maskload_ps(c + j * LANES, lanes)
                                    : _mm256_loadu_ps(c + j * LANES);
        for (uint32_t at = lists->begin[i]; at < lists->begin[i + 1]; at++) {
            const float *b = p->b + lists->elements[at].k * p->ld;
            __m256 x = _mm256_broadcast_ss(&lists->elements[at].value);
#pragma GCC unroll 8
            for (uint32_t j = 0; j < m; j++) {
                const float *y = b + j / 2 * p->strip + j % 2 * LANES;
                sums[j] = _mm256_fmadd_ps(x, j + 1 == m ? _mm256_maskload_ps(y, lanes) : _mm256_loadu_ps(y), sums[j]);
            }
        }
#pragma GCC unroll 8
        for (uint32_t j = 0; j + 1 < m; j++)
            _mm256_storeu_ps(c + j * LANES, sums[j]);
        _mm256_maskstore_ps(c + (m - 1) * LANES, lanes, sums[m - 1]);
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
            uint32_t columns = s->n - column < COLUMNS ? s->n - column : COLUMNS, m = (columns + LANES - 1) / LANES;
            size_t ld = s->panels ? STRIP : s->ldb, strip = s->panels ? (size_t)STRIP * s->k : STRIP;
            struct piece p = {.b = b + column / STRIP * strip + k * ld,
                              .ld = ld,
                              .strip = strip,
                              .c = c + column,
                              .ldc = s->ldc,
                              .lanes = first_lanes(columns - (m - 1) * LANES),
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
