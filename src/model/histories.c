/* Histories and what they are compared with (parts.h): DIN, DIEN, DSIN and ATBRG. */
#include <string.h>

#include "model/parts.h"

static int is_target(const struct fth_parts_histories *h, uint32_t field, const char *table) {
    const struct fth_model_field *f = &h->inputs->fields[field];
    const char *only = h->config->target;
    if (f->group >= 0 || strcmp(f->table, table))
        return 0;
    return !only || !*only || !strcmp(f->name, only);
}

static fth_status match_one(struct fth_parts_histories *h, uint32_t i, fth_error *err) {
    const struct fth_model_field *fields = h->inputs->fields;
    for (uint32_t j = 0; j < h->inputs->n_fields; j++) {
        if (!is_target(h, j, fields[i].table))
            continue;
        if (h->target_of[i] >= 0)
            return fth_fail(err, FTH_E_CONFIG,
                            "model.target: sequence %s could be compared with %s or %s, which share "
                            "table %s; name one of them",
                            fields[i].name, fields[h->target_of[i]].name, fields[j].name, fields[i].table);
        h->target_of[i] = (int32_t)j;
    }
    return FTH_OK;
}

static fth_status match(struct fth_parts_histories *h, fth_error *err) {
    const char *model = h->config->name, *only = h->config->target ? h->config->target : "";
    uint32_t sequences = 0, matched = 0;
    for (uint32_t i = 0; i < h->inputs->n_fields; i++) {
        const struct fth_model_field *f = &h->inputs->fields[i];
        h->target_of[i] = -1;
        if (!f->sequence || f->group < 0 || (h->apart && h->apart[i]))
            continue;
        sequences++;
        FTH_TRY(match_one(h, i, err));
        matched += h->target_of[i] >= 0;
    }
    if (!sequences)
        return fth_fail(err, FTH_E_CONFIG,
                        "features.categorical: %s needs a history; give a feature `sequence: true`", model);
    if (!matched)
        return fth_fail(
            err, FTH_E_CONFIG,
            "features.categorical: %s compares a history with a target, but no single-valued "
            "feature%s%s shares a table with a sequence; set the sequence's `table`",
            model, *only ? " named by model.target " : "", only);
    return FTH_OK;
}

fth_status fth_parts_match(fth_graph *graph, const struct fth_model_config *config,
                           const struct fth_model_inputs *inputs, uint8_t *apart,
                           struct fth_parts_histories *out, fth_error *err) {
    uint32_t n = inputs->n_fields;
    *out = (struct fth_parts_histories){
        .graph = graph, .config = config, .inputs = inputs, .apart = apart};
    out->target_of = fth_arena_alloc(graph->arena, n + 1, sizeof *out->target_of);
    if (!out->target_of)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", config->name);
    FTH_TRY(fth_parts_ids(graph, n, &out->target, err));
    FTH_TRY(fth_parts_ids(graph, n, &out->pooled, err));
    return match(out, err);
}

uint32_t fth_parts_next_history(const struct fth_parts_histories *h, uint32_t from) {
    for (uint32_t i = from; i < h->inputs->n_fields; i++) {
        int first = h->target_of[i] >= 0;
        for (uint32_t j = 0; j < i; j++)
            first &= h->target_of[j] < 0 || h->inputs->fields[j].group != h->inputs->fields[i].group;
        if (first)
            return i;
    }
    return h->inputs->n_fields;
}

static fth_status target_embed(struct fth_parts_histories *h, uint32_t field, fth_id *out,
                               fth_error *err) {
    uint32_t lookup;
    if (h->target[field] == FTH_NONE) {
        FTH_TRY(fth_parts_lookup(h->graph, h->inputs, field, 0, &lookup, err));
        FTH_TRY(fth_layer_embedding(h->graph, "target", &lookup, 1, &h->target[field], err));
    }
    *out = h->target[field];
    return FTH_OK;
}

fth_status fth_parts_history(struct fth_parts_histories *h, uint32_t first, fth_id *keys, fth_id *query,
                             fth_error *err) {
    const struct fth_model_inputs *inputs = h->inputs;
    fth_id *rows, *queries;
    uint32_t n = 0, lookup;
    FTH_TRY(fth_parts_ids(h->graph, inputs->n_fields, &rows, err));
    FTH_TRY(fth_parts_ids(h->graph, inputs->n_fields, &queries, err));
    for (uint32_t i = first; i < inputs->n_fields; i++) {
        if (h->target_of[i] < 0 || inputs->fields[i].group != inputs->fields[first].group)
            continue;
        FTH_TRY(fth_parts_lookup(h->graph, inputs, i, 1, &lookup, err));
        FTH_TRY(fth_layer_embedding(h->graph, "history", &lookup, 1, &rows[n], err));
        FTH_TRY(target_embed(h, (uint32_t)h->target_of[i], &queries[n++], err));
    }
    FTH_TRY(fth_layer_concat(h->graph, "history", rows, n, keys, err));
    return fth_layer_concat(h->graph, "target", queries, n, query, err);
}

fth_status fth_parts_over_histories(struct fth_parts_histories *h, fth_error *err) {
    uint32_t n_fields = h->inputs->n_fields, n = 0;
    uint32_t *others = fth_arena_alloc(h->graph->arena, n_fields + 1, sizeof *others);
    fth_id *values, x;
    if (!others)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", h->config->name);
    FTH_TRY(fth_parts_ids(h->graph, 2 * n_fields, &values, err));
    struct fth_parts_fields rest = {others, 0};
    for (uint32_t i = 0; i < n_fields; i++)
        if (h->target_of[i] < 0 && h->target[i] == FTH_NONE && !(h->apart && h->apart[i]))
            others[rest.n++] = i;
    FTH_TRY(fth_parts_embeddings(h->graph, "embedding", h->inputs, &rest, values, &n, err));
    for (uint32_t i = 0; i < n_fields; i++)
        if (h->target[i] != FTH_NONE)
            values[n++] = h->target[i];
    for (uint32_t i = 0; i < h->n_pooled; i++)
        values[n++] = h->pooled[i];
    FTH_TRY(fth_parts_with_dense(h->graph, "deep.in", h->inputs, values, n, &x, err));
    return fth_parts_deep(h->graph, "deep", "model.hidden", h->config, &h->config->hidden, x,
                          &h->graph->logit, err);
}
