/* Wide & Deep (Cheng et al., DLRS 2016): linear terms of chosen fields and the floats, beside
 * layers over all embeddings and the floats. */
#include "model/parts.h"

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields all = {0}, wide = {0};
    fth_id linear, x, deep, *values;
    uint32_t n = 0;
    FTH_TRY(fth_parts_need("wide_deep", inputs, 0, err));
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(config->wide.n ? fth_parts_named(graph, "model.wide", &config->wide, inputs, &wide, err)
                           : fth_parts_all(graph, inputs, &wide, err));
    FTH_TRY(fth_parts_linear(graph, "wide", inputs, &wide, &linear, err));
    FTH_TRY(fth_parts_ids(graph, all.n, &values, err));
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, &all, values, &n, err));
    FTH_TRY(fth_parts_with_dense(graph, "deep.in", inputs, values, n, &x, err));
    FTH_TRY(fth_parts_deep(graph, "deep", "model.hidden", config, &config->hidden, x, &deep, err));
    return fth_layer_add(graph, linear, deep, &graph->logit, err);
}

const struct fth_model fth_model_wide_deep = {.name = "wide_deep", .build = build};
