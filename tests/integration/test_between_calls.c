/* Calls of the public API that meet: saves into a directory that a training saves into, that moves meanwhile, and into others,
 * requests to stop that come early, a training called again after its last save failed, reports and evaluations from
 * callbacks. */
#include <dirent.h>
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

/* ---- what a report says ---- */

struct reported {
    double sum, last; /* of the losses since the last report; the mean that it told */
    uint64_t steps, reports;
};

static void note_loss(void *ctx, uint64_t step, double loss) {
    struct reported *reported = ctx;
    reported->sum += loss;
    reported->steps++;
}

static void check_progress(void *ctx, const fth_progress *progress) {
    struct reported *reported = ctx;
    if (!reported->steps)
        return;
    reported->last = reported->sum / (double)reported->steps;
    assert_true(fabs(progress->loss - reported->last) < 1e-12);
    reported->sum = 0;
    reported->steps = 0;
    reported->reports++;
}

/* One at each epoch's end, at least. */
static void a_report_is_of_the_steps_since_the_last(void **state) {
    const char *text = run_config("lr", run_data(0)), *overrides[] = {"train.epochs=3"};
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_training training;
    struct reported reported = {0};
    fth_callbacks callbacks = {.ctx = &reported, .loss = note_loss, .progress = check_progress};
    OK(fth_config_parse("test", text, strlen(text), overrides, 1, &config, &err));
    OK(fth_session_create(config, FTH_FOR_ALL, &session, &err));
    OK(fth_session_train(session, &callbacks, &training, &err));
    assert_true(reported.reports >= 3 && fabs(training.final_loss - reported.last) < 1e-12);
    fth_session_destroy(session);
    fth_config_free(config);
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

/* ---- copies, into another directory ---- */

static void stop_early(void *ctx, uint64_t step, double loss) {
    if (step == 3)
        fth_session_interrupt(ctx);
}

/* A copy is what fth_session_checkpoint names, and nothing that training goes on from or takes for its own. */
static void a_copy_changes_nothing(void **state) {
    const char *dir = run_new_dir(), *copies = run_new_dir();
    fth_session *session = session_of(dir, 0);
    fth_callbacks callbacks = {.ctx = session, .loss = stop_early};
    fth_training training;
    char newest[512], digest[17], saved[17];
    OK(fth_session_train(session, &callbacks, &training, &err));
    assert_true(training.interrupted);
    OK(fth_session_save(session, copies, 0, &err));
    snprintf(newest, sizeof newest, "%s/step-000000000003", copies);
    assert_string_equal(fth_session_checkpoint(session), newest);
    OK(fth_session_train(session, NULL, &training, &err)); /* dir is not taken for another run's */
    snprintf(newest, sizeof newest, "%s/step-%012llu", dir, 3 + (unsigned long long)training.steps);
    assert_string_equal(fth_session_checkpoint(session), newest);
    OK(fth_session_digest(session, digest, &err));
    OK(fth_inspect_digest(newest, saved, &err));
    assert_string_equal(digest, saved);
    fth_session_destroy(session);
}

struct exporter {
    fth_session *session;
    const char *copies;
};

static void export_copy(void *ctx, uint64_t step, double loss) {
    const struct exporter *exporter = ctx;
    OK(fth_session_save(exporter->session, exporter->copies, 0, &err));
}

/* Copies from callbacks, the last one of the last step: it is saved all the same. */
static void a_copy_is_not_the_last_save(void **state) {
    const char *dir = run_new_dir();
    struct exporter exporter = {session_of(dir, 0), run_new_dir()};
    fth_callbacks callbacks = {.ctx = &exporter, .loss = export_copy};
    fth_training training;
    char last[512];
    struct stat there;
    OK(fth_session_train(exporter.session, &callbacks, &training, &err));
    snprintf(last, sizeof last, "%s/step-%012llu", dir, (unsigned long long)training.steps);
    assert_int_equal(stat(last, &there), 0);
    assert_string_equal(fth_session_checkpoint(exporter.session), last);
    fth_session_destroy(exporter.session);
}

/* Of this folder and what is in it: the reader opens and closes files of its own meanwhile. */
static uint32_t open_files(const char *folder) {
    uint32_t n = 0;
    DIR *files = opendir("/proc/self/fd");
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files));) {
        char path[300], target[600];
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0)
            continue;
        target[length] = 0;
        n += strstr(target, folder) != NULL;
    }
    closedir(files);
    return n;
}

static void save_in_vain(void *ctx, uint64_t step, double loss) {
    const struct exporter *exporter = ctx;
    fth_error why = {0};
    uint32_t before = open_files(exporter->copies);
    for (int i = 0; i < 5; i++)
        assert_int_equal(fth_session_save(exporter->session, exporter->copies, 0, &why), FTH_E_CHECKPOINT);
    assert_true(before > 0); /* the training's lock */
    assert_int_equal(open_files(exporter->copies), before);
}

static void refused_saves_leave_no_file_open(void **state) {
    const char *dir = run_new_dir();
    fth_session *session = session_of(dir, 0);
    struct exporter other = {session_of("", 0), dir};
    fth_callbacks callbacks = {.ctx = &other, .loss = save_in_vain};
    OK(fth_session_train(session, &callbacks, NULL, &err));
    fth_session_destroy(session);
    fth_session_destroy(other.session);
}

/* ---- reports ---- */

/* No part is more than the whole, whenever it is asked for. */
static void look_at_report(void *ctx, uint64_t step, const char *path) {
    char *report = NULL;
    OK(fth_session_report(ctx, &report, &err));
    double seconds, share;
    uint32_t lines = 0;
    for (char *line = strtok(report, "\n"); line; line = strtok(NULL, "\n")) {
        char *number = strlen(line) > 36 ? line + 36 : line;
        if (sscanf(number, "%lf s %lf %%", &seconds, &share) == 2) {
            lines++;
            assert_true(share >= 0 && share <= 100.01);
        }
        if (strstr(line, "examples/s"))
            assert_true(atof(line) > 0);
    }
    assert_int_equal(lines, 9);
    free(report);
}

static void reports_within_a_training(void **state) {
    fth_session *session = session_of(run_new_dir(), 1);
    fth_callbacks callbacks = {.ctx = session, .saved = look_at_report};
    OK(fth_session_train(session, &callbacks, NULL, &err));
    fth_session_destroy(session);
}

/* ---- the best evaluation ---- */

static fth_training trained(const char *from, const char *dir, const char *epochs) {
    char set[512];
    const char *text = run_config("lr", run_data(0)), *overrides[5];
    size_t n = 0;
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_training training;
    overrides[n++] = epochs;
    if (from) {
        OK(fth_session_open(from, overrides, n, &session, &err));
    } else {
        snprintf(set, sizeof set, "checkpoint.dir=%s", dir);
        overrides[n++] = set;
        overrides[n++] = "train.eval_every=3";
        overrides[n++] = "train.early_stopping={metric: auc, patience: 1000, min_delta: 1}"; /* none is better than the first */
        OK(fth_config_parse("test", text, strlen(text), overrides, n, &config, &err));
        OK(fth_session_create(config, FTH_FOR_ALL, &session, &err));
        fth_config_free(config);
    }
    OK(fth_session_train(session, NULL, &training, &err));
    fth_session_destroy(session);
    assert_true(training.evaluated);
    assert_int_equal(training.best_step, 3);
    return training;
}

/* Of one before the session was opened nothing is known but its step. */
static void the_best_evaluation_is_of_its_step(void **state) {
    const char *dir = run_new_dir();
    fth_training first = trained(NULL, dir, "train.epochs=1"), second = trained(dir, dir, "train.epochs=2");
    assert_true(first.best.auc > 0 && first.best.examples > 0);
    assert_true(isnan(second.best.auc) && isnan(second.best.log_loss) && second.best.examples == 0);
    assert_true(second.last.auc > 0);
}

/* ---- held-out files ---- */

static void count_line(void *ctx, int level, const char *line) {
    *(int *)ctx += strstr(line, "data.valid: its files are not those of the evaluation before") != NULL;
}

/* Behind the first evaluation. */
static void write_more(void *ctx, uint64_t step, const fth_evaluation *evaluation, int best) {
    const char *file = ctx;
    if (step != 3)
        return;
    FILE *out = fopen(file, "a");
    assert_non_null(out);
    fputs("1,1,1,u1,i1,c1,,,q1\n", out);
    fclose(out);
}

/* A held-out file that is written to between two evaluations is told of once. */
static void held_out_files_that_change(void **state) {
    char set[600], file[560], line[4096];
    const char *text = run_config("lr", run_data(0));
    const char *overrides[] = {"train.epochs=1", "train.eval_every=3", "data.holdout={by: none}", set};
    int told = 0;
    snprintf(file, sizeof file, "%s.csv", run_new_dir());
    snprintf(set, sizeof set, "data.valid=%s", file);
    FILE *from = fopen(run_data(0), "r"), *to = fopen(file, "w");
    for (int i = 0; i < 100 && fgets(line, sizeof line, from); i++)
        fputs(line, to);
    fclose(from);
    fclose(to);
    for (int changed = 0; changed < 2; changed++) {
        fth_config *config = NULL;
        fth_session *session = NULL;
        fth_callbacks callbacks = {.ctx = file, .evaluated = changed ? write_more : NULL};
        OK(fth_config_parse("test", text, strlen(text), overrides, 4, &config, &err));
        OK(fth_session_create(config, FTH_FOR_ALL, &session, &err));
        fth_log_to(count_line, &told);
        OK(fth_session_train(session, &callbacks, NULL, &err));
        fth_log_to(NULL, NULL);
        assert_int_equal(told, changed);
        fth_session_destroy(session);
        fth_config_free(config);
    }
}

/* ---- requests to stop ---- */

static void stop_at_3(void *ctx, uint64_t step, double loss) {
    if (step == 3)
        fth_session_interrupt(ctx);
}

/* Each call tells of its own steps and examples. */
static void a_stopped_training_goes_on(void **state) {
    fth_session *whole = session_of("", 0), *session = session_of("", 0);
    fth_callbacks callbacks = {.ctx = session, .loss = stop_at_3};
    fth_training all, first, second;
    OK(fth_session_train(whole, NULL, &all, &err));
    OK(fth_session_train(session, &callbacks, &first, &err));
    OK(fth_session_train(session, NULL, &second, &err));
    assert_true(first.interrupted && first.steps == 3 && first.examples > 0);
    assert_int_equal(first.steps + second.steps, all.steps);
    assert_int_equal(first.examples + second.examples, all.examples);
    fth_session_destroy(whole);
    fth_session_destroy(session);
}

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
    fth_session_interrupt(session); /* of calls that have nothing to do, too */
    OK(fth_session_train(session, NULL, &training, &err));
    assert_true(training.already_finished);
    OK(fth_session_evaluate(session, &file, 1, &evaluation, &err));
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

/* A stream of the caller's that is full may say nothing of why. */
static void a_full_stream_is_told_of(void **state) {
    fth_session *session = session_of("", 0);
    char room[60];
    uint64_t lines;
    fth_error why = {0};
    FILE *out = fmemopen(room, sizeof room, "w");
    assert_int_equal(fth_session_predict(session, run_data(0), out, &lines, &why), FTH_E_IO);
    assert_null(strstr(why.message, "Success"));
    fclose(out);
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

/* The directory goes while it is trained into: it is made and locked anew. */
struct moved {
    const char *paths[2], *theirs; /* theirs: comes in its place, or NULL */
    fth_session *other;
    uint32_t saves, refused;
};

static void move_directory(void *ctx, uint64_t step, double loss) {
    struct moved *moved = ctx;
    if (step == 5)
        assert_int_equal(rename(moved->paths[0], moved->paths[1]), 0);
    if (step == 5 && moved->theirs)
        assert_int_equal(rename(moved->theirs, moved->paths[0]), 0);
}

static void save_there(void *ctx, uint64_t step, const char *path) {
    struct moved *moved = ctx;
    fth_error why = {0};
    moved->saves++;
    moved->refused += fth_session_save(moved->other, moved->paths[0], 0, &why) == FTH_E_CHECKPOINT;
}

static void count_moved(void *ctx, int level, const char *line) {
    *(int *)ctx += strstr(line, "was moved, removed or replaced while training") != NULL;
}

/* Another run's directory comes in its place: its checkpoints are not taken for older ones of this run, which a save removes. */
static void another_directory_is_left_alone(void **state) {
    struct moved moved = {.paths = {run_new_dir(), run_new_dir()}};
    const char *theirs = run_new_dir();
    struct run run = run_stopped(theirs, 2);
    fth_session *session = session_of(moved.paths[0], 1);
    fth_callbacks callbacks = {.ctx = &moved, .loss = move_directory};
    fth_error why = {0};
    char digest[17];
    moved.theirs = theirs;
    assert_int_equal(fth_session_train(session, &callbacks, NULL, &why), FTH_E_CHECKPOINT);
    assert_non_null(strstr(why.message, "already holds checkpoints"));
    OK(fth_inspect_digest(moved.paths[0], digest, &err));
    assert_string_equal(digest, run.digest);
    fth_session_destroy(session);
}

static void a_directory_that_moves_is_locked_anew(void **state) {
    struct moved moved = {.paths = {run_new_dir(), run_new_dir()}, .other = session_of("", 0)};
    fth_session *session = session_of(moved.paths[0], 1);
    fth_callbacks callbacks = {.ctx = &moved, .loss = move_directory, .saved = save_there};
    int warned = 0;
    fth_log_to(count_moved, &warned);
    OK(fth_session_train(session, &callbacks, NULL, &err));
    fth_log_to(NULL, NULL);
    assert_int_equal(warned, 1);
    assert_true(moved.saves > 2);
    assert_int_equal(moved.refused, moved.saves);
    fth_session_destroy(session);
    fth_session_destroy(moved.other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_of_the_steps_since_the_last),
        cmocka_unit_test(others_do_not_save_where_a_training_does),
        cmocka_unit_test(step_0_goes_like_others),
        cmocka_unit_test(a_copy_changes_nothing),
        cmocka_unit_test(a_copy_is_not_the_last_save),
        cmocka_unit_test(refused_saves_leave_no_file_open),
        cmocka_unit_test(reports_within_a_training),
        cmocka_unit_test(the_best_evaluation_is_of_its_step),
        cmocka_unit_test(held_out_files_that_change),
        cmocka_unit_test(a_request_stops_one_call),
        cmocka_unit_test(a_stopped_training_goes_on),
        cmocka_unit_test(a_request_within_a_training_is_the_trainings),
        cmocka_unit_test(a_full_stream_is_told_of),
        cmocka_unit_test(the_last_save_is_made_up),
        cmocka_unit_test(a_directory_that_moves_is_locked_anew),
        cmocka_unit_test(another_directory_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
