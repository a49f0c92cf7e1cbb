/* What the kernel tests share: calls of one kernel by two tables on the same inputs, and comparing.
 *
 * A matrix is a block of its own of exactly the floats a kernel may touch, so that AddressSanitizer
 * sees a step outside; what lies between its rows is filled with a NaN of a certain pattern, so
 * that reading it shows in results and writing it is seen. With FTH_TEST_SIMDE the table under test
 * is the emulated AVX-512 one (tests/simde). */
#ifndef FTH_TEST_KERNEL_TEST_H
#define FTH_TEST_KERNEL_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/kernels.h"

#define SENTINEL 0x7fc0deadu
#define MAX_MATRICES 20

struct matrix {
    float *block, *at;
    size_t shift, m, n, ld;
    int compared;
};

/* One call: its shape, and all matrices it was given. */
struct call {
    size_t m, n, pad, shift;
    uint64_t state; /* of the number generator */
    struct matrix matrices[MAX_MATRICES];
    size_t count;
};

static inline uint32_t call_bits(struct call *c) {
    c->state = c->state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(c->state >> 33) * 2u;
}

static inline float call_number(struct call *c, float low, float high) {
    return low + (high - low) * ((float)(call_bits(c) >> 8) * 0x1p-24f);
}

static inline struct matrix *call_matrix(struct call *c, size_t m, size_t n, size_t *ld) {
    assert_true(c->count < MAX_MATRICES);
    struct matrix *x = &c->matrices[c->count++];
    /* pad 0: no gaps; 1: some matrices; more: all, each its own */
    size_t gap = c->pad > 1 ? c->pad + c->count % 4 : c->pad * (call_bits(c) >> 20 & 1);
    *x = (struct matrix){.m = m, .n = n, .ld = n + gap, .shift = c->shift};
    size_t size = c->shift + (m ? (m - 1) * x->ld + n : 0);
    uint32_t sentinel = SENTINEL;
    x->block = malloc(size * sizeof(float) + (size == 0));
    assert_non_null(x->block);
    for (size_t i = 0; i < size; i++)
        memcpy(x->block + i, &sentinel, sizeof sentinel);
    x->at = x->block + c->shift;
    if (ld)
        *ld = x->ld;
    return x;
}

static inline void matrix_fill(struct call *c, struct matrix *x, float low, float high) {
    for (size_t i = 0; i < x->m; i++)
        for (size_t j = 0; j < x->n; j++)
            x->at[i * x->ld + j] = call_number(c, low, high);
}

/* Numbers in [low, high), to read. */
static inline float *call_in(struct call *c, size_t m, size_t n, float low, float high,
                             size_t *ld) {
    struct matrix *x = call_matrix(c, m, n, ld);
    matrix_fill(c, x, low, high);
    return x->at;
}

/* To be written (every element of it), and compared. */
static inline float *call_out(struct call *c, size_t m, size_t n, size_t *ld) {
    struct matrix *x = call_matrix(c, m, n, ld);
    x->compared = 1;
    return x->at;
}

/* Numbers to read and change; compared. */
static inline float *call_inout(struct call *c, size_t m, size_t n, float low, float high,
                                size_t *ld) {
    struct matrix *x = call_matrix(c, m, n, ld);
    x->compared = 1;
    matrix_fill(c, x, low, high);
    return x->at;
}

static inline void call_free(struct call *c) {
    for (size_t i = 0; i < c->count; i++)
        free(c->matrices[i].block);
}

static inline uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Equal within tolerance * max(|want|, floor); tolerance 0: the same bits. NaN equals NaN. */
static inline int numbers_agree(float got, float want, float tolerance, float floor) {
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) && float_bits(got) != SENTINEL;
    if (tolerance == 0.0f)
        return float_bits(got) == float_bits(want);
    if (got == want)
        return 1;
    return fabsf(got - want) <= tolerance * fmaxf(fabsf(want), floor);
}

static inline void calls_compare(const struct call *got, const struct call *want, float tolerance,
                                 float floor, const char *what) {
    for (size_t k = 0; k < got->count; k++) {
        const struct matrix *a = &got->matrices[k], *b = &want->matrices[k];
        if (!a->compared)
            continue;
        for (size_t i = 0; i < a->shift; i++)
            assert_int_equal(float_bits(a->block[i]), SENTINEL);
        for (size_t i = 0; i < a->m; i++) {
            for (size_t j = 0; j < a->n; j++)
                if (!numbers_agree(a->at[i * a->ld + j], b->at[i * b->ld + j], tolerance, floor))
                    fail_msg("%s, m %zu, n %zu, matrix %zu at (%zu, %zu): %.9g, want %.9g", what,
                             got->m, got->n, k, i, j, a->at[i * a->ld + j], b->at[i * b->ld + j]);
            for (size_t j = a->n; i + 1 < a->m && j < a->ld; j++)
                if (float_bits(a->at[i * a->ld + j]) != SENTINEL)
                    fail_msg("%s, m %zu, n %zu, matrix %zu: padding (%zu, %zu) written", what,
                             got->m, got->n, k, i, j);
        }
    }
}

#ifdef FTH_TEST_SIMDE
extern const struct fth_kernels fth_kernels_simde;
#endif

/* The tables to compare with scalar; returns how many. */
static inline size_t tables_under_test(const struct fth_kernels *tables[2], const char *names[2]) {
    size_t count = 0;
#ifdef FTH_TEST_SIMDE
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) { /* what it is built on */
        tables[count] = &fth_kernels_simde;
        names[count++] = "simde";
    }
#else
    for (fth_isa isa = FTH_ISA_AVX2; isa <= FTH_ISA_AVX512; isa++)
        if (fth_kernels_for(isa)) {
            tables[count] = fth_kernels_for(isa);
            names[count++] = fth_isa_name(isa);
        }
#endif
    return count;
}

typedef void (*kernel_case)(const struct fth_kernels *k, struct call *c);

/* Runs the case at one shape by every table and by the scalar one, and compares. */
static inline void check_shape(kernel_case run, size_t m, size_t n, float tolerance, float floor) {
    const struct fth_kernels *tables[2];
    const char *names[2];
    size_t count = tables_under_test(tables, names);
    for (size_t k = 0; k < count; k++)
        for (size_t variant = 0; variant < 6; variant++) {
            struct call got = {.m = m, .n = n, .pad = variant % 3, .shift = variant / 3};
            got.state = m + 77 * n;
            struct call want = got;
            run(tables[k], &got);
            run(fth_kernels_for(FTH_ISA_SCALAR), &want);
            calls_compare(&got, &want, tolerance, floor, names[k]);
            call_free(&got);
            call_free(&want);
        }
}

/* The same over shapes around the multiples of both vector widths. */
static inline void check_shapes(kernel_case run, float tolerance, float floor) {
    static const size_t rows[] = {0, 1, 2, 5, 9};
    static const size_t columns[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  15, 16,  17,
                                     23, 24, 25, 31, 32, 33, 48, 63, 64, 65, 71, 128, 130};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < sizeof columns / sizeof *columns; j++)
            check_shape(run, rows[i], columns[j], tolerance, floor);
}

static inline void assert_near(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance * fmax(fabs(want), 1.0)))
        fail_msg("%.9g, want %.9g", got, want);
}

#endif
