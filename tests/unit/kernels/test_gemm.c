/* kernels/gemm: every form, provider and precision against sums in double written here, any number
 * of examples, untouched padding, the same bits anywhere, nothing allocated, refusals. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "count_alloc.h"
#include "kernels/gemm.h"
#include "lower_isas.h"

#define SENTINEL -77.25f
#if defined(__SANITIZE_THREAD__)
#define STEP 9 /* every load of the checks is watched: a ninth of the sizes must do */
#else
#define STEP 1
#endif

static uint64_t seed = 1;
static uint32_t draw(uint32_t below) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % below;
}

static float *block(size_t floats) {
    float *x = fth_alloc(floats, sizeof *x);
    assert_non_null(x);
    return x;
}

/* rows x columns of values in [-1, 1); whatever lies between columns and ld is NaN: reading it
 * shows. */
static float *matrix(uint32_t rows, uint32_t columns, uint32_t ld) {
    float *x = block((size_t)rows * ld + 16);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < ld; j++)
            x[(size_t)i * ld + j] = j < columns ? (float)draw(1 << 20) * 0x1p-19f - 1.0f : NAN;
    return x;
}

static float as_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint32_t low = bits & 0xffff;
    bits &= 0xffff0000u;
    if (low > 0x8000 || (low == 0x8000 && (bits & 0x10000)))
        bits += 0x10000;
    memcpy(&x, &bits, 4);
    return x;
}

static double product_of(fth_precision precision, float x, float y) {
    float x1 = as_bf16(x), y1 = as_bf16(y), x2 = as_bf16(x - x1), y2 = as_bf16(y - y1);
    switch (precision) {
    case FTH_BF16: return (double)x1 * y1;
    case FTH_BF16X3: return (double)x1 * y1 + (double)x1 * y2 + (double)x2 * y1;
    default: return (double)x * y; /* as good as that in bf16x6 */
    }
}

struct problem {
    struct fth_gemm_shape shape;
    uint32_t rows; /* examples of this run */
    float *a, *b, *c;
    size_t c_floats;
};

static uint32_t rows_m(const struct problem *p) {
    return p->shape.form == FTH_GEMM_TN ? p->shape.m : p->rows;
}
static uint32_t rows_k(const struct problem *p) {
    return p->shape.form == FTH_GEMM_TN ? p->rows : p->shape.k;
}

static struct problem problem(fth_gemm_form form, uint32_t usual, uint32_t rows, uint32_t fixed,
                              uint32_t n, int accumulate, fth_precision precision) {
    struct problem p = {.rows = rows};
    struct fth_gemm_shape *s = &p.shape;
    *s = (struct fth_gemm_shape){
        .form = form, .n = n, .accumulate = accumulate, .precision = precision};
    s->m = form == FTH_GEMM_TN ? fixed : usual;
    s->k = form == FTH_GEMM_TN ? usual : fixed;
    s->lda = fth_padded_columns(fixed) + 16 * draw(2);
    s->ldb = fth_padded_columns(form == FTH_GEMM_NT ? s->k : n) + draw(3);
    s->ldc = n + draw(20);
    p.a = matrix(rows, fixed, s->lda);
    p.b = form == FTH_GEMM_NT ? matrix(n, s->k, s->ldb) : matrix(rows_k(&p), n, s->ldb);
    p.c_floats = (size_t)(rows_m(&p) + 1) * s->ldc;
    p.c = block(p.c_floats);
    for (size_t i = 0; i < p.c_floats; i++)
        p.c[i] = i % s->ldc < n && i / s->ldc < rows_m(&p) ? (float)draw(1000) * 0.001f : SENTINEL;
    return p;
}

static void problem_free(struct problem *p) {
    fth_free(p->a);
    fth_free(p->b);
    fth_free(p->c);
}

static void check(const struct problem *p, const float *before, const float *c, const char *name) {
    const struct fth_gemm_shape *s = &p->shape;
    uint32_t m = rows_m(p), k = rows_k(p);
    for (size_t at = 0; at < p->c_floats; at++) {
        size_t i = at / s->ldc, j = at % s->ldc;
        if (i >= m || j >= s->n) {
            if (c[at] != SENTINEL)
                fail_msg("%s form %d m %u n %u k %u: wrote padding at row %zu column %zu", name,
                         s->form, m, s->n, k, i, j);
            continue;
        }
        double sum = s->accumulate ? (double)before[at] : 0.0, size = fabs(sum);
        for (uint32_t q = 0; q < k; q++) {
            float x = s->form == FTH_GEMM_TN ? p->a[(size_t)q * s->lda + i] : p->a[i * s->lda + q];
            float y = s->form == FTH_GEMM_NT ? p->b[j * s->ldb + q] : p->b[(size_t)q * s->ldb + j];
            double product = product_of(s->precision, x, y);
            sum += product;
            size += fabs(product);
        }
        if (!(fabs((double)c[at] - sum) <= fmax(1, 3 * (s->precision - 1.0)) * (k + 4) * 6e-8 * size))
            fail_msg("%s form %d m %u n %u k %u add %d precision %d: row %zu column %zu is %.9g, "
                     "not %.9g",
                     name, s->form, m, s->n, k, s->accumulate, s->precision, i, j, (double)c[at],
                     sum);
    }
}

static void run_checked(const struct problem *p, fth_gemm_provider provider) {
    fth_gemm *gemm = NULL;
    fth_error err = {0};
    if (fth_gemm_create(&p->shape, provider, NULL, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    size_t bytes = fth_gemm_scratch(gemm, p->rows);
    unsigned char *scratch = fth_alloc(bytes + 64, 1);
    memset(scratch + bytes, 0x5a, 64);
    float *c = block(p->c_floats);
    memcpy(c, p->c, p->c_floats * sizeof *c);
    fth_gemm_run(gemm, p->rows, p->a, p->b, c, bytes ? scratch : NULL);
    check(p, p->c, c, fth_gemm_provider_name(fth_gemm_chosen(gemm)));
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[bytes + i], 0x5a);
    fth_free(c);
    fth_free(scratch);
    fth_gemm_destroy(gemm);
}

static int can(fth_gemm_provider provider, fth_gemm_form form, fth_precision precision) {
    if (precision != FTH_FP32)
        return fth_cpu_get()->avx512_bf16 &&
               (provider == FTH_GEMM_REFERENCE || provider == FTH_GEMM_FATHOM);
    if (provider == FTH_GEMM_FATHOM && fth_cpu_get()->isa != FTH_ISA_AVX2)
        return fth_cpu_get()->isa == FTH_ISA_AVX512 && form == FTH_GEMM_TN;
    return (provider != FTH_GEMM_XSMM && provider != FTH_GEMM_FATHOM) || form != FTH_GEMM_NT;
}

static void check_all(fth_precision precision, uint32_t step) {
    static const uint32_t widths[] = {2, 3, 8, 13, 16, 17, 31, 40, 64, 72, 80, 100, 130, 200};
    static const uint32_t depths[] = {1, 2, 7, 13, 16, 33, 64, 65, 80, 100, 131};
    for (uint32_t rows = 0; rows <= 130; rows += step)
        for (int form = 0; form < FTH_GEMM_FORMS; form++) {
            struct problem p = problem(form, draw(2) ? 64 : 1 + draw(140), rows, depths[draw(11)],
                                       widths[draw(14)], (int)draw(2), precision);
            for (int provider = FTH_GEMM_AUTO; provider < FTH_GEMM_PROVIDERS; provider++)
                if (provider == FTH_GEMM_AUTO || can(provider, form, precision))
                    run_checked(&p, provider);
            problem_free(&p);
        }
}

static void any_number_of_examples(void **state) {
    check_all(FTH_FP32, STEP);
}

static void large_shapes_cut_in_pieces(void **state) {
    static const struct {
        fth_gemm_form form;
        uint32_t rows, fixed, n;
    } cases[] = {
        {FTH_GEMM_NN, 70, 700, 150}, {FTH_GEMM_NN, 33, 1100, 37}, {FTH_GEMM_NN, 5, 513, 129},
        {FTH_GEMM_TN, 700, 40, 100}, {FTH_GEMM_TN, 1023, 13, 79}, {FTH_GEMM_TN, 4097, 3, 16},
        {FTH_GEMM_NT, 67, 367, 129},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int accumulate = STEP > 1; accumulate < 2; accumulate++)
            for (int provider = STEP > 1; provider < FTH_GEMM_PROVIDERS; provider++)
                if (can(provider, cases[i].form, FTH_FP32)) {
                    struct problem p = problem(cases[i].form, 512, cases[i].rows, cases[i].fixed,
                                               cases[i].n, accumulate, FTH_FP32);
                    run_checked(&p, provider);
                    problem_free(&p);
                }
}

static void bf16_rounds_and_sums_in_fp32(void **state) {
    if (!fth_cpu_get()->avx512_bf16) {
        print_message("no AVX512-BF16 here: bf16 products are not tested\n");
        skip();
    }
    check_all(FTH_BF16, 2 + STEP);
    check_all(FTH_BF16X3, 2 + STEP);
    check_all(FTH_BF16X6, 2 + STEP);
    for (int both = 0; both < 3 * FTH_GEMM_FORMS; both++) {
        fth_precision precision = FTH_BF16 + both % 3;
        fth_gemm_form form = both / 3;
        struct problem p = problem(form, 64, 301, 143, 175, form == FTH_GEMM_NN, precision);
        /* Half-way between two bf16: down to even, up to even. */
        for (int i = 0; i < 40; i++)
            memcpy(&p.a[i], i % 2 ? &(uint32_t){0x3f818000} : &(uint32_t){0x3f808000}, 4);
        run_checked(&p, FTH_GEMM_AUTO);
        problem_free(&p);
    }
}

static void no_examples(void **state) {
    for (int form = 0; form < FTH_GEMM_FORMS; form++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            struct problem p = problem(form, 64, 0, 20, 30, accumulate, FTH_FP32);
            for (int provider = 0; provider < FTH_GEMM_PROVIDERS; provider++)
                if (can(provider, form, FTH_FP32))
                    run_checked(&p, provider);
            problem_free(&p);
        }
}

struct worker {
    pthread_t thread;
    const fth_gemm *gemm;
    const struct problem *p;
    float *a, *b, *c;
    void *scratch;
};

static void *work(void *arg) {
    struct worker *w = arg;
    fth_gemm_thread_init();
    for (int i = 0; i < 20; i++) {
        memcpy(w->c, w->p->c, w->p->c_floats * sizeof(float));
        fth_gemm_run(w->gemm, w->p->rows, w->a, w->b, w->c, w->scratch);
    }
    return NULL;
}

/* Two threads at once, their operands at different multiples of 64 bytes. */
static void check_same_bits(struct problem *p, fth_gemm_provider provider) {
    const struct fth_gemm_shape *s = &p->shape;
    fth_gemm *gemm = NULL;
    fth_error err = {0};
    if (fth_gemm_create(s, provider, NULL, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    size_t a = (size_t)p->rows * s->lda;
    size_t b = (size_t)(s->form == FTH_GEMM_NT ? s->n : rows_k(p)) * s->ldb;
    struct worker w[2];
    void *owned[2][4];
    for (int i = 0; i < 2; i++) {
        size_t shift = i ? 16 * (1 + draw(70)) : 0;
        float *x = block(a + 2048), *y = block(b + 2048), *z = block(p->c_floats + 2048);
        void *scratch = fth_alloc(fth_gemm_scratch(gemm, p->rows) + 64, 1);
        memcpy(x + shift, p->a, a * sizeof *x);
        memcpy(y + 2 * shift / 3 / 16 * 16, p->b, b * sizeof *y);
        w[i] = (struct worker){.gemm = gemm,
                               .p = p,
                               .a = x + shift,
                               .b = y + 2 * shift / 3 / 16 * 16,
                               .c = z + shift / 2 / 16 * 16,
                               .scratch = scratch};
        owned[i][0] = x, owned[i][1] = y, owned[i][2] = z, owned[i][3] = scratch;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(w[i].thread, NULL);
    check(p, p->c, w[0].c, "first thread");
    assert_memory_equal(w[0].c, w[1].c, p->c_floats * sizeof(float));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            fth_free(owned[i][j]);
    fth_gemm_destroy(gemm);
}

static void same_bits_on_every_thread_and_address(void **state) {
    for (int precision = FTH_FP32; precision < FTH_PRECISIONS; precision++)
        for (int form = 0; form < FTH_GEMM_FORMS; form++)
            for (int provider = 0; provider < FTH_GEMM_PROVIDERS; provider++)
                for (int i = 0; i < 3 && can(provider, form, precision); i++) {
                    struct problem p = problem(form, 64, 1 + draw(100), 1 + draw(200),
                                               2 + draw(150), (int)draw(2), precision);
                    check_same_bits(&p, provider);
                    problem_free(&p);
                }
}

static long allocations_of(const struct problem *p, fth_gemm_provider provider) {
    fth_gemm *gemm = NULL;
    fth_error err = {0};
    if (fth_gemm_create(&p->shape, provider, NULL, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    void *scratch = fth_alloc(fth_gemm_scratch(gemm, p->rows) + 64, 1);
    for (int i = 0; i < 2; i++)
        fth_gemm_run(gemm, p->rows, p->a, p->b, p->c, scratch);
    count_alloc_start();
    fth_gemm_run(gemm, p->rows, p->a, p->b, p->c, scratch);
    struct count_alloc counted = count_alloc_stop();
    fth_free(scratch);
    fth_gemm_destroy(gemm);
    return counted.allocations + counted.mappings;
}

/* Layers of DLRM, Wide&Deep, DeepFM and DIN: inputs, outputs. */
static const uint32_t layers[][2] = {{13, 512},  {512, 256},  {256, 64},   {64, 16},
                                     {367, 512}, {429, 1024}, {1024, 512}, {400, 400},
                                     {36, 80},   {72, 80},    {80, 40},    {111, 100}};

static void the_table_allocates_nothing_for_usual_models(void **state) {
    if (!count_alloc_works()) {
        print_message("allocations cannot be counted under a sanitizer\n");
        skip();
    }
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        uint32_t in = layers[i][0], out = layers[i][1], block_in = in < 128 ? in : 128,
                 block_out = out < 256 ? out : 256;
        struct problem p[4] = {
            problem(FTH_GEMM_NN, 64, 64, in, out, 0, FTH_FP32),
            problem(FTH_GEMM_NN, 64, 37, out, in, 0, FTH_FP32),
            problem(FTH_GEMM_NT, 64, 64, out, in, 0, FTH_FP32),
            problem(FTH_GEMM_TN, 512, 512, block_in, block_out, 0, FTH_FP32),
        };
        for (int j = 0; j < 4; j++) {
            long counted = allocations_of(&p[j], FTH_GEMM_AUTO);
            if (counted != 0)
                fail_msg("form %d m %u n %u k %u: %ld allocations in a run", p[j].shape.form,
                         p[j].shape.m, p[j].shape.n, p[j].shape.k, counted);
            problem_free(&p[j]);
        }
    }
}

static void what_is_said_to_allocate_nothing_does_not(void **state) {
    if (!count_alloc_works())
        skip();
    long onednn = 0;
    for (int i = 0; i < 60; i++) {
        fth_gemm_form form = draw(FTH_GEMM_FORMS);
        struct problem p =
            problem(form, 64, 1 + draw(100), 1 + draw(450), 2 + draw(450), 0, FTH_FP32);
        for (int provider = FTH_GEMM_AUTO; provider < FTH_GEMM_PROVIDERS; provider++) {
            if (provider == FTH_GEMM_REFERENCE || !can(provider, form, FTH_FP32) ||
                (provider != FTH_GEMM_AUTO && fth_gemm_allocates(provider, &p.shape)))
                continue;
            long counted = allocations_of(&p, provider);
            if (counted != 0)
                fail_msg("%s form %d m %u n %u k %u: %ld allocations",
                         fth_gemm_provider_name(provider), form, rows_m(&p), p.shape.n, rows_k(&p),
                         counted);
        }
        if (form != FTH_GEMM_TN)
            onednn += allocations_of(&p, FTH_GEMM_ONEDNN);
        problem_free(&p);
    }
    /* The counter sees what it is there for. */
    assert_true(onednn > 0);
}

static void lower_instruction_sets(void **state) {
    run_at_lower_instruction_sets();
}

static void some_numbers_of_examples(void **state) {
    check_all(FTH_FP32, 2 + STEP);
}

int main(int argc, char **argv) {
    fth_gemm_thread_init();
    const struct CMUnitTest child_tests[] = {
        cmocka_unit_test(some_numbers_of_examples),
        cmocka_unit_test(the_table_allocates_nothing_for_usual_models),
        cmocka_unit_test(what_is_said_to_allocate_nothing_does_not),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_examples),
        cmocka_unit_test(no_examples),
        cmocka_unit_test(large_shapes_cut_in_pieces),
        cmocka_unit_test(bf16_rounds_and_sums_in_fp32),
        cmocka_unit_test(same_bits_on_every_thread_and_address),
        cmocka_unit_test(the_table_allocates_nothing_for_usual_models),
        cmocka_unit_test(what_is_said_to_allocate_nothing_does_not),
        cmocka_unit_test(lower_instruction_sets),
    };
    return argc > 1 ? cmocka_run_group_tests(child_tests, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
