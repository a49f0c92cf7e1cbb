/* Deep Interest Evolution Network (Zhou et al., AAAI 2019). Of each history (parts.h):
 *
 *   interest extractor (section 4.2)   a GRU over the history, as wide as its embeddings; the auxiliary loss (eq. 6)
 *                                      makes each state tell the item that followed from one that did not
 *   interest evolution (section 4.3)   a_t = softmax of h_t W e_a over the history (eq. 14), e_a the target's
 *                                      embedding; AUGRU (eqs. 15, 16) with these scores; its last state
 *
 * and layers over other fields, target, last states and floats. The auxiliary loss takes the inner product of eqs. 5
 * and 6 (the authors' code has a small network there), averaged over an example's pairs. Negatives are the sequences
 * that model.negatives names (drawn beforehand, as in the authors' data), else drawn within the tile: from the examples
 * of train.tile, whose number so has a say in what is learned. */
#include <string.h>

#include "model/parts.h"

enum { NAMED = 1, USED }; /* in `apart`: sequences of model.negatives */

static const char *named(const struct fth_parts_histories *dien, const char *part, uint32_t first) {
    return fth_arena_printf(dien->graph->arena, "%s.%s", part, dien->inputs->fields[first].name);
}

static int alike(const struct fth_parts_histories *dien, uint32_t i, uint32_t j) {
    const struct fth_model_field *a = &dien->inputs->fields[i], *b = &dien->inputs->fields[j];
    return a->group == b->group && strcmp(a->table, b->table) == 0;
}

static uint32_t field_named(const struct fth_model_inputs *inputs, const char *name) {
    uint32_t i = 0;
    while (i < inputs->n_fields && strcmp(inputs->fields[i].name, name))
        i++;
    return i;
}

/* The sequence named in model.negatives that stands in for field i, of the same table and group: the first named for the
 * first such sequence of a history, and so on. None: the number of fields. */
static uint32_t negative_of(const struct fth_parts_histories *dien, uint32_t i) {
    const struct fth_strings *names = &dien->config->negatives;
    uint32_t before = 0;
    for (uint32_t j = 0; j < i; j++)
        before += dien->target_of[j] >= 0 && !dien->apart[j] && alike(dien, i, j);
    for (uint32_t n = 0; n < names->n; n++) {
        uint32_t j = field_named(dien->inputs, names->items[n]);
        if (alike(dien, i, j) && before-- == 0)
            return j;
    }
    return dien->inputs->n_fields;
}

/* Embeddings of the history's negatives, in the order of its sequences; FTH_NONE when it has none. */
static fth_status negatives(const struct fth_parts_histories *dien, uint32_t first, fth_id *out,
                            fth_error *err) {
    const struct fth_model_inputs *inputs = dien->inputs;
    uint32_t n = 0, missing = inputs->n_fields, lookup;
    fth_id *rows;
    FTH_TRY(fth_parts_ids(dien->graph, inputs->n_fields, &rows, err));
    for (uint32_t i = first; i < inputs->n_fields; i++) {
        if (dien->target_of[i] < 0 || inputs->fields[i].group != inputs->fields[first].group)
            continue;
        uint32_t negative = negative_of(dien, i);
        if (negative == inputs->n_fields) {
            missing = i;
            continue;
        }
        dien->apart[negative] = USED;
        FTH_TRY(fth_parts_lookup(dien->graph, inputs, negative, 1, &lookup, err));
        FTH_TRY(fth_layer_embedding(dien->graph, "negatives", &lookup, 1, &rows[n++], err));
        dien->graph->nodes[dien->graph->n_nodes - 1]->training_only = 1;
    }
    *out = FTH_NONE;
    if (!n)
        return FTH_OK;
    if (missing < inputs->n_fields)
        return fth_fail(err, FTH_E_CONFIG,
                        "model.negatives: sequence %s has none; name one of the same table and group for "
                        "each sequence of a history, or for none",
                        inputs->fields[missing].name);
    FTH_TRY(fth_layer_concat(dien->graph, "negatives", rows, n, out, err));
    if (n > 1)
        dien->graph->nodes[dien->graph->n_nodes - 1]->training_only = 1;
    return FTH_OK;
}

static fth_status evolve(struct fth_parts_histories *dien, uint32_t first, fth_error *err) {
    fth_graph *graph = dien->graph;
    fth_id key, query, states, wanted, scores, evolved, negative = FTH_NONE;
    const char *extractor = named(dien, "interest", first), *attention = named(dien, "attention", first);
    const char *evolution = named(dien, "evolution", first);
    if (!extractor || !attention || !evolution)
        return fth_fail(err, FTH_E_MEMORY, "dien: out of memory");
    FTH_TRY(fth_parts_history(dien, first, &key, &query, err));
    uint32_t width = fth_graph_value(graph, key)->columns;
    if (width < 2)
        return fth_fail(err, FTH_E_CONFIG,
                        "embedding.dim: dien's recurrent layers need at least 2 numbers a position; history "
                        "%s has 1",
                        dien->inputs->fields[first].name);
    FTH_TRY(fth_layer_gru(graph, extractor, key, width, 0, &states, err));
    if (dien->config->auxiliary > 0) {
        FTH_TRY(negatives(dien, first, &negative, err));
        FTH_TRY(fth_layer_next_loss(graph, extractor, states, key, negative, (float)dien->config->auxiliary,
                                    err));
    }
    FTH_TRY(fth_layer_linear(graph, attention, query, width, 0, &wanted, err));
    FTH_TRY(fth_layer_segment_dot(graph, attention, states, wanted, &scores, err));
    FTH_TRY(fth_layer_segment_softmax(graph, attention, scores, &scores, err));
    uint32_t units = dien->config->recurrent ? (uint32_t)dien->config->recurrent : width;
    FTH_TRY(fth_layer_augru(graph, evolution, states, scores, units, &evolved, err));
    return fth_layer_segment_last(graph, evolution, evolved, 0, &dien->pooled[dien->n_pooled++], err);
}

static fth_status mark_negatives(const struct fth_model_config *config, const struct fth_model_inputs *inputs,
                                 uint8_t *apart, fth_error *err) {
    for (uint32_t n = 0; n < config->negatives.n; n++) {
        uint32_t i = field_named(inputs, config->negatives.items[n]);
        if (i == inputs->n_fields || !inputs->fields[i].sequence || inputs->fields[i].group < 0)
            return fth_fail(err, FTH_E_CONFIG,
                            "model.negatives: %s is no sequence of features.categorical; give it "
                            "`sequence: true`, a separator, and table and group of the sequence it is for",
                            config->negatives.items[n]);
        apart[i] = NAMED;
    }
    return FTH_OK;
}

static fth_status check_used(const struct fth_parts_histories *dien, fth_error *err) {
    const struct fth_strings *names = &dien->config->negatives;
    for (uint32_t n = 0; n < names->n && dien->config->auxiliary > 0; n++) {
        uint32_t i = field_named(dien->inputs, names->items[n]);
        if (dien->apart[i] == NAMED)
            return fth_fail(err, FTH_E_CONFIG,
                            "model.negatives: %s stands in for no sequence of a history; it takes table and group of the one "
                            "that it is for, and there is one for each", names->items[n]);
    }
    return FTH_OK;
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_histories dien;
    uint8_t *apart = fth_arena_alloc(graph->arena, inputs->n_fields + 1, sizeof *apart);
    if (!apart)
        return fth_fail(err, FTH_E_MEMORY, "dien: out of memory");
    FTH_TRY(mark_negatives(config, inputs, apart, err));
    FTH_TRY(fth_parts_match(graph, config, inputs, apart, &dien, err));
    for (uint32_t i = fth_parts_next_history(&dien, 0); i < inputs->n_fields;
         i = fth_parts_next_history(&dien, i + 1))
        FTH_TRY(evolve(&dien, i, err));
    FTH_TRY(check_used(&dien, err));
    return fth_parts_over_histories(&dien, err);
}

const struct fth_model fth_model_dien = {.name = "dien", .build = build};
