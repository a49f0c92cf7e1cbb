/* Deep Interest Network (Zhou et al., KDD 2018): the positions of a history are weighed by an
 * attention unit that compares each with the target, and summed; layers over other fields, target,
 * pooled histories and floats.
 *
 * A history is a ragged group of sequences (items and their categories). Each sequence is compared
 * with the plain field of the same table; the sequences of a group side by side are the keys, their
 * targets in the same order the query. A sequence without a target is pooled by its mean like any
 * other ragged field. */
#include <string.h>

#include "model/parts.h"

struct din {
    fth_graph *graph;
    const struct fth_model_config *config;
    const struct fth_model_inputs *inputs;
    int32_t *target_of; /* [fields] a sequence's target field, else -1 */
    fth_id *target;     /* [fields] a target field's embedding, else FTH_NONE */
    fth_id *pooled;     /* one a history */
    uint32_t n_pooled;
};

static int is_target(const struct din *din, uint32_t field, const char *table) {
    const struct fth_model_field *f = &din->inputs->fields[field];
    const char *only = din->config->target;
    if (f->group >= 0 || strcmp(f->table, table))
        return 0;
    return !only || !*only || !strcmp(f->name, only);
}

static fth_status match(struct din *din, fth_error *err) {
    uint32_t sequences = 0, matched = 0;
    for (uint32_t i = 0; i < din->inputs->n_fields; i++) {
        const struct fth_model_field *f = &din->inputs->fields[i];
        din->target_of[i] = -1;
        if (!f->sequence || f->group < 0)
            continue;
        sequences++;
        for (uint32_t j = 0; j < din->inputs->n_fields; j++) {
            if (!is_target(din, j, f->table))
                continue;
            if (din->target_of[i] >= 0)
                return fth_fail(
                    err, FTH_E_CONFIG,
                    "model.target: sequence %s could be compared with %s or %s, which share "
                    "table %s; name one of them",
                    f->name, din->inputs->fields[din->target_of[i]].name,
                    din->inputs->fields[j].name, f->table);
            din->target_of[i] = (int32_t)j;
            matched++;
        }
    }
    if (!sequences)
        return fth_fail(
            err, FTH_E_CONFIG,
            "features.categorical: din needs a history; give a feature `sequence: true`");
    if (!matched)
        return fth_fail(
            err, FTH_E_CONFIG,
            "features.categorical: din compares a history with a target, but no single-valued "
            "feature%s%s shares a table with a sequence; set the sequence's `table`",
            din->config->target && *din->config->target ? " named by model.target " : "",
            din->config->target ? din->config->target : "");
    return FTH_OK;
}

static fth_status target_embed(struct din *din, uint32_t field, fth_id *out, fth_error *err) {
    uint32_t lookup;
    if (din->target[field] == FTH_NONE) {
        FTH_TRY(fth_parts_lookup(din->graph, din->inputs, field, 0, &lookup, err));
        FTH_TRY(fth_layer_embedding(din->graph, "target", &lookup, 1, &din->target[field], err));
    }
    *out = din->target[field];
    return FTH_OK;
}

/* One history: the sequences of a group that have a target. `first` is the first of them. */
static fth_status attend(struct din *din, uint32_t first, fth_error *err) {
    const struct fth_model_inputs *inputs = din->inputs;
    fth_id *keys, *queries, key, query;
    uint32_t n = 0, lookup;
    FTH_TRY(fth_parts_ids(din->graph, inputs->n_fields, &keys, err));
    FTH_TRY(fth_parts_ids(din->graph, inputs->n_fields, &queries, err));
    for (uint32_t i = first; i < inputs->n_fields; i++) {
        if (din->target_of[i] < 0 || inputs->fields[i].group != inputs->fields[first].group)
            continue;
        FTH_TRY(fth_parts_lookup(din->graph, inputs, i, 1, &lookup, err));
        FTH_TRY(fth_layer_embedding(din->graph, "history", &lookup, 1, &keys[n], err));
        FTH_TRY(target_embed(din, (uint32_t)din->target_of[i], &queries[n++], err));
    }
    const char *name =
        fth_arena_printf(din->graph->arena, "attention.%s", inputs->fields[first].name);
    if (!name)
        return fth_fail(err, FTH_E_MEMORY, "attention: out of memory");
    const char *activation = din->config->attention_activation;
    if (!activation || !strcmp(activation, "same"))
        activation = din->config->activation;
    FTH_TRY(fth_layer_concat(din->graph, "history", keys, n, &key, err));
    FTH_TRY(fth_layer_concat(din->graph, "target", queries, n, &query, err));
    return fth_layer_attention(din->graph, name, query, key, din->config->attention.items,
                               din->config->attention.n, activation,
                               &din->pooled[din->n_pooled++], err);
}

static fth_status histories(struct din *din, fth_error *err) {
    for (uint32_t i = 0; i < din->inputs->n_fields; i++) {
        int first = din->target_of[i] >= 0;
        for (uint32_t j = 0; j < i; j++)
            first &= din->target_of[j] < 0 ||
                     din->inputs->fields[j].group != din->inputs->fields[i].group;
        if (first)
            FTH_TRY(attend(din, i, err));
    }
    return FTH_OK;
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct din din = {.graph = graph, .config = config, .inputs = inputs};
    uint32_t n_fields = inputs->n_fields, n = 0;
    uint32_t *others = fth_arena_alloc(graph->arena, n_fields + 1, sizeof *others);
    din.target_of = fth_arena_alloc(graph->arena, n_fields + 1, sizeof *din.target_of);
    if (!din.target_of || !others)
        return fth_fail(err, FTH_E_MEMORY, "din: out of memory");
    fth_id *values, x;
    FTH_TRY(fth_parts_ids(graph, n_fields, &din.target, err));
    FTH_TRY(fth_parts_ids(graph, n_fields, &din.pooled, err));
    FTH_TRY(fth_parts_ids(graph, 2 * n_fields, &values, err));
    FTH_TRY(match(&din, err));
    FTH_TRY(histories(&din, err));
    struct fth_parts_fields rest = {others, 0};
    for (uint32_t i = 0; i < n_fields; i++)
        if (din.target_of[i] < 0 && din.target[i] == FTH_NONE)
            others[rest.n++] = i;
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, &rest, values, &n, err));
    for (uint32_t i = 0; i < n_fields; i++)
        if (din.target[i] != FTH_NONE)
            values[n++] = din.target[i];
    for (uint32_t i = 0; i < din.n_pooled; i++)
        values[n++] = din.pooled[i];
    FTH_TRY(fth_parts_with_dense(graph, "deep.in", inputs, values, n, &x, err));
    return fth_parts_deep(graph, "deep", "model.hidden", config, &config->hidden, x, &graph->logit,
                          err);
}

const struct fth_model fth_model_din = {
    .name = "din",
    .summary = "Deep Interest Network: attention over a history (Zhou et al. 2018)",
    .build = build};
