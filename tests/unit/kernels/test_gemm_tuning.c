/* Tuning files: measured text loads again and decides, damaged and foreign files are refused with
 * the reason, other instruction sets are warned about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "kernels/gemm.h"

static char path[] = "/tmp/fathom_tuning_XXXXXX";
static char logged[4096];

static void keep_log(void *ctx, int level, const char *line) {
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

static int make_path(void **state) {
    int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    fth_log_set(keep_log, NULL);
    return 0;
}

static int remove_path(void **state) {
    return unlink(path);
}

static void write_file(const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    logged[0] = 0;
}

static fth_gemm_provider choice(const struct fth_gemm_shape *s, const fth_tuning *tuning) {
    fth_gemm *gemm = NULL;
    fth_error err = {0};
    if (fth_gemm_create(s, FTH_GEMM_AUTO, tuning, &gemm, &err) != FTH_OK)
        fail_msg("%s", err.message);
    fth_gemm_provider chosen = fth_gemm_chosen(gemm);
    fth_gemm_destroy(gemm);
    return chosen;
}

/* "nn" of 64 x 32 x 16 by `provider`. */
static void write_entry(const char *isa, const char *provider) {
    char text[512];
    snprintf(text, sizeof text,
             "{\"format\": \"fathom-tuning\", \"version\": 1, \"cpu\": \"x\", \"isa\": \"%s\", "
             "\"entries\": "
             "[{\"form\": \"nn\", \"m\": 64, \"n\": 32, \"k\": 16, \"provider\": \"%s\"}]}",
             isa, provider);
    write_file(text);
}

static const struct fth_gemm_shape shape = {FTH_GEMM_NN, 64, 32, 16, 16, 48, 48, 0, FTH_FP32, 0, 0, 0, 0};

static void what_is_measured_loads_and_decides(void **state) {
    struct fth_gemm_shape shapes[] = {
        shape,
        {FTH_GEMM_TN, 24, 32, 64, 48, 48, 48, 1, FTH_FP32, 0, 0, 0, 0},
        shape, /* twice: one entry */
        {FTH_GEMM_NT, 64, 40, 16, 16, 16, 48, 0, FTH_FP32, 0, 0, 0, 0},
        {FTH_GEMM_NN, 64, 32, 16, 16, 48, 48, 0, FTH_BF16, 0, 0, 0, 0}, /* left out */
    };
    struct fth_text text = {0};
    fth_error err = {0};
    assert_int_equal(fth_tuning_measure(shapes, 5, &text, &err), FTH_OK);
    write_file(fth_text_get(&text));
    fth_tuning *tuning = NULL;
    if (fth_tuning_load(path, &tuning, &err) != FTH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fth_tuning_entries(tuning), 3);
    assert_string_equal(logged, "");
    assert_true(fth_tuning_digest(tuning) != 0);
    for (int i = 0; i < 4; i++)
        assert_false(fth_gemm_allocates(choice(&shapes[i], tuning), &shapes[i]));
    assert_non_null(strstr(fth_text_get(&text), "\"libxsmm\": "));
    assert_non_null(strstr(fth_text_get(&text), "\"onednn\": "));
    fth_tuning_destroy(tuning);
    fth_text_free(&text);
}

static void a_shape_that_cannot_be_measured_is_refused(void **state) {
    struct fth_gemm_shape bad = shape;
    struct fth_text text = {0};
    fth_error err = {0};
    bad.n = 1;
    assert_int_equal(fth_tuning_measure(&bad, 1, &text, &err), FTH_E_ARGUMENT);
    assert_string_equal(fth_text_get(&text), "");
    fth_text_free(&text);
}

static void an_entry_overrides_the_table(void **state) {
    uint64_t digests[2];
    const char *names[] = {"openblas", "onednn"};
    const fth_gemm_provider providers[] = {FTH_GEMM_OPENBLAS, FTH_GEMM_ONEDNN};
    for (int i = 0; i < 2; i++) {
        fth_tuning *tuning = NULL;
        fth_error err = {0};
        write_entry(fth_isa_name(fth_cpu_get()->isa), names[i]);
        assert_int_equal(fth_tuning_load(path, &tuning, &err), FTH_OK);
        assert_int_equal(choice(&shape, tuning), providers[i]);
        struct fth_gemm_shape other = shape;
        other.k = 15;
        assert_int_equal(choice(&other, tuning), choice(&other, NULL));
        digests[i] = fth_tuning_digest(tuning);
        fth_tuning_destroy(tuning);
    }
    assert_true(digests[0] != digests[1] && digests[0] && digests[1]);
    assert_int_equal(fth_tuning_digest(NULL), 0);
    assert_int_equal(fth_tuning_entries(NULL), 0);
    fth_tuning_destroy(NULL);
}

/* But of products that it cannot make, and of other precisions. */
static void one_provider_for_all(void **state) {
    struct fth_gemm_shape nt = shape, bf16 = shape;
    fth_tuning *tuning = NULL;
    fth_error err = {0};
    nt.form = FTH_GEMM_NT;
    nt.ldb = nt.k;
    bf16.precision = FTH_BF16;
    assert_int_equal(fth_tuning_one_provider(FTH_GEMM_XSMM, &tuning, &err), FTH_OK);
    for (uint32_t k = 1; k <= 1024; k *= 4) {
        struct fth_gemm_shape other = shape;
        other.k = other.lda = k;
        assert_int_equal(choice(&other, tuning), FTH_GEMM_XSMM);
    }
    assert_int_equal(choice(&nt, tuning), choice(&nt, NULL));
    if (fth_cpu_get()->avx512_bf16)
        assert_int_equal(choice(&bf16, tuning), FTH_GEMM_FATHOM);
    assert_true(fth_tuning_digest(tuning) != 0);
    fth_tuning_destroy(tuning);
}

static void another_instruction_set_is_warned_about(void **state) {
    fth_tuning *tuning = NULL;
    fth_error err = {0};
    const char *other = fth_cpu_get()->isa == FTH_ISA_AVX2 ? "avx512" : "avx2";
    write_entry(other, "openblas");
    assert_int_equal(fth_tuning_load(path, &tuning, &err), FTH_OK);
    assert_non_null(strstr(logged, other));
    assert_int_equal(choice(&shape, tuning), FTH_GEMM_OPENBLAS);
    fth_tuning_destroy(tuning);
}

static void an_entry_that_cannot_run_is_left_out(void **state) {
    fth_tuning *tuning = NULL;
    fth_error err = {0};
    char text[512];
    snprintf(text, sizeof text,
             "{\"format\": \"fathom-tuning\", \"version\": 1, \"cpu\": \"x\", \"isa\": \"%s\", "
             "\"entries\": "
             "[{\"form\": \"nt\", \"m\": 64, \"n\": 32, \"k\": 16, \"provider\": \"libxsmm\"}]}",
             fth_isa_name(fth_cpu_get()->isa));
    write_file(text);
    assert_int_equal(fth_tuning_load(path, &tuning, &err), FTH_OK);
    assert_int_equal(fth_tuning_entries(tuning), 0);
    assert_int_equal(fth_tuning_digest(tuning), 0);
    assert_non_null(strstr(logged, "left out"));
    fth_tuning_destroy(tuning);
}

#define HEAD "{\"format\": \"fathom-tuning\", \"version\": 1, \"cpu\": \"x\", \"isa\": \"avx2\", "
#define ENTRY(fields) HEAD "\"entries\": [{" fields "}]}"

static void damaged_and_foreign_files_are_refused(void **state) {
    static const char *const cases[][2] = {
        {"", ":1:"},
        {"{\"format\": \"fathom-tuning\", \"ver", "not a tuning file"},
        {"[1, 2]", "no tuning file"},
        {"{\"format\": \"something\", \"version\": 1}", "no tuning file"},
        {"{\"format\": \"fathom-tuning\", \"version\": 2}", "version 1"},
        {"{\"format\": \"fathom-tuning\", \"version\": \"1\"}", "version 1"},
        {HEAD "\"entrys\": []}", "nearest: entries"},
        {HEAD "\"entries\": {}}", "no array"},
        {"{\"format\": \"fathom-tuning\", \"version\": 1, \"cpu\": \"x\", \"isa\": \"neon\", "
         "\"entries\": []}",
         "scalar, avx2 or avx512"},
        {"{\"format\": \"fathom-tuning\", \"version\": 1, \"isa\": \"avx2\", \"entries\": []}",
         "\"cpu\""},
        {HEAD "\"entries\": [7]}", "entries[0] is no object"},
        {ENTRY("\"form\": \"nn\""), "\"provider\""},
        {ENTRY("\"form\": \"tt\", \"provider\": \"onednn\", \"m\": 1, \"n\": 2, \"k\": 3"),
         "nn, nt or tn"},
        {ENTRY("\"form\": \"nn\", \"provider\": \"mkl\", \"m\": 1, \"n\": 2, \"k\": 3"), "\"mkl\""},
        {ENTRY("\"form\": \"nn\", \"provider\": \"auto\", \"m\": 1, \"n\": 2, \"k\": 3"),
         "\"auto\""},
        {ENTRY("\"form\": \"nn\", \"provider\": \"onednn\", \"m\": 0, \"n\": 2, \"k\": 3"),
         "\"m\""},
        {ENTRY("\"form\": \"nn\", \"provider\": \"onednn\", \"m\": 1, \"n\": 2.5, \"k\": 3"),
         "\"n\""},
        {ENTRY("\"form\": \"nn\", \"provider\": \"onednn\", \"m\": 1, \"n\": 2, \"k\": 4294967296"),
         "\"k\""},
        {ENTRY(
             "\"form\": \"nn\", \"provider\": \"onednn\", \"m\": 1, \"n\": 2, \"k\": 3, \"x\": 1"),
         "unknown key \"x\""},
        {ENTRY(
             "\"form\": \"nn\", \"provider\": \"onednn\", \"m\": 1, \"m\": 1, \"n\": 2, \"k\": 3"),
         "duplicate"},
        {HEAD
         "\"entries\": [{\"form\": \"nn\", \"provider\": \"onednn\", \"m\": 1, \"n\": 2, \"k\": 3},"
         "{\"form\": \"nn\", \"provider\": \"openblas\", \"m\": 1, \"n\": 2, \"k\": 3}]}",
         "two entries for nn of m 1, n 2, k 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fth_tuning *tuning = (fth_tuning *)cases;
        fth_error err = {0};
        write_file(cases[i][0]);
        assert_int_equal(fth_tuning_load(path, &tuning, &err), FTH_E_DATA);
        assert_ptr_equal(tuning, cases);
        assert_non_null(strstr(err.message, path));
        if (!strstr(err.message, cases[i][1]))
            fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i][1]);
    }
    fth_error err = {0};
    fth_tuning *tuning = NULL;
    assert_int_equal(fth_tuning_load("/nonexistent/tuning", &tuning, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "No such file"));
    assert_int_equal(fth_tuning_load("/tmp", &tuning, &err), FTH_E_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_measured_loads_and_decides),
        cmocka_unit_test(a_shape_that_cannot_be_measured_is_refused),
        cmocka_unit_test(an_entry_overrides_the_table),
        cmocka_unit_test(one_provider_for_all),
        cmocka_unit_test(another_instruction_set_is_warned_about),
        cmocka_unit_test(an_entry_that_cannot_run_is_left_out),
        cmocka_unit_test(damaged_and_foreign_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
