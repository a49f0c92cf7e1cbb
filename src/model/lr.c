/* Logistic regression: a weight a key, a weight a float, a bias. */
#include "model/parts.h"

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields all = {0};
    FTH_TRY(fth_parts_need("lr", inputs, 0, err));
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    return fth_parts_linear(graph, "linear", inputs, &all, &graph->logit, err);
}

const struct fth_model fth_model_lr = {.name = "lr", .build = build};
