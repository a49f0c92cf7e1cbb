/* Factorization machine (Rendle 2010): linear terms and the inner product of each pair of fields'
 * embeddings. */
#include "model/parts.h"

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields all = {0};
    fth_id linear, vectors, pairs;
    uint32_t dim = 0;
    FTH_TRY(fth_parts_need("fm", inputs, 1, err));
    if (inputs->n_fields < 2)
        return fth_fail(err, FTH_E_CONFIG,
                        "features: fm multiplies pairs of fields and there is one; give a second categorical feature (of "
                        "sparse entries: libffm, which has fields), or use lr");
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_linear(graph, "linear", inputs, &all, &linear, err));
    FTH_TRY(fth_parts_vectors(graph, "fm", inputs, &all, &vectors, &dim, err));
    FTH_TRY(fth_layer_fm(graph, "fm", vectors, dim, &pairs, err));
    return fth_layer_add(graph, linear, pairs, &graph->logit, err);
}

const struct fth_model fth_model_fm = {.name = "fm", .build = build};
