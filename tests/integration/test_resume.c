/* Resuming where something has changed: what cannot be gone on with is refused before a step is made, what can
 * ends in the same bits. */
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

static struct run stopped(const char *dir, uint64_t after) {
    struct run run = {.config = run_config("wide_deep", run_data(0)), .dir = dir, .stop_after = after};
    run_train_ok(&run);
    assert_true(run.training.interrupted);
    run.stop_after = 0;
    return run;
}

static void whole_run(char digest[17]) {
    struct run run = {.config = run_config("wide_deep", run_data(0))};
    run_train_ok(&run);
    memcpy(digest, run.digest, 17);
}

static void refused(struct run *run, fth_status status, const char *part) {
    run_resume(run);
    if (run->status != status || !strstr(run->error.message, part))
        fail_msg("status %d, '%s' without '%s'", run->status, run->error.message, part);
    assert_int_equal(run->training.steps, 0);
}

static void test_other_meaning(void **state) {
    static const struct {
        const char *change;
        fth_status status;
        const char *part;
    } cases[] = {
        {"optimizer.dense={name: sgd}", FTH_E_CHECKPOINT, "another model or optimizer"},
        {"optimizer.sparse={name: adam}", FTH_E_CHECKPOINT, "optimizer slots"},
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
    struct run run = stopped(run_new_dir(), 5);
    char expected[17], got[17];
    fth_error err = {0};
    assert_int_equal(fth_inspect_digest(run.dir, expected, &err), FTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run.overrides[0] = cases[i].change;
        refused(&run, cases[i].status, cases[i].part);
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
    struct run run = stopped(run_new_dir(), 3); /* 300 examples: in the second block of 200 */
    run.overrides[0] = "data.shuffle=300";
    refused(&run, FTH_E_CONFIG, "data.shuffle 200");
    run.overrides[0] = "seed=8";
    refused(&run, FTH_E_CONFIG, "seed 7");
    run.overrides[0] = "optimizer.dense.lr=0.001"; /* anybody's free choice */
    run_resume_ok(&run);

    run = stopped(run_new_dir(), 2); /* between two blocks */
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
        refused(&run, FTH_E_CONFIG, cases[i].part);
    }
    run.overrides[0] = "features.learn_lines=300"; /* what it is */
    assert_int_equal(remove(words), 0);            /* not read again */
    run_resume_ok(&run);
}

static void test_other_directories(void **state) {
    const char *mine = run_new_dir(), *others = run_new_dir(), *new = run_new_dir();
    char expected[17];
    whole_run(expected);
    struct run other = stopped(others, 4), run = stopped(mine, 5);
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
    struct run run = stopped(run_new_dir(), 5);
    int other = open(run.dir, O_RDONLY);
    assert_int_equal(flock(other, LOCK_EX), 0);
    refused(&run, FTH_E_CHECKPOINT, "another run is saving into");
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
    assert_int_equal(fth_session_create(config, 0, &session, &err), FTH_OK);
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
    struct run run = stopped(run_new_dir(), 5);
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
    if (level == 0 && strstr(line, "data.train"))
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
    refused(&run, FTH_E_CHECKPOINT, "");
    run.overrides[0] = "tasks.1.name=other";
    refused(&run, FTH_E_CHECKPOINT, "other");
}

static int is_there(const char *dir, const char *name) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, R_OK) == 0;
}

/* The same from data that became another meanwhile, which nobody can know beforehand: what follows takes the places of
 * what was there, and that is kept. */
static void test_earlier_from_other_data(void **state) {
    size_t n = 0;
    char *text = read_whole(run_data(0), &n), data[300], path[400], dir[400], digest[17];
    snprintf(data, sizeof data, "%s", temp_path("mended.csv"));
    write_file(data, text, n);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_meaning),         cmocka_unit_test(test_other_tasks),
        cmocka_unit_test(test_other_order),           cmocka_unit_test(test_earlier_otherwise),
        cmocka_unit_test(test_earlier_from_other_data), cmocka_unit_test(test_other_learning),
        cmocka_unit_test(test_other_directories),     cmocka_unit_test(test_newest_is_damaged),
        cmocka_unit_test(test_other_data),            cmocka_unit_test(test_line_that_stops),
        cmocka_unit_test(test_nothing_left),          cmocka_unit_test(test_two_runs_at_once),
        cmocka_unit_test(test_told_before_and_after), cmocka_unit_test(test_rows_without_room),
        cmocka_unit_test(test_other_held_out),        cmocka_unit_test(test_data_that_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
