/* Evaluations that are not made, as the held-out data cannot be read any more or the run is interrupted: what was trained
 * until then is saved, and a run that goes on from there makes them first, ends in the bits of one that never failed and
 * stops as early as that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "data_support.h"
#include "fathom/session.h"
#include "fathom/tools.h"
#include "runs.h"

struct loser {
    const char *file;
    uint64_t step; /* during which the file goes */
    fth_session *session;
};

static void on_loss(void *ctx, uint64_t step, double loss) {
    struct loser *loser = ctx;
    (void)loss;
    if (step != loser->step)
        return;
    assert_int_equal(unlink(loser->file), 0);
    fth_error err = {0};
    assert_int_equal(fth_session_train(loser->session, NULL, NULL, &err), FTH_E_ARGUMENT); /* within itself */
    assert_non_null(strstr(err.message, "callback"));
}

/* A run whose held-out data is a copy of the training data, in `held_out`. */
struct lost {
    char held_out[300], valid[400], dir[300], *text;
    size_t bytes;
    struct run run, whole; /* whole: never stopped */
};

static void begin(struct lost *lost, const char *const *overrides, size_t n) {
    lost->text = read_whole(run_data(0), &lost->bytes);
    snprintf(lost->held_out, sizeof lost->held_out, "%s", temp_path("held-out.csv"));
    write_file(lost->held_out, lost->text, lost->bytes);
    snprintf(lost->valid, sizeof lost->valid, "data.valid=%s", lost->held_out);
    snprintf(lost->dir, sizeof lost->dir, "%s", run_new_dir());
    lost->whole = lost->run = (struct run){.config = run_config("wide_deep", run_data(0)),
                                           .overrides = {"data.holdout.by=none", lost->valid}};
    for (size_t i = 0; i < n; i++)
        lost->whole.overrides[2 + i] = lost->run.overrides[2 + i] = overrides[i];
    run_train_ok(&lost->whole);
    lost->run.dir = lost->dir;
}

/* The run is saved at `step`; its evaluations and those of the run that goes on are those of the whole one. */
static void same_as_whole(struct lost *lost, uint64_t step, uint32_t before) {
    char path[400];
    snprintf(path, sizeof path, "%s/step-%012llu/manifest.json", lost->dir, (unsigned long long)step);
    if (access(path, R_OK) != 0)
        fail_msg("%s is not there", path);
    run_resume_ok(&lost->run);
    snprintf(path, sizeof path, "%s/step-%012llu", lost->dir, (unsigned long long)step + 1);
    assert_int_not_equal(access(path, R_OK), 0); /* nothing is due there */
    assert_int_equal(lost->run.n_evaluated + before, lost->whole.n_evaluated);
    for (uint32_t i = 0; i < lost->run.n_evaluated; i++)
        assert_int_equal(lost->run.evaluated[i], lost->whole.evaluated[before + i]);
    assert_int_equal(lost->run.training.stopped_early, lost->whole.training.stopped_early);
    assert_true(lost->run.training.evaluated);
    assert_true(lost->run.training.last.auc == lost->whole.training.last.auc);
    assert_string_equal(lost->run.digest, lost->whole.digest);
    char saved[17];
    fth_error err = {0};
    assert_int_equal(fth_inspect_digest(lost->dir, saved, &err), FTH_OK);
    assert_string_equal(saved, lost->whole.digest); /* also where nothing was trained any more */
    free(lost->text);
}

/* Trains with the overrides; the file is lost during step `gone`. The newest checkpoint must be of the step at which that
 * is seen, behind `before` evaluations. */
static void fails_at(const char *const *overrides, size_t n, uint64_t gone, uint64_t fails, uint32_t before) {
    struct lost lost;
    char checkpoint[400];
    begin(&lost, overrides, n);
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_error err = {0};
    const char *all[10] = {"data.holdout.by=none", lost.valid, checkpoint};
    snprintf(checkpoint, sizeof checkpoint, "checkpoint.dir=%s", lost.dir);
    for (size_t i = 0; i < n; i++)
        all[3 + i] = overrides[i];
    assert_int_equal(fth_config_parse("test", lost.run.config, strlen(lost.run.config), all, 3 + n, &config, &err),
                     FTH_OK);
    assert_int_equal(fth_session_create(config, FTH_FOR_ALL, &session, &err), FTH_OK);
    struct loser loser = {lost.held_out, gone, session};
    fth_callbacks callbacks = {.ctx = &loser, .loss = on_loss};
    assert_int_equal(fth_session_train(session, &callbacks, NULL, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "held-out.csv"));
    fth_session_destroy(session);
    fth_config_free(config);
    run_resume(&lost.run); /* still gone: fails at once, and what is saved stays */
    assert_int_equal(lost.run.status, FTH_E_IO);
    write_file(lost.held_out, lost.text, lost.bytes);
    same_as_whole(&lost, fails, before);
}

static void between_evaluations(void **state) {
    fails_at((const char *[]){"train.eval_every=6"}, 1, 8, 12, 1);
}

static void at_the_last_step_of_an_epoch(void **state) {
    fails_at((const char *[]){"train.eval_every=15"}, 1, 9, 15, 0);
}

static void after_an_epoch(void **state) {
    fails_at(NULL, 0, 20, 30, 1);
}

static void after_the_last_epoch(void **state) {
    fails_at(NULL, 0, 40, 45, 2);
}

static void behind_the_last_step(void **state) {
    fails_at((const char *[]){"train.max_steps=20"}, 1, 18, 20, 1);
}

/* Nothing is better by 1 than the first: the second evaluation, which fails, is the one that stops. */
static const char *const stops[] = {"train.early_stopping={metric: auc, patience: 1, min_delta: 1}", "train.eval_every=10"};

static void that_stops(void **state) {
    fails_at(stops, 2, 15, 20, 1);
}

/* A best one that was made up for is kept by the checkpoint that is there: the next step saves nothing. */
static void that_is_the_best(void **state) {
    static const char *const keeps[] = {"train.early_stopping={metric: auc, patience: 9}", "train.eval_every=10",
                                        "checkpoint.keep=100"};
    fails_at(keeps, 3, 15, 20, 1);
}

static void interrupted_at(const char *const *overrides, size_t n, uint64_t step, uint32_t before) {
    struct lost lost;
    begin(&lost, overrides, n);
    lost.run.stop_after = step;
    run_train_ok(&lost.run);
    assert_true(lost.run.training.interrupted);
    assert_int_equal(lost.run.n_evaluated, before);
    lost.run.stop_after = 0;
    same_as_whole(&lost, step, before);
}

static void interrupted(void **state) {
    interrupted_at((const char *[]){"train.eval_every=6"}, 1, 12, 1);
    interrupted_at((const char *[]){"train.max_steps=20"}, 1, 20, 1);
    interrupted_at(stops, 2, 20, 1);
}

/* With more to train the result's evaluation is of no use any more. */
static void result_that_is_not_the_end(void **state) {
    struct lost lost;
    begin(&lost, (const char *[]){"train.max_steps=20"}, 1);
    lost.run.stop_after = 20;
    run_train_ok(&lost.run);
    lost.run.stop_after = 0;
    lost.run.overrides[2] = "train.max_steps=0";
    run_resume_ok(&lost.run);
    assert_int_equal(lost.run.n_evaluated, 2);
    assert_int_equal(lost.run.evaluated[0], 30);
    free(lost.text);
}

/* Where the steps end with the data, and then may go on: that there is no more data is written down. */
static void at_the_datas_end(void **state) {
    struct lost lost;
    char saved[17];
    fth_error err = {0};
    begin(&lost, (const char *[]){"train.max_steps=0"}, 1);
    lost.run.overrides[2] = "train.max_steps=45";
    run_train_ok(&lost.run);
    assert_int_equal(lost.run.training.steps, lost.whole.training.steps);
    assert_int_equal(fth_inspect_digest(lost.dir, saved, &err), FTH_OK);
    assert_string_not_equal(saved, lost.whole.digest);
    lost.run.overrides[2] = "train.max_steps=0";
    run_resume_ok(&lost.run);
    assert_int_equal(lost.run.training.steps, 0);
    assert_int_equal(fth_inspect_digest(lost.dir, saved, &err), FTH_OK);
    assert_string_equal(saved, lost.whole.digest);
    free(lost.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_evaluations),  cmocka_unit_test(at_the_last_step_of_an_epoch),
        cmocka_unit_test(after_an_epoch),       cmocka_unit_test(after_the_last_epoch),
        cmocka_unit_test(behind_the_last_step), cmocka_unit_test(that_stops),
        cmocka_unit_test(interrupted),          cmocka_unit_test(result_that_is_not_the_end),
        cmocka_unit_test(at_the_datas_end),     cmocka_unit_test(that_is_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
