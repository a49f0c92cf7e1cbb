/* Deep Session Interest Network (Feng et al., IJCAI 2019), section 3, layer by layer:
 *
 *   Session Division Layer            a history is cut into sessions (graph.h): where the feature named by model.session
 *                                     changes, and after model.session_length positions. (The paper cuts where more
 *                                     than 30 minutes lie between two positions: features.derived, as: sessions, makes
 *                                     that feature of the positions' times.)
 *   Session Interest Extractor Layer  bias encoding (eq. 2: a number for the session, one for the position in it, one for
 *                                     the column), self-attention of several heads within the session and a feed-forward
 *                                     layer, each with its residual and layer norm (as Vaswani et al. 2017, sec. 3.1);
 *                                     the mean over a session's positions is its interest I
 *   Session Interest Interacting      a bi-directional LSTM over the sessions' interests, H: both states side by side
 *   Session Interest Activating       softmax over the sessions of I W X, of H W' X, with X the target's embedding;
 *                                     the two sums by these weights
 *
 * and layers over other fields, target, both sums and floats. Sessions are ragged: as many and as long as they are.
 * model.sessions counts those with a number of their own in the bias encoding, from the latest; earlier ones share the
 * last. What histories and targets are: parts.h. */
#include <string.h>

#include "model/parts.h"

struct dsin {
    fth_graph *graph;
    const struct fth_model_config *config;
    const char *history; /* its first sequence's name */
    fth_id keys, query;
    int32_t sessions;
    uint32_t columns; /* of the keys */
};

/* "session.<history>.<part>" */
static fth_status part_name(const struct dsin *dsin, const char *part, const char **out, fth_error *err) {
    *out = fth_arena_printf(dsin->graph->arena, "session.%s.%s", dsin->history, part);
    return *out ? FTH_OK : fth_fail(err, FTH_E_MEMORY, "dsin: out of memory");
}

static fth_status bias_encoding(const struct dsin *dsin, fth_id x, fth_id *out, fth_error *err) {
    const char *name;
    FTH_TRY(part_name(dsin, "number", &name, err));
    FTH_TRY(fth_layer_position_bias(dsin->graph, name, x, (uint32_t)dsin->config->sessions, 1,
                                    FTH_SESSION_FROM_END, dsin->sessions, &x, err));
    FTH_TRY(part_name(dsin, "position", &name, err));
    FTH_TRY(fth_layer_position_bias(dsin->graph, name, x, (uint32_t)dsin->config->session_length, 1,
                                    FTH_POSITION_FROM_START, dsin->sessions, &x, err));
    FTH_TRY(part_name(dsin, "column", &name, err));
    return fth_layer_bias(dsin->graph, name, x, out, err);
}

/* norm(x + y) */
static fth_status add_norm(const struct dsin *dsin, const char *part, fth_id x, fth_id y, fth_id *out,
                           fth_error *err) {
    const char *name;
    FTH_TRY(part_name(dsin, part, &name, err));
    FTH_TRY(fth_layer_add(dsin->graph, x, y, &x, err));
    return fth_layer_layer_norm(dsin->graph, name, x, out, err);
}

static fth_status extract(const struct dsin *dsin, fth_id *interest, fth_error *err) {
    fth_graph *graph = dsin->graph;
    const char *name;
    fth_id x, y;
    FTH_TRY(bias_encoding(dsin, dsin->keys, &x, err));
    FTH_TRY(part_name(dsin, "attention", &name, err));
    FTH_TRY(fth_layer_self_attention(graph, name, x, (uint32_t)dsin->config->heads, dsin->sessions, &y,
                                     err));
    FTH_TRY(add_norm(dsin, "attention.norm", x, y, &x, err));
    const char *activation = dsin->config->attention_activation;
    if (!activation || !strcmp(activation, "same"))
        activation = dsin->config->activation;
    int64_t widths[1] = {dsin->config->feed_forward};
    struct fth_mlp_options options = {.hidden = widths, .n_hidden = 1, .activation = activation};
    FTH_TRY(part_name(dsin, "feed_forward", &name, err));
    FTH_TRY(fth_layer_mlp(graph, name, x, &options, &y, err));
    FTH_TRY(part_name(dsin, "feed_forward.out", &name, err));
    FTH_TRY(fth_layer_linear(graph, name, y, dsin->columns, 1, &y, err));
    FTH_TRY(add_norm(dsin, "feed_forward.norm", x, y, &x, err));
    FTH_TRY(part_name(dsin, "interest", &name, err));
    return fth_layer_segment_pool(graph, name, x, FTH_POOL_MEAN, dsin->sessions, interest, err);
}

static fth_status interact(const struct dsin *dsin, fth_id interest, fth_id *evolved, fth_error *err) {
    uint32_t units = dsin->columns > 1 ? dsin->columns : 2; /* an LSTM takes two at least */
    const char *name;
    fth_id states[2];
    FTH_TRY(part_name(dsin, "forward", &name, err));
    FTH_TRY(fth_layer_lstm(dsin->graph, name, interest, units, 0, &states[0], err));
    FTH_TRY(part_name(dsin, "backward", &name, err));
    FTH_TRY(fth_layer_lstm(dsin->graph, name, interest, units, 1, &states[1], err));
    FTH_TRY(part_name(dsin, "states", &name, err));
    return fth_layer_concat(dsin->graph, name, states, 2, evolved, err);
}

static fth_status activate(const struct dsin *dsin, const char *part, fth_id x, fth_id *out,
                           fth_error *err) {
    const char *name;
    fth_id weights;
    FTH_TRY(part_name(dsin, part, &name, err));
    FTH_TRY(fth_layer_bilinear(dsin->graph, name, x, dsin->query, &weights, err));
    FTH_TRY(fth_layer_segment_softmax(dsin->graph, name, weights, &weights, err));
    return fth_layer_segment_sum(dsin->graph, name, x, weights, out, err);
}

/* One history: its two sums side by side. */
static fth_status history_read(struct fth_parts_histories *histories, uint32_t first, int32_t field,
                               fth_error *err) {
    const struct fth_model_config *config = histories->config;
    const struct fth_model_field *sequence = &histories->inputs->fields[first];
    struct dsin dsin = {.graph = histories->graph, .config = config, .history = sequence->name};
    struct fth_sessions sessions = {
        .group = sequence->group, .field = field, .length = (uint32_t)config->session_length};
    const char *name;
    fth_id interest, evolved, sums[2];
    FTH_TRY(fth_parts_history(histories, first, &dsin.keys, &dsin.query, err));
    dsin.columns = fth_graph_value(dsin.graph, dsin.keys)->columns;
    FTH_TRY(fth_graph_sessions(dsin.graph, &sessions, &dsin.sessions, err));
    FTH_TRY(extract(&dsin, &interest, err));
    FTH_TRY(interact(&dsin, interest, &evolved, err));
    FTH_TRY(activate(&dsin, "interest", interest, &sums[0], err));
    FTH_TRY(activate(&dsin, "evolved", evolved, &sums[1], err));
    FTH_TRY(part_name(&dsin, "sums", &name, err));
    return fth_layer_concat(dsin.graph, name, sums, 2, &histories->pooled[histories->n_pooled++], err);
}

/* The field that names sessions; -1: none does. */
static fth_status session_field(const struct fth_model_config *config,
                                const struct fth_model_inputs *inputs, int32_t *out, fth_error *err) {
    *out = -1;
    if (!config->session || !*config->session)
        return FTH_OK;
    for (uint32_t i = 0; i < inputs->n_fields; i++)
        if (!strcmp(inputs->fields[i].name, config->session) && inputs->fields[i].group >= 0 &&
            inputs->fields[i].sequence)
            *out = (int32_t)i;
    if (*out < 0)
        return fth_fail(err, FTH_E_CONFIG,
                        "model.session: %s is no sequence; name a categorical feature with `sequence: "
                        "true` in the history's group, one session's number a position",
                        config->session);
    return FTH_OK;
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_histories histories;
    int32_t field;
    uint8_t *apart = fth_arena_alloc(graph->arena, inputs->n_fields + 1, 1);
    if (!apart)
        return fth_fail(err, FTH_E_MEMORY, "dsin: out of memory");
    FTH_TRY(session_field(config, inputs, &field, err));
    int used = field < 0;
    if (field >= 0)
        apart[field] = 1;
    FTH_TRY(fth_parts_match(graph, config, inputs, apart, &histories, err));
    for (uint32_t i = fth_parts_next_history(&histories, 0); i < inputs->n_fields;
         i = fth_parts_next_history(&histories, i + 1)) {
        int own = field >= 0 && inputs->fields[field].group == inputs->fields[i].group;
        used |= own;
        FTH_TRY(history_read(&histories, i, own ? field : -1, err));
    }
    if (!used)
        return fth_fail(err, FTH_E_CONFIG,
                        "model.session: %s is of no history's group; give both the same `group`",
                        config->session);
    return fth_parts_over_histories(&histories, err);
}

const struct fth_model fth_model_dsin = {.name = "dsin", .build = build};
