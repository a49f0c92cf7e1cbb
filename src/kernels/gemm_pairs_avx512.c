/* Products without the zeros of A by pairs of rows, by AVX-512: for cores whose loads, one of 64 bytes a cycle, bound a list
 * of elements (gemm_zeros_avx512.c), as each multiply-add needs one. Two rows share B's: of 64 columns of A those that are not
 * zero in both rows of a pair are a word of bits, and A's elements are taken from where they lie.
 *
 * NN, C[m, n] = A[m, k] B[k, n], by panels (panels.h), whether or not B lies in them:
 *
 *     for 64 rows:  for 64 of k:  a word of bits a pair
 *         for panel (64 x 64 of B, which stays in the first cache):  for pair:  C[2 rows, panel] += bits B
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include "kernels/gemm_wide_avx512.h"

#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define PAIR 2u
#define DEPTH 64u /* bits of a word */

/* The columns of up to two rows that are not zero in all of them. */
static FTH_INLINE uint64_t columns_of(const float *a, size_t lda, uint32_t rows, uint32_t depth) {
    uint64_t there = 0;
    for (uint32_t k = 0; k < depth; k += VW) {
        vt t = v_tail(depth - k < VW ? depth - k : VW);
        vm any = v_not_zero(v_load_part(a + k, t));
        if (rows > 1)
            any = (vm)(any | v_not_zero(v_load_part(a + lda + k, t)));
        there |= (uint64_t)any << k;
    }
    return there;
}

static inline uint64_t first_bits(uint32_t n) {
    return n < DEPTH ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
}

static inline uint32_t height_of(uint32_t rows) {
    return rows < PAIR ? rows : PAIR;
}

uint64_t fth_pairs_avx512_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    uint64_t counted = 0;
    for (uint32_t i = 0; i < rows; i += every * PAIR)
        for (uint32_t k = 0; k < columns; k += DEPTH) {
            uint32_t depth = columns - k < DEPTH ? columns - k : DEPTH;
            uint64_t there = columns_of(a + (size_t)i * ld + k, ld, height_of(rows - i), depth);
            counted += (uint32_t)__builtin_popcountll(there);
        }
    return counted;
}

/* Up to 64 columns of C, of a piece of k. */
struct piece {
    const float *a, *b;
    float *c;
    size_t lda, ldb, ldc;
    const float *next; /* what is read behind b, whose rows `ahead` are brought into the second cache */
    size_t ld_next;
    uint64_t ahead;
    const uint64_t *there; /* of each pair */
    uint32_t rows, vectors;
    vt columns; /* of the last one */
    int add;
};

static FTH_INLINE void tile(const int m, const int v, vt columns, const struct piece *p, const float *a, float *c,
                            uint64_t there) {
    vf sums[PAIR * VECTORS];
    load_sums(m, v, p->add ? c : NULL, p->ldc, columns, sums);
    for (; there; there &= there - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(there);
        step_of_k(m, v, a + k, a + k, p->lda, p->b + k * p->ldb, columns, sums);
    }
    store_sums(m, v, c, p->ldc, columns, sums);
}

static FTH_INLINE void run_pairs(const int v, vt columns, const struct piece *p) {
    const float *a = p->a;
    float *c = p->c;
    uint64_t ahead = p->ahead;
    uint32_t i = 0;
    for (; i + PAIR <= p->rows; i += PAIR, a += PAIR * p->lda, c += PAIR * p->ldc) {
        for (int row = 0; row < 2 && ahead; row++, ahead &= ahead - 1)
            for (uint32_t j = 0; j < VECTORS; j++)
                _mm_prefetch((const char *)(p->next + (uint32_t)__builtin_ctzll(ahead) * p->ld_next + j * VW), _MM_HINT_T1);
        tile(PAIR, v, columns, p, a, c, p->there[i / PAIR]);
    }
    if (i < p->rows)
        tile(1, v, columns, p, a, c, p->there[i / PAIR]);
}

static void run_piece(const struct piece *p) {
    if (p->vectors == VECTORS && p->columns == ALL) {
        run_pairs(VECTORS, ALL, p); /* known to the compiler */
        return;
    }
    switch (p->vectors) {
    case 1:
        run_pairs(1, p->columns, p);
        break;
    case 2:
        run_pairs(2, p->columns, p);
        break;
    case 3:
        run_pairs(3, p->columns, p);
        break;
    default:
        run_pairs(VECTORS, p->columns, p);
    }
}

/* Columns [first, first + n) of a panel; those behind the first 64 are of the last one. */
static void run_columns(struct piece p, uint32_t first, uint32_t n) {
    p.b += first;
    p.c += first;
    p.vectors = (n + VW - 1) / VW;
    p.columns = v_tail(n - (p.vectors - 1) * VW);
    run_piece(&p);
}

static void run_rows(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                     const struct fth_gemm_finish *finish) {
    struct fth_panels panels = s->panels ? fth_panels_of(s->n) : fth_panels_cut(s->n, COLUMNS);
    uint64_t there[FTH_ZEROS_ROWS / PAIR];
    for (uint32_t k = 0; k < s->k; k += DEPTH) {
        uint32_t depth = s->k - k < DEPTH ? s->k - k : DEPTH;
        uint64_t any = 0;
        for (uint32_t i = 0; i < rows; i += PAIR)
            any |= there[i / PAIR] = columns_of(a + i * s->lda + k, s->lda, height_of(rows - i), depth);
        for (uint32_t i = 0; i < panels.count; i++) {
            uint32_t column = i * panels.width, last = i + 1 == panels.count, columns = last ? panels.last : panels.width;
            uint32_t first = columns <= COLUMNS ? columns : 3 * VW;
            struct piece p = {.a = a + k, .lda = s->lda, .c = c + column, .ldc = s->ldc, .there = there, .rows = rows,
                              .add = s->accumulate || k > 0};
            p.b = fth_zeros_panel(s, &panels, b, i, k, &p.ldb);
            if (!last) {
                p.next = fth_zeros_panel(s, &panels, b, i + 1, k, &p.ld_next);
                p.ahead = any;
            } else if (k + DEPTH < s->k) {
                p.next = fth_zeros_panel(s, &panels, b, 0, k + DEPTH, &p.ld_next);
                p.ahead = first_bits(s->k - k - DEPTH);
            }
            run_columns(p, 0, first);
            if (first < columns)
                run_columns(p, first, columns - first);
            if (finish && k + depth == s->k)
                finish->done(finish->ctx, column, columns);
        }
    }
}

void fth_pairs_avx512_nn(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                         const struct fth_gemm_finish *finish) {
    fth_zeros_by_rows(s, rows, a, b, c, finish, run_rows);
}
