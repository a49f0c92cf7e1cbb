/* Wide & Deep (Cheng et al., DLRS 2016): linear terms of chosen fields and the floats, beside
 * layers over all embeddings and the floats. */
#include <string.h>

#include "base/text.h"
#include "model/parts.h"

/* The fields that model.wide names, all of them when it is empty. */
static fth_status wide_fields(fth_graph *graph, const struct fth_strings *wide,
                              const struct fth_model_inputs *inputs, struct fth_parts_fields *out,
                              fth_error *err) {
    if (!wide->n)
        return fth_parts_all(graph, inputs, out, err);
    uint32_t *items = fth_arena_alloc(graph->arena, wide->n, sizeof *items);
    const char **names = fth_arena_alloc(graph->arena, inputs->n_fields + 1, sizeof *names);
    if (!items || !names)
        return fth_fail(err, FTH_E_MEMORY, "model.wide: out of memory");
    for (uint32_t i = 0; i < inputs->n_fields; i++)
        names[i] = inputs->fields[i].name;
    for (uint32_t i = 0; i < wide->n; i++) {
        uint32_t field = 0;
        while (field < inputs->n_fields && strcmp(names[field], wide->items[i]))
            field++;
        if (field == inputs->n_fields) {
            const char *near = fth_nearest(wide->items[i], names, inputs->n_fields);
            return fth_fail(err, FTH_E_CONFIG,
                            "model.wide: \"%s\" is no categorical feature%s%s%s; name columns of "
                            "features.categorical or bucketised numbers (COLUMN_bucket)",
                            wide->items[i], near ? ", did you mean \"" : "", near ? near : "",
                            near ? "\"?" : "");
        }
        items[i] = field;
    }
    *out = (struct fth_parts_fields){items, wide->n};
    return FTH_OK;
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields all = {0}, wide = {0};
    fth_id linear, x, deep, *values;
    uint32_t n = 0;
    FTH_TRY(fth_parts_need("wide_deep", inputs, 0, err));
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(wide_fields(graph, &config->wide, inputs, &wide, err));
    FTH_TRY(fth_parts_linear(graph, "wide", inputs, &wide, &linear, err));
    FTH_TRY(fth_parts_ids(graph, all.n, &values, err));
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, &all, values, &n, err));
    FTH_TRY(fth_parts_with_dense(graph, "deep.in", inputs, values, n, &x, err));
    FTH_TRY(fth_parts_deep(graph, "deep", "model.hidden", config, &config->hidden, x, &deep, err));
    return fth_layer_add(graph, linear, deep, &graph->logit, err);
}

const struct fth_model fth_model_wide_deep = {
    .name = "wide_deep",
    .summary = "Wide & Deep: linear terms beside layers over embeddings (Cheng et al. 2016)",
    .build = build};
