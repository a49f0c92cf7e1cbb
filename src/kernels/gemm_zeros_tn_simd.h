/* Weight gradients C[m, n] = A[k, m]^T B[k, n], k = examples, without the zeros of one operand S: D = S^T X is C, or its
 * transposed where S is B. A template, in the names of cpu/simd_avx512.h.
 *
 *     for 256 columns of S:  for 64 examples:  S's elements into a list a column
 *         for a strip of X (whose 64 rows stay in the first cache):  for column:  D[column] += list X
 *
 * Strips are as wide as can be: with four sums a core that makes two multiply-adds a cycle waits for the last of the
 * same sum, and the end of each list is a wrong guess.
 *
 * Every element is summed in the order of the examples. Threads: pure functions, with the caller's scratch. */
#ifndef FTH_KERNELS_GEMM_ZEROS_TN_SIMD_H
#define FTH_KERNELS_GEMM_ZEROS_TN_SIMD_H

#include "base/memory.h"
#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"

#define COLUMNS 256u
#define EXAMPLES 64u
#ifndef MOST_VECTORS
#define MOST_VECTORS 8u /* of a strip: by AVX-512 32 KB of X; or 12 */
#endif
#define LINE (FTH_CACHE_LINE / sizeof(float))

/* Column j's elements and their examples; whole vectors are stored at the end. */
struct lists {
    float value[COLUMNS][EXAMPLES + VW];
    uint32_t example[COLUMNS][EXAMPLES + VW];
    uint32_t n[COLUMNS];
};

struct sums {
    const float *s, *x;
    size_t lds, ldx;
    uint32_t columns, n, rows; /* of S, of X; examples */
    float *d;
    size_t ldd;
    uint32_t most; /* vectors of a strip */
};

/* Of every `every`th row of a[rows][columns], from the first on, the elements that are no zeros. */
static inline uint64_t count_elements(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every) {
    uint64_t counted = 0;
    for (uint32_t i = 0; i < rows; i += every)
        for (uint32_t j = 0; j < columns; j += VW) {
            vt t = v_tail(columns - j < VW ? columns - j : VW);
            counted += v_count(v_not_zero(v_load_part(a + (size_t)i * ld + j, t)));
        }
    return counted;
}

/* x[rows][columns] of at most VW each; the others are 0. */
static FTH_INLINE void load_square(const float *x, size_t ld, uint32_t rows, uint32_t columns, vf r[VW]) {
    vt t = v_tail(columns < VW ? columns : VW);
#pragma GCC unroll 16
    for (uint32_t i = 0; i < VW; i++)
        r[i] = i < rows ? v_load_part(x + i * ld, t) : v_zero();
}

static inline void make_lists(const float *s, size_t lds, uint32_t columns, uint32_t rows, struct lists *out) {
    for (uint32_t j = 0; j < columns; j += VW) {
        uint32_t n[VW] = {0};
        for (uint32_t e = 0; e < rows; e += VW) {
            vf r[VW];
            load_square(s + e * lds + j, lds, rows - e, columns - j, r);
            v_turn(r);
#pragma GCC unroll 16
            for (uint32_t i = 0; i < VW; i++)
                n[i] += v_pack(r[i], e, out->value[j + i] + n[i], out->example[j + i] + n[i]);
        }
        for (uint32_t i = 0; i < VW; i++)
            out->n[j + i] = n[i];
    }
}

/* The next examples' rows of S and X: pieces of other pages, which the hardware does not fetch. All at once they would fill
 * the few places for lines under way, and the kernel would wait; so it asks for some a column of D. */
struct ahead {
    const float *s, *x; /* the present row */
    size_t lds, ldx;
    uint32_t rows, of_s, lines, line; /* rows left; lines of a row, of S and of both; the next one */
    uint32_t share;
};

static inline struct ahead ahead_of(const struct sums *p, const float *s, const float *x, uint32_t columns, uint32_t rows,
                                    uint32_t strips) {
    struct ahead ahead = {.s = s, .x = x, .lds = p->lds, .ldx = p->ldx, .rows = rows, .of_s = (columns + LINE - 1) / LINE};
    ahead.lines = ahead.of_s + (p->n + LINE - 1) / LINE;
    ahead.share = (rows * ahead.lines + strips * columns - 1) / (strips * columns);
    return ahead;
}

static FTH_INLINE void fetch(struct ahead *a) {
    for (uint32_t i = 0; i < a->share && a->rows; i++) {
        const float *line = a->line < a->of_s ? a->s + a->line * LINE : a->x + (a->line - a->of_s) * LINE;
        _mm_prefetch((const char *)line, _MM_HINT_T1);
        if (++a->line < a->lines)
            continue;
        a->line = 0;
        a->rows--;
        a->s += a->lds;
        a->x += a->ldx;
    }
}

/* m vectors of X's columns; if not whole, of the last one the lanes t. */
static FTH_INLINE void run_strip(const uint32_t m, const int whole, vt t, const struct lists *lists, uint32_t columns,
                                 const float *x, size_t ldx, float *d, size_t ldd, int add, struct ahead *ahead) {
    const uint32_t full = whole ? m : m - 1;
    for (uint32_t j = 0; j < columns; j++) {
        fetch(ahead);
        float *to = d + j * ldd;
        const float *value = lists->value[j];
        const uint32_t *example = lists->example[j];
        vf sums[MOST_VECTORS];
#pragma GCC unroll 12
        for (uint32_t i = 0; i < m; i++)
            sums[i] = !add ? v_zero() : i < full ? v_load(to + i * VW) : v_load_part(to + i * VW, t);
        for (uint32_t at = 0; at < lists->n[j]; at++) {
            const float *from = x + example[at] * ldx;
            vf y = v_set(value[at]);
#pragma GCC unroll 12
            for (uint32_t i = 0; i < m; i++)
                sums[i] = v_fma(y, i < full ? v_load(from + i * VW) : v_load_part(from + i * VW, t), sums[i]);
        }
#pragma GCC unroll 12
        for (uint32_t i = 0; i < full; i++)
            v_store(to + i * VW, sums[i]);
        if (!whole)
            v_store_part(to + full * VW, t, sums[full]);
    }
}

static inline void run_any_strip(uint32_t n, const struct lists *lists, uint32_t columns, const float *x, size_t ldx,
                                 float *d, size_t ldd, int add, struct ahead *ahead) {
    uint32_t m = (n + VW - 1) / VW;
    vt t = v_tail(n - (m - 1) * VW);
#define OF(m)                                                                             \
    case 2 * (m):                                                                         \
        run_strip(m, 0, t, lists, columns, x, ldx, d, ldd, add, ahead);                   \
        break;                                                                            \
    case 2 * (m) + 1:                                                                     \
        run_strip(m, 1, t, lists, columns, x, ldx, d, ldd, add, ahead);                   \
        break;
    switch (2 * m + (n % VW == 0)) {
        OF(1) OF(2) OF(3) OF(4) OF(5) OF(6) OF(7) OF(8)
#if MOST_VECTORS > 8
        OF(9) OF(10) OF(11) OF(12)
#endif
    }
#undef OF
}

static inline void run_sums(const struct sums *p) {
    struct lists lists;
    uint32_t vectors = (p->n + VW - 1) / VW, strips = (vectors + p->most - 1) / p->most;
    uint32_t width = (vectors + strips - 1) / strips * VW;
    for (uint32_t j = 0; j < p->columns; j += COLUMNS) {
        uint32_t columns = p->columns - j < COLUMNS ? p->columns - j : COLUMNS;
        for (uint32_t e = 0; e < p->rows; e += EXAMPLES) {
            const float *s = p->s + e * p->lds + j, *x = p->x + e * p->ldx;
            uint32_t left = p->rows - e, rows = left < EXAMPLES ? left : EXAMPLES;
            uint32_t next = left - rows < EXAMPLES ? left - rows : EXAMPLES;
            make_lists(s, p->lds, columns, rows, &lists);
            struct ahead ahead = ahead_of(p, s + EXAMPLES * p->lds, x + EXAMPLES * p->ldx, columns, next, strips);
            for (uint32_t i = 0; i < p->n; i += width)
                run_any_strip(p->n - i < width ? p->n - i : width, &lists, columns, x + i, p->ldx, p->d + j * p->ldd + i,
                              p->ldd, e > 0, &ahead);
        }
    }
}

static inline void weight_gradient(const struct fth_gemm_shape *s, uint32_t most, int of_b, uint32_t rows, const float *a,
                                   const float *b, float *c, float *d) {
    struct sums sums = {.s = a, .x = b, .lds = s->lda, .ldx = s->ldb, .columns = s->m, .n = s->n, .rows = rows, .d = c,
                        .ldd = s->ldc, .most = most};
    if (!of_b) {
        run_sums(&sums);
        return;
    }
    size_t ldd = fth_padded_columns(s->m);
    sums = (struct sums){.s = b, .x = a, .lds = s->ldb, .ldx = s->lda, .columns = s->n, .n = s->m, .rows = rows, .d = d,
                         .ldd = ldd, .most = most};
    run_sums(&sums);
    for (uint32_t j = 0; j < s->n; j += VW)
        for (uint32_t i = 0; i < s->m; i += VW) {
            vf r[VW];
            load_square(d + j * ldd + i, ldd, s->n - j, s->m - i, r);
            v_turn(r);
            for (uint32_t k = 0; k < VW && i + k < s->m; k++)
                v_store_part(c + (size_t)(i + k) * s->ldc + j, v_tail(s->n - j < VW ? s->n - j : VW), r[k]);
        }
}

#endif
