/* Products without the zeros of A where neighbouring rows have them in the same columns, by AVX-512: of a trained ReLU's
 * units most are zero in nearly all examples and the others in hardly any.
 *
 * NN, C[m, n] = A[m, k] B[k, n]: of six rows of A the columns that are not zero in all of them are brought together; over
 * these, tiles of 6 x 64 of C (gemm_wide_avx512.h) are dense. B lies in panels (panels.h) or not:
 *
 *     for 64 rows:  for 1024 of k:  for 6 rows:  columns into a list
 *         for panel (what lists name of it stays in the second cache):  for 6 rows:  C[6 rows, panel] += list B
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include "kernels/gemm_wide_avx512.h"

#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define DEPTH 1024u
#define STRIDE (DEPTH + VW)
#define LISTS (FTH_ZEROS_ROWS / ROWS + 2) /* of the last rows there may be two, of 4, 2 or 1 */

/* Columns of some rows of a piece of A, and what is there; whole vectors are stored at the end. */
struct list {
    uint32_t n, height;
    uint32_t k[STRIDE];
    float value[ROWS][STRIDE];
};

static FTH_INLINE vm not_zero_in_all(const float *a, size_t lda, uint32_t rows, vt t) {
    vm there = 0;
    for (uint32_t i = 0; i < rows; i++)
        there = (vm)(there | v_not_zero(v_load_part(a + i * lda, t)));
    return there;
}

struct fth_zeros_counted fth_groups_avx512_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld,
                                                 uint32_t every) {
    struct fth_zeros_counted counted = {0};
    for (uint32_t i = 0; i < rows; i += every * ROWS) {
        uint32_t height = strip_height(rows - i);
        counted.rows += height;
        counted.groups++;
        for (uint32_t j = 0; j < columns; j += VW) {
            vt t = v_tail(columns - j < VW ? columns - j : VW);
            vm any = 0;
            for (uint32_t r = i; r < i + height; r++) {
                vm there = v_not_zero(v_load_part(a + (size_t)r * ld + j, t));
                counted.elements += v_count(there);
                any = (vm)(any | there);
            }
            counted.columns += v_count(any);
        }
    }
    return counted;
}

static FTH_INLINE void make_list(const uint32_t height, const float *a, size_t lda, uint32_t depth, struct list *out) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < depth; k += VW) {
        vt t = v_tail(depth - k < VW ? depth - k : VW);
        vm there = not_zero_in_all(a + k, lda, height, t);
        _mm512_storeu_si512(out->k + n, _mm512_maskz_compress_epi32(there, vi_add(vi_lanes(), vi_set(k))));
#pragma GCC unroll 6
        for (uint32_t i = 0; i < height; i++)
            v_store(out->value[i] + n, _mm512_maskz_compress_ps(there, v_load_part(a + i * lda + k, t)));
        n += v_count(there);
    }
    out->n = n;
    out->height = height;
}

static uint32_t make_lists(const float *a, size_t lda, uint32_t rows, uint32_t depth, struct list *lists) {
    uint32_t n = 0;
    for (uint32_t row = 0; row < rows; row += lists[n++].height) {
        const float *from = a + row * lda;
        switch (strip_height(rows - row)) {
        case 1:
            make_list(1, from, lda, depth, &lists[n]);
            break;
        case 2:
            make_list(2, from, lda, depth, &lists[n]);
            break;
        case 4:
            make_list(4, from, lda, depth, &lists[n]);
            break;
        default:
            make_list(ROWS, from, lda, depth, &lists[n]);
        }
    }
    return n;
}

/* Up to 64 columns of C. */
struct piece {
    const float *b, *next; /* next: the panel behind it, whose lines are brought into the second cache; or b */
    size_t ldb, ld_next, ldc;
    float *c;
    uint32_t vectors;
    vt columns; /* of the last one */
    int add;
};

static FTH_INLINE void tile(const int m, const int v, const struct list *list, const struct piece *p, float *c,
                            const float *next) {
    vf sums[ROWS * VECTORS];
    const float *a = list->value[0], *a3 = m > 3 ? list->value[3] : a;
    load_sums(m, v, p->add ? c : NULL, p->ldc, p->columns, sums);
    for (uint32_t at = 0; at < list->n; at++, a++, a3++) {
        _mm_prefetch((const char *)(next + list->k[at] * p->ld_next), _MM_HINT_T1);
        step_of_k(m, v, a, a3, STRIDE, p->b + list->k[at] * p->ldb, p->columns, sums);
    }
    store_sums(m, v, c, p->ldc, p->columns, sums);
}

typedef void run_tile(const struct list *list, const struct piece *p, float *c, const float *next);

#define DEFINE_TILE(m, v) \
    static void tile_##m##_##v(const struct list *list, const struct piece *p, float *c, const float *next) { \
        tile(m, v, list, p, c, next); \
    }
#define DEFINE(m) DEFINE_TILE(m, 1) DEFINE_TILE(m, 2) DEFINE_TILE(m, 3) DEFINE_TILE(m, 4)
HEIGHTS(DEFINE)
#define NAMES(m) [m] = {tile_##m##_1, tile_##m##_2, tile_##m##_3, tile_##m##_4},
static run_tile *const tiles[ROWS + 1][VECTORS] = {HEIGHTS(NAMES)};

/* Lists of neighbouring rows name nearly the same lines: the first ones' tiles ask for a panel's four a row. */
static void run_piece(const struct list *lists, uint32_t n, const struct piece *p) {
    float *c = p->c;
    for (uint32_t i = 0; i < n; i++) {
        const float *next = p->next + (i < VECTORS ? i * VW : 0);
        tiles[lists[i].height][p->vectors - 1](&lists[i], p, c, next);
        c += lists[i].height * p->ldc;
    }
}

/* Columns [first, first + n) of a panel; those behind the first 64 are of the last one, behind which is none. */
static void run_columns(const struct list *lists, uint32_t n_lists, uint32_t first, uint32_t n, struct piece p) {
    p.b += first;
    p.c += first;
    p.vectors = (n + VW - 1) / VW;
    p.columns = v_tail(n - (p.vectors - 1) * VW);
    run_piece(lists, n_lists, &p);
}

static void run_rows(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                     const struct fth_gemm_finish *finish) {
    struct fth_panels panels = s->panels ? fth_panels_of(s->n) : fth_panels_cut(s->n, COLUMNS);
    struct list lists[LISTS];
    for (uint32_t k = 0; k < s->k; k += DEPTH) {
        uint32_t depth = s->k - k < DEPTH ? s->k - k : DEPTH, n = make_lists(a + k, s->lda, rows, depth, lists);
        for (uint32_t i = 0; i < panels.count; i++) {
            uint32_t column = i * panels.width, columns = i + 1 == panels.count ? panels.last : panels.width;
            uint32_t first = columns <= COLUMNS ? columns : 3 * VW;
            struct piece p = {.c = c + column, .ldc = s->ldc, .add = s->accumulate || k > 0};
            p.b = p.next = fth_zeros_panel(s, &panels, b, i, k, &p.ldb);
            p.ld_next = p.ldb;
            if (i + 1 < panels.count)
                p.next = fth_zeros_panel(s, &panels, b, i + 1, k, &p.ld_next);
            run_columns(lists, n, 0, first, p);
            if (first < columns)
                run_columns(lists, n, first, columns - first, p);
            if (finish && k + depth == s->k)
                finish->done(finish->ctx, column, columns);
        }
    }
}

void fth_groups_avx512_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                          const struct fth_gemm_finish *finish) {
    fth_zeros_by_rows(s, rows, a, b, c, finish, run_rows);
}
