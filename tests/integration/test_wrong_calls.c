/* The public functions called wrongly: an error each, never a crash. Only include/fathom is used. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fathom/fathom.h"

static const char yaml[] = "data: {format: csv, label: y, csv: {header: false, columns: [y, a, b]}}\n"
                           "features: {numeric: [{columns: a}], categorical: [{columns: b}]}\n"
                           "model: {name: lr}\n";

#define REFUSED(call)                                                          \
    do {                                                                       \
        fth_error err = {0};                                                   \
        assert_int_equal(call, FTH_E_ARGUMENT);                                \
        assert_int_equal(err.code, FTH_E_ARGUMENT);                            \
        assert_non_null(strstr(err.message, "NULL"));                          \
    } while (0)

static fth_config *a_config(void) {
    fth_config *config = NULL;
    assert_int_equal(fth_config_parse("memory", yaml, strlen(yaml), NULL, 0, &config, NULL), FTH_OK);
    return config;
}

static void configurations(void **state) {
    (void)state;
    fth_config *config = NULL;
    static const char *const holes[] = {"seed=1", NULL};
    REFUSED(fth_config_read(NULL, NULL, 0, &config, &err));
    REFUSED(fth_config_read("-", NULL, 0, NULL, &err));
    REFUSED(fth_config_read("-", NULL, 1, &config, &err));
    REFUSED(fth_config_parse(NULL, yaml, 1, NULL, 0, &config, &err));
    REFUSED(fth_config_parse("memory", NULL, 1, NULL, 0, &config, &err));
    REFUSED(fth_config_parse("memory", yaml, strlen(yaml), holes, 2, &config, &err));
    REFUSED(fth_config_parse("memory", yaml, strlen(yaml), NULL, 0, NULL, &err));
    assert_null(config);
    assert_null(fth_config_print(NULL));
    fth_config_free(NULL);
}

static void sessions(void **state) {
    (void)state;
    fth_config *config = a_config();
    fth_session *session = NULL, *other = NULL;
    fth_training training;
    fth_evaluation evaluation;
    uint64_t lines;
    double number;
    char digest[17], *text = NULL;
    static const char *const holes[] = {NULL}, *const names[] = {"-"};
    REFUSED(fth_session_create(NULL, FTH_FOR_SHAPE, &other, &err));
    REFUSED(fth_session_create(config, FTH_FOR_SHAPE, NULL, &err));
    REFUSED(fth_session_open(NULL, NULL, 0, &other, &err));
    REFUSED(fth_session_open(".", NULL, 0, NULL, &err));
    REFUSED(fth_session_open(".", holes, 1, &other, &err));
    REFUSED(fth_session_open_to_predict(NULL, NULL, 0, &other, &err));
    REFUSED(fth_session_open_to_predict(".", NULL, 0, NULL, &err));
    REFUSED(fth_session_open_to_predict(".", holes, 1, &other, &err));
    assert_int_equal(fth_session_create(config, FTH_FOR_SHAPE, &session, NULL), FTH_OK);
    REFUSED(fth_session_train(NULL, NULL, &training, &err));
    REFUSED(fth_session_evaluate(NULL, NULL, 0, &evaluation, &err));
    REFUSED(fth_session_evaluate(session, NULL, 1, &evaluation, &err));
    REFUSED(fth_session_evaluate(session, holes, 1, &evaluation, &err));
    REFUSED(fth_session_evaluate(session, NULL, 0, NULL, &err));
    REFUSED(fth_session_predict(NULL, "-", stdout, &lines, &err));
    REFUSED(fth_session_predict(session, NULL, stdout, &lines, &err));
    REFUSED(fth_session_predict(session, "-", NULL, &lines, &err));
    REFUSED(fth_session_predict(session, "-", stdout, NULL, &err));
    REFUSED(fth_session_predict_text(NULL, "", 0, &number, 1, &lines, &err));
    REFUSED(fth_session_predict_text(session, NULL, 0, &number, 1, &lines, &err));
    REFUSED(fth_session_predict_text(session, "", 0, NULL, 0, &lines, &err));
    REFUSED(fth_session_predict_text(session, "", 0, &number, 1, NULL, &err));
    REFUSED(fth_session_save(NULL, "x", 0, &err));
    REFUSED(fth_session_save(session, NULL, 0, &err));
    REFUSED(fth_session_digest(NULL, digest, &err));
    REFUSED(fth_session_digest(session, NULL, &err));
    REFUSED(fth_session_graph(NULL, 0, &text, &err));
    REFUSED(fth_session_graph(session, 0, NULL, &err));
    REFUSED(fth_session_features(NULL, &text, &err));
    REFUSED(fth_session_features(session, NULL, &err));
    REFUSED(fth_session_report(NULL, &text, &err));
    REFUSED(fth_session_report(session, NULL, &err));
    /* It is for its shape only. */
    assert_int_equal(fth_session_train(session, NULL, &training, NULL), FTH_E_ARGUMENT);
    assert_int_equal(fth_session_evaluate(session, names, 1, &evaluation, NULL), FTH_E_ARGUMENT);
    assert_int_equal(fth_session_predict(session, "-", stdout, &lines, NULL), FTH_E_ARGUMENT);
    assert_int_equal(fth_session_predict_text(session, "", 0, &number, 1, &lines, NULL), FTH_E_ARGUMENT);
    assert_int_equal(fth_session_save(session, "x", 0, NULL), FTH_E_ARGUMENT);
    assert_null(fth_session_config(NULL));
    assert_null(fth_session_checkpoint(NULL));
    assert_int_equal(fth_session_log_every(NULL), 0);
    assert_int_equal(fth_config_reads(NULL, NULL), 0);
    fth_session_interrupt(NULL);
    fth_session_destroy(NULL);
    fth_session_destroy(session);
    fth_config_free(config);
}

static fth_status swallow(void *ctx, const void *bytes, size_t n, fth_error *err) {
    (void)ctx, (void)bytes, (void)n, (void)err;
    return FTH_OK;
}

static void generator(void **state) {
    (void)state;
    fth_gen_options options;
    fth_gen_result result;
    fth_gen_sink sink = {swallow, NULL}, none = {0};
    assert_int_equal(fth_gen_preset(NULL, &options), 0);
    assert_int_equal(fth_gen_preset("csv", NULL), 0);
    assert_int_equal(fth_gen_preset("csv", &options), 1);
    options.examples = 1;
    REFUSED(fth_gen_run(NULL, &sink, NULL, &result, &err));
    REFUSED(fth_gen_run(&options, NULL, NULL, &result, &err));
    REFUSED(fth_gen_run(&options, &none, NULL, &result, &err));
    REFUSED(fth_gen_run(&options, &sink, &none, &result, &err));
    assert_int_equal(fth_gen_run(&options, &sink, NULL, NULL, NULL), FTH_OK);
    REFUSED(fth_gen_file(NULL, "x", NULL, &result, &err));
    REFUSED(fth_gen_file(&options, NULL, NULL, &result, &err));
    assert_int_equal(fth_gen_file(&options, "/dev/null", NULL, NULL, NULL), FTH_OK);
}

static void tools(void **state) {
    (void)state;
    fth_output output;
    REFUSED(fth_check_output(NULL, &err));
    REFUSED(fth_output_open("/dev/null", NULL, &err));
    REFUSED(fth_output_close(NULL, 1, &err));
    assert_int_equal(fth_output_open(NULL, &output, NULL), FTH_OK);
    assert_int_equal(fth_output_close(&output, 0, NULL), FTH_OK);
    fth_config *config = a_config();
    fth_bench_options options = {.batches = 1, .seconds = NAN};
    char *text = NULL, digest[17];
    static const char *const names[] = {"abc", NULL};
    REFUSED(fth_info(NULL, &err));
    REFUSED(fth_inspect_checkpoint(NULL, 0, &text, &err));
    REFUSED(fth_inspect_checkpoint(".", 0, NULL, &err));
    REFUSED(fth_inspect_digest(NULL, digest, &err));
    REFUSED(fth_inspect_digest(".", NULL, &err));
    REFUSED(fth_inspect_data(NULL, names, 1, &text, &err));
    REFUSED(fth_inspect_data(config, names, 2, &text, &err));
    REFUSED(fth_inspect_data(config, names, 1, NULL, &err));
    REFUSED(fth_bench(NULL, &options, &text, NULL, &err));
    REFUSED(fth_bench(config, NULL, &text, NULL, &err));
    REFUSED(fth_bench(config, &options, NULL, NULL, &err));
    REFUSED(fth_bench_features(1, NULL, &err));
    REFUSED(fth_tune(NULL, NULL, NULL, NULL, &err));
    assert_int_equal(fth_bench(config, &options, &text, NULL, NULL), FTH_E_ARGUMENT);
    assert_int_equal(fth_bench_features(0, &text, NULL), FTH_E_ARGUMENT);
    assert_int_equal(fth_bench_features(NAN, &text, NULL), FTH_E_ARGUMENT);
    assert_null(fth_suggest(NULL, names, 1));
    assert_null(fth_suggest("abd", names, 2));
    assert_string_equal(fth_suggest("abd", names, 1), "abc");
    fth_config_free(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations),
        cmocka_unit_test(sessions),
        cmocka_unit_test(generator),
        cmocka_unit_test(tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
