/* Deep Interest Network (Zhou et al., KDD 2018): the positions of a history are weighed by an
 * attention unit that compares each with the target, and summed; layers over other fields, target,
 * pooled histories and floats.
 *
 * A history is a ragged group of sequences (items and their categories): parts.h. */
#include <string.h>

#include "model/parts.h"

static fth_status attend(struct fth_parts_histories *din, uint32_t first, fth_error *err) {
    const struct fth_model_config *config = din->config;
    fth_id key, query;
    FTH_TRY(fth_parts_history(din, first, &key, &query, err));
    const char *name =
        fth_arena_printf(din->graph->arena, "attention.%s", din->inputs->fields[first].name);
    if (!name)
        return fth_fail(err, FTH_E_MEMORY, "attention: out of memory");
    const char *activation = config->attention_activation;
    if (!activation || !strcmp(activation, "same"))
        activation = config->activation;
    return fth_layer_attention(din->graph, name, query, key, config->attention.items, config->attention.n,
                               activation, &din->pooled[din->n_pooled++], err);
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_histories din;
    FTH_TRY(fth_parts_match(graph, config, inputs, NULL, &din, err));
    for (uint32_t i = fth_parts_next_history(&din, 0); i < inputs->n_fields;
         i = fth_parts_next_history(&din, i + 1))
        FTH_TRY(attend(&din, i, err));
    return fth_parts_over_histories(&din, err);
}

const struct fth_model fth_model_din = {.name = "din", .build = build};
