/* kernels/panels: blocks stored piece by piece end where the layout says, the rest stays; products with
 * panels are those with the matrix, by every provider; columns are told of when they are done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "kernels/gemm.h"
#include "kernels/panels.h"

static const uint32_t widths[] = {2, 15, 16, 17, 63, 64, 65, 79, 80, 81, 128, 143, 144, 200, 429};
#define N_WIDTHS (sizeof widths / sizeof *widths)

/* The layout written down a second time: panels of 16 on AVX2; else of 64, a rest below 16 joining the last one. */
static size_t place(uint32_t rows, uint32_t columns, uint32_t r, uint32_t c) {
    if (fth_cpu_get()->isa == FTH_ISA_AVX2)
        return (size_t)(c - c % 16) * rows + (size_t)r * 16 + c % 16;
    uint32_t start = 0;
    while (columns - start >= 64 + 16 && c >= start + 64)
        start += 64;
    uint32_t width = columns - start >= 64 + 16 ? 64 : columns - start;
    uint32_t ld = (width + 15) / 16 * 16;
    return (size_t)start * rows + (size_t)r * ld + (c - start);
}

static float *filled(size_t n, uint32_t seed) {
    float *x = fth_alloc(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
    }
    return x;
}

/* Random blocks that cover the matrix, stored straight and transposed. */
static void blocks_end_where_the_layout_says(void **state) {
    for (size_t i = 0; i < N_WIDTHS; i++)
        for (size_t j = 0; j < N_WIDTHS; j++) {
            uint32_t rows = widths[i], columns = widths[j], ld = columns + 3;
            float *x = filled((size_t)rows * ld, (uint32_t)(i * 31 + j));
            size_t n = fth_panels_floats(rows, columns), m = fth_panels_floats(columns, rows);
            float *straight = fth_alloc(n + 1, 4), *turned = fth_alloc(m + 1, 4);
            struct fth_panels_target to = {straight, rows, columns, 0}, back = {turned, columns, rows, 0};
            straight[n] = turned[m] = 7;
            for (uint32_t r = 0; r < rows; r += 50)
                for (uint32_t c = 0; c < columns; c += 70) {
                    uint32_t h = rows - r < 50 ? rows - r : 50, w = columns - c < 70 ? columns - c : 70;
                    fth_panels_store(&to, r, c, h, w, x + (size_t)r * ld + c, ld);
                    fth_panels_store_transposed(&back, r, c, h, w, x + (size_t)r * ld + c, ld);
                }
            for (uint32_t r = 0; r < rows; r++)
                for (uint32_t c = 0; c < columns; c++) {
                    assert_memory_equal(&straight[place(rows, columns, r, c)], &x[(size_t)r * ld + c], 4);
                    assert_memory_equal(&turned[place(columns, rows, c, r)], &x[(size_t)r * ld + c], 4);
                }
            assert_true(straight[n] == 7 && turned[m] == 7);
            fth_free(x);
            fth_free(straight);
            fth_free(turned);
        }
}

/* Columns that are told of: in order, and as they will stay. */
struct told {
    uint32_t columns, rows, ldc;
    const float *c, *want;
};

static void told_of(void *ctx, uint32_t column, uint32_t columns) {
    struct told *told = ctx;
    assert_int_equal(column, told->columns);
    told->columns += columns;
    for (uint32_t i = 0; i < told->rows; i++)
        assert_memory_equal(told->c + (size_t)i * told->ldc + column, told->want + (size_t)i * told->ldc + column,
                            columns * sizeof(float));
}

static void check_finish(const fth_gemm *gemm, const struct fth_gemm_shape *shape, uint32_t rows, const float *a,
                         const float *b, const float *want) {
    float *c = filled((size_t)rows * shape->ldc, 99);
    struct told told = {.rows = rows, .ldc = shape->ldc, .c = c, .want = want};
    fth_gemm_run_finish(gemm, rows, a, b, c, NULL, &(struct fth_gemm_finish){.done = told_of, .ctx = &told});
    assert_int_equal(told.columns, shape->n);
    assert_memory_equal(c, want, (size_t)rows * shape->ldc * sizeof *c);
    fth_free(c);
}

static float *product(const struct fth_gemm_shape *shape, fth_gemm_provider provider, uint32_t rows,
                      const float *a, const float *b) {
    fth_gemm *gemm;
    fth_error err = {0};
    if (fth_gemm_create(shape, provider, NULL, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fth_gemm_scratch(gemm, rows), 0);
    float *c = filled((size_t)rows * shape->ldc, 99);
    fth_gemm_run(gemm, rows, a, b, c, NULL);
    check_finish(gemm, shape, rows, a, b, c);
    fth_gemm_destroy(gemm);
    return c;
}

static void products_are_those_with_the_matrix(void **state) {
    static const uint32_t depths[] = {1, 130, 700}, counts[] = {1, 77};
    for (size_t i = 0; i < N_WIDTHS; i++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t e = 0; e < sizeof counts / sizeof *counts; e++)
                for (int provider = FTH_GEMM_REFERENCE; provider < FTH_GEMM_PROVIDERS; provider++) {
                    if (provider == FTH_GEMM_FATHOM && fth_cpu_get()->isa == FTH_ISA_SCALAR)
                        continue;
                    uint32_t n = widths[i], k = depths[d], rows = counts[e];
                    struct fth_gemm_shape plain = {.form = FTH_GEMM_NN, .m = 64, .n = n, .k = k,
                                                   .lda = k + 1, .ldb = fth_padded_columns(n),
                                                   .ldc = n + 5, .accumulate = (int)(e & 1)};
                    struct fth_gemm_shape panels = plain;
                    panels.panels = 1;
                    panels.ldb = 0;
                    float *a = filled((size_t)rows * plain.lda, 1), *b = filled((size_t)k * plain.ldb, 2);
                    float *packed = fth_alloc(fth_panels_floats(k, n), 4);
                    struct fth_panels_target to = {packed, k, n, 0};
                    fth_panels_store(&to, 0, 0, k, n, b, plain.ldb);
                    float *want = product(&plain, FTH_GEMM_REFERENCE, rows, a, b);
                    float *c = product(&panels, (fth_gemm_provider)provider, rows, a, packed);
                    for (size_t at = 0; at < (size_t)rows * plain.ldc; at++)
                        if (at % plain.ldc >= n)
                            assert_memory_equal(&c[at], &want[at], 4);
                        else
                            assert_float_equal(c[at], want[at], 1e-4f);
                    if (provider >= FTH_GEMM_XSMM) { /* what the switch `weight_panels` rests on */
                        float *same = product(&plain, (fth_gemm_provider)provider, rows, a, b);
                        assert_memory_equal(c, same, (size_t)rows * plain.ldc * 4);
                        fth_free(same);
                    }
                    fth_free(a);
                    fth_free(b);
                    fth_free(packed);
                    fth_free(want);
                    fth_free(c);
                }
}

static void only_products_nn_take_panels(void **state) {
    struct fth_gemm_shape shape = {.form = FTH_GEMM_TN, .m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8,
                                   .ldc = 8, .panels = 1};
    fth_gemm *gemm;
    fth_error err = {0};
    assert_int_equal(fth_gemm_create(&shape, FTH_GEMM_AUTO, NULL, &gemm, &err), FTH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "panels"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_end_where_the_layout_says),
        cmocka_unit_test(products_are_those_with_the_matrix),
        cmocka_unit_test(only_products_nn_take_panels),
    };
    fth_gemm_thread_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
