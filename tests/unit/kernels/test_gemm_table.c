/* kernels/gemm: the table of providers has one for every shape, refusals, names; with each instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "base/random.h"
#include "kernels/gemm.h"
#include "lower_isas.h"

static uint64_t draws;
static uint32_t draw(uint32_t below) {
    uint32_t bits[4];
    fth_random_draw(5, 0, draws++, 0, bits);
    return bits[0] % below;
}

static void the_table_knows_every_shape(void **state) {
    for (int i = 0; i < 300; i++) {
        uint32_t n = 2 + draw(1500), fixed = 1 + draw(1500), usual = 1 + draw(5000);
        fth_gemm_form form = draw(FTH_GEMM_FORMS);
        struct fth_gemm_shape s = {.form = form, .n = n, .lda = fixed, .ldb = n + fixed, .ldc = n};
        s.m = form == FTH_GEMM_TN ? fixed : usual;
        s.k = form == FTH_GEMM_TN ? usual : fixed;
        fth_gemm *gemm = NULL;
        fth_error err = {0};
        if (fth_gemm_create(&s, FTH_GEMM_AUTO, NULL, &gemm, &err) != FTH_OK)
            fail_msg("%s", err.message);
        fth_gemm_provider chosen = fth_gemm_chosen(gemm);
        assert_true(chosen > FTH_GEMM_REFERENCE && chosen < FTH_GEMM_PROVIDERS);
        assert_false(fth_gemm_allocates(chosen, &s));
        fth_gemm_destroy(gemm);
    }
}

static void expect_refusal(struct fth_gemm_shape s, fth_gemm_provider provider, fth_status status,
                           const char *part) {
    fth_gemm *gemm = (fth_gemm *)&s;
    fth_error err = {0};
    assert_int_equal(fth_gemm_create(&s, provider, NULL, &gemm, &err), status);
    assert_ptr_equal(gemm, &s);
    if (!strstr(err.message, part))
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void refuses_what_it_cannot_do(void **state) {
    struct fth_gemm_shape good = {FTH_GEMM_NN, 8, 8, 8, 8, 8, 8, 0, FTH_FP32, 0, 0, 0, 0}, s = good;
    s.n = 1;
    expect_refusal(s, FTH_GEMM_AUTO, FTH_E_ARGUMENT, "width n = 1");
    s = good;
    s.passing = 1;
    expect_refusal(s, FTH_GEMM_AUTO, FTH_E_ARGUMENT, "only where A is in tiles");
    s = good, s.k = 0;
    expect_refusal(s, FTH_GEMM_AUTO, FTH_E_ARGUMENT, "at least 1");
    s = good, s.lda = 7;
    expect_refusal(s, FTH_GEMM_AUTO, FTH_E_ARGUMENT, "leading dimensions 7, 8, 8");
    s = good, s.form = FTH_GEMM_NT, s.ldb = 7;
    expect_refusal(s, FTH_GEMM_AUTO, FTH_E_ARGUMENT, "leading dimensions 8, 7, 8");
    s = good, s.lda = 3000000000u;
    expect_refusal(s, FTH_GEMM_AUTO, FTH_E_ARGUMENT, "2^31");
    s = good, s.form = 9;
    expect_refusal(s, FTH_GEMM_AUTO, FTH_E_ARGUMENT, "form 9");
    s = good, s.form = FTH_GEMM_NT;
    expect_refusal(s, FTH_GEMM_XSMM, FTH_E_UNSUPPORTED, "transposed");
    expect_refusal(good, 17, FTH_E_ARGUMENT, "provider 17");
    s = good, s.precision = FTH_BF16;
    if (!fth_cpu_get()->avx512_bf16)
        expect_refusal(s, FTH_GEMM_AUTO, FTH_E_UNSUPPORTED, "AVX512-BF16");
    else
        expect_refusal(s, FTH_GEMM_OPENBLAS, FTH_E_UNSUPPORTED, "bf16");
    fth_gemm_destroy(NULL);
}

static void names_and_versions(void **state) {
    char version[96];
    assert_string_equal(fth_gemm_provider_name(FTH_GEMM_AUTO), "auto");
    for (int p = 0; p < FTH_GEMM_PROVIDERS; p++) {
        fth_gemm_provider_version(p, version);
        assert_true(strlen(version) > 5);
        assert_string_not_equal(fth_gemm_provider_name(p), "auto");
    }
    fth_gemm_provider_version(FTH_GEMM_XSMM, version);
    const char *target = fth_cpu_get()->isa == FTH_ISA_AVX2 ? "hsw" : "";
    assert_non_null(strstr(version, target));
}

static void lower_instruction_sets(void **state) {
    run_at_lower_instruction_sets();
}

int main(int argc, char **argv) {
    fth_gemm_thread_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_knows_every_shape),
        cmocka_unit_test(refuses_what_it_cannot_do),
        cmocka_unit_test(names_and_versions),
        cmocka_unit_test(lower_instruction_sets),
    };
    struct CMUnitTest child_tests[] = {tests[0], tests[1], tests[2]};
    return argc > 1 ? cmocka_run_group_tests(child_tests, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
