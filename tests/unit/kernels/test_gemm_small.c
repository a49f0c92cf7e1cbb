/* kernels/gemm_small_avx2.c: the bits of a scalar model that sums fused multiply-adds in increasing k, which those of
 * gemm_fp32_avx2.c are, too; nothing else of C is written, nothing behind A's, B's and C's last element touched; what is told
 * as finished is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "kernels/gemm_fp32.h"

/* To the end of what was allocated, so that the address sanitizer sees what is read behind it. */
static float *draws(size_t floats, uint64_t stream) {
    float *x = fth_alloc(floats, sizeof *x);
    assert_non_null(x);
    fth_random_uniform(7, FTH_RANDOM_DENSE_INIT, stream, floats, -1.0f, 1.0f, x);
    return x;
}

struct problem {
    struct fth_gemm_shape shape;
    uint32_t rows; /* NN: of C; TN: examples */
    float *a, *b;  /* b: by rows of ldb, or panels of 16 columns */
    float *want;   /* C, by the model */
    float *c;
    uint32_t finished;
};

static float of_b(const struct problem *p, uint32_t k, uint32_t column) {
    const struct fth_gemm_shape *s = &p->shape;
    return s->panels ? p->b[(size_t)(column / 16 * 16) * s->k + k * 16 + column % 16] : p->b[(size_t)k * s->ldb + column];
}

static uint32_t rows_of_c(const struct problem *p) {
    return p->shape.form == FTH_GEMM_TN ? p->shape.m : p->rows;
}

static float *model(const struct problem *p) {
    const struct fth_gemm_shape *s = &p->shape;
    int tn = s->form == FTH_GEMM_TN;
    float *c = draws((size_t)rows_of_c(p) * s->ldc, 9);
    for (uint32_t i = 0; i < rows_of_c(p); i++)
        for (uint32_t j = 0; j < s->n; j++) {
            float sum = s->accumulate ? c[(size_t)i * s->ldc + j] : 0.0f;
            for (uint32_t e = 0; e < (tn ? p->rows : s->k); e++)
                sum = fmaf(tn ? p->a[(size_t)e * s->lda + i] : p->a[(size_t)i * s->lda + e], of_b(p, e, j), sum);
            c[(size_t)i * s->ldc + j] = sum;
        }
    return c;
}

static void compare(const struct problem *p, uint32_t first, uint32_t end, const char *what) {
    const struct fth_gemm_shape *s = &p->shape;
    for (uint32_t i = 0; i < rows_of_c(p); i++)
        for (uint32_t j = first; j < end; j++) {
            size_t at = (size_t)i * s->ldc + j;
            if (memcmp(&p->c[at], &p->want[at], sizeof *p->c))
                fail_msg("%s, %u x %u, depth %u, panels %d, add %d: row %u column %u is %.9g, not %.9g", what, rows_of_c(p),
                         s->n, s->form == FTH_GEMM_TN ? p->rows : s->k, s->panels, s->accumulate, i, j, (double)p->c[at],
                         (double)p->want[at]);
        }
}

static void done(void *ctx, uint32_t column, uint32_t columns) {
    struct problem *p = ctx;
    assert_int_equal(column, p->finished);
    p->finished += columns;
    compare(p, column, p->finished, "as finished");
}

static void by_large_kernels(struct problem *p) {
    const struct fth_gemm_shape *s = &p->shape;
    void *scratch = fth_alloc(fth_fp32_scratch(s) + 64, 1);
    assert_non_null(scratch);
    fth_fp32_run(s, p->rows, p->a, p->b, p->c, scratch);
    fth_free(scratch);
}

static void by_small_kernels(struct problem *p) {
    const struct fth_gemm_finish finish = {.done = done, .ctx = p};
    p->finished = 0;
    if (p->shape.form == FTH_GEMM_TN) {
        fth_small_avx2_tn(&p->shape, p->rows, p->a, p->b, p->c);
    } else {
        fth_small_avx2_nn(&p->shape, p->rows, p->a, p->b, p->c, &finish);
        assert_int_equal(p->finished, p->shape.n);
    }
}

static void check(struct problem *p, size_t a, size_t b) {
    size_t c = (size_t)rows_of_c(p) * p->shape.ldc;
    p->a = draws(a, 1);
    p->b = draws(b, 2);
    p->want = model(p);
    p->c = draws(c, 9);
    by_small_kernels(p);
    compare(p, 0, p->shape.ldc, "small kernels");
    fth_free(p->c);
    p->c = draws(c, 9);
    by_large_kernels(p);
    compare(p, 0, p->shape.ldc, "large kernels");
    fth_free(p->c);
    fth_free(p->want);
    fth_free(p->b);
    fth_free(p->a);
}

static int can_run(void) {
    if (fth_cpu_get()->isa >= FTH_ISA_AVX2)
        return 1;
    print_message("no AVX2 here: its small products are not tested\n");
    return 0;
}

static const uint32_t widths[] = {9, 16, 17, 24, 31, 36, 40, 48, 57, 72, 108, 131};

static void nn_sums_in_increasing_k(void **state) {
    (void)state;
    static const uint32_t depths[] = {1, 3, 4, 18, 36, 127, 128};
    if (!can_run())
        skip();
    for (uint32_t i = 0, rows = 1; i < sizeof widths / sizeof *widths; i++)
        for (uint32_t j = 0; j < sizeof depths / sizeof *depths; j++)
            for (int way = 0; way < 4; way++, rows = rows % 29 + 1) {
                uint32_t n = widths[i], k = depths[j], ldb = way & 1 ? n : n + 3;
                struct problem p = {.shape = {.form = FTH_GEMM_NN, .m = 64, .n = n, .k = k, .lda = k + 3, .ldb = ldb,
                                              .ldc = n + 5, .accumulate = way & 1, .panels = way >> 1}, .rows = rows};
                assert_true(fth_small_avx2(&p.shape));
                check(&p, (size_t)(rows - 1) * p.shape.lda + k,
                      p.shape.panels ? (size_t)k * ((n + 15) / 16 * 16) : (size_t)(k - 1) * ldb + n);
            }
}

static void tn_sums_in_increasing_k(void **state) {
    (void)state;
    static const uint32_t heights[] = {1, 5, 6, 18, 36, 64, 200}, examples[] = {1, 7, 31, 64, 130, 301};
    if (!can_run())
        skip();
    for (uint32_t i = 0, e = 0; i < sizeof widths / sizeof *widths; i++)
        for (uint32_t j = 0; j < sizeof heights / sizeof *heights; j++)
            for (int add = 0; add < 2; add++, e = (e + 1) % (sizeof examples / sizeof *examples)) {
                uint32_t n = widths[i], m = heights[j], ldb = add ? n : n + 3;
                struct problem p = {.shape = {.form = FTH_GEMM_TN, .m = m, .n = n, .k = 64, .lda = m + 3, .ldb = ldb,
                                              .ldc = n + 5, .accumulate = add}, .rows = examples[e]};
                assert_int_equal(fth_small_avx2(&p.shape), m <= 64 || n <= 64);
                if (fth_small_avx2(&p.shape))
                    check(&p, (size_t)(p.rows - 1) * p.shape.lda + m, (size_t)(p.rows - 1) * ldb + n);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nn_sums_in_increasing_k), cmocka_unit_test(tn_sums_in_increasing_k)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
