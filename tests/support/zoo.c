/* Graphs of every model: see zoo.h. */
#include "zoo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/batch.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "ops/layers.h"
#include "passes/passes.h"

static const struct fth_model_field fields[] = {
    {.name = "user", .table = "user", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "item", .table = "item", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "category", .table = "category", .dim = 4, .group = FTH_NO_GROUP},
    {.name = "tags", .table = "tag", .dim = 4, .group = 0, .pooling = FTH_POOL_SUM},
    {.name = "hist_item", .table = "item", .dim = 4, .group = 0, .sequence = 1},
    {.name = "hist_category", .table = "category", .dim = 4, .group = 0, .sequence = 1},
};

static void must(fth_status status, const fth_error *err) {
    if (status != FTH_OK)
        fail_msg("%s", err->message);
}

fth_graph *zoo_graph(const struct zoo_options *options) {
    static const int64_t widths[] = {20, 17}, bottom[] = {9, 4}, attention[] = {6, 3}, maps[] = {5, 3};
    static const char *const items[] = {"item"};
    const struct fth_model *model = fth_model_find(options->model);
    int din = !strcmp(options->model, "din"), history = strstr("din dien dsin", options->model) != NULL;
    int shallow = !strcmp(options->model, "lr") || !strcmp(options->model, "fm");
    struct fth_model_config config = {.name = options->model,
                                      .hidden = {widths, 2},
                                      .bottom = {bottom, 2},
                                      .top = {widths, 2},
                                      .attention = {attention, 2},
                                      .cin = {maps, 2},
                                      .cross_layers = 2,
                                      .heads = 2,
                                      .feed_forward = 5,
                                      .session_length = 2,
                                      .sessions = 2,
                                      .co_action_layers = {maps, 2},
                                      .co_action_dim = 4,
                                      .co_action_orders = 2,
                                      .experts = 3,
                                      .expert_hidden = {widths, 2},
                                      .tower = {bottom, 1},
                                      .item_fields = {items, 1},
                                      .temperature = 0.5,
                                      .in_batch_softmax = 1,
                                      .log_q = 1,
                                      .domain = "domain",
                                      .auxiliary_hidden = {bottom, 1},
                                      .activation = din ? "dice" : "relu",
                                      .attention_activation = options->attention_activation,
                                      .batch_norm = !options->plain && !shallow,
                                      .dropout = options->plain || shallow ? 0 : 0.25,
                                      .auxiliary = 0.5,
                                      .target = strcmp(options->model, "can") ? "" : "item"};
    static const struct fth_model_indicator indicators[] = {{"domain", 1, 2}};
    struct fth_model_inputs inputs = {.n_dense = ZOO_DENSE, .fields = fields, .n_fields = history ? 6 : 4,
        .indicators = indicators, .n_indicators = 1};
    const char *without[] = {options->without ? options->without : ""};
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_non_null(model);
    must(fth_graph_create(ZOO_DENSE, &graph, &err), &err);
    if (model->several_tasks) {
        static const char *const tasks[] = {"first", "second"};
        static const float weights[] = {1, 0.5f};
        inputs.tasks = tasks;
        graph->n_tasks = inputs.n_tasks = 2;
        graph->task_weights = weights;
    }
    must(model->build(graph, &config, &inputs, &err), &err);
    must(fth_layer_loss(graph, 0.05f, &err), &err);
    if (!options->no_passes)
        must(fth_passes_run(graph, FTH_PASS_FORWARD, without, 1, &err), &err);
    must(fth_graph_verify(graph, &err), &err);
    must(fth_graph_differentiate(graph, &err), &err);
    must(fth_layer_updates(graph, options->clip_norm, &err), &err);
    must(fth_graph_verify(graph, &err), &err);
    if (!options->no_passes)
        must(fth_passes_run(graph, FTH_PASS_TRAINING, without, 1, &err), &err);
    must(fth_graph_verify(graph, &err), &err);
    return graph;
}
