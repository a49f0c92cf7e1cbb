/* kernels/gemm, products that leave out zeros: the same bits as a scalar model that adds up what is no zero by fused
 * multiply-adds in increasing k, over rows of B and over panels, written and added to C; every column is told once, in
 * order, when it is final; nothing behind C's columns is written. Products with few zeros, or that do not ask, are
 * as ever. With FTH_TEST_SIMDE the kernel is the emulated one (tests/simde). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "kernels/gemm.h"
#include "kernels/gemm_zeros.h"
#include "kernels/panels.h"
#ifndef FTH_TEST_SIMDE
#include "lower_isas.h"
#endif

static float *draws(size_t floats, uint64_t stream) {
    float *x = fth_alloc(floats + 1, sizeof *x);
    assert_non_null(x);
    fth_random_uniform(7, FTH_RANDOM_DENSE_INIT, stream, floats, -1.0f, 1.0f, x);
    return x;
}

/* Zeros, of both signs, but for a share of the elements. */
static float *sparse(size_t floats, float share, uint64_t stream) {
    float *x = draws(floats, stream), *chance = draws(floats, stream + 100);
    for (size_t i = 0; i < floats; i++)
        if (chance[i] * 0.5f + 0.5f >= share)
            x[i] = i % 3 ? 0.0f : -0.0f;
    fth_free(chance);
    return x;
}

/* Whole columns of zeros, others behind every tenth row, and of what is left a tenth of the elements. */
static float *sparse_columns(uint32_t rows, uint32_t ld, float share, uint64_t stream) {
    float *x = sparse((size_t)rows * ld, 0.9f, stream), *chance = draws((size_t)(rows / 10 + 1) * ld, stream + 200);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < ld; k++)
            if (chance[i / 10 * ld + k] * 0.5f + 0.5f >= share)
                x[(size_t)i * ld + k] = k % 3 ? 0.0f : -0.0f;
    fth_free(chance);
    return x;
}

/* Of every five columns one has hardly any zeros; of the others' elements 15 % are no zeros, 2 %, 2 % and none. */
static float *dense_and_thin_columns(uint32_t rows, uint32_t ld, uint64_t stream) {
    static const float shares[] = {0.02f, 0.95f, 0.0f, 0.02f, 0.15f};
    float *x = draws((size_t)rows * ld, stream), *chance = draws((size_t)rows * ld, stream + 300);
    for (size_t i = 0; i < (size_t)rows * ld; i++)
        if (chance[i] * 0.5f + 0.5f >= shares[i % ld * 7 % 5])
            x[i] = i % 3 ? 0.0f : -0.0f;
    fth_free(chance);
    return x;
}

struct problem {
    struct fth_gemm_shape shape;
    uint32_t rows;
    const float *a, *b; /* b: rows of shape.ldb */
    int way;            /* the emulated kernel's, by narrow strips or wide ones; the others' are the CPU's */
};

static void model(const struct problem *p, float *c) {
    const struct fth_gemm_shape *s = &p->shape;
    for (uint32_t i = 0; i < p->rows; i++)
        for (uint32_t j = 0; j < s->n; j++) {
            float sum = s->accumulate ? c[(size_t)i * s->ldc + j] : 0.0f;
            for (uint32_t k = 0; k < s->k; k++)
                if (p->a[(size_t)i * s->lda + k] != 0)
                    sum = fmaf(p->a[(size_t)i * s->lda + k], p->b[(size_t)k * s->ldb + j], sum);
            c[(size_t)i * s->ldc + j] = sum;
        }
}

/* Told of columns: they are the model's by then. */
struct told {
    const struct problem *problem;
    const float *want, *c;
    uint32_t columns;
};

static void done(void *ctx, uint32_t column, uint32_t columns) {
    struct told *told = ctx;
    const struct fth_gemm_shape *s = &told->problem->shape;
    assert_int_equal(column, told->columns);
    told->columns += columns;
    for (uint32_t i = 0; i < told->problem->rows && told->want; i++)
        assert_memory_equal(told->c + (size_t)i * s->ldc + column, told->want + (size_t)i * s->ldc + column,
                            columns * sizeof(float));
}

#ifdef FTH_TEST_SIMDE
uint64_t fth_zeros_avx512_count_simde(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every);
void fth_zeros_avx512_tn_simde(const struct fth_gemm_shape *shape, int pairs, int of_b, uint32_t rows, const float *a,
                               const float *b, float *c, void *scratch);
void fth_zeros_avx512_nn_simde(const struct fth_gemm_shape *shape, int wide, uint32_t rows, const float *a, const float *b,
                               float *c, const struct fth_gemm_finish *finish);
uint64_t fth_zeros_avx512_pairs_simde(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every);

static int exact(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); /* what it is built on */
}

static void run(const struct problem *p, const float *b, float *c, const struct fth_gemm_finish *finish) {
    if (exact())
        fth_zeros_avx512_nn_simde(&p->shape, p->way, p->rows, p->a, b, c, finish);
}

static int run_tn(const struct problem *p, int of_b, float *c) {
    float *scratch = draws((size_t)p->shape.n * fth_padded_columns(p->shape.m), 8);
    if (exact())
        fth_zeros_avx512_tn_simde(&p->shape, p->way, of_b, p->rows, p->a, p->b, c, scratch);
    fth_free(scratch);
    return exact();
}

int fth_split_avx512_tn_simde(const struct fth_gemm_shape *shape, int wide, int of_b, uint32_t rows, const float *a,
                              const float *b, float *c, void *scratch);
size_t fth_split_avx512_scratch_simde(const struct fth_gemm_shape *shape);

static size_t split_scratch(const struct fth_gemm_shape *shape) {
    return fth_split_avx512_scratch_simde(shape);
}

/* -1: not here. */
static int split(const struct problem *p, int wide, int of_b, float *c, void *scratch) {
    return exact() ? fth_split_avx512_tn_simde(&p->shape, wide, of_b, p->rows, p->a, p->b, c, scratch) : -1;
}

static int many(const float *a, uint32_t rows, uint32_t columns, uint32_t ld) {
    uint64_t all = (uint64_t)((rows + 3) / 4) * columns;
    return exact() ? 2 * fth_zeros_avx512_count_simde(a, rows, columns, ld, 4) <= all : -1;
}
#else
static int exact(void) {
    return fth_cpu_get()->isa != FTH_ISA_SCALAR;
}

static void run(const struct problem *p, const float *b, float *c, const struct fth_gemm_finish *finish) {
    fth_gemm *gemm = NULL;
    fth_error err = {0};
    if (fth_gemm_create(&p->shape, FTH_GEMM_AUTO, NULL, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    if (finish)
        fth_gemm_run_finish(gemm, p->rows, p->a, b, c, NULL, finish);
    else
        fth_gemm_run(gemm, p->rows, p->a, b, c, NULL);
    fth_gemm_destroy(gemm);
}

static size_t split_scratch(const struct fth_gemm_shape *shape) {
    return fth_cpu_get()->isa == FTH_ISA_AVX2 ? fth_split_avx2_scratch(shape) : fth_split_avx512_scratch(shape);
}

static int run_tn(const struct problem *p, int of_b, float *c) {
    struct fth_gemm_shape shape = p->shape;
    fth_gemm *gemm = NULL;
    fth_error err = {0};
    shape.zeros = of_b ? FTH_ZEROS_B : FTH_ZEROS_A;
    if (fth_gemm_create(&shape, FTH_GEMM_AUTO, NULL, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    size_t bytes = fth_gemm_scratch(gemm, p->rows);
    float *scratch = draws(bytes / sizeof *scratch, 8);
    size_t turned = (size_t)shape.n * fth_padded_columns(shape.m) * sizeof *scratch;
    size_t by_columns = split_scratch(&shape);
    if (fth_cpu_get()->isa == FTH_ISA_AVX512)
        assert_true(bytes <= (by_columns > turned ? by_columns : turned));
    fth_gemm_run(gemm, p->rows, p->a, p->b, c, scratch);
    fth_free(scratch);
    fth_gemm_destroy(gemm);
    return 1;
}


static int split(const struct problem *p, int wide, int of_b, float *c, void *scratch) {
    if (fth_cpu_get()->isa == FTH_ISA_AVX2)
        return fth_split_avx2_tn(&p->shape, of_b, p->rows, p->a, p->b, c, scratch);
    return fth_split_avx512_tn(&p->shape, wide, of_b, p->rows, p->a, p->b, c, scratch);
}

/* By what comes out: only without zeros a product passes over what is no number. */
static int many(const float *a, uint32_t rows, uint32_t columns, uint32_t ld) {
    struct fth_gemm_shape shape = {.form = FTH_GEMM_NN, .m = 64, .n = 64, .k = columns, .lda = ld, .ldb = 64,
                                   .ldc = 64, .zeros = 1};
    if (!exact())
        return -1;
    float *b = draws((size_t)columns * 64, 3), *c = draws((size_t)rows * 64, 4);
    struct problem p = {.shape = shape, .rows = rows, .a = a, .b = b};
    for (uint32_t j = 0; j < 64; j++)
        b[j] = NAN; /* of k 0, where A has zeros */
    run(&p, b, c, NULL);
    int skipped = c[0] == c[0];
    fth_free(b);
    fth_free(c);
    return skipped;
}
#endif

static void check(struct problem *p, const float *panels) {
    size_t floats = (size_t)p->rows * p->shape.ldc;
    float *want = draws(floats, 9), *c = draws(floats, 9);
    model(p, want);
    for (int kind = 0; kind < 4 && exact(); kind++) {
        int finish = kind % 2;
        p->way = kind / 2;
        struct told told = {.problem = p, .want = want, .c = c};
        const struct fth_gemm_finish f = {.done = done, .ctx = &told};
        fth_free(c);
        told.c = c = draws(floats, 9);
        run(p, p->shape.panels ? panels : p->b, c, finish ? &f : NULL);
        if (memcmp(c, want, floats * sizeof *c))
            fail_msg("%u x %u x %u, panels %d, added to %d, way %d: not the model's bits", p->rows, p->shape.n,
                     p->shape.k, p->shape.panels, p->shape.accumulate, p->way);
        assert_int_equal(told.columns, finish ? p->shape.n : 0);
    }
    fth_free(want);
    fth_free(c);
}

/* a: [rows][lda]. Over rows of B and over panels, written and added to C. */
static void check_ways(uint32_t rows, uint32_t n, uint32_t k, const float *a, uint32_t lda) {
    uint32_t ldb = fth_padded_columns(n);
    float *b = draws((size_t)k * ldb, 2), *panels = draws(fth_panels_floats(k, n), 5);
    struct fth_panels_target target = {panels, k, n, 0};
    fth_panels_store(&target, 0, 0, k, n, b, ldb);
    for (int kind = 0; kind < 4; kind++) {
        struct problem p = {.rows = rows, .a = a, .b = b};
        p.shape = (struct fth_gemm_shape){.form = FTH_GEMM_NN, .m = 64, .n = n, .k = k, .lda = lda, .ldb = ldb,
                                          .ldc = ldb, .zeros = 1, .panels = kind % 2, .accumulate = kind / 2};
        check(&p, panels);
    }
    fth_free(b);
    fth_free(panels);
}

static void as_the_model(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 5, 63, 64, 65, 150}, ns[] = {48, 63, 64, 79, 80, 135, 200, 256}, ks[] = {48, 64, 65, 200};
    for (size_t r = 0; r < 6; r++)
        for (size_t i = 0; i < 8; i++)
            for (size_t j = 0; j < 4; j++) {
                uint32_t lda = fth_padded_columns(ks[j]);
                float *a = sparse((size_t)rows[r] * lda, (float)((r + i + j) % 4) * 0.12f, 1);
                check_ways(rows[r], ns[i], ks[j], a, lda);
                fth_free(a);
            }
}

static void columns_of_zeros_as_the_model(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 6, 63, 64, 65, 133}, ns[] = {48, 79, 135, 256}, ks[] = {48, 65, 1023, 1100};
    for (size_t r = 0; r < 6; r++)
        for (size_t i = 0; i < 4; i++) {
            uint32_t k = ks[(r + i) % 4], lda = fth_padded_columns(k);
            float *a = sparse_columns(rows[r], lda, (float)(r % 4) * 0.13f, 1);
            check_ways(rows[r], ns[i], k, a, lda);
            fth_free(a);
        }
}

static void model_tn(const struct problem *p, int of_b, float *c) {
    const struct fth_gemm_shape *s = &p->shape;
    for (uint32_t i = 0; i < s->m; i++)
        for (uint32_t j = 0; j < s->n; j++) {
            float sum = 0;
            for (uint32_t k = 0; k < p->rows; k++) {
                float x = p->a[(size_t)k * s->lda + i], y = p->b[(size_t)k * s->ldb + j];
                if ((of_b ? y : x) != 0)
                    sum = fmaf(x, y, sum);
            }
            c[(size_t)i * s->ldc + j] = sum;
        }
}

static void check_tn(struct problem *p, int of_b) {
    size_t floats = (size_t)p->shape.m * p->shape.ldc;
    float *want = draws(floats, 9), *c = draws(floats, 9);
    model_tn(p, of_b, want);
    for (p->way = 0; p->way < 2; p->way++) {
        fth_free(c);
        c = draws(floats, 9);
        if (run_tn(p, of_b, c) && memcmp(c, want, floats * sizeof *c))
            fail_msg("tn, %u x %u, %u examples, zeros of %s, way %d: not the model's bits", p->shape.m, p->shape.n,
                     p->rows, of_b ? "B" : "A", p->way);
    }
    fth_free(want);
    fth_free(c);
}

static void weight_gradients_as_the_model(void **state) {
    (void)state;
    if (!exact())
        return;
    static const uint32_t rows[] = {1, 16, 63, 64, 65, 200, 500}, sizes[] = {48, 64, 79, 100, 128, 150, 271};
    for (size_t r = 0; r < 7; r++)
        for (size_t i = 0; i < 7; i++)
            for (int of_b = 0; of_b < 2; of_b++) {
                uint32_t m = sizes[i], n = sizes[(i + r) % 7], lda = fth_padded_columns(m), ldb = fth_padded_columns(n);
                float share = (float)((r + i) % 4) * 0.11f;
                float *a = sparse((size_t)rows[r] * lda, of_b ? 1.0f : share, 1);
                float *b = sparse((size_t)rows[r] * ldb, of_b ? share : 1.0f, 2);
                struct problem p = {.rows = rows[r], .a = a, .b = b};
                p.shape = (struct fth_gemm_shape){.form = FTH_GEMM_TN, .m = m, .n = n, .k = rows[r], .lda = lda,
                                                  .ldb = ldb, .ldc = ldb};
                check_tn(&p, of_b);
                fth_free(a);
                fth_free(b);
            }
}

/* By the kernel itself and by what a product takes. pays: what it answers, -1: either. */
static void check_split(struct problem *p, int of_b, int pays) {
    size_t floats = (size_t)p->shape.m * p->shape.ldc, bytes = split_scratch(&p->shape);
    float *want = draws(floats, 9), *scratch = draws((bytes + 3) / sizeof(float), 8);
    model_tn(p, of_b, want);
    for (int wide = 0; wide < 2; wide++) {
        float *c = draws(floats, 9);
        int done = split(p, wide, of_b, c, scratch);
        if (done >= 0 && pays >= 0)
            assert_int_equal(done, pays);
        if (done > 0 && memcmp(c, want, floats * sizeof *c))
            fail_msg("tn, %u x %u, %u examples, wide %d: not the model's bits", p->shape.m, p->shape.n, p->rows, wide);
        fth_free(c);
    }
    fth_free(want);
    fth_free(scratch);
    check_tn(p, of_b);
}

static void weight_gradients_of_columns_as_the_model(void **state) {
    (void)state;
    if (!exact())
        return;
    static const uint32_t cases[][3] = {{257, 48, 79}, {257, 271, 128}, {600, 128, 150}, {1, 79, 48}, {65, 150, 64},
                                        {256, 64, 512}, {70, 512, 64}}; /* examples, m, n */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = 0; kind < (i < 2 ? 3 : 1); kind++) { /* both operands; one */
            uint32_t rows = cases[i][0], m = cases[i][1], n = cases[i][2];
            uint32_t lda = fth_padded_columns(m), ldb = fth_padded_columns(n);
            float *a = kind == 1 ? draws((size_t)rows * lda, 1) : dense_and_thin_columns(rows, lda, 1);
            float *b = kind == 2 ? draws((size_t)rows * ldb, 2) : dense_and_thin_columns(rows, ldb, 2);
            struct problem p = {.rows = rows, .a = a, .b = b};
            p.shape = (struct fth_gemm_shape){.form = FTH_GEMM_TN, .m = m, .n = n, .k = rows, .lda = lda, .ldb = ldb,
                                              .ldc = ldb};
            check_split(&p, kind != 2, rows > 70 && kind == 0 ? 1 : -1);
            fth_free(a);
            fth_free(b);
        }
}

/* Elements anywhere, a fifth of them: all columns are dense, and lists are faster; too many columns. */
static void lists_where_columns_are_alike(void **state) {
    (void)state;
    enum { ROWS = 300, LD = 528 };
    if (!exact())
        return; /* scalar code has no such kernel, and the CPU may lack the others' instructions */
    float *a = sparse(ROWS * LD, 0.2f, 1), *c = draws(LD * LD, 2);
    struct problem p = {.rows = ROWS, .a = a, .b = a};
    for (uint32_t columns = 512; columns <= 513; columns++) {
        p.shape = (struct fth_gemm_shape){.form = FTH_GEMM_TN, .m = 64, .n = columns, .k = ROWS, .lda = LD, .ldb = LD, .ldc = LD};
        size_t bytes = split_scratch(&p.shape);
        float *scratch = draws(bytes / sizeof *scratch, 8);
        assert_int_equal(bytes > 0, columns == 512);
        assert_int_not_equal(split(&p, 0, 1, c, scratch), 1);
        fth_free(scratch);
    }
    fth_free(a);
    fth_free(c);
}

/* Elements that lie elsewhere in every row: in a row more 17 columns more are not all zeros; up to 3/4 of those of the rows
 * that are multiplied together, two or, by AVX2, three. */
static void few_zeros_are_multiplied(void **state) {
    (void)state;
    enum { ROWS = 32, COLUMNS = 100, LD = 112 };
    static float a[ROWS * LD];
#ifdef FTH_TEST_SIMDE
    const uint32_t most = 50; /* half of the elements */
#else
    const uint32_t most = 75 - (fth_cpu_get()->isa == FTH_ISA_AVX2 ? 34 : 17);
#endif
    for (uint32_t there = 40; there <= 60; there += 10) {
        for (uint32_t i = 0; i < ROWS; i++)
            for (uint32_t k = 0; k < LD; k++)
                a[i * LD + k] = (k + 17 * i) % COLUMNS >= COLUMNS - there || k >= COLUMNS ? 1.0f : 0.0f;
        int skipped = many(a, ROWS, COLUMNS, LD);
        assert_int_equal(skipped, !exact() ? -1 : there <= most);
#ifdef FTH_TEST_SIMDE
        if (exact()) /* three pairs, and a row alone */
            assert_int_equal(fth_zeros_avx512_pairs_simde(a, ROWS - 7, COLUMNS, LD, 4), 3 * (there + 17) + there);
#endif
    }
}

#ifndef FTH_TEST_SIMDE
/* Zeros in whole columns: up to 3/4 of the others. */
static void zeros_in_columns_are_left_out(void **state) {
    (void)state;
    enum { ROWS = 36, COLUMNS = 576, LD = 592 };
    static float a[ROWS * LD];
    for (uint32_t there = 384; exact() && there <= 456; there += 24) {
        for (uint32_t i = 0; i < ROWS; i++)
            for (uint32_t k = 0; k < LD; k++)
                a[i * LD + k] = k > 0 && k <= there ? 1.0f : 0.0f;
        assert_int_equal(many(a, ROWS, COLUMNS, LD), there <= 432);
    }
}
#endif

/* Not asked for, too narrow, of a form that has none, or weight gradients that are added to others: as any product. */
static void others_as_ever(void **state) {
    (void)state;
    float *a = sparse(64 * 80, 0.2f, 1), *b = draws(80 * 80, 2);
    static const fth_gemm_form forms[] = {FTH_GEMM_NN, FTH_GEMM_NN, FTH_GEMM_NT, FTH_GEMM_TN};
    for (int kind = 0; kind < 4; kind++) {
        struct problem p = {.rows = 64, .a = a, .b = b};
        p.shape = (struct fth_gemm_shape){.form = forms[kind], .m = 64, .n = kind == 1 ? 20 : 64, .k = 64, .lda = 80,
                                          .ldb = 80, .ldc = 80, .accumulate = kind == 3, .zeros = kind > 0};
        struct fth_gemm_shape plain = p.shape;
        plain.zeros = 0;
        fth_gemm *gemms[2];
        assert_int_equal(fth_gemm_create(&p.shape, FTH_GEMM_AUTO, NULL, &gemms[0], NULL), FTH_OK);
        assert_int_equal(fth_gemm_create(&plain, FTH_GEMM_AUTO, NULL, &gemms[1], NULL), FTH_OK);
        float *c[2];
        for (int i = 0; i < 2; i++) {
            c[i] = draws(64 * 80, 9);
            struct told told = {.problem = &p};
            const struct fth_gemm_finish f = {.done = done, .ctx = &told};
            size_t bytes = fth_gemm_scratch(gemms[i], 64);
            void *scratch = fth_alloc(bytes, 1);
            fth_gemm_run_finish(gemms[i], 64, a, b, c[i], scratch, &f);
            assert_int_equal(told.columns, p.shape.n);
            fth_gemm_destroy(gemms[i]);
            fth_free(scratch);
        }
        assert_memory_equal(c[0], c[1], 64 * 80 * sizeof(float));
        fth_free(c[0]);
        fth_free(c[1]);
    }
    fth_free(a);
    fth_free(b);
}

#ifndef FTH_TEST_SIMDE
static void lower_instruction_sets(void **state) {
    (void)state;
    run_at_lower_instruction_sets();
}
#endif

int main(int argc, char **argv) {
    (void)argv;
    fth_gemm_thread_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_model), cmocka_unit_test(columns_of_zeros_as_the_model),
                                       cmocka_unit_test(weight_gradients_as_the_model),
                                       cmocka_unit_test(weight_gradients_of_columns_as_the_model),
                                       cmocka_unit_test(lists_where_columns_are_alike),
                                       cmocka_unit_test(few_zeros_are_multiplied),
#ifndef FTH_TEST_SIMDE
                                       cmocka_unit_test(zeros_in_columns_are_left_out),
#endif
                                       cmocka_unit_test(others_as_ever)};
#ifndef FTH_TEST_SIMDE
    const struct CMUnitTest lower[] = {cmocka_unit_test(lower_instruction_sets)};
    if (argc == 1 && cmocka_run_group_tests(lower, NULL, NULL))
        return 1;
#else
    (void)argc;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
