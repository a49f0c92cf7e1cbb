/* Resuming where folders or data have changed: what cannot be gone on with is refused before a step is made, what can
 * ends in the same bits. Other settings: test_resume_settings.c. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/text.h"
#include "data_support.h"
#include "fathom/fathom.h"
#include "runs.h"

static void whole_run(char digest[17]) {
    struct run run = {.config = run_config("wide_deep", run_data(0))};
    run_train_ok(&run);
    memcpy(digest, run.digest, 17);
}

static void test_other_directories(void **state) {
    const char *mine = run_new_dir(), *others = run_new_dir(), *new = run_new_dir();
    char expected[17];
    whole_run(expected);
    struct run other = run_stopped(others, 4), run = run_stopped(mine, 5);
    run_train(&run); /* from the beginning, into a folder that is in use */
    assert_int_equal(run.status, FTH_E_CHECKPOINT);
    assert_non_null(strstr(run.error.message, "--resume"));
    char into[600], spelled[600];
    snprintf(into, sizeof into, "checkpoint.dir=%s", others);
    const char *overrides[] = {into};
    fth_session *session = NULL;
    assert_int_equal(fth_session_open(mine, overrides, 1, &session, &run.error), FTH_OK);
    assert_int_equal(fth_session_train(session, NULL, NULL, &run.error), FTH_E_CHECKPOINT);
    assert_non_null(strstr(run.error.message, others));
    fth_session_destroy(session);
    snprintf(into, sizeof into, "checkpoint.dir=%s", new); /* a new one is fine */
    assert_int_equal(fth_session_open(mine, overrides, 1, &session, &run.error), FTH_OK);
    assert_int_equal(fth_session_train(session, NULL, NULL, &run.error), FTH_OK);
    assert_int_equal(fth_session_digest(session, other.digest, &run.error), FTH_OK);
    assert_string_equal(other.digest, expected);
    fth_session_destroy(session);
    snprintf(spelled, sizeof spelled, "%s/../%s/", mine, strrchr(mine, '/') + 1); /* the same, said otherwise */
    run.dir = spelled;
    run_resume_ok(&run);
    assert_string_equal(run.digest, expected);
}

/* Another run saves into the folder. */
static void test_two_runs_at_once(void **state) {
    struct run run = run_stopped(run_new_dir(), 5);
    int other = open(run.dir, O_RDONLY);
    assert_int_equal(flock(other, LOCK_EX), 0);
    run_refused(&run, FTH_E_CHECKPOINT, "another run is saving into");
    run_train(&run); /* from the beginning: what is there so far is the other's, and may be another thing soon */
    assert_int_equal(run.status, FTH_E_CHECKPOINT);
    assert_non_null(strstr(run.error.message, "another run is saving into"));
    close(other);
    run_resume_ok(&run);
}

/* The newest checkpoint is damaged: resuming names the one before, which leads to the same end, past the
 * damaged one's step. */
static void test_newest_is_damaged(void **state) {
    const char *dir = run_new_dir();
    char expected[17], path[600];
    whole_run(expected);
    struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = dir, .stop_after = 16,
                      .overrides = {"checkpoint.every_steps=5", "checkpoint.keep=3"}};
    run_train_ok(&run);
    run.stop_after = 0;
    snprintf(path, sizeof path, "%s/step-000000000015/pack-0.safetensors", dir);
    write_file(path, "x", 1);
    snprintf(path, sizeof path, "%s/step-000000000016/manifest.json", dir);
    write_file(path, "{", 1);
    run_resume(&run);
    assert_int_equal(run.status, FTH_E_CHECKPOINT);
    assert_non_null(strstr(run.error.message, "step-000000000016"));
    assert_non_null(strstr(run.error.message, "step-000000000010 is whole"));
    fth_session *session = NULL;
    snprintf(path, sizeof path, "%s/step-000000000010", dir);
    const char *overrides[] = {"checkpoint.every_steps=1"};
    assert_int_equal(fth_session_open(path, overrides, 1, &session, &run.error), FTH_OK);
    if (fth_session_train(session, NULL, NULL, &run.error) != FTH_OK)
        fail_msg("%s", run.error.message);
    assert_int_equal(fth_session_digest(session, run.digest, &run.error), FTH_OK);
    fth_session_destroy(session);
    assert_string_equal(run.digest, expected);
}

/* What was learned of the features is another configuration's, though every check value is right: the file is named. */
static void test_other_features(void **state) {
    struct run run = run_stopped(run_new_dir(), 5);
    char path[600];
    snprintf(path, sizeof path, "%s/step-000000000005/manifest.json", run.dir);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    json_object_set_new(json_object_get(json, "features"), "vocabularies", json_pack("{s:[]}", "C1"));
    run_write_manifest(path, json);
    run_refused(&run, FTH_E_CHECKPOINT, "feature state: 1 vocabularies");
    run_refused(&run, FTH_E_CHECKPOINT, path);
}

/* Data that is gone or shorter is told by file. */
static void test_other_data(void **state) {
    size_t n = 0;
    char *text = read_whole(run_data(0), &n);
    char copy[300];
    snprintf(copy, sizeof copy, "%s", temp_path("copy.csv"));
    write_file(copy, text, n);
    struct run run = {.config = run_config("wide_deep", copy), .dir = run_new_dir(), .stop_after = 20};
    run_train_ok(&run);
    run.stop_after = 0;
    write_file(copy, text, n / 3);
    run_resume(&run);
    assert_int_equal(run.status, FTH_E_DATA);
    assert_non_null(strstr(run.error.message, "copy.csv"));
    assert_int_equal(remove(copy), 0);
    run_resume(&run);
    assert_true(run.status != FTH_OK);
    assert_non_null(strstr(run.error.message, "copy.csv"));
    free(text);
}

/* A line that cannot be read, far into the data: what was trained before it is saved, and once the line is mended
 * training ends in the bits of one that never met it. */
static void test_line_that_stops(void **state) {
    size_t n = 0;
    char *text = read_whole(run_data(0), &n), expected[17];
    char copy[300];
    snprintf(copy, sizeof copy, "%s", temp_path("stops.csv"));
    write_file(copy, text, n);
    struct run run = {.config = run_config("wide_deep", copy)};
    run_train_ok(&run);
    memcpy(expected, run.digest, sizeof expected);
    char *line = text; /* the label's text, in the last third: learning does not come so far */
    for (int i = 0; i < 1200; i++)
        line = strchr(line, '\n') + 1;
    char label = *line;
    *line = 'x';
    write_file(copy, text, n);
    run.dir = run_new_dir();
    run_train(&run);
    assert_int_equal(run.status, FTH_E_DATA);
    assert_non_null(strstr(run.error.message, "stops.csv:1201:1: "));
    assert_true(run.training.steps > 0);
    *line = label;
    write_file(copy, text, n);
    uint64_t before = run.training.steps, all;
    run_resume_ok(&run);
    all = before + run.training.steps;
    assert_true(all > 3 * before); /* it went on from there: the line is in the first of three epochs */
    assert_string_equal(run.digest, expected);
    free(text);
}

/* Stopped by train.max_steps at the last step of all: going on finds the end of the data, and nothing else. */
static void test_nothing_left(void **state) {
    char max[64], expected[17];
    struct run whole = {.config = run_config("wide_deep", run_data(0)), .overrides = {"train.epochs=1"}};
    run_train_ok(&whole);
    snprintf(max, sizeof max, "train.max_steps=%llu", (unsigned long long)whole.training.steps);
    struct run run = {.config = whole.config, .dir = run_new_dir(), .overrides = {"train.epochs=1", max}};
    run_train_ok(&run);
    assert_int_equal(run.training.steps, whole.training.steps);
    run.overrides[1] = "train.max_steps=0";
    for (int twice = 0; twice < 2; twice++) {
        run_resume_ok(&run);
        assert_int_equal(run.training.steps, 0);
        assert_false(run.training.interrupted);
        assert_string_equal(run.digest, whole.digest);
    }
    whole.overrides[0] = run.overrides[0] = "train.epochs=2";
    run_train_ok(&whole);
    memcpy(expected, whole.digest, sizeof expected);
    run_resume_ok(&run);
    assert_string_equal(run.digest, expected);
}

/* Rows without room: what was trained before is saved, and with more room training ends in the bits of one that had it
 * from the beginning. */
static void test_rows_without_room(void **state) {
    struct fth_text text = {0};
    char data[300], expected[17];
    snprintf(data, sizeof data, "%s", temp_path("many.csv"));
    fth_text_printf(&text, "label,age,hours,user,item,category,hist_item,hist_category,query\n");
    for (int i = 0; i < 9000; i++)
        fth_text_printf(&text, "%d,%d,%d,u%d,i%d,c%d,i%d,c%d,q%d\n", i % 3 == 0, i % 50, i % 80, i % 4000, i, i % 7, i / 2,
                        i % 5, i % 30);
    write_file(data, text.data, text.length);
    fth_text_free(&text);
    struct run run = {.config = run_config("wide_deep", data), .overrides = {"embedding.dim=32", "train.epochs=1"}};
    run_train_ok(&run);
    memcpy(expected, run.digest, sizeof expected);
    run.dir = run_new_dir();
    run.overrides[2] = "embedding.memory_limit=1MiB";
    run_train(&run);
    assert_int_equal(run.status, FTH_E_LIMIT);
    assert_non_null(strstr(run.error.message, "embedding.memory_limit"));
    uint64_t before = run.training.steps;
    assert_true(before > 3);
    run.overrides[2] = "embedding.memory_limit=1GiB";
    run_resume_ok(&run);
    assert_int_equal(run.training.steps, (9000 - 9000 / 10) / 100 - before + 1);
    assert_string_equal(run.digest, expected);
}

struct saves {
    const char *dir;
    uint64_t saving, saved; /* steps */
    int n;
};

static void before_a_save(void *ctx, uint64_t step) {
    struct saves *saves = ctx;
    char path[512];
    snprintf(path, sizeof path, "%s/step-%012llu", saves->dir, (unsigned long long)step);
    assert_int_equal(access(path, F_OK), -1);
    saves->saving = step;
}

static void after_a_save(void *ctx, uint64_t step, const char *path) {
    struct saves *saves = ctx;
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(saves->saving, step);
    saves->saved = step;
    saves->n++;
}

/* A kill may come at any moment: what goes with a checkpoint (lines of losses) is written before it is there. */
static void test_told_before_and_after(void **state) {
    struct saves saves = {.dir = run_new_dir()};
    char dir[512];
    const char *overrides[] = {"checkpoint.every_steps=10", dir};
    const char *yaml = run_config("wide_deep", run_data(0));
    fth_callbacks callbacks = {.ctx = &saves, .saving = before_a_save, .saved = after_a_save};
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_error err = {0};
    fth_training training;
    snprintf(dir, sizeof dir, "checkpoint.dir=%s", saves.dir);
    assert_int_equal(fth_config_parse("test", yaml, strlen(yaml), overrides, 2, &config, &err), FTH_OK);
    assert_int_equal(fth_session_create(config, FTH_FOR_ALL, &session, &err), FTH_OK);
    fth_config_free(config);
    assert_int_equal(fth_session_train(session, &callbacks, &training, &err), FTH_OK);
    assert_true(saves.n > 3);
    assert_int_equal(saves.saved, training.steps);
    fth_session_destroy(session);
}

static int warnings;

static void count_warnings(void *ctx, int level, const char *line) {
    (void)ctx;
    warnings += level == 0 && strstr(line, "data.holdout") != NULL;
}

/* Examples that were trained on are held out: that is said. */
static void test_other_held_out(void **state) {
    static const struct {
        const char *change;
        int warnings;
    } cases[] = {
        {"train.epochs=4", 0},
        {"seed=8", 1},
        {"data.holdout.fraction=0.2", 1},
        {"data.holdout.fraction=0.05", 0}, /* some of those that were held out before */
        {"data.holdout.by=tail", 1},
        {"data.holdout.by=none", 0},
        {"data.train=[other.csv]", 0},
    };
    struct run run = run_stopped(run_new_dir(), 5);
    fth_log_to(count_warnings, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fth_session *session = NULL;
        warnings = 0;
        assert_int_equal(fth_session_open(run.dir, &cases[i].change, 1, &session, &run.error), FTH_OK);
        if (warnings != cases[i].warnings)
            fail_msg("%s: %d warnings", cases[i].change, warnings);
        fth_session_destroy(session);
    }
    fth_log_to(NULL, NULL);
}

static char told[1000];

static void keep_warning(void *ctx, int level, const char *line) {
    (void)ctx;
    if (level == 0 && strstr(line, "data.train: file"))
        snprintf(told, sizeof told, "%s", line);
}

/* Goes on for a step (to: 0: to the end); whether it tells of data, and what. */
static void goes_on(struct run *run, uint64_t to, const char *part) {
    told[0] = 0;
    run->stop_after = to;
    run_resume_ok(run);
    if ((*part != 0) != (told[0] != 0) || !strstr(told, part))
        fail_msg("to step %u: '%s' without '%s'", (unsigned)to, told, part);
}

/* A file that is written to, or another one in its place, is told of within an epoch and not between two. What a run went
 * on behind stays known as it was when it was read. */
static void test_data_that_changed(void **state) {
    size_t n = 0;
    char *text = read_whole(run_data(0), &n), copy[300], both[700], other[700];
    snprintf(copy, sizeof copy, "%s", temp_path("grows.csv"));
    snprintf(both, sizeof both, "data.train=[%s, %s]", copy, run_data(0));
    snprintf(other, sizeof other, "data.train=[%s, %s]", run_data(1), run_data(0));
    write_file(copy, text, n);
    struct run run = {.config = run_config("wide_deep", copy), .dir = run_new_dir(), .stop_after = 20};
    run.overrides[0] = both;
    run_train_ok(&run); /* into the second file */
    fth_log_to(keep_warning, NULL);
    goes_on(&run, 21, "");
    write_file(copy, text, (size_t)(strchr(text + n / 2, '\n') + 1 - text));
    goes_on(&run, 22, "grows.csv, is not the file that was there");
    run.overrides[0] = other;
    goes_on(&run, 23, "is not the ");
    assert_non_null(strstr(told, "grows.csv that was there"));
    assert_non_null(strstr(told, "train.csv.gz"));
    goes_on(&run, 24, "");
    goes_on(&run, 0, "");
    struct run epoch = {.config = run_config("wide_deep", copy), .dir = run_new_dir()};
    epoch.overrides[0] = "train.epochs=1";
    run_train_ok(&epoch);
    write_file(copy, text, n);
    epoch.overrides[0] = "train.epochs=2";
    goes_on(&epoch, 0, "");
    fth_log_to(NULL, NULL);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_directories),     cmocka_unit_test(test_newest_is_damaged),
        cmocka_unit_test(test_other_data),            cmocka_unit_test(test_line_that_stops),
        cmocka_unit_test(test_nothing_left),          cmocka_unit_test(test_two_runs_at_once),
        cmocka_unit_test(test_told_before_and_after), cmocka_unit_test(test_rows_without_room),
        cmocka_unit_test(test_other_held_out),        cmocka_unit_test(test_data_that_changed),
        cmocka_unit_test(test_other_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
