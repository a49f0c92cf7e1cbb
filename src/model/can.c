/* CAN, the feature co-action network (Bian et al., WSDM 2022, section 4): what two features have to do with each other is
 * learned by a small network whose weights are a row of the one (the induction) and whose input is a row of the other (the
 * feed), eq. 4 to 7; a history is fed position by position and summed. All units' outputs stand beside the ordinary
 * embeddings (a history's mean) and the floats in the input of the deep part.
 *
 * Rows for co-action are not the ordinary embeddings (section 4.3, independence of parameters): the induction's lie in
 * "<table>.co_action", the feed's in "<table>.feed". An induction's row serves all its pairs; powers of the feed share it. */
#include <string.h>

#include "model/parts.h"

struct can {
    fth_graph *graph;
    const struct fth_model_config *config;
    const struct fth_model_inputs *inputs;
    struct fth_co_action_options options;
    uint32_t weights; /* numbers of an induction's row */
    fth_id *induction, *feed, *out; /* [fields], [fields], [pairs] */
    uint32_t n_out;
};

static fth_status widths(struct can *can, fth_error *err) {
    const struct fth_ints *layers = &can->config->co_action_layers;
    uint32_t *items = fth_arena_alloc(can->graph->arena, layers->n + 1, sizeof *items);
    if (!items)
        return fth_fail(err, FTH_E_MEMORY, "can: out of memory");
    for (uint32_t i = 0; i < layers->n; i++) {
        if (layers->items[i] < 2)
            return fth_fail(err, FTH_E_CONFIG, "model.co_action_layers: layer %u has %lld unit; give each at least 2",
                            i, (long long)layers->items[i]);
        items[i] = (uint32_t)layers->items[i];
    }
    if (!layers->n || layers->n > 8)
        return fth_fail(err, FTH_E_CONFIG, "model.co_action_layers: give 1 to 8 layers, such as [8, 4]");
    can->options = (struct fth_co_action_options){items, layers->n, (uint32_t)can->config->co_action_orders};
    can->weights = fth_co_action_weights((uint32_t)can->config->co_action_dim, items, layers->n);
    if (!can->weights || can->weights > 4096)
        return fth_fail(err, FTH_E_CONFIG, "model.co_action_layers: a row would hold more than 4096 weights; use narrower "
                        "layers or a smaller model.co_action_dim");
    return FTH_OK;
}

/* The rows of a field in a table of their own. */
static fth_status rows(struct can *can, uint32_t field, const char *suffix, uint32_t dim, int positions,
                       fth_id *out, fth_error *err) {
    uint32_t lookup;
    FTH_TRY(fth_parts_lookup_beside(can->graph, can->inputs, field, suffix, dim, positions, &lookup, err));
    return fth_layer_embedding(can->graph, suffix, &lookup, 1, out, err);
}

static fth_status pair(struct can *can, uint32_t induction, uint32_t feed, fth_error *err) {
    const struct fth_model_field *fields = can->inputs->fields;
    if (fields[induction].group >= 0)
        return fth_fail(err, FTH_E_CONFIG, "model.co_action: %s is a list, but an induction feature has one value an "
                        "example; it can be the feed of %s:%s", fields[induction].name, fields[feed].name,
                        fields[induction].name);
    if (can->induction[induction] == FTH_NONE)
        FTH_TRY(rows(can, induction, "co_action", can->weights, 0, &can->induction[induction], err));
    if (can->feed[feed] == FTH_NONE)
        FTH_TRY(rows(can, feed, "feed", (uint32_t)can->config->co_action_dim,
                     fields[feed].group >= 0 && !fields[feed].weighted, &can->feed[feed], err));
    const char *name = fth_arena_printf(can->graph->arena, "co_action.%s.%s", fields[induction].name,
                                        fields[feed].name);
    if (!name)
        return fth_fail(err, FTH_E_MEMORY, "can: out of memory");
    return fth_layer_co_action(can->graph, name, can->induction[induction], can->feed[feed], &can->options,
                               &can->out[can->n_out++], err);
}

/* "induction:feed" of model.co_action. */
static fth_status named_pair(struct can *can, const char *text, fth_error *err) {
    uint32_t induction, feed;
    const char *colon = strchr(text, ':');
    if (!colon)
        return fth_fail(err, FTH_E_CONFIG, "model.co_action: \"%s\" is no pair; write INDUCTION:FEED, such as "
                        "item:user", text);
    const char *name = fth_arena_printf(can->graph->arena, "%.*s", (int)(colon - text), text);
    if (!name)
        return fth_fail(err, FTH_E_MEMORY, "can: out of memory");
    FTH_TRY(fth_parts_field(can->graph, "model.co_action", name, can->inputs, &induction, err));
    FTH_TRY(fth_parts_field(can->graph, "model.co_action", colon + 1, can->inputs, &feed, err));
    return pair(can, induction, feed, err);
}

/* Without a list: the target with every other field. */
static fth_status pairs(struct can *can, fth_error *err) {
    const struct fth_strings *list = &can->config->co_action;
    uint32_t target;
    FTH_TRY(fth_parts_ids(can->graph, list->n + can->inputs->n_fields, &can->out, err));
    for (uint32_t i = 0; i < list->n; i++)
        FTH_TRY(named_pair(can, list->items[i], err));
    if (list->n)
        return FTH_OK;
    if (!can->config->target || !*can->config->target)
        return fth_fail(err, FTH_E_CONFIG, "model.target: can needs the feature that acts on all others, such as item; or "
                        "name pairs in model.co_action");
    FTH_TRY(fth_parts_field(can->graph, "model.target", can->config->target, can->inputs, &target, err));
    for (uint32_t i = 0; i < can->inputs->n_fields; i++)
        if (i != target)
            FTH_TRY(pair(can, target, i, err));
    if (!can->n_out)
        return fth_fail(err, FTH_E_CONFIG, "features.categorical: can needs a second feature, for the target to act on");
    return FTH_OK;
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct can can = {.graph = graph, .config = config, .inputs = inputs};
    struct fth_parts_fields all = {0};
    fth_id *values, x;
    uint32_t n = 0;
    FTH_TRY(fth_parts_need("can", inputs, 1, err));
    FTH_TRY(widths(&can, err));
    FTH_TRY(fth_parts_ids(graph, inputs->n_fields, &can.induction, err));
    FTH_TRY(fth_parts_ids(graph, inputs->n_fields, &can.feed, err));
    FTH_TRY(pairs(&can, err));
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_ids(graph, all.n + can.n_out, &values, err));
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, &all, values, &n, err));
    for (uint32_t i = 0; i < can.n_out; i++)
        values[n++] = can.out[i];
    FTH_TRY(fth_parts_with_dense(graph, "deep.in", inputs, values, n, &x, err));
    return fth_parts_deep(graph, "deep", "model.hidden", config, &config->hidden, x, &graph->logit, err);
}

const struct fth_model fth_model_can = {.name = "can", .build = build};
