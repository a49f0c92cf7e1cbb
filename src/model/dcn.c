/* Deep & Cross (Wang et al., ADKDD 2017): crossings by a vector each, beside ordinary layers, both
 * over all embeddings and the floats; one linear output over both. */
#include "model/parts.h"

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    return fth_parts_crossed(graph, config, inputs, fth_layer_cross, err);
}

const struct fth_model fth_model_dcn = {.name = "dcn", .build = build};
