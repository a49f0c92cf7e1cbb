/* ATBRG, Adaptive Target-Behavior Relational Graph network (Feng et al., SIGIR 2020, arXiv 2005.12002). Parts bear the
 * paper's names; forms that were chosen here are marked "ours": of the paper's equations only what they do was at
 * hand, so no numbers of equations stand here.
 *
 *   graph connect              the target item and each item of the history reach entities of a knowledge graph by
 *                              relations: columns, usually joined from side files (item -> category -> department);
 *                              a relation gives a node one entity, or none
 *   graph prune                an entity that only one node reaches links nothing and is dropped, unless an entity
 *                              beyond it is kept (ops/prune_graph.c). Positions of a history are nodes of their own,
 *                              also where an item comes twice (ours)
 *   relation-aware extractor   from the outermost entities to the items: a node h with entities t_r by relations r
 *                                s_r = w_r tanh(W_r [e_h, e_t] + e_r) + b_r,  a = softmax of s over what was kept (ours)
 *                                e_N = sum_r a_r V_r e_t
 *                                e_h' = tanh(W [e_h, e_N] + b), W of the relation that leads to h or of the items (ours)
 *                              with e_r the relation's embedding: a W over [e_h, e_r, e_t] is the same. Without a kept
 *                              entity e_N is 0; where h can have only one, no score is needed. The target and the
 *                              history share all of it, being nodes of one graph
 *   representation activation  softmax over the history of e_t' W e_y', the sum of e_t' by these weights (form ours)
 *   feature interaction        layers over other fields, the target and its entities as they are, e_y', that sum, floats
 *
 * One neighbour a relation and node; several are several relations. The paper's entities of unbounded neighbourhoods
 * and its sampling of them have no counterpart. */
#include <string.h>

#include "model/parts.h"

enum { TARGET, HISTORY, SIDES }; /* [E, n] and [P, n] */

struct relation {
    uint32_t field[SIDES];
    int32_t head;        /* -1: the items */
    fth_id entity[SIDES];
};

struct atbrg {
    fth_graph *graph;
    const struct fth_model_inputs *inputs;
    const struct fth_model_config *config;
    struct fth_parts_histories features; /* which fields are of the graph, for the layers over all others */
    uint32_t item[SIDES];                /* fields */
    struct relation *relations;          /* heads before what they lead to, those of one head side by side */
    uint32_t n;
    fth_id kept[SIDES]; /* of prune_graph */
};

static fth_status no_memory(fth_error *err) {
    return fth_fail(err, FTH_E_MEMORY, "atbrg: out of memory");
}

/* ---- which columns are of the graph ---- */

static int is_sequence(const struct fth_model_field *field) {
    return field->sequence && field->group >= 0;
}

/* The one plain field that shares the table of field i; n_fields: none. `only`: "" or its name. */
static fth_status plain_of(const struct atbrg *a, uint32_t i, const char *only, uint32_t *out, fth_error *err) {
    const struct fth_model_field *fields = a->inputs->fields;
    *out = a->inputs->n_fields;
    for (uint32_t j = 0; j < a->inputs->n_fields; j++) {
        if (fields[j].group >= 0 || strcmp(fields[j].table, fields[i].table) || (*only && strcmp(fields[j].name, only)))
            continue;
        if (*out < a->inputs->n_fields)
            return fth_fail(err, FTH_E_CONFIG, "model.relations: sequence %s shares table %s with %s and %s; "
                            "name the pairs, such as %s:%s", fields[i].name, fields[i].table, fields[*out].name, fields[j].name,
                            fields[j].name, fields[i].name);
        *out = j;
    }
    return FTH_OK;
}

/* Text `number` of model.relations is "TARGET:HISTORY" or "TARGET:HISTORY:HEAD". */
static fth_status read_relation(struct atbrg *a, const char *text, fth_error *err) {
    const struct fth_model_field *fields = a->inputs->fields;
    const char *colon = strchr(text, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
    struct relation *relation = &a->relations[a->n];
    if (!colon)
        return fth_fail(err, FTH_E_CONFIG, "model.relations: \"%s\" is no pair; write OF_TARGET:OF_HISTORY, such as "
                        "category:hist_category", text);
    size_t length = second ? (size_t)(second - colon - 1) : strlen(colon + 1);
    const char *target = fth_arena_printf(a->graph->arena, "%.*s", (int)(colon - text), text);
    const char *history = fth_arena_printf(a->graph->arena, "%.*s", (int)length, colon + 1);
    if (!target || !history)
        return no_memory(err);
    FTH_TRY(fth_parts_field(a->graph, "model.relations", target, a->inputs, &relation->field[TARGET], err));
    FTH_TRY(fth_parts_field(a->graph, "model.relations", history, a->inputs, &relation->field[HISTORY], err));
    const struct fth_model_field *of_target = &fields[relation->field[TARGET]];
    const struct fth_model_field *of_history = &fields[relation->field[HISTORY]];
    if (of_target->group >= 0 || !is_sequence(of_history))
        return fth_fail(err, FTH_E_CONFIG, "model.relations: \"%s\": %s", text,
                        of_target->group >= 0 ? "the first is a list, but the target has one entity of a relation"
                                              : "the second is no sequence; give it `sequence: true` and a separator");
    if (strcmp(of_target->table, of_history->table))
        return fth_fail(err, FTH_E_CONFIG, "model.relations: \"%s\": entities are compared, so both need one `table`, but "
                        "have %s and %s", text, of_target->table, of_history->table);
    relation->head = -1;
    for (uint32_t r = 0; r < a->n; r++) {
        if (second && !strcmp(second + 1, fields[a->relations[r].field[TARGET]].name))
            relation->head = (int32_t)r;
        if (a->relations[r].field[TARGET] == relation->field[TARGET] ||
            a->relations[r].field[HISTORY] == relation->field[HISTORY])
            return fth_fail(err, FTH_E_CONFIG, "model.relations: \"%s\": a column of it is in a relation before it", text);
    }
    if (second && relation->head < 0)
        return fth_fail(err, FTH_E_CONFIG, "model.relations: \"%s\": no relation before it begins with %s", text,
                        second + 1);
    a->n++;
    return FTH_OK;
}

/* Whether a relation has the field already. */
static int in_relation(const struct atbrg *a, uint32_t field) {
    for (uint32_t r = 0; r < a->n; r++)
        if (a->relations[r].field[TARGET] == field || a->relations[r].field[HISTORY] == field)
            return 1;
    return 0;
}

/* The history's items and the target: the first sequence of no relation that shares its table with the target. */
static fth_status find_items(struct atbrg *a, fth_error *err) {
    const char *only = a->config->target ? a->config->target : "";
    uint32_t n = a->inputs->n_fields, sequences = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_sequence(&a->inputs->fields[i]))
            continue;
        sequences++;
        if (in_relation(a, i))
            continue;
        FTH_TRY(plain_of(a, i, only, &a->item[TARGET], err));
        a->item[HISTORY] = i;
        if (a->item[TARGET] < n && !in_relation(a, a->item[TARGET]))
            return FTH_OK;
    }
    if (!sequences)
        return fth_fail(err, FTH_E_CONFIG, "features.categorical: atbrg needs a history; give a feature `sequence: true`");
    return fth_fail(err, FTH_E_CONFIG, "model.target: atbrg compares a history with a target, but no single-valued "
                    "feature%s%s shares a table with a sequence that is in no relation; set the sequence's `table`",
                    *only ? " named " : "", only);
}

/* Without model.relations: every pair by table in the history's group. */
static fth_status find_relations(struct atbrg *a, fth_error *err) {
    const struct fth_model_field *fields = a->inputs->fields;
    for (uint32_t i = 0; i < a->inputs->n_fields; i++) {
        uint32_t target;
        if (i == a->item[HISTORY] || !is_sequence(&fields[i]) || fields[i].group != fields[a->item[HISTORY]].group)
            continue;
        FTH_TRY(plain_of(a, i, "", &target, err));
        if (target < a->inputs->n_fields && target != a->item[TARGET] && !in_relation(a, target))
            a->relations[a->n++] = (struct relation){.field = {target, i}, .head = -1};
    }
    return FTH_OK;
}

/* Relations of one head side by side, heads first. */
static fth_status sort_relations(struct atbrg *a, fth_error *err) {
    struct relation *sorted = fth_arena_alloc(a->graph->arena, a->n + 1, sizeof *sorted);
    uint32_t *was = fth_arena_alloc(a->graph->arena, a->n + 1, sizeof *was), n = 0;
    if (!sorted || !was)
        return no_memory(err);
    for (int32_t head = -1; head < (int32_t)n; head++)
        for (uint32_t r = 0; r < a->n; r++)
            if (a->relations[r].head == (head < 0 ? -1 : (int32_t)was[head])) {
                was[n] = r;
                sorted[n] = a->relations[r];
                sorted[n++].head = head;
            }
    a->relations = sorted;
    return FTH_OK;
}

static fth_status find_columns(struct atbrg *a, fth_error *err) {
    const struct fth_strings *texts = &a->config->relations;
    const struct fth_model_field *fields = a->inputs->fields;
    a->relations = fth_arena_alloc(a->graph->arena, texts->n + a->inputs->n_fields + 1, sizeof *a->relations);
    if (!a->relations)
        return no_memory(err);
    for (uint32_t i = 0; i < texts->n; i++)
        FTH_TRY(read_relation(a, texts->items[i], err));
    FTH_TRY(find_items(a, err));
    if (!texts->n)
        FTH_TRY(find_relations(a, err));
    if (!a->n)
        return fth_fail(err, FTH_E_CONFIG, "model.relations: atbrg needs a relation, columns with the category or brand of "
                        "%s and of %s, such as joins with a side file; with a `table` that both share",
                        fields[a->item[TARGET]].name, fields[a->item[HISTORY]].name);
    for (uint32_t r = 0; r < a->n; r++)
        if (fields[a->relations[r].field[HISTORY]].group != fields[a->item[HISTORY]].group)
            return fth_fail(err, FTH_E_CONFIG, "model.relations: %s is not of the group of %s; give both the same `group`",
                            fields[a->relations[r].field[HISTORY]].name, fields[a->item[HISTORY]].name);
    return sort_relations(a, err);
}

/* ---- the layers ---- */

static fth_status embed(struct atbrg *a, const uint32_t *field, fth_id *out, fth_error *err) {
    struct fth_parts_histories *f = &a->features;
    uint32_t lookup;
    FTH_TRY(fth_parts_lookup(a->graph, a->inputs, field[TARGET], 0, &lookup, err));
    FTH_TRY(fth_layer_embedding(a->graph, "target", &lookup, 1, &out[TARGET], err));
    FTH_TRY(fth_parts_lookup(a->graph, a->inputs, field[HISTORY], 1, &lookup, err));
    FTH_TRY(fth_layer_embedding(a->graph, "history", &lookup, 1, &out[HISTORY], err));
    f->target[field[TARGET]] = out[TARGET];
    f->target_of[field[HISTORY]] = (int32_t)field[TARGET];
    return FTH_OK;
}

static fth_status prune(struct atbrg *a, fth_error *err) {
    struct fth_graph_relation *relations = fth_arena_alloc(a->graph->arena, a->n, sizeof *relations);
    if (!relations)
        return no_memory(err);
    for (uint32_t r = 0; r < a->n; r++) {
        const struct relation *of = &a->relations[r];
        relations[r] = (struct fth_graph_relation){of->field[TARGET], of->field[HISTORY],
                                                   a->inputs->fields[of->field[HISTORY]].missing, of->head};
    }
    return fth_layer_prune_graph(a->graph, "graph.prune", a->inputs->fields[a->item[HISTORY]].group, relations, a->n,
                                 &a->kept[TARGET], &a->kept[HISTORY], err);
}

/* "graph.<column>.<part>" */
static fth_status part_name(const struct atbrg *a, uint32_t field, const char *part, const char **out, fth_error *err) {
    *out = fth_arena_printf(a->graph->arena, "graph.%s.%s", a->inputs->fields[field].name, part);
    return *out ? FTH_OK : no_memory(err);
}

/* One linear layer for both sides, with tanh behind it if asked for. */
static fth_status linear(struct atbrg *a, uint32_t field, const char *part, const fth_id *x, uint32_t columns, int bias,
                         int tanh, fth_id *y, fth_error *err) {
    const char *name;
    fth_id made[SIDES];
    FTH_TRY(part_name(a, field, part, &name, err));
    FTH_TRY(fth_layer_linear(a->graph, name, x[HISTORY], columns, bias, &made[HISTORY], err));
    FTH_TRY(fth_layer_linear_again(a->graph, made[HISTORY], x[TARGET], &made[TARGET], err));
    for (int side = 0; side < SIDES; side++) {
        y[side] = made[side];
        if (tanh)
            FTH_TRY(fth_layer_activation(a->graph, name, "tanh", made[side], &y[side], err));
    }
    return FTH_OK;
}

static fth_status beside(struct atbrg *a, const fth_id *x, const fth_id *y, fth_id *out, fth_error *err) {
    for (int side = 0; side < SIDES; side++) {
        fth_id both[2] = {x[side], y[side]};
        FTH_TRY(fth_layer_concat(a->graph, "graph.pair", both, 2, &out[side], err));
    }
    return FTH_OK;
}

/* The weights of relations [first, + n) of one side, from their scores. */
static fth_status weigh(struct atbrg *a, int side, uint32_t first, uint32_t n, const fth_id *scores, fth_id *out,
                        fth_error *err) {
    fth_id kept, dropped, x;
    FTH_TRY(fth_graph_view(a->graph, a->kept[side], first, n, &kept, err));
    if (n == 1) {
        *out = kept;
        return FTH_OK;
    }
    FTH_TRY(fth_graph_view(a->graph, a->kept[side], a->n + first, n, &dropped, err));
    FTH_TRY(fth_layer_concat(a->graph, "graph.scores", scores, n, &x, err));
    FTH_TRY(fth_layer_add(a->graph, x, dropped, &x, err));
    FTH_TRY(fth_layer_row_softmax(a->graph, "graph.weights", x, &x, err));
    return fth_layer_mul(a->graph, x, kept, out, err); /* where nothing was kept no weight is left */
}

/* The relation-aware extractor on the node of relation `head` (-1: the items), whose embeddings become e_h'. */
static fth_status extract(struct atbrg *a, int32_t head, fth_id *node, fth_error *err) {
    uint32_t first = 0, n = 0, field = head < 0 ? a->item[TARGET] : a->relations[head].field[TARGET];
    uint32_t width = fth_graph_value(a->graph, node[TARGET])->columns;
    fth_id *scores[SIDES], *messages[SIDES], x[SIDES], y[SIDES];
    while (first < a->n && a->relations[first].head != head)
        first++;
    while (first + n < a->n && a->relations[first + n].head == head)
        n++;
    if (!n)
        return FTH_OK;
    for (int side = 0; side < SIDES; side++) {
        FTH_TRY(fth_parts_ids(a->graph, n, &scores[side], err));
        FTH_TRY(fth_parts_ids(a->graph, n, &messages[side], err));
    }
    for (uint32_t r = 0; r < n; r++) {
        const struct relation *relation = &a->relations[first + r];
        uint32_t name = relation->field[TARGET];
        FTH_TRY(linear(a, name, "message", relation->entity, width, 0, 0, x, err));
        for (int side = 0; side < SIDES; side++)
            messages[side][r] = x[side];
        if (n == 1)
            break;
        FTH_TRY(beside(a, node, relation->entity, x, err));
        FTH_TRY(linear(a, name, "attention", x, width, 1, 1, x, err));
        FTH_TRY(linear(a, name, "score", x, 1, 1, 0, x, err));
        for (int side = 0; side < SIDES; side++)
            scores[side][r] = x[side];
    }
    for (int side = 0; side < SIDES; side++) {
        fth_id weights;
        FTH_TRY(weigh(a, side, first, n, scores[side], &weights, err));
        FTH_TRY(fth_layer_concat(a->graph, "graph.messages", messages[side], n, &x[side], err));
        FTH_TRY(fth_layer_mix_experts(a->graph, "graph.neighbours", weights, x[side], &y[side], err));
    }
    FTH_TRY(beside(a, node, y, x, err));
    return linear(a, field, "out", x, width, 1, 1, node, err);
}

/* The representation activation layer: [E, 2 columns], the target's representation and the history's. */
static fth_status activate(struct atbrg *a, const fth_id *node, fth_id *out, fth_error *err) {
    const char *name;
    fth_id weights, both[2] = {node[TARGET], FTH_NONE};
    FTH_TRY(part_name(a, a->item[HISTORY], "activation", &name, err));
    FTH_TRY(fth_layer_bilinear(a->graph, name, node[HISTORY], node[TARGET], &weights, err));
    FTH_TRY(fth_layer_segment_softmax(a->graph, name, weights, &weights, err));
    FTH_TRY(fth_layer_segment_sum(a->graph, name, node[HISTORY], weights, &both[1], err));
    return fth_layer_concat(a->graph, name, both, 2, out, err);
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config, const struct fth_model_inputs *inputs,
                        fth_error *err) {
    struct atbrg a = {.graph = graph, .inputs = inputs, .config = config};
    struct fth_parts_histories *f = &a.features;
    fth_id item[SIDES];
    FTH_TRY(fth_parts_need("atbrg", inputs, 1, err));
    FTH_TRY(find_columns(&a, err));
    *f = (struct fth_parts_histories){.graph = graph, .config = config, .inputs = inputs};
    FTH_TRY(fth_parts_ids(graph, inputs->n_fields, &f->target_of, err));
    FTH_TRY(fth_parts_ids(graph, inputs->n_fields, &f->target, err));
    FTH_TRY(fth_parts_ids(graph, inputs->n_fields, &f->pooled, err));
    FTH_TRY(embed(&a, a.item, item, err));
    for (uint32_t r = 0; r < a.n; r++)
        FTH_TRY(embed(&a, a.relations[r].field, a.relations[r].entity, err));
    FTH_TRY(prune(&a, err));
    for (uint32_t r = a.n; r-- > 0;)
        FTH_TRY(extract(&a, (int32_t)r, a.relations[r].entity, err));
    FTH_TRY(extract(&a, -1, item, err));
    FTH_TRY(activate(&a, item, &f->pooled[f->n_pooled++], err));
    return fth_parts_over_histories(f, err);
}

const struct fth_model fth_model_atbrg = {.name = "atbrg", .build = build};
