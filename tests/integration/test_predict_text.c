/* Predictions of text in memory: the numbers that fth_session_predict writes of the same file. */
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
#include "data_support.h"
#include "runs.h"

static fth_session *session_of(const char *text, const char *const *overrides, size_t n) {
    fth_config *config = NULL;
    fth_session *session = NULL;
    OK(fth_config_parse("test", text, strlen(text), overrides, n, &config, &err));
    OK(fth_session_create(config, FTH_FOR_ALL, &session, &err));
    fth_config_free(config);
    return session;
}

/* That it begins with, up to eight. */
static int nines(double p) {
    char text[64];
    snprintf(text, sizeof text, "%.17f", p);
    int n = (int)strspn(text + (strncmp(text, "0.", 2) == 0 ? 2 : 0), "9");
    return p == 1 || n > 8 ? 8 : n;
}

/* Predicts text as a file, too: the same lines, and the same numbers but for digits that a file has not. */
static uint64_t compare(fth_session *session, const char *path, const char *text, size_t n, uint32_t tasks,
                        double *out, size_t capacity) {
    uint64_t lines, written;
    FILE *file = tmpfile();
    OK(fth_session_predict(session, path, file, &written, &err));
    OK(fth_session_predict_text(session, text, n, out, capacity, &lines, &err));
    assert_int_equal(lines, written);
    rewind(file);
    for (uint64_t i = 0; i < lines * tasks; i++) {
        char want[64], got[64];
        double p = out[i];
        assert_int_equal(fscanf(file, "%63[^,\n]%*1[,\n]", got), 1);
        snprintf(want, sizeof want, "%.*g", 9 + nines(p), p);
        assert_string_equal(got, isnan(p) ? "nan" : want);
        assert_true(isnan(p) || fabs(strtod(got, NULL) - p) <= fmin(p, 1 - p) * 5e-9 + 1.2e-16);
    }
    fclose(file);
    return lines;
}

static void the_same_as_of_a_file(void **state) {
    static const char *const overrides[] = {"train.epochs=1", "checkpoint.dir="};
    fth_session *session = session_of(run_config("deepfm", run_data(0)), overrides, 2);
    OK(fth_session_train(session, NULL, NULL, &err));
    double *out = malloc(RUN_LINES * sizeof *out);
    for (int gzip = 0; gzip <= 1; gzip++) {
        size_t n;
        char *text = read_whole(run_data(gzip), &n);
        assert_int_equal(compare(session, run_data(gzip), text, n, 1, out, RUN_LINES), RUN_LINES);
        free(text);
    }
    free(out);
    fth_session_destroy(session);
}

/* The nearer to 1, the more digits. */
static void digits_behind_nines(void **state) {
    static const char data[] = "y,x\n1,1\n0,-1\n", far[] = "x\n0\n1\n2\n4\n8\n16\n32\n-8\n-32\n";
    char config[1024], path[512], file[512];
    snprintf(path, sizeof path, "%s", temp_path("steep.csv"));
    snprintf(file, sizeof file, "%s", temp_path("far.csv"));
    write_file(path, data, strlen(data));
    write_file(file, far, strlen(far));
    snprintf(config, sizeof config, "data: {format: csv, train: %s, label: y}\nfeatures: {numeric: [{columns: x}]}\n"
             "model: {name: lr}\noptimizer: {dense: {name: sgd, lr: 1}}\ntrain: {epochs: 8, batch_size: 2}\n", path);
    fth_session *session = session_of(config, NULL, 0);
    OK(fth_session_train(session, NULL, NULL, &err));
    double out[9];
    assert_int_equal(compare(session, file, far, strlen(far), 1, out, 9), 9);
    assert_true(out[5] > 1 - 1e-6 && out[5] < out[6] && out[6] > 1 - 1e-9 && out[8] < 1e-9);
    fth_session_destroy(session);
}

static const char two_tasks[] =
    "data: {format: csv, train: %s, on_bad_line: skip}\n"
    "tasks: [{name: click, label: c}, {name: buy, label: b}]\n"
    "features: {categorical: [{columns: k}]}\n"
    "model: {name: mmoe, experts: 2, expert_hidden: [4], tower: [4]}\n"
    "embedding: {dim: 4}\n"
    "train: {batch_size: 3}\n";
static const char two_tasks_data[] = "c,b,k\n1,0,x\n0,0,y\n1,1,x\n0,,z\n";

/* Without labels, with a malformed line, lines beyond a batch; how many there is room for. */
static void several_tasks_and_room(void **state) {
    static const char new_lines[] = "k\nx\nnew\ny,too,many\nz\nx\n";
    char config[1024], file[512], data[512];
    snprintf(data, sizeof data, "%s", temp_path("data.csv"));
    snprintf(file, sizeof file, "%s", temp_path("new.csv"));
    write_file(data, two_tasks_data, strlen(two_tasks_data));
    write_file(file, new_lines, strlen(new_lines));
    snprintf(config, sizeof config, two_tasks, data);
    fth_session *session = session_of(config, NULL, 0);
    OK(fth_session_train(session, NULL, NULL, &err));
    double out[11], first[2];
    uint64_t lines = 9;
    fth_error why = {0};
    out[10] = 7;
    assert_int_equal(compare(session, file, new_lines, strlen(new_lines), 2, out, 10), 5);
    assert_true(out[10] == 7 && isnan(out[4]) && isnan(out[5]) && out[0] > 0 && out[0] < 1);
    assert_true(out[0] == out[8] && out[1] == out[9] && out[0] != out[6]);
    first[0] = out[0], first[1] = out[1];
    memset(out, 0, sizeof out);
    assert_int_equal(fth_session_predict_text(session, new_lines, strlen(new_lines), out, 3, &lines, &why), FTH_E_LIMIT);
    assert_non_null(strstr(why.message, "more than 1 lines: out has room for 3 numbers, 2 a line"));
    assert_int_equal(lines, 1);
    assert_true(out[0] == first[0] && out[1] == first[1] && out[2] == 0);
    OK(fth_session_predict_text(session, "k\n", 2, out, 0, &lines, &err));
    assert_int_equal(lines, 0);
    assert_int_equal(fth_session_predict_text(session, "other\nx\n", 8, out, 2, &lines, &why), FTH_E_CONFIG);
    fth_session_destroy(session);
}

/* Of `n` examples the share of pairs, one of either label within a group, that are in order; groups weigh by their examples. */
static double grouped_auc(const double *score, const int *label, const int *group, int n) {
    double sum = 0, weight = 0;
    for (int g = 0; g < 3; g++) {
        double pairs = 0, right = 0, examples = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n && group[i] == g && label[i] >= 0; j++)
                if (group[j] == g && label[j] >= 0 && label[i] > label[j]) {
                    pairs++;
                    right += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
                }
        for (int i = 0; i < n; i++)
            examples += group[i] == g && label[i] >= 0;
        sum += pairs > 0 ? right / pairs * examples : 0;
        weight += pairs > 0 ? examples : 0;
    }
    return sum / weight;
}

/* Each task's groups are those of its own examples, also where others have no label. */
static void groups_of_each_task(void **state) {
    enum { LINES = 40 };
    char config[1024], data[512], text[LINES * 16 + 16] = "c,b,k,u\n";
    int label[2][LINES], group[LINES];
    snprintf(data, sizeof data, "%s", temp_path("groups.csv"));
    for (int i = 0; i < LINES; i++) {
        group[i] = i * 7 % 3;
        label[0][i] = (i * i + i / 3) % 5 < 2;
        label[1][i] = i % 4 == 1 ? -1 : (i * 3 + i * i / 7) % 3 < 1;
        size_t at = strlen(text);
        if (label[1][i] < 0)
            snprintf(text + at, sizeof text - at, "%d,,%d,%d\n", label[0][i], i * 5 % 11, group[i]);
        else
            snprintf(text + at, sizeof text - at, "%d,%d,%d,%d\n", label[0][i], label[1][i], i * 5 % 11, group[i]);
    }
    write_file(data, text, strlen(text));
    snprintf(config, sizeof config, two_tasks, data);
    const char *overrides[] = {"data.query=u", "train.batch_size=7"}, *files[] = {data};
    fth_session *session = session_of(config, overrides, 2);
    fth_evaluation evaluation;
    double out[2 * LINES], score[LINES];
    uint64_t lines;
    OK(fth_session_train(session, NULL, NULL, &err));
    OK(fth_session_evaluate(session, files, 1, &evaluation, &err));
    OK(fth_session_predict_text(session, text, strlen(text), out, 2 * LINES, &lines, &err));
    assert_int_equal(lines, LINES);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < LINES; i++)
            score[i] = out[2 * i + t];
        double want = grouped_auc(score, label[t], group, LINES), got = t ? evaluation.others[0].gauc : evaluation.gauc;
        assert_true(want > 0 && want < 1 && fabs(got - want) < 1e-9);
    }
    fth_session_destroy(session);
}

/* What a training's callback asks for comes from the weights of its step. */
static void predict_between_steps(void *ctx, uint64_t step, double loss) {
    double out[3];
    uint64_t lines;
    OK(fth_session_predict_text(*(fth_session **)ctx, "k\nx\ny\nz\n", 8, out, 3, &lines, &err));
    assert_int_equal(lines, 3);
    assert_true(out[0] != out[1]);
}

static void from_a_callback(void **state) {
    char config[1024], data[512];
    snprintf(data, sizeof data, "%s", temp_path("data.csv"));
    write_file(data, two_tasks_data, strlen(two_tasks_data));
    snprintf(config, sizeof config,
             "data: {format: csv, train: %s, label: c}\nfeatures: {categorical: [{columns: k}]}\nmodel: {name: lr}\n"
             "train: {batch_size: 2, epochs: 3}\n", data);
    fth_session *session = session_of(config, NULL, 0);
    fth_callbacks callbacks = {.ctx = &session, .loss = predict_between_steps};
    fth_training training;
    OK(fth_session_train(session, &callbacks, &training, &err));
    assert_int_equal(training.steps, 6);
    uint64_t lines = 1;
    double out[1];
    fth_error why = {0};
    fth_session_interrupt(session);
    assert_int_equal(fth_session_predict_text(session, "k\nx\n", 4, out, 1, &lines, &why), FTH_E_INTERRUPTED);
    assert_int_equal(lines, 0);
    fth_session_destroy(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_as_of_a_file), cmocka_unit_test(digits_behind_nines),
                                       cmocka_unit_test(several_tasks_and_room), cmocka_unit_test(groups_of_each_task),
                                       cmocka_unit_test(from_a_callback)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
