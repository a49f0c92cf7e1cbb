/* DLRM (Naumov et al. 2019): bottom layers over the floats, dot products of their result and all
 * embeddings in pairs, top layers over the bottom's result and the dots. Without floats: dots of
 * the embeddings alone. */
#include "model/parts.h"

/* The bottom's result, one vector as wide as an embedding. */
static fth_status bottom(fth_graph *graph, const struct fth_model_config *config, uint32_t dim,
                         fth_id *out, fth_error *err) {
    int64_t single = dim;
    struct fth_ints layers = config->bottom.n ? config->bottom : (struct fth_ints){&single, 1};
    if (layers.items[layers.n - 1] != (int64_t)dim)
        return fth_fail(
            err, FTH_E_CONFIG,
            "model.bottom: its last layer has %lld units but embeddings have dimension %u; end "
            "it in %u",
            (long long)layers.items[layers.n - 1], dim, dim);
    struct fth_mlp_options options = fth_parts_mlp(config, &layers);
    fth_id floats;
    FTH_TRY(fth_graph_input(graph, FTH_ROLE_DENSE, &floats, err));
    return fth_layer_mlp(graph, "bottom", floats, &options, out, err);
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields all = {0};
    fth_id parts[2], vectors, x;
    uint32_t dim = 0;
    FTH_TRY(fth_parts_need("dlrm", inputs, 1, err));
    if (inputs->n_fields + (inputs->n_dense > 0) < 2)
        return fth_fail(
            err, FTH_E_CONFIG,
            "features: dlrm needs two vectors to multiply: a second categorical feature, or "
            "numeric ones (of sparse entries: libffm, which has fields)");
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_vectors(graph, "dlrm", inputs, &all, &vectors, &dim, err));
    if (!inputs->n_dense) {
        FTH_TRY(fth_layer_dot_interaction(graph, "dots", vectors, dim, &x, err));
    } else {
        FTH_TRY(bottom(graph, config, dim, &parts[0], err));
        parts[1] = vectors;
        FTH_TRY(fth_layer_concat(graph, "dots.in", parts, 2, &x, err));
        FTH_TRY(fth_layer_dot_interaction(graph, "dots", x, dim, &parts[1], err));
        FTH_TRY(fth_layer_concat(graph, "top.in", parts, 2, &x, err));
    }
    return fth_parts_deep(graph, "top", "model.top", config, &config->top, x, &graph->logit, err);
}

const struct fth_model fth_model_dlrm = {.name = "dlrm", .build = build};
