/* kernels/gemm_fp32_nn_avx512.c: the bits of a scalar model that sums fused multiply-adds in increasing k; nothing else of
 * C is written, nothing behind A's, B's and C's last element touched; what is told as finished is. So through the provider. With FTH_TEST_SIMDE the kernel is the emulated one (tests/simde). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "kernels/gemm_fp32.h"

#ifdef FTH_TEST_SIMDE
void fth_fp32_nn_avx512_run_simde(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b,
                                  float *c, const struct fth_gemm_finish *finish);
#define RUN fth_fp32_nn_avx512_run_simde
static int can_run(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); /* what it is built on */
}
#else
#define RUN fth_fp32_nn_avx512_run
static int can_run(void) {
    return fth_cpu_get()->isa == FTH_ISA_AVX512;
}
#endif

/* To the end of what was allocated, so that the address sanitizer sees what is read behind it. */
static float *draws(size_t floats, uint64_t stream) {
    float *x = fth_alloc(floats, sizeof *x);
    assert_non_null(x);
    fth_random_uniform(7, FTH_RANDOM_DENSE_INIT, stream, floats, -1.0f, 1.0f, x);
    return x;
}

struct problem {
    struct fth_gemm_shape shape;
    uint32_t rows;
    float *a, *b, *packed; /* b: by rows of n; packed: its panels of FTH_PANEL columns */
    float *want;           /* C, by the model */
    float *c;
    uint32_t finished;
};

static float *packed(const struct fth_gemm_shape *s, const float *b) {
    struct fth_panels p = fth_panels_cut(s->n, FTH_PANEL);
    float *out = draws((size_t)s->k * ((p.count - 1) * p.width + p.ld_last), 3);
    for (uint32_t i = 0; i < s->k; i++)
        for (uint32_t j = 0; j < s->n; j++) {
            uint32_t panel = j / p.width < p.count ? j / p.width : p.count - 1;
            uint32_t ld = panel + 1 == p.count ? p.ld_last : p.width, first = panel * p.width;
            out[(size_t)first * s->k + (size_t)i * ld + j - first] = b[(size_t)i * s->n + j];
        }
    return out;
}

static float *model(const struct problem *p) {
    const struct fth_gemm_shape *s = &p->shape;
    float *c = draws((size_t)p->rows * s->ldc, 9);
    for (uint32_t i = 0; i < p->rows; i++)
        for (uint32_t j = 0; j < s->n; j++) {
            float sum = s->accumulate ? c[(size_t)i * s->ldc + j] : 0.0f;
            for (uint32_t e = 0; e < s->k; e++)
                sum = fmaf(p->a[(size_t)i * s->lda + e], p->b[(size_t)e * s->n + j], sum);
            c[(size_t)i * s->ldc + j] = sum;
        }
    return c;
}

static void compare(const struct problem *p, uint32_t first, uint32_t end, const char *what) {
    const struct fth_gemm_shape *s = &p->shape;
    for (uint32_t i = 0; i < p->rows; i++)
        for (uint32_t j = first; j < end; j++) {
            size_t at = (size_t)i * s->ldc + j;
            if (memcmp(&p->c[at], &p->want[at], sizeof *p->c))
                fail_msg("%s, %u x %u, depth %u, panels %d: row %u column %u is %.9g, not %.9g", what, p->rows, s->n,
                         s->k, s->panels, i, j, (double)p->c[at], (double)p->want[at]);
        }
}

static void done(void *ctx, uint32_t column, uint32_t columns) {
    struct problem *p = ctx;
    assert_int_equal(column, p->finished);
    p->finished += columns;
    compare(p, column, p->finished, "as finished");
}

static void by_provider(struct problem *p) {
    fth_gemm *gemm = NULL;
    fth_error err = {0};
    if (fth_gemm_create(&p->shape, FTH_GEMM_FATHOM, NULL, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    fth_gemm_run(gemm, p->rows, p->a, p->shape.panels ? p->packed : p->b, p->c, NULL);
    fth_gemm_destroy(gemm);
}

static void check(uint32_t rows, uint32_t n, uint32_t k, int accumulate, int panels) {
    struct problem p = {.shape = {.form = FTH_GEMM_NN, .m = 64, .n = n, .k = k, .lda = k + 3, .ldb = n, .ldc = n + 5,
                                  .accumulate = accumulate, .panels = panels}, .rows = rows};
    p.a = draws((size_t)(rows - 1) * p.shape.lda + k, 1);
    p.b = draws((size_t)k * n, 2);
    p.packed = packed(&p.shape, p.b);
    p.want = model(&p);
    for (int chosen = 0; chosen < 2; chosen++) {
        const struct fth_gemm_finish finish = {.done = done, .ctx = &p};
        p.c = draws((size_t)rows * p.shape.ldc, 9);
        p.finished = 0;
        if (chosen && fth_cpu_get()->isa == FTH_ISA_AVX512) {
            by_provider(&p);
        } else if (can_run()) {
            RUN(&p.shape, rows, p.a, panels ? p.packed : p.b, p.c, &finish);
            assert_int_equal(p.finished, n);
        }
        if (can_run())
            compare(&p, 0, p.shape.ldc, chosen ? "by the provider" : "by the kernel");
        fth_free(p.c);
    }
    fth_free(p.want);
    fth_free(p.packed);
    fth_free(p.b);
    fth_free(p.a);
}

static void sums_in_increasing_k(void **state) {
    (void)state;
    static const uint32_t widths[] = {7, 16, 45, 64, 77, 96, 128, 143}, depths[] = {1, 6, 130, 515, 700};
    uint32_t rows = 1;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (size_t j = 0; j < sizeof depths / sizeof *depths; j++)
            for (int panels = 0; panels < 2; panels++, rows = rows % 23 + 1)
                check(rows, widths[i], depths[j], (int)(i + j) & 1, panels);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_in_increasing_k)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
