/* For the tests of models: a model built on small inputs, its gradients against finite differences, refusals. */
#ifndef FTH_TEST_MODEL_CASES_H
#define FTH_TEST_MODEL_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/batch.h"
#include "gradcheck.h"
#include "small_models.h"

static const int64_t six_four[] = {6, 4}, five[] = {5}, three[] = {3}, maps[] = {4, 3};

/* Sizes at which finite differences are quick; smooth, so that they are right. */
static struct fth_model_config config_for(const char *name) {
    static const char *const items[] = {"item", "category"};
    static const struct small_sizes sizes = {{six_four, 2}, {six_four, 2}, {three, 1}, {maps, 2}};
    struct fth_model_config config = small_model(name, &sizes);
    config.top = config.auxiliary_hidden = (struct fth_ints){five, 1};
    config.tower = config.co_action_layers = (struct fth_ints){three, 1};
    config.item_fields = (struct fth_strings){items, 2};
    config.temperature = 1;
    config.in_batch_softmax = 0;
    config.activation = "tanh";
    return config;
}

/* What the case being checked builds. */
static struct fth_model_config config;
static struct fth_model_inputs inputs;
static const struct fth_model_indicator indicators[] = {{"weekday", 0, 1}, {"domain", 1, 2}};

static fth_id build(struct gradcheck *check) {
    static const float weights[] = {1, 0.25f, 2};
    inputs.indicators = indicators;
    inputs.n_indicators = inputs.n_dense ? 2 : 0;
    if (inputs.n_tasks) {
        check->graph->n_tasks = inputs.n_tasks;
        check->graph->task_weights = weights;
    }
    CHECK_OK(check,
             fth_model_find(config.name)->build(check->graph, &config, &inputs, &check->err));
    assert_true(check->graph->logit >= 0);
    return FTH_NONE;
}

static void check_model(void) {
    static const struct gradcheck_shape shapes[] = {{.examples = 8, .tile = 3},
                                                    {.examples = 1, .tile = 4}};
    for (int i = 0; i < 2; i++)
        if (shapes[i].examples > 1 || !config.batch_norm)
            gradcheck_run(config.name, build, &shapes[i]);
}

static void refused(const char *part) {
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_int_equal(fth_graph_create(inputs.n_dense, &graph, &err), FTH_OK);
    fth_status status = fth_model_find(config.name)->build(graph, &config, &inputs, &err);
    if (status != FTH_E_CONFIG || !strstr(err.message, part))
        fail_msg("%s: status %d, message \"%s\" without \"%s\"", config.name, status, err.message,
                 part);
    fth_graph_destroy(graph);
}

#endif
