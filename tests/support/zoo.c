/* Graphs of every model: see zoo.h. */
#include "zoo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/kernels.h"
#include "model/model.h"
#include "must.h"
#include "ops/layers.h"
#include "passes/passes.h"
#include "small_models.h"

fth_graph *zoo_graph(const struct zoo_options *options) {
    static const int64_t widths[] = {20, 17}, bottom[] = {9, 4}, attention[] = {6, 3}, maps[] = {5, 3};
    static const struct small_sizes sizes = {{widths, 2}, {bottom, 2}, {attention, 2}, {maps, 2}};
    const struct fth_model *model = fth_model_find(options->model);
    int shallow = !strcmp(options->model, "lr") || !strcmp(options->model, "fm");
    struct fth_model_config config = small_model(options->model, &sizes);
    config.attention_activation = options->attention_activation;
    config.batch_norm = !options->plain && !shallow;
    config.dropout = options->plain || shallow ? 0 : 0.25;
    config.auxiliary = 0.5;
    struct fth_model_inputs inputs = {
        .n_dense = ZOO_DENSE,
        .fields = small_fields,
        .n_fields = small_has_history(options->model) ? SMALL_FIELDS : SMALL_PLAIN_FIELDS,
        .indicators = small_domain,
        .n_indicators = 1};
    const char *without[] = {options->without ? options->without : ""};
    fth_graph *graph = NULL;
    fth_error err = {0};
    assert_non_null(model);
    must(fth_graph_create(ZOO_DENSE, &graph, &err), &err);
    graph->precision = options->precision;
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
