/* Parts of models: linear terms, embeddings, deep part (parts.h). */
#include "model/parts.h"

#include <string.h>

#include "base/text.h"

static fth_status no_memory(const char *what, fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", what);
}

fth_status fth_parts_all(fth_graph *graph, const struct fth_model_inputs *inputs,
                         struct fth_parts_fields *out, fth_error *err) {
    uint32_t *items = fth_arena_alloc(graph->arena, inputs->n_fields + 1, sizeof *items);
    if (!items)
        return no_memory("model", err);
    for (uint32_t i = 0; i < inputs->n_fields; i++)
        items[i] = i;
    *out = (struct fth_parts_fields){items, inputs->n_fields};
    return FTH_OK;
}

fth_status fth_parts_field(fth_graph *graph, const char *key, const char *name,
                           const struct fth_model_inputs *inputs, uint32_t *out, fth_error *err) {
    const char **names = fth_arena_alloc(graph->arena, inputs->n_fields + 1, sizeof *names);
    if (!names)
        return no_memory(key, err);
    for (uint32_t i = 0; i < inputs->n_fields; i++) {
        names[i] = inputs->fields[i].name;
        if (!strcmp(names[i], name)) {
            *out = i;
            return FTH_OK;
        }
    }
    const char *near = fth_nearest(name, names, inputs->n_fields);
    return fth_fail(err, FTH_E_CONFIG,
                    "%s: \"%s\" is no categorical feature%s%s%s; name columns of "
                    "features.categorical or bucketised numbers (COLUMN_bucket)",
                    key, name, near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

fth_status fth_parts_named(fth_graph *graph, const char *key, const struct fth_strings *names,
                           const struct fth_model_inputs *inputs, struct fth_parts_fields *out,
                           fth_error *err) {
    uint32_t *items = fth_arena_alloc(graph->arena, names->n + 1, sizeof *items);
    if (!items)
        return no_memory(key, err);
    for (uint32_t i = 0; i < names->n; i++)
        FTH_TRY(fth_parts_field(graph, key, names->items[i], inputs, &items[i], err));
    *out = (struct fth_parts_fields){items, (uint32_t)names->n};
    return FTH_OK;
}

fth_status fth_parts_need(const char *model, const struct fth_model_inputs *inputs, int fields,
                          fth_error *err) {
    if (fields && !inputs->n_fields)
        return fth_fail(
            err, FTH_E_CONFIG,
            "features.categorical: %s needs at least one categorical feature; there is none "
            "(quantiles or boundaries make one of numbers; lr, dcn, dcnv2 and wide_deep do without)",
            model);
    if (!inputs->n_fields && !inputs->n_dense)
        return fth_fail(
            err, FTH_E_CONFIG,
            "features: %s needs at least one numeric or categorical feature; there is none", model);
    return FTH_OK;
}

static int pooling_of(const struct fth_model_field *field) {
    if (field->group < 0)
        return FTH_POOL_NONE;
    return field->sequence || field->pooling == FTH_POOL_NONE ? FTH_POOL_MEAN : field->pooling;
}

fth_status fth_parts_lookup(fth_graph *graph, const struct fth_model_inputs *inputs, uint32_t field,
                            int positions, uint32_t *out, fth_error *err) {
    const struct fth_model_field *f = &inputs->fields[field];
    struct fth_lookup lookup = {.field = field,
                                .table = f->table,
                                .dim = f->dim,
                                .pooling = positions ? FTH_POOL_NONE : pooling_of(f),
                                .group = f->group,
                                .weighted = f->weighted,
                                .min_count = f->min_count};
    return fth_graph_lookup(graph, &lookup, out, err);
}

fth_status fth_parts_lookup_beside(fth_graph *graph, const struct fth_model_inputs *inputs, uint32_t field,
                                   const char *suffix, uint32_t dim, int positions, uint32_t *out,
                                   fth_error *err) {
    const struct fth_model_field *f = &inputs->fields[field];
    const char *table = fth_arena_printf(graph->arena, "%s.%s", f->table, suffix);
    if (!table)
        return no_memory(f->table, err);
    struct fth_lookup lookup = {.field = field,
                                .table = table,
                                .dim = dim,
                                .pooling = positions ? FTH_POOL_NONE : pooling_of(f),
                                .group = f->group,
                                .weighted = f->weighted,
                                .min_count = f->min_count};
    return fth_graph_lookup(graph, &lookup, out, err);
}

static fth_status linear_lookup(fth_graph *graph, const struct fth_model_inputs *inputs,
                                uint32_t field, uint32_t *out, fth_error *err) {
    const struct fth_model_field *f = &inputs->fields[field];
    const char *table = fth_arena_printf(graph->arena, "%s.linear", f->table);
    if (!table)
        return no_memory(f->table, err);
    struct fth_lookup lookup = {.field = field,
                                .table = table,
                                .dim = 1,
                                .pooling = pooling_of(f),
                                .group = f->group,
                                .weighted = f->weighted,
                                .min_count = f->min_count,
                                .zero_init = 1};
    return fth_graph_lookup(graph, &lookup, out, err);
}

fth_status fth_parts_linear(fth_graph *graph, const char *name,
                            const struct fth_model_inputs *inputs,
                            const struct fth_parts_fields *fields, fth_id *out, fth_error *err) {
    fth_id dense = FTH_NONE, sparse = FTH_NONE;
    if (inputs->n_dense) {
        fth_id floats = FTH_NONE;
        FTH_TRY(fth_graph_input(graph, FTH_ROLE_DENSE, &floats, err));
        FTH_TRY(fth_layer_linear_terms(graph, name, floats, &dense, err));
    }
    if (fields->n) {
        uint32_t *lookups = fth_arena_alloc(graph->arena, fields->n, sizeof *lookups);
        if (!lookups)
            return no_memory(name, err);
        for (uint32_t i = 0; i < fields->n; i++)
            FTH_TRY(linear_lookup(graph, inputs, fields->items[i], &lookups[i], err));
        FTH_TRY(fth_layer_embedding(graph, name, lookups, fields->n, &sparse, err));
        FTH_TRY(fth_layer_row_sum(graph, name, sparse, &sparse, err));
        if (dense == FTH_NONE)
            return fth_layer_bias(graph, name, sparse, out, err);
        return fth_layer_add(graph, sparse, dense, out, err);
    }
    *out = dense;
    return FTH_OK;
}

fth_status fth_parts_embeddings(fth_graph *graph, const char *name,
                                const struct fth_model_inputs *inputs,
                                const struct fth_parts_fields *fields, fth_id *values,
                                uint32_t *n_values, fth_error *err) {
    uint32_t *lookups = fth_arena_alloc(graph->arena, fields->n + 1, sizeof *lookups);
    uint8_t *done = fth_arena_alloc(graph->arena, fields->n + 1, 1);
    if (!lookups || !done)
        return no_memory(name, err);
    *n_values = 0;
    for (uint32_t i = 0; i < fields->n; i++) {
        uint32_t n = 0, dim = inputs->fields[fields->items[i]].dim;
        for (uint32_t j = i; j < fields->n && !done[i]; j++) {
            if (done[j] || inputs->fields[fields->items[j]].dim != dim)
                continue;
            FTH_TRY(fth_parts_lookup(graph, inputs, fields->items[j], 0, &lookups[n++], err));
            done[j] = j > i;
        }
        if (n)
            FTH_TRY(fth_layer_embedding(graph, name, lookups, n, &values[(*n_values)++], err));
        done[i] = 1;
    }
    return FTH_OK;
}

fth_status fth_parts_vectors(fth_graph *graph, const char *model, const struct fth_model_inputs *inputs,
                             const struct fth_parts_fields *fields, fth_id *out, uint32_t *dim,
                             fth_error *err) {
    const struct fth_model_field *first = &inputs->fields[fields->items[0]];
    for (uint32_t i = 0; i < fields->n; i++) {
        const struct fth_model_field *field = &inputs->fields[fields->items[i]];
        if (field->dim != first->dim)
            return fth_fail(
                err, FTH_E_CONFIG,
                "features: %s needs one embedding dimension for all fields, but %s has %u and "
                "%s %u; leave their dim out and set embedding.dim",
                model, first->name, first->dim, field->name, field->dim);
    }
    uint32_t n = 0;
    fth_id *values;
    FTH_TRY(fth_parts_ids(graph, fields->n, &values, err));
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, fields, values, &n, err));
    *out = values[0];
    *dim = first->dim;
    return FTH_OK;
}

fth_status fth_parts_with_dense(fth_graph *graph, const char *name,
                                const struct fth_model_inputs *inputs, const fth_id *values,
                                uint32_t n, fth_id *out, fth_error *err) {
    fth_id *all;
    FTH_TRY(fth_parts_ids(graph, n + 1, &all, err));
    for (uint32_t i = 0; i < n; i++)
        all[i] = values[i];
    if (inputs->n_dense)
        FTH_TRY(fth_graph_input(graph, FTH_ROLE_DENSE, &all[n++], err));
    return fth_layer_concat(graph, name, all, n, out, err);
}

struct fth_mlp_options fth_parts_mlp(const struct fth_model_config *config,
                                     const struct fth_ints *hidden) {
    return (struct fth_mlp_options){.hidden = hidden->items,
                                    .n_hidden = hidden->n,
                                    .activation = config->activation,
                                    .dropout = (float)config->dropout,
                                    .batch_norm = config->batch_norm,
                                    .layer_norm = config->layer_norm,
                                    .residual = config->residual};
}

fth_status fth_parts_deep(fth_graph *graph, const char *name, const char *key,
                          const struct fth_model_config *config, const struct fth_ints *hidden,
                          fth_id x, fth_id *out, fth_error *err) {
    if (!hidden->n)
        return fth_fail(err, FTH_E_CONFIG,
                        "%s: %s needs at least one hidden layer, such as [256, 128]", key,
                        config->name);
    struct fth_mlp_options options = fth_parts_mlp(config, hidden);
    const char *last = fth_arena_printf(graph->arena, "%s.out", name);
    if (!last)
        return no_memory(name, err);
    FTH_TRY(fth_layer_mlp(graph, name, x, &options, &x, err));
    return fth_layer_linear(graph, last, x, 1, 1, out, err);
}

fth_status fth_parts_ids(fth_graph *graph, uint32_t n, fth_id **out, fth_error *err) {
    fth_id *ids = fth_arena_alloc(graph->arena, n + 1, sizeof *ids);
    if (!ids)
        return no_memory("model", err);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = FTH_NONE;
    *out = ids;
    return FTH_OK;
}

fth_status fth_parts_crossed(fth_graph *graph, const struct fth_model_config *config,
                             const struct fth_model_inputs *inputs, fth_parts_cross *cross,
                             fth_error *err) {
    struct fth_parts_fields all = {0};
    fth_id *values, x0, both[2];
    uint32_t n = 0;
    FTH_TRY(fth_parts_need(config->name, inputs, 0, err));
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_ids(graph, all.n, &values, err));
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, &all, values, &n, err));
    FTH_TRY(fth_parts_with_dense(graph, "in", inputs, values, n, &x0, err));
    both[0] = x0;
    if (config->cross_layers < 1)
        return fth_fail(err, FTH_E_CONFIG, "model.cross_layers: %s needs at least 1 crossing",
                        config->name);
    for (int64_t i = 0; i < config->cross_layers; i++) {
        const char *name = fth_arena_printf(graph->arena, "cross.%lld", (long long)i);
        if (!name)
            return no_memory("cross", err);
        FTH_TRY(cross(graph, name, x0, both[0], &both[0], err));
    }
    struct fth_mlp_options options = fth_parts_mlp(config, &config->hidden);
    if (!options.n_hidden)
        return fth_fail(err, FTH_E_CONFIG,
                        "model.hidden: %s needs at least one hidden layer, such as [256, 128]",
                        config->name);
    FTH_TRY(fth_layer_mlp(graph, "deep", x0, &options, &both[1], err));
    FTH_TRY(fth_layer_concat(graph, "out.in", both, 2, &x0, err));
    return fth_layer_linear(graph, "out", x0, 1, 1, &graph->logit, err);
}
