/* Weight gradients C[m, n] = A[k, m]^T B[k, n], k = examples, of operands whose zeros lie by column: of a trained ReLU's
 * units some are zero in few examples and the others in nearly all. A template, in the names of cpu/simd_avx512.h.
 *
 * By a sample of the examples a column is dense, where at least one of eight elements is no zero, or thin. Then
 *
 *     for 256 examples:  both operands' dense columns side by side, their thin ones' elements into a list a column
 *         dense A, dense B:  E += A^T B, by the kernel of whole products
 *         thin A, all of B:  C[column of A] += list B
 *         dense A, thin B:   D[column of B] += list A
 *
 * and at last E and D go where they belong in C. Every element of C is summed in the order of the examples, by one of
 * the three: the same bits as gemm_zeros_tn_simd.h, but that a zero of a dense column times an infinity or NaN of another
 * one is not left out, and for the sign of a zero to which all products underflow. Threads: pure functions, with the
 * caller's scratch. */
#ifndef FTH_KERNELS_GEMM_SPLIT_SIMD_H
#define FTH_KERNELS_GEMM_SPLIT_SIMD_H

#include "base/memory.h"
#include "kernels/gemm_zeros.h"

#define EXAMPLES 256u
#define DENSE 8u /* a column is dense where at least one of so many elements is no zero */
#define MOST_COLUMNS 512u
#define WORDS (MOST_COLUMNS / VW)
#ifndef MOST_SUMS
#define MOST_SUMS 8u /* vectors of a list's, side by side; or 12 */
#endif
#define AHEAD 8u /* examples that are fetched before they are read */

/* An operand of n columns. */
struct side {
    const float *x;
    size_t ld;
    uint32_t n, dense;
    uint64_t elements; /* of the sample that are no zeros */
    uint32_t are_dense[WORDS];      /* a bit each of VW columns */
    uint32_t before[WORDS];         /* dense columns before these VW */
    uint32_t lanes[MOST_COLUMNS];   /* of each VW columns the dense ones, side by side */
    uint32_t numbers[MOST_COLUMNS]; /* of a dense column, among those of its VW */
    uint16_t order[MOST_COLUMNS];   /* the dense columns, then the thin ones */
    uint16_t place[MOST_COLUMNS];   /* in `order`, of a column */
    /* Of the examples at hand: */
    const float *dense_x; /* the dense columns; x itself where there are no others */
    size_t ld_dense;
    float *packed;                 /* NULL: x itself */
    uint32_t length[MOST_COLUMNS]; /* of a thin column's list */
    float *values;                 /* [n][EXAMPLES] */
    uint8_t *examples;             /* [n][EXAMPLES] */
};

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t samples_of(uint32_t rows) {
    return (rows + FTH_ZEROS_SAMPLE - 1) / FTH_ZEROS_SAMPLE;
}

static vt lanes_of(const struct side *s, uint32_t word) {
    return v_tail(least(s->n - word * VW, VW));
}

/* Floats of a row of n that whole vectors are stored to from any of its elements. */
static size_t room(uint32_t n) {
    return (n + VW - 1) / VW * VW + VW;
}

/* By the examples that were counted before (fth_gemm_zeros_many), as they are still in a cache. */
static void sort_columns(const float *x, size_t ld, uint32_t n, uint32_t rows, struct side *s) {
    float count[MOST_COLUMNS] = {0};
    uint32_t dense = 0, thin = 0, samples = samples_of(rows);
    *s = (struct side){.x = x, .ld = ld, .n = n};
    for (uint32_t e = 0; e < rows; e += FTH_ZEROS_SAMPLE)
        for (uint32_t w = 0; w * VW < n; w++) {
            vm there = v_not_zero(v_load_part(x + e * ld + w * VW, lanes_of(s, w)));
            v_store(count + w * VW, v_add(v_load(count + w * VW), v_select(there, v_set(1), v_zero())));
        }
    for (uint32_t j = 0; j < n; j++) {
        uint32_t elements = (uint32_t)count[j], w = j / VW;
        if (j % VW == 0)
            s->before[w] = s->dense;
        s->elements += elements;
        if (elements * DENSE < samples)
            continue;
        s->numbers[j] = s->dense - s->before[w];
        s->lanes[w * VW + s->numbers[j]] = j % VW;
        s->are_dense[w] |= 1u << j % VW;
        s->dense++;
    }
    for (uint32_t j = 0; j < n; j++) {
        uint32_t at = s->are_dense[j / VW] >> j % VW & 1 ? dense++ : s->dense + thin++;
        s->order[at] = (uint16_t)j;
        s->place[j] = (uint16_t)at;
    }
}

/* Worth it where products of dense columns are at most 5/4 of those that lists of the one operand's elements make. */
static int pays(const struct side *a, const struct side *b, int of_b, uint32_t rows) {
    const struct side *listed = of_b ? b : a, *other = of_b ? a : b;
    uint64_t vectors = (other->n + VW - 1) / VW;
    return 4ull * samples_of(rows) * a->dense * ((b->dense + VW - 1) / VW) <= 5 * listed->elements * vectors;
}

static FTH_INLINE void list(struct side *s, uint32_t example, const float *x, uint32_t word, uint32_t thin) {
    for (; thin; thin &= thin - 1) {
        uint32_t j = word * VW + (uint32_t)__builtin_ctz(thin), at = j * EXAMPLES + s->length[j]++;
        s->values[at] = x[j];
        s->examples[at] = (uint8_t)example;
    }
}

/* `rows` examples from `first` on, which have `behind` after them. */
static void bring_together(struct side *s, uint32_t first, uint32_t rows, uint32_t behind) {
    const float *x = s->x + first * s->ld;
    float *to = s->packed;
    s->dense_x = to ? to : x;
    memset(s->length, 0, sizeof s->length);
    for (uint32_t e = 0; e < rows; e++, x += s->ld) {
        const float *next = x + (e + AHEAD < rows + behind ? AHEAD * s->ld : 0);
        for (uint32_t w = 0; w * VW < s->n; w++) {
            _mm_prefetch((const char *)(next + w * VW), _MM_HINT_T0);
            if (!to)
                continue;
            vf v = v_load_part(x + w * VW, lanes_of(s, w));
            v_store(to + s->before[w], v_permute(vi_load(s->lanes + w * VW), v));
            list(s, e, x, w, v_bits(v_not_zero(v)) & ~s->are_dense[w]);
        }
        if (to)
            to += s->ld_dense;
    }
}

/* Of D, whose row of a thin column lies at its number or, close, at its place among the thin ones, m vectors; of the last
 * one the lanes t count. */
static FTH_INLINE void add_to_strip(const uint32_t m, const struct side *s, const float *x, size_t ldx, float *d, size_t ldd,
                                    int close, vt t) {
    for (uint32_t i = s->dense; i < s->n; i++) {
        uint32_t j = s->order[i];
        const float *value = s->values + j * EXAMPLES;
        const uint8_t *example = s->examples + j * EXAMPLES;
        float *to = d + (close ? i - s->dense : j) * ldd;
        vf sums[MOST_SUMS];
        if (s->length[j] == 0)
            continue;
#pragma GCC unroll 12
        for (uint32_t v = 0; v < m; v++)
            sums[v] = v + 1 < m ? v_load(to + v * VW) : v_load_part(to + v * VW, t);
        for (uint32_t at = 0; at < s->length[j]; at++) {
            const float *from = x + example[at] * ldx;
            vf y = v_set(value[at]);
#pragma GCC unroll 12
            for (uint32_t v = 0; v < m; v++)
                sums[v] = v_fma(y, v + 1 < m ? v_load(from + v * VW) : v_load_part(from + v * VW, t), sums[v]);
        }
#pragma GCC unroll 12
        for (uint32_t v = 0; v < m; v++)
            if (v + 1 < m)
                v_store(to + v * VW, sums[v]);
            else
                v_store_part(to + v * VW, t, sums[v]);
    }
}

/* D += the thin columns' lists times X, of n columns. */
static void add_lists(const struct side *s, const float *x, size_t ldx, uint32_t n, float *d, size_t ldd, int close) {
    uint32_t vectors = (n + VW - 1) / VW, strips = (vectors + MOST_SUMS - 1) / MOST_SUMS;
    for (uint32_t v = 0, m; v < vectors; v += m, strips--) {
        m = (vectors - v + strips - 1) / strips;
        vt t = v_tail(least(n - (v + m - 1) * VW, VW));
#define OF(m)                                                               \
    case m:                                                                 \
        add_to_strip(m, s, x + v * VW, ldx, d + v * VW, ldd, close, t);     \
        break;
        switch (m) {
            OF(1) OF(2) OF(3) OF(4) OF(5) OF(6) OF(7) OF(8)
#if MOST_SUMS > 8
            OF(9) OF(10) OF(11) OF(12)
#endif
        }
#undef OF
    }
}

/* C's rows of A's dense columns: E in its dense columns, D, which is turned, in the others. */
static void put(const struct side *a, const struct side *b, const float *e, size_t lde, const float *d, size_t ldd, float *c,
                size_t ldc) {
    for (uint32_t i = 0; i < a->dense; i += VW)
        for (uint32_t w = 0; w * VW < b->n; w++) {
            vf r[VW];
            for (uint32_t k = 0; k < VW; k++) {
                uint32_t j = w * VW + k;
                r[k] = j < b->n && b->place[j] >= b->dense ? v_load(d + (b->place[j] - b->dense) * ldd + i) : v_zero();
            }
            v_turn(r);
            for (uint32_t k = 0; k < VW && i + k < a->dense; k++) {
                vf dense = v_permute(vi_load(b->numbers + w * VW), v_load(e + (i + k) * lde + b->before[w]));
                v_store_part(c + a->order[i + k] * ldc + w * VW, lanes_of(b, w),
                             v_select(v_of_bits(b->are_dense[w]), dense, r[k]));
            }
        }
}

/* In scratch: D, E, both operands' dense columns and lists. */
static size_t floats(uint32_t m, uint32_t n) {
    return n * room(m) + m * room(n) + EXAMPLES * (room(m) + room(n) + m + n);
}

static int too_wide(const struct fth_gemm_shape *s) {
    return s->m > MOST_COLUMNS || s->n > MOST_COLUMNS;
}

/* Bytes, whole cache lines; what lies behind them is `multiply`s own. */
static size_t scratch_of(const struct fth_gemm_shape *s) {
    size_t bytes = floats(s->m, s->n) * sizeof(float) + EXAMPLES * (s->m + s->n);
    return (bytes + FTH_CACHE_LINE - 1) / FTH_CACHE_LINE * FTH_CACHE_LINE;
}

/* E (+)= A^T B, of shape.accumulate. */
typedef void dense_product(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b, float *c,
                           void *scratch);

static int split_product(const struct fth_gemm_shape *s, dense_product *multiply, int of_b, uint32_t rows, const float *a,
                         const float *b, float *c, void *scratch) {
    if (too_wide(s))
        return 0;
    struct side sides[2];
    sort_columns(a, s->lda, s->m, rows, &sides[0]);
    sort_columns(b, s->ldb, s->n, rows, &sides[1]);
    if (!pays(&sides[0], &sides[1], of_b, rows))
        return 0;
    size_t ldd = room(sides[0].dense), lde = room(sides[1].dense);
    float *d = scratch, *e = d + s->n * ldd, *at = e + s->m * lde;
    uint8_t *examples = (uint8_t *)((float *)scratch + floats(s->m, s->n));
    for (int i = 0; i < 2; i++) {
        struct side *side = &sides[i];
        side->ld_dense = side->dense < side->n ? room(side->dense) : side->ld;
        side->packed = side->dense < side->n ? at : NULL;
        side->values = at + EXAMPLES * room(side->dense);
        side->examples = examples;
        at = side->values + EXAMPLES * side->n;
        examples += EXAMPLES * side->n;
    }
    memset(d, 0, (s->n - sides[1].dense) * ldd * sizeof *d);
    for (uint32_t i = sides[0].dense; i < s->m; i++)
        memset(c + sides[0].order[i] * (size_t)s->ldc, 0, s->n * sizeof *c);
    struct fth_gemm_shape dense = {.form = FTH_GEMM_TN, .m = sides[0].dense, .n = sides[1].dense, .k = s->k,
                                   .lda = (uint32_t)sides[0].ld_dense, .ldb = (uint32_t)sides[1].ld_dense,
                                   .ldc = (uint32_t)lde};
    for (uint32_t first = 0; first < rows; first += EXAMPLES) {
        uint32_t few = least(rows - first, EXAMPLES);
        bring_together(&sides[0], first, few, rows - first - few);
        bring_together(&sides[1], first, few, rows - first - few);
        add_lists(&sides[0], b + first * (size_t)s->ldb, s->ldb, s->n, c, s->ldc, 0);
        add_lists(&sides[1], sides[0].dense_x, sides[0].ld_dense, dense.m, d, ldd, 1);
        dense.accumulate = first > 0;
        if (dense.m && dense.n)
            multiply(&dense, few, sides[0].dense_x, sides[1].dense_x, e, (char *)scratch + scratch_of(s));
    }
    put(&sides[0], &sides[1], e, lde, d, ldd, c, s->ldc);
    return 1;
}

#endif
