/* Products that leave out the zeros of A, element by element, by AVX-512 for cores that make two multiply-adds a cycle (others:
 * gemm_pairs_avx512.c).
 *
 * NN, C[m, n] = A[m, k] B[k, n], by panels (panels.h), whether or not B lies in them: of 64 rows and 64 columns of A the
 * elements that are no zeros are brought together, row by row; then each costs as many multiply-adds as a panel is
 * wide in vectors:
 *
 *     for 64 rows:  for 64 of k:  A's elements into lists
 *         for two panels (64 x 64 of B each, which stay in the first cache):  for row:  C[row, panels] += list B
 *
 * Of one panel, four sums, each multiply-add would wait for the last of the same sum. Two take 32 KB of the first cache.
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define ROWS FTH_ZEROS_ROWS
#define DEPTH 64u
#define VECTORS (FTH_PANEL / VW)

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

struct panel {
    const float *b;
    size_t ld;
    float *c;
    size_t ldc;
    uint32_t columns;
    int add;
};

/* m vectors. */
static FTH_INLINE void run_panel(const uint32_t m, const struct lists *lists, uint32_t rows, const struct panel *p) {
    vt t = v_tail(p->columns - (m - 1) * VW);
    for (uint32_t i = 0; i < rows; i++) {
        float *c = p->c + i * p->ldc;
        vf sums[5];
#pragma GCC unroll 5
        for (uint32_t j = 0; j < m; j++)
            sums[j] = p->add ? v_load_part(c + j * VW, j + 1 == m ? t : v_tail(VW)) : v_zero();
        for (uint32_t at = lists->begin[i]; at < lists->begin[i + 1]; at++) {
            const float *b = p->b + lists->k[at] * p->ld;
            vf x = v_set(lists->value[at]);
#pragma GCC unroll 5
            for (uint32_t j = 0; j + 1 < m; j++)
                sums[j] = v_fma(x, v_load(b + j * VW), sums[j]);
            sums[m - 1] = v_fma(x, v_load_part(b + (m - 1) * VW, t), sums[m - 1]);
        }
#pragma GCC unroll 5
        for (uint32_t j = 0; j < m; j++)
            v_store_part(c + j * VW, j + 1 == m ? t : v_tail(VW), sums[j]);
    }
}

/* Side by side in C; the first is 64 columns wide. */
struct pair {
    struct panel first, second;
    struct panel ahead[2]; /* what is read next is brought into the second cache */
    uint32_t n_ahead;      /* of them; a panel's rows are as many as the list's */
};

/* The second has m vectors, of the last one the lanes t. whole: it is as wide as the first. */
static FTH_INLINE void run_pair(const uint32_t m, vt t, const int whole, const struct lists *lists, uint32_t rows,
                                const struct pair *pair) {
    const struct panel *p = &pair->first, *q = &pair->second;
    ptrdiff_t apart = q->b - p->b;
    for (uint32_t i = 0; i < rows; i++) {
        float *c = p->c + i * p->ldc, *end = c + (VECTORS + m - 1) * VW;
        vf sums[VECTORS + 5];
        for (uint32_t n = 0; n < pair->n_ahead; n++)
            for (uint32_t j = 0; j < VECTORS; j++)
                _mm_prefetch((const char *)(pair->ahead[n].b + i * pair->ahead[n].ld + j * VW), _MM_HINT_T1);
#pragma GCC unroll 8
        for (uint32_t j = 0; j < VECTORS + m - 1; j++)
            sums[j] = p->add ? v_load(c + j * VW) : v_zero();
        sums[VECTORS + m - 1] = !p->add ? v_zero() : whole ? v_load(end) : v_load_part(end, t);
        for (uint32_t at = lists->begin[i]; at < lists->begin[i + 1]; at++) {
            const float *b = p->b + lists->k[at] * p->ld, *second = whole ? b + apart : q->b + lists->k[at] * q->ld;
            const float *last = second + (m - 1) * VW;
            vf x = v_set(lists->value[at]);
#pragma GCC unroll 4
            for (uint32_t j = 0; j < VECTORS; j++)
                sums[j] = v_fma(x, v_load(b + j * VW), sums[j]);
#pragma GCC unroll 4
            for (uint32_t j = 0; j + 1 < m; j++)
                sums[VECTORS + j] = v_fma(x, v_load(second + j * VW), sums[VECTORS + j]);
            sums[VECTORS + m - 1] = v_fma(x, whole ? v_load(last) : v_load_part(last, t), sums[VECTORS + m - 1]);
        }
#pragma GCC unroll 8
        for (uint32_t j = 0; j < VECTORS + m - 1; j++)
            v_store(c + j * VW, sums[j]);
        if (whole)
            v_store(end, sums[VECTORS + m - 1]);
        else
            v_store_part(end, t, sums[VECTORS + m - 1]);
    }
}

static void run_any_pair(const struct lists *lists, uint32_t rows, const struct pair *pair) {
    uint32_t m = (pair->second.columns + VW - 1) / VW;
    vt t = v_tail(pair->second.columns - (m - 1) * VW);
    if (pair->second.columns == FTH_PANEL) {
        run_pair(VECTORS, t, 1, lists, rows, pair);
        return;
    }
    switch (m) {
    case 1:
        run_pair(1, t, 0, lists, rows, pair);
        break;
    case 2:
        run_pair(2, t, 0, lists, rows, pair);
        break;
    case 3:
        run_pair(3, t, 0, lists, rows, pair);
        break;
    case 4:
        run_pair(4, t, 0, lists, rows, pair);
        break;
    default:
        run_pair(5, t, 0, lists, rows, pair);
    }
}

static void run_any_panel(const struct lists *lists, uint32_t rows, const struct panel *p) {
    switch ((p->columns + VW - 1) / VW) {
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

/* What a product is, and how its columns lie. */
struct product {
    const struct fth_gemm_shape *shape;
    struct fth_panels panels;
    uint32_t rows;
    const float *a, *b;
    float *c;
};

/* Panel i from k on. */
static struct panel panel_of(const struct product *p, uint32_t i, uint32_t k) {
    const struct fth_gemm_shape *s = p->shape;
    uint32_t column = i * p->panels.width;
    uint32_t columns = i + 1 == p->panels.count ? p->panels.last : p->panels.width;
    size_t ld;
    const float *b = fth_zeros_panel(s, &p->panels, p->b, i, k, &ld);
    return (struct panel){.b = b,
                          .ld = ld,
                          .c = p->c + column,
                          .ldc = s->ldc,
                          .columns = columns,
                          .add = s->accumulate || k > 0};
}

/* Panels i and i + 1. */
static struct pair pair_of(const struct product *p, uint32_t i, uint32_t k) {
    struct pair pair = {.first = panel_of(p, i, k), .second = panel_of(p, i + 1, k)};
    uint32_t next = i + 2;
    if (next >= p->panels.count && k + 2 * DEPTH <= p->shape->k) {
        next = 0;
        k += DEPTH;
    }
    for (; pair.n_ahead < 2 && next < p->panels.count; next++)
        pair.ahead[pair.n_ahead++] = panel_of(p, next, k);
    return pair;
}

static void run_rows(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                     const struct fth_gemm_finish *finish) {
    struct fth_panels panels = s->panels ? fth_panels_of(s->n) : fth_panels_cut(s->n, FTH_PANEL);
    struct product p = {s, panels, rows, a, b, c};
    struct lists lists;
    int pairs = panels.width == FTH_PANEL;
    for (uint32_t k = 0; k < s->k; k += DEPTH) {
        int end = s->k - k <= DEPTH;
        make_lists(a + k, s->lda, rows, end ? s->k - k : DEPTH, &lists);
        for (uint32_t i = 0, columns; i < p.panels.count; i += pairs ? 2 : 1) {
            if (pairs && i + 1 < p.panels.count) {
                struct pair pair = pair_of(&p, i, k);
                run_any_pair(&lists, rows, &pair);
                columns = FTH_PANEL + pair.second.columns;
            } else {
                struct panel panel = panel_of(&p, i, k);
                run_any_panel(&lists, rows, &panel);
                columns = panel.columns;
            }
            if (end && finish)
                finish->done(finish->ctx, i * p.panels.width, columns);
        }
    }
}

void fth_zeros_avx512_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                         const struct fth_gemm_finish *finish) {
    fth_zeros_by_rows(s, rows, a, b, c, finish, run_rows);
}
