/* kernels/gemm, fth_gemm_run_step: the same bits as a scalar model, every element of the product summed in the order of
 * examples by fused multiply-adds, then the scalar optimizer row by row, then the copies of the block; nothing
 * outside the block is written. So where W lies in its panels alone; so the step alone (fth_gemm_step), also with a
 * transposed copy in rows. The product alone by the same model, into nothing and on top of something. So each of the AVX-512 kernels, and the one that the provider
 * chooses; where it makes no steps (with products below AVX-512, alone below AVX2) it says so and does nothing. With
 * FTH_TEST_SIMDE the kernels are the emulated ones (tests/simde). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "kernels/gemm_fp32.h"
#include "kernels/kernels.h"
#include "kernels/panels.h"

#define MATRICES 5

/* A weight of rows x columns, two slots, both copies. */
struct weight {
    uint32_t rows, columns, ld;
    float *x[MATRICES];
    size_t floats[MATRICES];
};

static float *draws(size_t floats, uint64_t stream) {
    float *x = fth_alloc(floats + 1, sizeof *x);
    assert_non_null(x);
    fth_random_uniform(7, FTH_RANDOM_DENSE_INIT, stream, floats, -1.0f, 1.0f, x);
    return x;
}

static struct weight weight(uint32_t rows, uint32_t columns) {
    struct weight w = {.rows = rows, .columns = columns, .ld = fth_padded_columns(columns)};
    for (int i = 0; i < MATRICES; i++) {
        w.floats[i] = i < 3   ? (size_t)rows * w.ld
                      : i == 3 ? fth_panels_floats(rows, columns)
                               : fth_panels_floats(columns, rows);
        w.x[i] = draws(w.floats[i], (uint64_t)i);
        for (size_t j = 0; j < w.floats[i] && (i == 1 || i == 2); j++)
            w.x[i][j] += 1.5f; /* a sum of squares */
    }
    return w;
}

static void weight_free(struct weight *w) {
    for (int i = 0; i < MATRICES; i++)
        fth_free(w->x[i]);
}

struct problem {
    fth_weight_step kind;
    uint32_t row, column, m, n, k;
    int transposed;
    const float *a, *b;
    size_t lda, ldb;
    const struct fth_opt_args *args;
};

/* The kernel under test; NULL: what the provider chooses. */
static fth_fp32_avx512_kernel *kernel;

#ifdef FTH_TEST_SIMDE
fth_fp32_avx512_kernel fth_fp32_avx512_run_simde, fth_fp32_wide_avx512_run_simde, fth_fp32_narrow_avx512_run_simde;
void fth_step_avx512_run_simde(const struct fth_gemm_step *step, uint32_t m, uint32_t n, const float *gradient, size_t ld);
#define SQUARE fth_fp32_avx512_run_simde
#define WIDE fth_fp32_wide_avx512_run_simde
#define NARROW fth_fp32_narrow_avx512_run_simde

static int can_step(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); /* what it is built on */
}

#define can_step_alone can_step

static int run_alone(const struct fth_gemm_step *step, uint32_t m, uint32_t n, const float *gradient, size_t ld) {
    if (can_step())
        fth_step_avx512_run_simde(step, m, n, gradient, ld);
    return can_step();
}
#else
#define SQUARE fth_fp32_avx512_run
#define WIDE fth_fp32_wide_avx512_run
#define NARROW fth_fp32_narrow_avx512_run

#define run_alone fth_gemm_step

static int can_step(void) {
    return fth_cpu_get()->isa == FTH_ISA_AVX512;
}

static int can_step_alone(void) {
    return fth_cpu_get()->isa != FTH_ISA_SCALAR;
}
#endif

static int run_kernel(const struct fth_gemm_shape *shape, const struct problem *p, float *c,
                      const struct fth_gemm_step *step) {
    if (can_step())
        kernel(shape, p->k, p->a, p->b, c, step);
    return can_step();
}

static int run_provider(const struct fth_gemm_shape *shape, const struct problem *p, float *c, const struct fth_gemm_step *step) {
    fth_gemm *gemm = NULL;
    fth_error err = {0};
    if (fth_gemm_create(shape, can_step() ? FTH_GEMM_FATHOM : FTH_GEMM_REFERENCE, NULL, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    int made = 1;
    if (step)
        made = fth_gemm_run_step(gemm, p->k, p->a, p->b, c, step);
    else if (can_step())
        fth_gemm_run(gemm, p->k, p->a, p->b, c, NULL);
    fth_gemm_destroy(gemm);
    return made && can_step();
}

static int run(const struct fth_gemm_shape *shape, const struct problem *p, float *c, const struct fth_gemm_step *step) {
    return kernel ? run_kernel(shape, p, c, step) : run_provider(shape, p, c, step);
}

static void product(const struct problem *p, int accumulate, float *c, uint32_t ldc) {
    for (uint32_t e = 0; e < p->k; e++)
        for (uint32_t i = 0; i < p->m; i++)
            for (uint32_t j = 0; j < p->n; j++) {
                float from = e || accumulate ? c[i * ldc + j] : 0.0f;
                c[i * ldc + j] = fmaf(p->a[e * p->lda + i], p->b[e * p->ldb + j], from);
            }
}

/* The step, the gradient being c. */
static void rows_apart(const struct problem *p, struct weight *w, const float *c, uint32_t ldc) {
    const struct fth_kernels *kernels = fth_kernels_for(FTH_ISA_SCALAR);
    size_t corner = (size_t)p->row * w->ld + p->column;
    for (uint32_t i = 0; i < p->m; i++) {
        size_t at = corner + (size_t)i * w->ld;
        const float *g = c + (size_t)i * ldc;
        if (p->kind == FTH_STEP_SGD)
            kernels->opt_sgd(p->n, w->x[0] + at, g, p->args);
        else if (p->kind == FTH_STEP_ADAGRAD)
            kernels->opt_adagrad(p->n, w->x[0] + at, w->x[1] + at, g, p->args);
        else
            kernels->opt_adam(p->n, w->x[0] + at, w->x[1] + at, w->x[2] + at, g, p->args);
    }
}

/* And the copies. */
static void apart(const struct problem *p, struct weight *w, const float *c, uint32_t ldc) {
    size_t corner = (size_t)p->row * w->ld + p->column;
    rows_apart(p, w, c, ldc);
    struct fth_panels_target straight = {w->x[3], w->rows, w->columns, 0}, turned = {w->x[4], w->columns, w->rows, 0};
    fth_panels_store(&straight, p->row, p->column, p->m, p->n, w->x[0] + corner, w->ld);
    if (p->transposed)
        fth_panels_store_transposed(&turned, p->row, p->column, p->m, p->n, w->x[0] + corner, w->ld);
}

static struct fth_gemm_step step_of(const struct problem *p, struct weight *w) {
    size_t corner = (size_t)p->row * w->ld + p->column;
    struct fth_gemm_step step = {.kind = p->kind, .args = p->args, .w = w->x[0] + corner, .ld = w->ld,
                                 .row = p->row, .column = p->column,
                                 .panels = {w->x[3], w->rows, w->columns, 0},
                                 .transposed = {p->transposed ? w->x[4] : NULL, w->columns, w->rows, 0}};
    int slots = p->kind == FTH_STEP_SGD ? 0 : p->kind == FTH_STEP_ADAGRAD ? 1 : 2;
    for (int i = 0; i < slots; i++)
        step.slots[i] = w->x[1 + i] + corner;
    return step;
}

/* W's rows are no longer looked at: it lies in panels alone. */
static void leave_rows(struct fth_gemm_step *step, struct weight *w) {
    fth_panels_store(&step->panels, 0, 0, w->rows, w->columns, w->x[0], w->ld);
    step->w = NULL;
}

/* The block is made in rows, then put where W lies: its rows stay as they were. */
static void apart_in_panels(const struct problem *p, struct weight *w, const float *c, uint32_t ldc) {
    struct weight first = weight(w->rows, w->columns);
    struct fth_panels_target straight = {w->x[3], w->rows, w->columns, 0};
    fth_panels_store(&straight, 0, 0, w->rows, w->columns, w->x[0], w->ld);
    apart(p, w, c, ldc);
    memcpy(w->x[0], first.x[0], w->floats[0] * sizeof(float));
    weight_free(&first);
}

static int together(const struct problem *p, struct weight *w, const struct fth_gemm_shape *shape, float *c, int in_panels) {
    struct fth_gemm_step step = step_of(p, w);
    if (in_panels && can_step())
        leave_rows(&step, w);
    return run(shape, p, c, &step);
}

/* Of W and its copies. */
enum lies { IN_BOTH, IN_ROWS, IN_PANELS };

/* The step alone and the copies, without any product. In rows: the only copy is the transposed one, not in panels. */
static void check_alone(const struct problem *p, uint32_t rows, uint32_t columns, enum lies lies, const float *gradient,
                        uint32_t ldc) {
    int in_rows = lies == IN_ROWS;
    struct weight want = weight(rows, columns), got = weight(rows, columns);
    struct fth_gemm_step step = step_of(p, &got);
    size_t ld = fth_padded_columns(rows), corner = (size_t)p->row * want.ld + p->column;
    float *turned[2] = {draws(columns * ld, 10), draws(columns * ld, 10)};
    if (in_rows) {
        step.panels.panels = NULL;
        step.transposed.panels = turned[0];
        step.transposed_ld = ld;
    }
    if (lies == IN_PANELS && can_step_alone())
        leave_rows(&step, &got);
    assert_int_equal(run_alone(&step, p->m, p->n, gradient, ldc), can_step_alone());
    if (can_step_alone() && in_rows)
        rows_apart(p, &want, gradient, ldc);
    else if (can_step_alone())
        (lies == IN_PANELS ? apart_in_panels : apart)(p, &want, gradient, ldc);
    if (can_step_alone() && in_rows)
        fth_kernels_for(FTH_ISA_SCALAR)->transpose(p->m, p->n, want.x[0] + corner, want.ld,
                                                   turned[1] + p->column * ld + p->row, ld);
    for (int i = 0; i < MATRICES; i++)
        if (memcmp(want.x[i], got.x[i], want.floats[i] * sizeof(float)))
            fail_msg("step %d alone, block %u x %u at %u, %u of %u x %u: matrix %d is another", (int)p->kind, p->m, p->n,
                     p->row, p->column, rows, columns, i);
    if (memcmp(turned[0], turned[1], columns * ld * sizeof(float)))
        fail_msg("step %d alone, block %u x %u at %u, %u of %u x %u: the transposed rows are others", (int)p->kind, p->m,
                 p->n, p->row, p->column, rows, columns);
    fth_free(turned[0]);
    fth_free(turned[1]);
    weight_free(&want);
    weight_free(&got);
}

static struct fth_gemm_shape shape_of(const struct problem *p) {
    return (struct fth_gemm_shape){.form = FTH_GEMM_TN, .m = p->m, .n = p->n, .k = p->k, .lda = (uint32_t)p->lda,
                                   .ldb = (uint32_t)p->ldb, .ldc = fth_padded_columns(p->n)};
}

/* The product alone, to the bit; between the rows nothing is written. */
static void check_product(const struct problem *p, int accumulate) {
    struct fth_gemm_shape shape = shape_of(p);
    shape.accumulate = accumulate;
    float *c = draws((size_t)p->m * shape.ldc, 9), *want = draws((size_t)p->m * shape.ldc, 9);
    product(p, accumulate, want, shape.ldc);
    if (run(&shape, p, c, NULL))
        for (size_t i = 0; i < (size_t)p->m * shape.ldc; i++)
            if (memcmp(&want[i], &c[i], sizeof *c))
                fail_msg("%u x %u, %u examples: %zu is %.9g, not %.9g", p->m, p->n, p->k, i, (double)c[i],
                         (double)want[i]);
    fth_free(want);
    fth_free(c);
}

static void check(struct problem *p, uint32_t rows, uint32_t columns) {
    struct fth_gemm_shape shape = shape_of(p);
    float *gradient = draws((size_t)p->m * shape.ldc, 9), *c = draws((size_t)p->m * shape.ldc, 9);
    product(p, 0, gradient, shape.ldc);
    check_product(p, 0);
    check_product(p, 1);
    for (int way = 0; way < 6; way++) {
        int in_panels = way % 2;
        p->kind = (fth_weight_step)(FTH_STEP_SGD + way / 2);
        struct weight want = weight(rows, columns), got = weight(rows, columns);
        assert_int_equal(together(p, &got, &shape, c, in_panels), can_step());
        if (can_step())
            (in_panels ? apart_in_panels : apart)(p, &want, gradient, shape.ldc);
        for (int i = 0; i < MATRICES; i++)
            if (memcmp(want.x[i], got.x[i], want.floats[i] * sizeof(float)))
                fail_msg("step %d, %s, block %u x %u at %u, %u of %u x %u, %u examples: matrix %d is another", (int)p->kind,
                         in_panels ? "in panels" : "in rows", p->m, p->n, p->row, p->column, rows, columns, p->k, i);
        weight_free(&want);
        weight_free(&got);
    }
    fth_free(c);
    fth_free(gradient);
}

static void as_one_after_the_other(fth_fp32_avx512_kernel *of, uint32_t most_columns) {
    kernel = of;
    static const uint32_t ks[] = {1, 7, 19, 64, 255, 257, 300, 600};
    static const struct {
        uint32_t row, column, m, n, rows, columns;
    } blocks[] = {{0, 0, 13, 16, 13, 16},    {0, 0, 16, 45, 16, 45},     {16, 64, 32, 64, 48, 128},
                  {32, 48, 61, 77, 93, 125}, {0, 112, 33, 30, 80, 142}, {128, 0, 45, 80, 173, 80},
                  {16, 0, 51, 195, 67, 195}, {0, 64, 96, 128, 96, 192}, {16, 32, 16, 32, 32, 64}};
    const struct fth_opt_args args = {.lr = 0.01f, .grad_scale = 0.5f, .l2 = 0.001f, .weight_decay = 0.01f,
                                      .eps = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f, .correction1 = 0.1f,
                                      .correction2 = 0.001f};
    size_t ld = 208;
    float *a = draws(600 * ld, 20), *b = draws(600 * ld, 21);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (size_t k = 0; k < sizeof ks / sizeof *ks && blocks[i].n <= most_columns; k++) {
            struct problem p = {.row = blocks[i].row, .column = blocks[i].column, .m = blocks[i].m,
                                .n = blocks[i].n, .k = ks[k], .transposed = (int)(i + k) % 4 != 0,
                                .a = a, .b = b, .lda = blocks[i].m <= 48 ? 48 : ld, .ldb = ld, .args = &args};
            check(&p, blocks[i].rows, blocks[i].columns);
        }
    fth_free(a);
    fth_free(b);
}

static void by_square_tiles(void **state) {
    (void)state;
    as_one_after_the_other(SQUARE, UINT32_MAX);
}

static void by_wide_tiles(void **state) {
    (void)state;
    as_one_after_the_other(WIDE, UINT32_MAX);
}

static void by_narrow_tiles(void **state) {
    (void)state;
    as_one_after_the_other(NARROW, 32);
}

static void by_the_provider(void **state) {
    (void)state;
    if (can_step() && fth_cpu_get()->isa != FTH_ISA_AVX512)
        skip(); /* the library's kernels are not to be had, only SIMDe's; unit.kernels.test_gemm_step is as here */
    as_one_after_the_other(NULL, UINT32_MAX);
}

static void alone(void **state) {
    (void)state;
    static const struct {
        uint32_t row, column, m, n, rows, columns;
        enum lies lies;
    } blocks[] = {{0, 0, 13, 16, 13, 16, IN_BOTH},      {16, 64, 32, 64, 48, 128, IN_BOTH},
                  {32, 48, 61, 77, 93, 125, IN_BOTH},   {16, 0, 51, 195, 67, 195, IN_BOTH},
                  {0, 0, 13, 33, 61, 77, IN_ROWS},      {13, 32, 16, 32, 61, 77, IN_ROWS},
                  {29, 7, 32, 70, 61, 77, IN_ROWS},     {16, 64, 17, 13, 48, 77, IN_ROWS},
                  {0, 0, 13, 16, 13, 16, IN_PANELS},    {16, 64, 32, 64, 48, 128, IN_PANELS},
                  {32, 48, 61, 77, 93, 125, IN_PANELS}, {16, 0, 51, 195, 67, 195, IN_PANELS}};
    const struct fth_opt_args args = {.lr = 0.01f, .grad_scale = 0.5f, .l2 = 0.001f, .weight_decay = 0.01f,
                                      .eps = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f, .correction1 = 0.1f,
                                      .correction2 = 0.001f};
    float *gradient = draws(64 * 208, 9);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        struct problem p = {.row = blocks[i].row, .column = blocks[i].column, .m = blocks[i].m, .n = blocks[i].n,
                            .transposed = 1, .args = &args};
        for (p.kind = FTH_STEP_SGD; p.kind <= FTH_STEP_ADAM; p.kind++)
            check_alone(&p, blocks[i].rows, blocks[i].columns, blocks[i].lies, gradient, 208);
    }
    fth_free(gradient);
}

static void no_step_without_examples_or_panels(void **state) {
    (void)state;
    struct fth_gemm_shape shape = {.form = FTH_GEMM_TN, .m = 16, .n = 16, .k = 8, .lda = 16, .ldb = 16, .ldc = 16};
    fth_gemm *gemm = NULL;
    assert_int_equal(fth_gemm_create(&shape, FTH_GEMM_AUTO, NULL, &gemm, NULL), FTH_OK);
    float x[16 * 16] = {0}, w[16 * 16] = {0}, panels[16 * 16] = {0};
    const struct fth_opt_args args = {.lr = 1.0f, .grad_scale = 1.0f};
    struct fth_gemm_step step = {.kind = FTH_STEP_SGD, .args = &args, .w = w, .ld = 16, .panels = {panels, 16, 16}};
    assert_false(fth_gemm_run_step(gemm, 0, x, x, x, &step));
    step.panels.panels = NULL;
    assert_false(fth_gemm_run_step(gemm, 8, x, x, x, &step));
    step.panels.panels = panels;
    step.kind = FTH_STEP_NONE;
    assert_false(fth_gemm_run_step(gemm, 8, x, x, x, &step));
    fth_gemm_destroy(gemm);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_square_tiles), cmocka_unit_test(by_wide_tiles),
                                       cmocka_unit_test(by_narrow_tiles), cmocka_unit_test(by_the_provider),
                                       cmocka_unit_test(alone),
                                       cmocka_unit_test(no_step_without_examples_or_panels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
