/* Resuming with other settings, or from an earlier checkpoint than the newest: what cannot be is refused before a step is
 * made, and nothing that was saved is lost. */
#include <fcntl.h>
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

#include "base/text.h"
#include "data_support.h"
#include "fathom/fathom.h"
#include "runs.h"

static void test_other_meaning(void **state) {
    static const struct {
        const char *change;
        fth_status status;
        const char *part;
    } cases[] = {
        {"optimizer.dense={name: sgd}", FTH_E_CHECKPOINT, "another model or optimizer"},
        {"optimizer.sparse={name: adam}", FTH_E_CHECKPOINT, "optimizer slots"},
        {"optimizer.linear={name: ftrl}", FTH_E_CHECKPOINT, "optimizer slots"},
        {"embedding.dim=4", FTH_E_CONFIG, "embedding.dim: "},
        {"model.hidden=[16, 9]", FTH_E_CONFIG, "model.hidden: "},
        {"model.hidden=[16, 9]", FTH_E_CONFIG, "was trained with [16, 8]"},
        {"model.batch_norm=false", FTH_E_CONFIG, "model.batch_norm: "},
        {"model.activation=tanh", FTH_E_CONFIG, "model.activation: "},
        {"model={name: lr}", FTH_E_CONFIG, "model.name: "},
        {"features.numeric.0.standardise=none", FTH_E_CONFIG, "features.numeric.0.standardise: "},
        {"features.numeric.1.log1p=false", FTH_E_CONFIG, "was trained with true"},
        {"features.numeric.1.clip=[0, 5]", FTH_E_CONFIG, "was trained with []"},
        {"features.numeric=[{columns: [hours], log1p: true, standardise: running}]", FTH_E_CONFIG,
         "was trained with 2 items"},
        {"features.categorical.1.columns=[category, item]", FTH_E_CONFIG, "features.categorical.1.columns: "},
        {"features.categorical.0.buckets=100", FTH_E_CONFIG, "features.categorical.0.buckets: "},
        {"features.categorical.2.pooling=mean", FTH_E_CONFIG, "features.categorical.2.pooling: "},
    };
    static const char *const free_choices[] = {"model.dropout=0.5", "features.categorical.0.min_count=1",
                                               "features.missing=['?']", "embedding.init_scale=0.1"};
    struct run run = run_stopped(run_new_dir(), 5);
    char expected[17], got[17];
    fth_error err = {0};
    assert_int_equal(fth_inspect_digest(run.dir, expected, &err), FTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run.overrides[0] = cases[i].change;
        run_refused(&run, cases[i].status, cases[i].part);
    }
    assert_int_equal(fth_inspect_digest(run.dir, got, &err), FTH_OK);
    assert_string_equal(got, expected);
    for (size_t i = 0; i < sizeof free_choices / sizeof *free_choices; i++) {
        run.overrides[0] = free_choices[i];
        run.stop_after = 6 + i;
        run_resume_ok(&run);
    }
}

/* From an earlier checkpoint than the newest: in the same way as before the same ones follow; in another they would mix
 * with those that are there. */
static void test_earlier_otherwise(void **state) {
    char expected[17], path[400];
    struct run whole = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                        .overrides = {"checkpoint.every_steps=10", "checkpoint.keep=9", "data.holdout.by=none"}};
    run_train_ok(&whole);
    memcpy(expected, whole.digest, sizeof expected);
    snprintf(path, sizeof path, "%s/step-000000000020", whole.dir);
    static const char *const neutral[] = {"threads=1", "train.epochs=3", "checkpoint.keep=8"};
    for (int i = 0; i < 2; i++) {
        char dir[400];
        snprintf(dir, sizeof dir, "checkpoint.dir=%s", whole.dir);
        const char *overrides[] = {dir, i ? "optimizer.dense.lr=0.02" : neutral[0], neutral[1], neutral[2]};
        fth_session *session = NULL;
        fth_error err = {0};
        fth_training training;
        assert_int_equal(fth_session_open(path, overrides, 4, &session, &err), FTH_OK);
        fth_status status = fth_session_train(session, NULL, &training, &err);
        if (i) {
            assert_int_equal(status, FTH_E_CHECKPOINT);
            assert_int_equal(training.steps, 0);
            assert_non_null(strstr(err.message, "step-000000000045"));
            assert_non_null(strstr(err.message, "another optimizer.dense.lr"));
        } else {
            char got[17];
            assert_int_equal(status, FTH_OK);
            assert_int_equal(fth_session_digest(session, got, &err), FTH_OK);
            assert_string_equal(got, expected);
        }
        fth_session_destroy(session);
    }
}

/* The order of a shuffle block that was begun cannot change: examples would be used twice or never. */
static void test_other_order(void **state) {
    struct run run = run_stopped(run_new_dir(), 3); /* 300 examples: in the second block of 200 */
    run.overrides[0] = "data.shuffle=300";
    run_refused(&run, FTH_E_CONFIG, "data.shuffle 200");
    run.overrides[0] = "seed=8";
    run_refused(&run, FTH_E_CONFIG, "seed 7");
    run.overrides[0] = "optimizer.dense.lr=0.001"; /* anybody's free choice */
    run_resume_ok(&run);

    run = run_stopped(run_new_dir(), 2); /* between two blocks */
    run.overrides[0] = "data.shuffle=300";
    run_resume_ok(&run);
    assert_int_equal(run.training.lines_bad, 0);
}

/* What was learned before the first step is the checkpoint's: another setting of it would change nothing, or half. */
static void test_other_learning(void **state) {
    static const struct {
        const char *change, *part;
    } cases[] = {
        {"features.numeric.0.quantiles=5", "features.numeric.0.quantiles: "},
        {"features.numeric.0.quantiles=0", "was trained with 4"},
        {"features.categorical.0.vocabulary_size=30", "was trained with 40"},
        {"features.categorical.0.vocabulary_min_count=2", "features.categorical.0.vocabulary_min_count: "},
        {"features.categorical.1.vocabulary_file=other.txt", "features.categorical.1.vocabulary_file: "},
        {"features.categorical=[{columns: [side], vocabulary_size: 3}, {columns: [word], vocabulary_size: 40}]",
         "features.categorical.0.columns: "},
        {"features.learn_lines=0", "features.learn_lines: "},
    };
    char config[2000], words[300], data[300];
    struct fth_text text = {0};
    snprintf(words, sizeof words, "%s", temp_path("side.txt"));
    snprintf(data, sizeof data, "%s", temp_path("words.csv"));
    write_file(words, "s0\ns1\ns2\n", 9);
    fth_text_printf(&text, "label,x,word,side\n");
    for (int i = 0; i < 400; i++)
        fth_text_printf(&text, "%d,%d,w%d,s%d\n", i % 3 == 0, i % 50, i % 60, i % 5);
    write_file(data, text.data, text.length);
    fth_text_free(&text);
    snprintf(config, sizeof config,
             "data: {format: csv, label: label, train: '%s'}\n"
             "features:\n"
             "  learn_lines: 300\n"
             "  numeric: [{columns: [x], quantiles: 4}]\n"
             "  categorical: [{columns: [word], vocabulary_size: 40}, {columns: [side], vocabulary_file: '%s'}]\n"
             "embedding: {dim: 4}\n"
             "model: {name: fm}\n"
             "train: {batch_size: 50}\n",
             data, words);
    struct run run = {.config = config, .dir = run_new_dir(), .stop_after = 3};
    run_train_ok(&run);
    run.stop_after = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run.overrides[0] = cases[i].change;
        run_refused(&run, FTH_E_CONFIG, cases[i].part);
    }
    run.overrides[0] = "features.learn_lines=300"; /* what it is */
    assert_int_equal(remove(words), 0);            /* not read again */
    run_resume_ok(&run);
}

static char told[1000];

static void keep_replaced(void *ctx, int level, const char *line) {
    (void)ctx;
    if (level == 0 && strstr(line, "held another state"))
        snprintf(told, sizeof told, "%s", line);
}

/* Other tasks: fewer, or one of another name. */
static void test_other_tasks(void **state) {
    struct run run = {.config = run_config("mmoe", run_data(0)), .dir = run_new_dir(), .stop_after = 5};
    run_train_ok(&run);
    run.stop_after = 0;
    run.overrides[0] = "tasks=[{name: first, label: label}]";
    run_refused(&run, FTH_E_CHECKPOINT, "");
    run.overrides[0] = "tasks.1.name=other";
    run_refused(&run, FTH_E_CHECKPOINT, "other");
}

static int is_there(const char *dir, const char *name) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, R_OK) == 0;
}

static void set_modified(const char *path, time_t seconds) {
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The same from data that became another meanwhile: where its size and time say so it is refused; else nobody can know
 * beforehand, and what follows takes the places of what was there, which is kept. */
static void test_earlier_from_other_data(void **state) {
    size_t n = 0;
    char *text = read_whole(run_data(0), &n), data[300], path[400], dir[400], digest[17];
    snprintf(data, sizeof data, "%s", temp_path("mended.csv"));
    write_file(data, text, n);
    set_modified(data, 1000000000);
    struct run whole = {.config = run_config("wide_deep", data), .dir = run_new_dir(),
                        .overrides = {"checkpoint.every_steps=10", "checkpoint.keep=9", "data.holdout.by=none"}};
    run_train_ok(&whole);
    for (char *line = strchr(text, '\n'); line[1]; line = strchr(line + 1, '\n'))
        line[1] ^= 1; /* the label */
    write_file(data, text, n);
    free(text);
    snprintf(path, sizeof path, "%s/step-000000000020", whole.dir);
    snprintf(dir, sizeof dir, "checkpoint.dir=%s", whole.dir);
    fth_session *session = NULL;
    fth_error err = {0};
    const char *overrides[] = {dir};
    assert_int_equal(fth_session_open(path, overrides, 1, &session, &err), FTH_OK);
    set_modified(data, 1000000001);
    assert_int_equal(fth_session_train(session, NULL, NULL, &err), FTH_E_CHECKPOINT);
    assert_non_null(strstr(err.message, "files have changed"));
    assert_true(is_there(whole.dir, "step-000000000045"));
    set_modified(data, 1000000000);
    fth_log_to(keep_replaced, NULL);
    assert_int_equal(fth_session_train(session, NULL, NULL, &err), FTH_OK);
    fth_log_to(NULL, NULL);
    assert_int_equal(fth_session_digest(session, digest, &err), FTH_OK);
    assert_string_not_equal(digest, whole.digest);
    fth_session_destroy(session);
    char there[17];
    snprintf(path, sizeof path, "%s/step-000000000045", whole.dir);
    assert_int_equal(fth_inspect_digest(path, there, &err), FTH_OK);
    assert_string_equal(there, digest);
    snprintf(path, sizeof path, "%s/step-000000000045.replaced-1", whole.dir);
    assert_int_equal(fth_inspect_digest(path, there, &err), FTH_OK);
    assert_string_equal(there, whole.digest);
    assert_non_null(strstr(told, ".replaced-1"));
    assert_true(is_there(whole.dir, "step-000000000030.replaced-1"));
    assert_true(is_there(whole.dir, "step-000000000040"));
    assert_true(is_there(whole.dir, "step-000000000020"));
    assert_false(is_there(whole.dir, "step-000000000020.replaced-1"));
}

/* ---- another precision ---- */

static void keep_precision(void *ctx, int level, const char *line) {
    if (level == 0 && strncmp(line, "precision: ", 11) == 0)
        snprintf(ctx, 512, "%s", line);
}

/* Told when training goes on with another than was trained with, and only then. */
static void test_other_precision(void **state) {
    static const char *const precisions[] = {"precision=fp32", "precision=bf16"};
    struct run run = run_stopped(run_new_dir(), 3);
    for (int other = 0; other < 2; other++)
        for (int training = 0; training < 2; training++) {
            fth_session *session = NULL;
            fth_error err = {0};
            char line[512] = "";
            fth_log_to(keep_precision, line);
            assert_int_equal((training ? fth_session_open : fth_session_open_to_predict)(run.dir, &precisions[other], 1,
                                                                                         &session, &err),
                             FTH_OK);
            fth_log_to(NULL, NULL);
            fth_session_destroy(session);
            if (other && training)
                assert_non_null(strstr(line, "was trained with fp32, training goes on with bf16"));
            else
                assert_string_equal(line, "");
        }
}

/* ---- the rest of an epoch given up ---- */

static fth_session *opened(const char *path, const char *dir, const char *change) {
    char set[400];
    const char *overrides[] = {set, change};
    fth_session *session = NULL;
    fth_error err = {0};
    snprintf(set, sizeof set, "checkpoint.dir=%s", dir);
    if (fth_session_open(path, overrides, 2, &session, &err) != FTH_OK)
        fail_msg("%s", err.message);
    return session;
}

static void begin_within_training(void *ctx, uint64_t step, double loss) {
    fth_error err = {0};
    assert_int_equal(fth_session_next_epoch(ctx, &err), FTH_E_ARGUMENT);
}

static void test_next_epoch(void **state) {
    struct run whole = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                        .overrides = {"checkpoint.every_steps=1", "checkpoint.keep=99", "train.epochs=1"}};
    run_train_ok(&whole);
    uint64_t steps = whole.training.steps, examples = whole.training.examples;
    fth_training training;
    fth_error err = {0};
    char path[400], digest[17];
    assert_int_equal(fth_session_next_epoch(NULL, &err), FTH_E_ARGUMENT);
    /* Where an epoch begins nothing is given up. */
    fth_session *session = opened(whole.dir, whole.dir, "train.epochs=2");
    assert_int_equal(fth_session_next_epoch(session, &err), FTH_OK);
    assert_int_equal(fth_session_digest(session, digest, &err), FTH_OK);
    assert_string_equal(digest, whole.digest);
    fth_session_destroy(session);
    /* Within one its rest is; the checkpoints that come later in the same place are of another training. */
    snprintf(path, sizeof path, "%s/step-000000000003", whole.dir);
    session = opened(path, whole.dir, "train.epochs=2");
    assert_int_equal(fth_session_next_epoch(session, &err), FTH_OK);
    assert_int_equal(fth_session_train(session, NULL, &training, &err), FTH_E_CHECKPOINT);
    assert_non_null(strstr(err.message, "place in the data"));
    fth_session_destroy(session);
    session = opened(path, run_new_dir(), "train.epochs=2");
    assert_int_equal(fth_session_next_epoch(session, &err), FTH_OK);
    fth_callbacks callbacks = {.ctx = session, .loss = begin_within_training};
    assert_int_equal(fth_session_train(session, &callbacks, &training, &err), FTH_OK);
    assert_int_equal(training.steps, steps);
    assert_int_equal(training.examples, examples);
    assert_int_equal(training.epochs, 1);
    fth_session_destroy(session);
}

/* What was counted towards a stop is not counted in the epoch that is begun anew. */
static void test_next_epoch_behind_a_stop(void **state) {
    struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                      .overrides = {"train.eval_every=2", "train.early_stopping={metric: auc, patience: 2, min_delta: 1}"}};
    fth_training training;
    fth_error err = {0};
    run_train_ok(&run);
    assert_true(run.training.stopped_early);
    assert_int_equal(run.training.steps, 6);
    fth_session *session = opened(run.dir, run_new_dir(), "train.epochs=9");
    assert_int_equal(fth_session_next_epoch(session, &err), FTH_OK);
    assert_int_equal(fth_session_train(session, NULL, &training, &err), FTH_OK);
    assert_true(training.stopped_early);
    assert_int_equal(training.steps, 4);
    fth_session_destroy(session);
}

/* A save of what is there writes nothing, and a training of other settings is as refused as before it. */
static void test_saved_without_training(void **state) {
    struct run whole = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                        .overrides = {"checkpoint.every_steps=1", "checkpoint.keep=99", "train.epochs=1"}};
    run_train_ok(&whole);
    char path[400];
    fth_error err = {0};
    snprintf(path, sizeof path, "%s/step-000000000003", whole.dir);
    fth_session *session = opened(path, whole.dir, "optimizer.dense.lr=0.5");
    assert_int_equal(fth_session_train(session, NULL, NULL, &err), FTH_E_CHECKPOINT);
    assert_int_equal(fth_session_save(session, whole.dir, 0, &err), FTH_OK);
    assert_int_equal(fth_session_train(session, NULL, NULL, &err), FTH_E_CHECKPOINT);
    assert_non_null(strstr(err.message, "optimizer.dense.lr"));
    fth_session_destroy(session);
}

/* A stop is for the training files that it was decided on. */
static void test_stopped_on_other_files(void **state) {
    char set[400];
    struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = run_new_dir(),
                      .overrides = {"train.eval_every=2", "train.early_stopping={metric: auc, patience: 1, min_delta: 1}"}};
    run_train_ok(&run);
    assert_true(run.training.stopped_early);
    run_resume_ok(&run);
    assert_true(run.training.already_finished);
    FILE *from = fopen(run_data(0), "rb"), *to = fopen(temp_path("next-day.csv"), "wb");
    assert_non_null(from);
    assert_non_null(to);
    for (int c; (c = fgetc(from)) != EOF;)
        fputc(c, to);
    fclose(from);
    fclose(to);
    snprintf(set, sizeof set, "data.train=%s", temp_path("next-day.csv"));
    run.overrides[0] = set;
    run.overrides[1] = "train.epochs=2";
    run.overrides[2] = "train.eval_every=0";
    run_resume_ok(&run);
    assert_false(run.training.already_finished);
    assert_int_equal(run.training.epochs, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_meaning),     cmocka_unit_test(test_other_tasks),
        cmocka_unit_test(test_other_order),       cmocka_unit_test(test_other_learning),
        cmocka_unit_test(test_earlier_otherwise), cmocka_unit_test(test_earlier_from_other_data),
        cmocka_unit_test(test_other_precision),
        cmocka_unit_test(test_next_epoch),        cmocka_unit_test(test_stopped_on_other_files),
        cmocka_unit_test(test_saved_without_training), cmocka_unit_test(test_next_epoch_behind_a_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
