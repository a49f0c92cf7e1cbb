/* Sessions opened to evaluate and predict alone: the numbers of a session that can train, by less memory, whatever the
 * optimizers were; what needs optimizer slots is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data_support.h"
#include "fathom/fathom.h"
#include "runs.h"
#include "train/session_private.h"

struct both {
    fth_session *train, *predict;
};

static struct both open_both(const char *dir) {
    struct both both;
    OK(fth_session_open(dir, NULL, 0, &both.train, &err));
    OK(fth_session_open_to_predict(dir, NULL, 0, &both.predict, &err));
    return both;
}

static void close_both(struct both both) {
    fth_session_destroy(both.train);
    fth_session_destroy(both.predict);
}

/* less: of memory; the rows of one number are as long without slots. */
static void the_same_numbers(const char *model, const char *sparse, const char *linear, int less) {
    struct run run = {.config = run_config(model, run_data(0)), .dir = run_new_dir(), .overrides = {sparse, linear}};
    run_train_ok(&run);
    struct both both = open_both(run.dir);
    size_t n;
    uint64_t lines;
    char *text = read_whole(run_data(0), &n);
    double *of_train = malloc(RUN_LINES * sizeof *of_train), *of_predict = malloc(RUN_LINES * sizeof *of_predict);
    OK(fth_session_predict_text(both.train, text, n, of_train, RUN_LINES, &lines, &err));
    OK(fth_session_predict_text(both.predict, text, n, of_predict, RUN_LINES, &lines, &err));
    assert_int_equal(lines, RUN_LINES);
    assert_memory_equal(of_train, of_predict, RUN_LINES * sizeof *of_train);
    fth_evaluation train, predict;
    OK(fth_session_evaluate(both.train, NULL, 0, &train, &err));
    OK(fth_session_evaluate(both.predict, NULL, 0, &predict, &err));
    assert_true(train.auc == predict.auc && train.log_loss == predict.log_loss && train.examples == predict.examples);
    uint64_t bytes = fth_session_model_bytes(both.predict), all = fth_session_model_bytes(both.train);
    assert_true(less ? bytes < all : bytes == all);
    free(text);
    free(of_train);
    free(of_predict);
    close_both(both);
}

static void numbers_are_the_same(void **state) {
    (void)state;
    the_same_numbers("wide_deep", "optimizer.sparse.name=adagrad", "optimizer.linear.name=ftrl", 1);
    the_same_numbers("deepfm", "optimizer.sparse.name=adam", NULL, 1);
    the_same_numbers("din", "optimizer.sparse.name=rowwise_adagrad", NULL, 1);
    the_same_numbers("lr", "optimizer.sparse.name=ftrl", NULL, 0);
}

static void refused(fth_status status, const fth_error *err) {
    assert_int_equal(status, FTH_E_ARGUMENT);
    assert_non_null(strstr(err->message, "opened to evaluate and predict only"));
}

static void training_is_refused(void **state) {
    (void)state;
    struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir()};
    run_train_ok(&run);
    struct both both = open_both(run.dir);
    fth_error why = {0};
    char digest[17];
    refused(fth_session_train(both.predict, NULL, NULL, &why), &why);
    refused(fth_session_save(both.predict, run_new_dir(), 0, &why), &why);
    refused(fth_session_next_epoch(both.predict, &why), &why);
    refused(fth_session_digest(both.predict, digest, &why), &why);
    OK(fth_session_digest(both.train, digest, &err));
    assert_string_equal(digest, run.digest);
    close_both(both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_same),
        cmocka_unit_test(training_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
