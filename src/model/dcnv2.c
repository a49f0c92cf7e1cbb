/* DCN-V2 (Wang et al., WWW 2021), the parallel form: crossings by a whole matrix each, beside
 * ordinary layers. */
#include "model/parts.h"

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    return fth_parts_crossed(graph, config, inputs, fth_layer_cross_v2, err);
}

const struct fth_model fth_model_dcnv2 = {.name = "dcnv2", .build = build};
