/* Two towers, as retrieval has them: layers over a user's features and layers over an item's, whose results, of equal
 * width, are multiplied: <u, v>, by choice of unit length and divided by a temperature (Yi et al., RecSys 2019, section 3). The
 * floats of the batch belong to the user.
 *
 * model.loss pointwise: binary cross-entropy on the product and a bias, as vectors of unit length alone cannot say that few
 * examples are positive. in_batch_softmax: the item of each positive example stands
 * against all items of its batch, an item's logarithm of frequency taken off its score (eq. 3 to 5), because frequent items are
 * in more batches. The frequency is that of the first of model.item_fields in the examples so far, counted in a table
 * "<table>.sampled" of its own: exact, where the paper's estimate (section 4) forgets; kept in checkpoints. */
#include "model/parts.h"

static fth_status tower(fth_graph *graph, const char *name, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, const struct fth_parts_fields *fields, int floats,
                        fth_id *out, fth_error *err) {
    uint32_t n = 0, layers = config->hidden.n - 1;
    struct fth_ints below = {config->hidden.items, layers};
    struct fth_mlp_options options = fth_parts_mlp(config, &below);
    const char *part = fth_arena_printf(graph->arena, "%s.embedding", name);
    const char *last = fth_arena_printf(graph->arena, "%s.out", name);
    fth_id *values, x;
    if (!part || !last)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    FTH_TRY(fth_parts_ids(graph, fields->n + 1, &values, err));
    FTH_TRY(fth_parts_embeddings(graph, part, inputs, fields, values, &n, err));
    if (floats && inputs->n_dense)
        FTH_TRY(fth_graph_input(graph, FTH_ROLE_DENSE, &values[n++], err));
    FTH_TRY(fth_layer_concat(graph, name, values, n, &x, err));
    FTH_TRY(fth_layer_mlp(graph, name, x, &options, &x, err));
    FTH_TRY(fth_layer_linear(graph, last, x, (uint32_t)config->hidden.items[layers], 1, out, err));
    return config->normalise ? fth_layer_normalise(graph, name, *out, out, err) : FTH_OK;
}

/* The item's fields as named, and the user's: named, or all that are not the item's. */
static fth_status split(fth_graph *graph, const struct fth_model_config *config, const struct fth_model_inputs *inputs,
                        struct fth_parts_fields *user, struct fth_parts_fields *item, fth_error *err) {
    if (!config->item_fields.n)
        return fth_fail(err, FTH_E_CONFIG, "model.item_fields: name the features of the item, its id first, such as "
                        "[item, category]");
    FTH_TRY(fth_parts_named(graph, "model.item_fields", &config->item_fields, inputs, item, err));
    uint32_t *rest = fth_arena_alloc(graph->arena, inputs->n_fields + 1, sizeof *rest);
    if (!rest)
        return fth_fail(err, FTH_E_MEMORY, "two_tower: out of memory");
    *user = (struct fth_parts_fields){rest, 0};
    for (uint32_t i = 0; i < inputs->n_fields; i++) {
        int items = 0;
        for (uint32_t j = 0; j < item->n; j++)
            items |= item->items[j] == i;
        if (!items)
            rest[user->n++] = i;
    }
    if (config->user_fields.n)
        FTH_TRY(fth_parts_named(graph, "model.user_fields", &config->user_fields, inputs, user, err));
    if (!user->n && !inputs->n_dense)
        return fth_fail(err, FTH_E_CONFIG, "model.user_fields: the user's tower has no feature; there must be some that are "
                        "not in model.item_fields");
    return FTH_OK;
}

static fth_status in_batch(fth_graph *graph, const struct fth_model_config *config,
                           const struct fth_model_inputs *inputs, uint32_t id, fth_id user, fth_id item,
                           fth_error *err) {
    graph->softmax.user = user;
    graph->softmax.item = item;
    graph->softmax.sampled = -1;
    if (!config->log_q)
        return FTH_OK;
    uint32_t lookup;
    if (inputs->fields[id].group >= 0)
        return fth_fail(err, FTH_E_CONFIG, "model.item_fields: %s comes first and is a list; put the item's id first, or set "
                        "model.log_q to false", inputs->fields[id].name);
    FTH_TRY(fth_parts_lookup_beside(graph, inputs, id, "sampled", 1, 0, &lookup, err));
    graph->lookups[lookup].min_count = 0;
    graph->lookups[lookup].zero_init = 1;
    graph->lookups[lookup].counted = 1;
    graph->softmax.sampled = (int32_t)lookup;
    return FTH_OK;
}

/* Both losses have it, as a checkpoint may go on with the other one; a softmax does not change it. Checkpoints from before
 * 26 November 2026 have none, which is one of 0. */
static fth_status output_bias(fth_graph *graph, fth_id product, fth_error *err) {
    fth_id bias;
    uint32_t column;
    FTH_TRY(fth_layer_bias(graph, "out", product, &graph->logit, err));
    if (fth_layer_output_bias(graph, 0, &bias, &column))
        fth_graph_value(graph, bias)->later = 1;
    return FTH_OK;
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields users = {0}, items = {0};
    fth_id user, item, product;
    FTH_TRY(fth_parts_need("two_tower", inputs, 1, err));
    if (!config->hidden.n || config->hidden.items[config->hidden.n - 1] < 2)
        return fth_fail(err, FTH_E_CONFIG, "model.hidden: two_tower needs at least one layer, the last of 2 units or more, "
                        "such as [256, 64]");
    FTH_TRY(split(graph, config, inputs, &users, &items, err));
    FTH_TRY(tower(graph, "user", config, inputs, &users, 1, &user, err));
    FTH_TRY(tower(graph, "item", config, inputs, &items, 0, &item, err));
    if (config->temperature != 1)
        FTH_TRY(fth_layer_scale(graph, "temperature", user, (float)(1 / config->temperature), &user, err));
    FTH_TRY(fth_layer_mul(graph, user, item, &product, err));
    FTH_TRY(fth_layer_row_sum(graph, "product", product, &product, err));
    FTH_TRY(output_bias(graph, product, err));
    return config->in_batch_softmax ? in_batch(graph, config, inputs, items.items[0], user, item, err) : FTH_OK;
}

const struct fth_model fth_model_two_tower = {.name = "two_tower", .build = build};
