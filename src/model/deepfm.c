/* DeepFM (Guo et al., IJCAI 2017): linear terms, second-order interactions and a deep part over the
 * same embeddings; the deep part also reads the floats. */
#include "model/parts.h"

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields all = {0};
    fth_id linear, vectors, pairs, x, deep, sum;
    uint32_t dim = 0;
    FTH_TRY(fth_parts_need("deepfm", inputs, 1, err));
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_linear(graph, "linear", inputs, &all, &linear, err));
    FTH_TRY(fth_parts_vectors(graph, "deepfm", inputs, &all, &vectors, &dim, err));
    FTH_TRY(fth_layer_fm(graph, "fm", vectors, dim, &pairs, err));
    FTH_TRY(fth_parts_with_dense(graph, "deep.in", inputs, &vectors, 1, &x, err));
    FTH_TRY(fth_parts_deep(graph, "deep", "model.hidden", config, &config->hidden, x, &deep, err));
    FTH_TRY(fth_layer_add(graph, linear, pairs, &sum, err));
    return fth_layer_add(graph, sum, deep, &graph->logit, err);
}

const struct fth_model fth_model_deepfm = {.name = "deepfm", .build = build};
