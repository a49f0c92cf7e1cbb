/* xDeepFM (Lian et al., KDD 2018): linear terms, a compressed interaction network (CIN, section 3.2) and a deep part
 * over the same embeddings, added (eq. 10).
 *
 * Layer k of the CIN crosses its maps with the embeddings once more, vector by vector (eq. 6); each map's sum over its
 * numbers (eq. 7) goes into one output over all layers (eq. 8 and 9). No activation between them and no split of the
 * maps (section 4.3 finds the identity best). The floats of the batch have no vectors: they are read by the linear and the
 * deep part. */
#include "model/parts.h"

static fth_status interactions(fth_graph *graph, const struct fth_ints *layers, fth_id x0, uint32_t dim,
                               fth_id *out, fth_error *err) {
    fth_id *pooled, x = x0, all;
    FTH_TRY(fth_parts_ids(graph, (uint32_t)layers->n, &pooled, err));
    for (uint32_t i = 0; i < layers->n; i++) {
        const char *name = fth_arena_printf(graph->arena, "cin.%u", i);
        if (!name)
            return fth_fail(err, FTH_E_MEMORY, "cin: out of memory");
        if (layers->items[i] < 2)
            return fth_fail(err, FTH_E_CONFIG, "model.cin: layer %u has %lld map; give each at least 2", i,
                            (long long)layers->items[i]);
        FTH_TRY(fth_layer_cin(graph, name, x, x0, dim, (uint32_t)layers->items[i], &x, &pooled[i], err));
    }
    FTH_TRY(fth_layer_concat(graph, "cin.pooled", pooled, (uint32_t)layers->n, &all, err));
    return fth_layer_linear(graph, "cin.out", all, 1, 0, out, err);
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields all = {0};
    fth_id linear, vectors, crossed, x, deep, sum;
    uint32_t dim = 0;
    FTH_TRY(fth_parts_need("xdeepfm", inputs, 1, err));
    if (inputs->n_fields < 2)
        return fth_fail(err, FTH_E_CONFIG,
                        "features.categorical: xdeepfm crosses embeddings and needs two of them (of sparse entries: "
                        "libffm, which has fields)");
    if (!config->cin.n)
        return fth_fail(err, FTH_E_CONFIG, "model.cin: give at least one layer, such as [128, 128]");
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_linear(graph, "linear", inputs, &all, &linear, err));
    FTH_TRY(fth_parts_vectors(graph, "xdeepfm", inputs, &all, &vectors, &dim, err));
    FTH_TRY(interactions(graph, &config->cin, vectors, dim, &crossed, err));
    FTH_TRY(fth_parts_with_dense(graph, "deep.in", inputs, &vectors, 1, &x, err));
    FTH_TRY(fth_parts_deep(graph, "deep", "model.hidden", config, &config->hidden, x, &deep, err));
    FTH_TRY(fth_layer_add(graph, linear, crossed, &sum, err));
    return fth_layer_add(graph, sum, deep, &graph->logit, err);
}

const struct fth_model fth_model_xdeepfm = {.name = "xdeepfm", .build = build};
