/* train/base_rate.c: every model begins at the share of positive labels, and nothing else of it is another than
 * without. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data_support.h"
#include "model/model.h"
#include "must.h"
#include "runs.h"
#include "train/session_private.h"

/* base_rate and loss: overrides, or NULL. */
static fth_session *session_of(const char *text, const char *base_rate, const char *loss) {
    fth_config *config = NULL;
    fth_session *session = NULL;
    fth_error err = {0};
    const char *overrides[6] = {"optimizer.dense={name: sgd, lr: 1e-300}", "optimizer.sparse={name: sgd, lr: 1e-300}",
                                "train.epochs=1", "train.max_steps=1"};
    size_t n = 4;
    if (base_rate)
        overrides[n++] = base_rate;
    if (loss)
        overrides[n++] = loss;
    must(fth_config_parse("test", text, strlen(text), overrides, n, &config, &err), &err);
    must(fth_session_create(config, FTH_FOR_ALL, &session, &err), &err);
    fth_config_free(config);
    return session;
}

/* The logits of all lines, by the probabilities that are printed, behind a first step that learns nothing. */
static size_t logits(const char *text, const char *base_rate, const char *loss, double *out, size_t room) {
    fth_error err = {0};
    fth_training training = {0};
    uint64_t lines = 0;
    size_t n = 0;
    fth_session *session = session_of(text, base_rate, loss);
    must(fth_session_train(session, NULL, &training, &err), &err);
    assert_int_equal(session->step, 1);
    FILE *file = tmpfile();
    must(fth_session_predict(session, run_data(0), file, &lines, &err), &err);
    rewind(file);
    for (double p; n < room && fscanf(file, "%lf%*1[,]", &p) == 1; n++)
        out[n] = log(p / (1 - p));
    fclose(file);
    fth_session_destroy(session);
    return n;
}

/* A share of 0.1 instead of 0.5 moves every logit by this. */
static void must_move(const struct fth_model *model, const char *loss, double by) {
    enum { ROOM = 2 * RUN_LINES };
    static double drawn[ROOM], moved[ROOM];
    const char *text = run_config(model->name, run_data(0));
    size_t n = logits(text, "model.base_rate=0.5", loss, drawn, ROOM);
    assert_int_equal(n, logits(text, "model.base_rate=0.1", loss, moved, ROOM));
    assert_int_equal(n, model->several_tasks ? ROOM : RUN_LINES);
    for (size_t i = 0; i < n; i++)
        if (fabs(moved[i] - drawn[i] - by) > 1e-4)
            fail_msg("%s: line %zu: logit %g becomes %g", model->name, i, drawn[i], moved[i]);
}

static void models_begin_at_the_share_that_is_set(void **state) {
    for (const struct fth_model *const *model = fth_models(); *model; model++)
        must_move(*model, strcmp((*model)->name, "two_tower") == 0 ? "model.loss=pointwise" : NULL, log(0.1 / 0.9));
    must_move(fth_model_find("two_tower"), "model.loss=in_batch_softmax", 0);
}

static float output_bias(const fth_session *session, uint32_t task) {
    const struct fth_output_bias *bias = &session->output_biases[task];
    float row[8] = {0};
    assert_int_not_equal(bias->parameter, FTH_NONE);
    assert_true(bias->column < 8);
    fth_parameter_get(&session->parameters->items[session->parameters->of_value[bias->parameter]], 0, 1, row);
    return row[bias->column];
}

/* Each task by its own labels; an example that does not count is left out; the bias that was drawn stays in it. */
static void the_first_batch_says_the_share(void **state) {
    enum { N = 6 };
    static float label[2 * N] = {1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1}, weight[2 * N] = {1, 1, 1, 1, 1, 0, 0, 2, 1, 1, 1, 2};
    const struct fth_batch plain = {.n = N, .label = label}, weighted = {.n = N, .label = label, .weight = weight};
    const struct fth_batch nothing = {.n = N, .label = label, .weight = (float[2 * N]){0}};
    const struct { const struct fth_batch *batch; double share[2]; } cases[] = {
        {&plain, {3.0 / 8, 5.0 / 8}},
        {&weighted, {(5 * (1.0 / 5) + 1) / 7, (5 * (5.0 / 7) + 1) / 7}},
        {&nothing, {0.5, 0.5}},
    };
    const char *text = run_config("mmoe", run_data(0));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fth_error err = {0};
        fth_session *session = session_of(text, NULL, NULL);
        float drawn[2] = {output_bias(session, 0), output_bias(session, 1)};
        must(fth_session_begin_at_base_rate(session, cases[c].batch, &err), &err);
        for (uint32_t t = 0; t < 2; t++) {
            double share = cases[c].share[t];
            assert_float_equal(output_bias(session, t), (double)drawn[t] + log(share / (1 - share)), 1e-6);
        }
        fth_session_destroy(session);
    }
}

/* FTRL's weights follow from its sums, so these have to begin there, too: the first step goes on from the bias. */
static void ftrl_keeps_it(void **state) {
    fth_error err = {0};
    fth_training training = {0};
    fth_config *config = NULL;
    fth_session *session = NULL;
    const char *text = run_config("lr", run_data(0));
    const char *overrides[] = {"optimizer.dense={name: ftrl, lr: 0.001, l1: 0.1, l2: 0.1}", "model.base_rate=0.02",
                               "train.epochs=1", "train.max_steps=1"};
    must(fth_config_parse("test", text, strlen(text), overrides, 4, &config, &err), &err);
    must(fth_session_create(config, FTH_FOR_ALL, &session, &err), &err);
    fth_config_free(config);
    must(fth_session_train(session, NULL, &training, &err), &err);
    assert_float_equal(output_bias(session, 0), log(0.02 / 0.98), 0.05);
    fth_session_destroy(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_begin_at_the_share_that_is_set),
        cmocka_unit_test(the_first_batch_says_the_share),
        cmocka_unit_test(ftrl_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
