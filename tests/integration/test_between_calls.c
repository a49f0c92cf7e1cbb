/* Calls of the public API that meet: saves into a directory that a training saves into, requests to stop that come early,
 * a training called again after its last save failed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fathom/fathom.h"
#include "data_support.h"
#include "runs.h"

#define OK(call)                          \
    do {                                  \
        fth_error err = {0};              \
        if ((call) != FTH_OK)             \
            fail_msg("%s", err.message);  \
    } while (0)

/* That saves every four steps (often), or in the end. */
static fth_session *session_of(const char *dir, int often) {
    char set[512];
    const char *text = run_config("lr", run_data(0));
    const char *overrides[] = {"train.epochs=1", often ? "checkpoint.every_steps=4" : "checkpoint.every_steps=0", set};
    fth_config *config = NULL;
    fth_session *session = NULL;
    snprintf(set, sizeof set, "checkpoint.dir=%s", dir);
    OK(fth_config_parse("test", text, strlen(text), overrides, 3, &config, &err));
    OK(fth_session_create(config, FTH_FOR_ALL, &session, &err));
    fth_config_free(config);
    return session;
}

/* ---- saves into one directory ---- */

struct savers {
    const char *dir;
    fth_session *own, *other;
    uint32_t refused;
};

static void save_into(void *ctx, uint64_t step, double loss) {
    struct savers *savers = ctx;
    fth_error why = {0};
    assert_int_equal(fth_session_save(savers->other, savers->dir, 0, &why), FTH_E_CHECKPOINT);
    assert_non_null(strstr(why.message, "another run is saving"));
    savers->refused++;
    if (step == 2)
        OK(fth_session_save(savers->own, savers->dir, 0, &err)); /* the training's session itself may */
}

/* The last one, too, which a checkpoint of the training's own would follow. */
static void save_own(void *ctx, uint64_t step, const fth_evaluation *evaluation, int best) {
    struct savers *savers = ctx;
    OK(fth_session_save(savers->own, savers->dir, 0, &err));
}

static void others_do_not_save_where_a_training_does(void **state) {
    const char *dir = run_new_dir();
    struct savers savers = {.dir = dir, .own = session_of(dir, 1), .other = session_of("", 0)};
    fth_callbacks callbacks = {.ctx = &savers, .loss = save_into, .evaluated = save_own};
    fth_training training;
    char last[512], aside[600], digest[17], saved[17];
    struct stat there;
    OK(fth_session_train(savers.own, &callbacks, &training, &err));
    assert_int_equal(savers.refused, training.steps);
    OK(fth_session_digest(savers.own, digest, &err));
    snprintf(last, sizeof last, "%s/step-%012llu", dir, (unsigned long long)training.steps);
    OK(fth_inspect_digest(last, saved, &err));
    assert_string_equal(digest, saved);
    snprintf(aside, sizeof aside, "%s.replaced-1", last);
    assert_int_not_equal(stat(aside, &there), 0);
    OK(fth_session_save(savers.other, dir, 0, &err)); /* it has ended */
    fth_error why = {0};
    assert_int_equal(fth_session_save(savers.other, dir, -1, &why), FTH_E_ARGUMENT);
    fth_session_destroy(savers.own);
    fth_session_destroy(savers.other);
}

/* A checkpoint of step 0 is one like others. */
static void step_0_goes_like_others(void **state) {
    char path[512];
    struct stat there;
    const char *dir = run_new_dir();
    fth_session *session = session_of("", 0);
    OK(fth_session_save(session, dir, 1, &err));
    snprintf(path, sizeof path, "%s/step-000000000000", dir);
    assert_int_equal(stat(path, &there), 0);
    OK(fth_session_train(session, NULL, NULL, &err));
    OK(fth_session_save(session, dir, 1, &err));
    assert_int_not_equal(stat(path, &there), 0);
    fth_session_destroy(session);
}

/* ---- requests to stop ---- */

static void a_request_stops_one_call(void **state) {
    fth_session *session = session_of("", 0);
    fth_evaluation evaluation;
    fth_error why = {0};
    uint64_t lines = 99;
    const char *file = run_data(0);
    FILE *out = tmpfile();
    fth_session_interrupt(session);
    assert_int_equal(fth_session_evaluate(session, &file, 1, &evaluation, &why), FTH_E_INTERRUPTED);
    assert_non_null(strstr(why.message, "stopped"));
    OK(fth_session_evaluate(session, &file, 1, &evaluation, &err));
    fth_session_interrupt(session);
    assert_int_equal(fth_session_predict(session, file, out, &lines, &why), FTH_E_INTERRUPTED);
    assert_int_equal(lines, 0);
    OK(fth_session_predict(session, file, out, &lines, &err));
    assert_int_equal(lines, RUN_LINES);
    fth_training training;
    OK(fth_session_train(session, NULL, &training, &err));
    assert_false(training.interrupted);
    fclose(out);
    fth_session_destroy(session);
}

/* Within a training it is the training that ends, whatever its callback was about. */
static void evaluate_and_stop(void *ctx, uint64_t step, double loss) {
    fth_evaluation evaluation;
    fth_error why = {0};
    const char *file = run_data(0);
    fth_session_interrupt(ctx);
    assert_int_equal(fth_session_evaluate(ctx, &file, 1, &evaluation, &why), FTH_E_INTERRUPTED);
}

static void a_request_within_a_training_is_the_trainings(void **state) {
    fth_session *session = session_of("", 0);
    fth_callbacks callbacks = {.ctx = session, .loss = evaluate_and_stop};
    fth_training training;
    OK(fth_session_train(session, &callbacks, &training, &err));
    assert_true(training.interrupted);
    assert_int_equal(training.steps, 1);
    fth_session_destroy(session);
}

/* ---- a save that fails ---- */

/* A file stands where the directory was. */
static void lose_directory(void *ctx, uint64_t step, double loss) {
    const char *const *paths = ctx;
    if (step == 1) {
        assert_int_equal(rename(paths[0], paths[1]), 0);
        write_file(paths[0], "", 0);
    }
}

static void the_last_save_is_made_up(void **state) {
    const char *paths[2] = {run_new_dir(), run_new_dir()};
    fth_session *session = session_of(paths[0], 0);
    fth_callbacks callbacks = {.ctx = paths, .loss = lose_directory};
    fth_training training;
    fth_error why = {0};
    char digest[17], saved[17];
    assert_int_equal(fth_session_train(session, &callbacks, &training, &why), FTH_E_IO);
    assert_true(training.steps > 1 && training.final_loss > 0);
    assert_null(fth_session_checkpoint(session));
    assert_int_equal(unlink(paths[0]), 0);
    OK(fth_session_train(session, NULL, &training, &err));
    assert_false(training.already_finished);
    assert_int_equal(training.steps, 0);
    OK(fth_session_digest(session, digest, &err));
    assert_non_null(fth_session_checkpoint(session));
    OK(fth_inspect_digest(fth_session_checkpoint(session), saved, &err));
    assert_string_equal(digest, saved);
    OK(fth_session_train(session, NULL, &training, &err));
    assert_true(training.already_finished);
    fth_session_destroy(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_do_not_save_where_a_training_does),
        cmocka_unit_test(step_0_goes_like_others),
        cmocka_unit_test(a_request_stops_one_call),
        cmocka_unit_test(a_request_within_a_training_is_the_trainings),
        cmocka_unit_test(the_last_save_is_made_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
