/* Products without the zeros of A by pairs of rows, by AVX-512: two rows share each line of B, of which a multiply-add for
 * every element alone would need one. Columns of A that are zero in all of 64 rows are not looked at again; of 64 of the
 * others those that are not zero in both rows of a pair are a word of bits, and A's elements are taken from where they lie.
 *
 * NN, C[m, n] = A[m, k] B[k, n], by panels (panels.h), whether or not B lies in them, by strips of one panel or two:
 *
 *     for 64 rows:  for 64 of k that are left:  a word of bits a pair
 *         for strip (64 x 64 or 64 x 128 of B, which stay in the first cache):  for pair:  C[2 rows, strip] += bits B
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include "kernels/cpu/simd_avx512.h"

#include <string.h>

#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define PAIR 2
#define PAIRS (FTH_ZEROS_ROWS / PAIR)
#define DEPTH 64u /* bits of a word */
#define CHUNK 1024u /* columns whose zeros are looked for at a time */
#define VECTORS (FTH_PANEL / VW)
#define LAST 5 /* vectors of the last panel, at most */

/* The columns of up to two rows that are not zero in all of them. */
static FTH_INLINE uint64_t columns_of(const float *a, size_t lda, uint32_t rows, uint32_t depth) {
    uint64_t there = 0;
    for (uint32_t k = 0; k < depth; k += VW) {
        vt t = v_tail(depth - k < VW ? depth - k : VW);
        vm any = v_not_zero(v_load_part(a + k, t));
        if (rows > 1)
            any = (vm)(any | v_not_zero(v_load_part(a + lda + k, t)));
        there |= (uint64_t)v_bits(any) << k;
    }
    return there;
}

static inline uint32_t height_of(uint32_t rows) {
    return rows < PAIR ? rows : PAIR;
}

uint64_t fth_zeros_avx512_pairs(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    uint64_t counted = 0;
    for (uint32_t i = 0; i < rows; i += every * PAIR)
        for (uint32_t k = 0; k < columns; k += DEPTH) {
            uint32_t depth = columns - k < DEPTH ? columns - k : DEPTH;
            uint64_t there = columns_of(a + (size_t)i * ld + k, ld, height_of(rows - i), depth);
            counted += (uint32_t)__builtin_popcountll(there);
        }
    return counted;
}

/* Of a chunk's columns those that are not zero in all rows, in increasing order. */
struct columns {
    uint32_t n;
    uint16_t k[CHUNK];
    uint64_t there[CHUNK / DEPTH + 1][PAIRS]; /* by pair, of 64 of these each */
};

static void find_columns(const float *a, size_t lda, uint32_t rows, uint32_t depth, struct columns *out) {
    uint32_t pairs = (rows + PAIR - 1) / PAIR;
    out->n = 0;
    memset(out->there[0], 0, sizeof out->there[0]);
    for (uint32_t k = 0; k < depth; k += DEPTH) {
        uint64_t bits[PAIRS], any = 0;
        uint32_t word = out->n / DEPTH, at = out->n % DEPTH;
        for (uint32_t p = 0; p < pairs; p++)
            any |= bits[p] = columns_of(a + p * PAIR * lda + k, lda, height_of(rows - p * PAIR),
                                        depth - k < DEPTH ? depth - k : DEPTH);
        for (uint32_t p = 0; p < pairs; p++) {
            uint64_t close = _pext_u64(bits[p], any);
            out->there[word][p] |= close << at;
            out->there[word + 1][p] = at ? close >> (DEPTH - at) : 0;
        }
        for (; any; any &= any - 1)
            out->k[out->n++] = (uint16_t)(k + (uint32_t)__builtin_ctzll(any));
    }
}

/* A panel, or the rest of it, from a k on. */
struct panel {
    const float *b;
    size_t ld;
    uint32_t columns;
};

/* Columns of C by a piece of k: the last panel's, behind those of a whole one or not. */
struct strip {
    struct panel first, last;
    const float *a;
    float *c;
    size_t lda, ldc;
    struct panel ahead[2]; /* what is read behind them, whose rows `fetched` are brought into the second cache */
    uint32_t n_ahead;
    const uint16_t *fetched;
    uint32_t n_fetched;
    const uint16_t *k;     /* [at most DEPTH] */
    const uint64_t *there; /* of each pair, bits by number in k[] */
    uint32_t rows;
    int add;
};

/* m rows; `first` vectors of the first panel and `last` of the last, of its last one `columns`. panels: B lies in whole ones,
 * whose rows are a constant apart. */
static FTH_INLINE void tile(const int m, const int first, const int last, vt columns, const int panels,
                            const struct strip *s, const float *a, float *c, uint64_t there) {
    const int v = first + last;
    vf sums[PAIR * (VECTORS + LAST)];
#pragma GCC unroll 2
    for (int i = 0; i < m; i++)
#pragma GCC unroll 9
        for (int j = 0; j < v; j++)
            sums[i * v + j] = !s->add     ? v_zero()
                              : j + 1 < v ? v_load(c + i * s->ldc + j * VW)
                                          : v_load_part(c + i * s->ldc + j * VW, columns);
    for (; there; there &= there - 1) {
        size_t k = s->k[__builtin_ctzll(there)];
        const float *b = s->first.b + k * (panels ? FTH_PANEL : s->first.ld);
        const float *next = s->last.b + k * (panels ? FTH_PANEL : s->last.ld);
        vf y[VECTORS + LAST];
#pragma GCC unroll 9
        for (int j = 0; j < v; j++) {
            const float *from = j < first ? b + j * VW : next + (j - first) * VW;
            y[j] = j + 1 < v ? v_load(from) : v_load_part(from, columns);
        }
#pragma GCC unroll 2
        for (int i = 0; i < m; i++) {
            vf x = v_set(a[i * s->lda + k]);
#pragma GCC unroll 9
            for (int j = 0; j < v; j++)
                sums[i * v + j] = v_fma(x, y[j], sums[i * v + j]);
        }
    }
#pragma GCC unroll 2
    for (int i = 0; i < m; i++)
#pragma GCC unroll 9
        for (int j = 0; j < v; j++)
            if (j + 1 < v)
                v_store(c + i * s->ldc + j * VW, sums[i * v + j]);
            else
                v_store_part(c + i * s->ldc + j * VW, columns, sums[i * v + j]);
}

/* Two of the rows that are to be fetched: all of them, by 64 rows of A. */
static FTH_INLINE void fetch(const struct strip *s, uint32_t row) {
    for (uint32_t i = row; i < row + PAIR && i < s->n_fetched; i++)
        for (uint32_t p = 0; p < s->n_ahead; p++)
            for (uint32_t j = 0; j < VECTORS; j++)
                _mm_prefetch((const char *)(s->ahead[p].b + s->fetched[i] * s->ahead[p].ld + j * VW), _MM_HINT_T1);
}

static FTH_INLINE void run_pairs(const int first, const int last, vt columns, const int panels, const struct strip *s) {
    const float *a = s->a;
    float *c = s->c;
    uint32_t i = 0;
    for (; i + PAIR <= s->rows; i += PAIR, a += PAIR * s->lda, c += PAIR * s->ldc) {
        fetch(s, i);
        tile(PAIR, first, last, columns, panels, s, a, c, s->there[i / PAIR]);
    }
    if (i < s->rows)
        tile(1, first, last, columns, panels, s, a, c, s->there[i / PAIR]);
}

static FTH_INLINE void run_strip(const int first, const struct strip *s) {
    uint32_t last = (s->last.columns + VW - 1) / VW;
    vt columns = v_tail(s->last.columns - (last - 1) * VW);
    if (s->last.columns == FTH_PANEL && s->first.ld == FTH_PANEL && s->last.ld == FTH_PANEL) { /* known to the compiler */
        run_pairs(first, VECTORS, v_tail(VW), 1, s);
        return;
    }
    switch (last) {
    case 1:
        run_pairs(first, 1, columns, 0, s);
        break;
    case 2:
        run_pairs(first, 2, columns, 0, s);
        break;
    case 3:
        run_pairs(first, 3, columns, 0, s);
        break;
    case 4:
        run_pairs(first, 4, columns, 0, s);
        break;
    default:
        run_pairs(first, LAST, columns, 0, s);
    }
}

static void run_one_panel(const struct strip *s) {
    run_strip(0, s);
}

static void run_two_panels(const struct strip *s) {
    run_strip(VECTORS, s);
}

static struct panel panel_of(const struct fth_gemm_shape *s, const struct fth_panels *panels, const float *b, uint32_t i,
                             uint32_t k) {
    struct panel panel = {.columns = i + 1 == panels->count ? panels->last : panels->width};
    panel.b = fth_zeros_panel(s, panels, b, i, k, &panel.ld);
    return panel;
}

/* What is read behind the panels before `next` of piece `piece`: the next strip's, or the next piece's first. */
static void look_ahead(struct strip *strip, const struct fth_gemm_shape *s, const struct fth_panels *panels, const float *b,
                       uint32_t next, uint32_t together, uint32_t k, const struct columns *columns, uint32_t piece) {
    if (next == panels->count) {
        next = 0;
        piece++;
    }
    if (piece * DEPTH >= columns->n)
        return;
    strip->fetched = columns->k + piece * DEPTH;
    strip->n_fetched = columns->n - piece * DEPTH < DEPTH ? columns->n - piece * DEPTH : DEPTH;
    for (; strip->n_ahead < together && next < panels->count; next++)
        strip->ahead[strip->n_ahead++] = panel_of(s, panels, b, next, k);
}

/* By strips of so many panels; of one, where the CPU's are narrower (emulated on one without AVX-512). */
static void run_rows(uint32_t most, const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                     const struct fth_gemm_finish *finish) {
    struct fth_panels panels = s->panels ? fth_panels_of(s->n) : fth_panels_cut(s->n, FTH_PANEL);
    uint32_t together = panels.width == FTH_PANEL ? most : 1;
    struct columns columns;
    for (uint32_t k = 0; k < s->k; k += CHUNK) {
        find_columns(a + k, s->lda, rows, s->k - k < CHUNK ? s->k - k : CHUNK, &columns);
        uint32_t pieces = columns.n ? (columns.n + DEPTH - 1) / DEPTH : 1; /* one, of nothing, for what C begins with */
        for (uint32_t piece = 0; piece < pieces; piece++)
            for (uint32_t i = 0, n; i < panels.count; i += n) {
                n = panels.count - i < together ? panels.count - i : together;
                uint32_t column = i * panels.width;
                struct strip strip = {.first = panel_of(s, &panels, b, i, k), .last = panel_of(s, &panels, b, i + n - 1, k),
                                      .a = a + k, .lda = s->lda, .c = c + column, .ldc = s->ldc,
                                      .k = columns.k + piece * DEPTH, .there = columns.there[piece], .rows = rows,
                                      .add = s->accumulate || k > 0 || piece > 0};
                look_ahead(&strip, s, &panels, b, i + n, together, k, &columns, piece);
                if (n > 1)
                    run_two_panels(&strip);
                else
                    run_one_panel(&strip);
                if (finish && s->k - k <= CHUNK && piece + 1 == pieces)
                    finish->done(finish->ctx, column, (n - 1) * panels.width + strip.last.columns);
            }
    }
}

static void run_rows_by_one(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                            const struct fth_gemm_finish *finish) {
    run_rows(1, s, rows, a, b, c, finish);
}

static void run_rows_by_two(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                            const struct fth_gemm_finish *finish) {
    run_rows(2, s, rows, a, b, c, finish);
}

void fth_zeros_avx512_nn(const struct fth_gemm_shape *s, int wide, uint32_t rows, const float *a, const float *b,
                         float *c, const struct fth_gemm_finish *finish) {
    fth_zeros_by_rows(s, rows, a, b, c, finish, wide ? run_rows_by_two : run_rows_by_one);
}
