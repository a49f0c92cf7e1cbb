/* Census Income from its text files: examples/adult.yaml reaches the AUC that it promises, at several seeds, and the
 * files read without a malformed line. Skipped where ../shared/data/adult (or FATHOM_DATA/adult) is absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "fathom/fathom.h"

static char train_key[512], test_key[512];

static double train_and_test(const char *seed) {
    const char *overrides[] = {train_key, test_key, seed};
    fth_error err = {0};
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_training training;
    fth_evaluation evaluation = {0};
    fth_status status = fth_config_read("examples/adult.yaml", overrides, 3, &config, &err);
    if (status == FTH_OK)
        status = fth_session_create(config, FTH_FOR_ALL, &session, &err);
    if (status == FTH_OK)
        status = fth_session_train(session, NULL, &training, &err);
    if (status == FTH_OK)
        status = fth_session_evaluate(session, NULL, 0, &evaluation, &err);
    if (status != FTH_OK)
        fail_msg("%s: %s", seed, err.message);
    assert_int_equal(training.lines_bad, 0);
    assert_int_equal(evaluation.lines_bad, 0);
    assert_int_equal(evaluation.examples, 16281);
    printf("%s: test AUC %.4f\n", seed, evaluation.auc);
    fth_session_destroy(session);
    fth_config_free(config);
    return evaluation.auc;
}

static void reaches_its_auc_at_three_seeds(void **state) {
    assert_true(train_and_test("seed=42") >= 0.92);
    assert_true(train_and_test("seed=1") >= 0.92);
    assert_true(train_and_test("seed=2") >= 0.92);
}

int main(void) {
    const char *data = getenv("FATHOM_DATA");
    char path[256];
    snprintf(path, sizeof path, "%s/adult", data ? data : "../shared/data");
    snprintf(train_key, sizeof train_key, "data.train=%s/adult.data", path);
    snprintf(test_key, sizeof test_key, "data.test=%s/adult.test", path);
    if (access(train_key + sizeof "data.train=" - 1, R_OK) != 0) {
        printf("skipped: %s is not there\n", train_key + sizeof "data.train=" - 1);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(reaches_its_auc_at_three_seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
