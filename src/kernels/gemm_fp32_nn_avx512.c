/* fp32 products by AVX-512, C[m, n] = A[m, k] B[k, n], where a core makes two multiply-adds of 512 bits a cycle. A tile
 * is 6 x 64 of C (gemm_wide_avx512.h).
 *
 *     for panel of 64 columns:  for piece of k:  for strip of 6 rows of C:  tile
 *
 * A strip's piece of A stays in the first cache, the panel's piece comes from the second one again and again, as one stream;
 * the next piece is brought there meanwhile. Panels: panels.h; where B lies by rows, pieces of its rows.
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include "base/memory.h"
#include "kernels/gemm_fp32.h"
#include "kernels/gemm_wide_avx512.h"
#include "kernels/panels.h"

#define DEPTH 512u
#define LEAST_DEPTH 128u /* a rest below it joins the piece before */

struct product {
    const float *a, *b;
    size_t lda, ldb, ldc;
    uint32_t k;
    const float *from; /* what is added to; NULL: zeros */
    float *to;
    vt columns;        /* of the last vector */
    const float *next; /* lines that are brought into the second cache, one after another */
    size_t line;       /* 0: none */
};

/* ldb, line and columns of a full tile over a panel are known when it is compiled. */
static FTH_INLINE void tile(const int m, const int v, const struct product *t, size_t ldb, size_t line, vt columns) {
    vf sums[ROWS * VECTORS];
    const float *a = t->a, *a3 = m > 3 ? a + 3 * t->lda : a, *b = t->b, *next = t->next;
    size_t lda = t->lda;
    load_sums(m, v, t->from, t->ldc, columns, sums);
    for (uint32_t groups = t->k / GROUP; groups > 0; groups--, a += GROUP, a3 += GROUP) {
        /* Without it GCC keeps the addresses of all 24 elements, on the stack. */
        __asm__("" : "+r"(lda));
        for (uint32_t i = 0; i < FETCHES; i++, next += line)
            _mm_prefetch((const char *)next, _MM_HINT_T1);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < GROUP; i++, b += ldb)
            step_of_k(m, v, a + i, a3 + i, lda, b, columns, sums);
    }
    for (uint32_t p = t->k % GROUP; p > 0; p--, a++, a3++, b += ldb)
        step_of_k(m, v, a, a3, lda, b, columns, sums);
    store_sums(m, v, t->to, t->ldc, columns, sums);
}

#define DEFINE(m) \
    static void tile_##m##_1(const struct product *t) { tile(m, 1, t, t->ldb, t->line, t->columns); } \
    static void tile_##m##_2(const struct product *t) { tile(m, 2, t, t->ldb, t->line, t->columns); } \
    static void tile_##m##_3(const struct product *t) { tile(m, 3, t, t->ldb, t->line, t->columns); } \
    static void tile_##m##_4(const struct product *t) { tile(m, 4, t, t->ldb, t->line, t->columns); } \
    static void tile_##m##_panel(const struct product *t) { tile(m, 4, t, COLUMNS, VW, ALL); }
HEIGHTS(DEFINE)
#define NAMES(m) [m] = {tile_##m##_1, tile_##m##_2, tile_##m##_3, tile_##m##_4, tile_##m##_panel},
static void (*const tiles[ROWS + 1][VECTORS + 1])(const struct product *) = {HEIGHTS(NAMES)};

/* What is added to: rows lie apart, the hardware does not fetch them. */
static void fetch_rows(const float *c, size_t ldc, uint32_t rows, uint32_t columns) {
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < columns; j += VW)
            _mm_prefetch((const char *)(c + i * ldc + j), _MM_HINT_T0);
}

/* A piece of k and up to 64 columns of C. */
static void run_piece(uint32_t rows, uint32_t columns, int add, struct product t) {
    uint32_t v = (columns + VW - 1) / VW;
    int panel = columns == COLUMNS && t.ldb == COLUMNS && t.line;
    t.columns = v_tail(columns - (v - 1) * VW);
    for (uint32_t row = 0, m; row < rows; row += m) {
        m = strip_height(rows - row);
        t.from = add ? t.to : NULL;
        if (add)
            fetch_rows(t.to + m * t.ldc, t.ldc, rows - row - m < ROWS ? rows - row - m : ROWS, columns);
        tiles[m][panel ? VECTORS : v - 1](&t);
        t.a += m * t.lda;
        t.to += m * t.ldc;
        t.next += t.k / GROUP * FETCHES * t.line;
    }
}

/* A panel: t is at its corner. Up to 79 columns, of which a tile holds 64: five vectors are three and two. */
static void run_panel(const struct fth_gemm_shape *s, uint32_t rows, uint32_t columns, struct product t) {
    uint32_t first = columns <= COLUMNS ? columns : 3 * VW;
    for (uint32_t p = 0; p < s->k; p += t.k) {
        t.k = s->k - p < DEPTH + LEAST_DEPTH ? s->k - p : DEPTH;
        t.next = t.b + t.k * t.ldb;
        t.line = s->panels ? VW : 0;
        run_piece(rows, first, s->accumulate || p > 0, t);
        if (first < columns) {
            struct product rest = t;
            rest.b += first;
            rest.to += first;
            rest.line = 0;
            run_piece(rows, columns - first, s->accumulate || p > 0, rest);
        }
        t.a += t.k;
        t.b += t.k * t.ldb;
    }
}

void fth_fp32_nn_avx512_run(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                            const struct fth_gemm_finish *finish) {
    struct fth_panels panels = fth_panels_cut(s->n, FTH_PANEL);
    for (uint32_t i = 0; i < panels.count; i++) {
        int last = i + 1 == panels.count;
        uint32_t column = i * panels.width, columns = last ? panels.last : panels.width;
        struct product t = {.a = a, .lda = s->lda, .ldc = s->ldc, .to = c + column};
        t.b = b + (s->panels ? column * (size_t)s->k : column);
        t.ldb = !s->panels ? s->ldb : last ? panels.ld_last : panels.width;
        run_panel(s, rows, columns, t);
        if (finish)
            finish->done(finish->ctx, column, columns);
    }
}
