/* Update nodes after autodiff: one for each parameter, one for all embedding rows (layers.h). */
#include "ops/layers_private.h"

/* Embedding outputs with a gradient. */
static uint32_t trained_embeddings(const fth_graph *graph, const struct fth_node **out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct fth_node *node = graph->nodes[i];
        if (!node->op->trains_rows || graph->values[node->outputs[0]].gradient == FTH_NONE)
            continue;
        if (out)
            out[n] = node;
        n++;
    }
    return n;
}

/* Inputs and attributes of the node over all rows. */
struct rows_inputs {
    fth_id *inputs;
    uint32_t n_inputs;
    struct fth_row_update_attributes *attributes;
    size_t bytes;
};

static fth_status rows_inputs_make(fth_graph *graph, struct rows_inputs *out, fth_error *err) {
    uint32_t n = trained_embeddings(graph, NULL), n_entries = 0;
    const struct fth_node **nodes = fth_arena_alloc(graph->arena, n + 1, sizeof *nodes);
    fth_id *inputs = fth_arena_alloc(graph->arena, n + 1, sizeof *inputs); /* and the clip factor */
    if (!nodes || !inputs)
        return fth_fail(err, FTH_E_MEMORY, "updates: out of memory");
    trained_embeddings(graph, nodes);
    for (uint32_t i = 0; i < n; i++)
        n_entries += ((const struct fth_embedding_attributes *)nodes[i]->attributes)->n_lookups;
    struct fth_row_update_attributes *attributes;
    size_t bytes = sizeof *attributes + n_entries * sizeof attributes->entries[0];
    attributes = fth_arena_alloc(graph->arena, 1, bytes);
    if (!attributes)
        return fth_fail(err, FTH_E_MEMORY, "updates: out of memory");
    attributes->clip = -1;
    for (uint32_t i = 0; i < n; i++) {
        const struct fth_embedding_attributes *a = nodes[i]->attributes;
        inputs[i] = graph->values[nodes[i]->outputs[0]].gradient;
        uint32_t column = 0;
        for (uint32_t j = 0; j < a->n_lookups; j++) {
            attributes->entries[attributes->n++] =
                (struct fth_row_entry){.lookup = a->lookups[j], .input = i, .column = column};
            column += graph->lookups[a->lookups[j]].dim;
        }
    }
    *out = (struct rows_inputs){inputs, n, attributes, bytes};
    return FTH_OK;
}

/* min(1, clip_norm / the norm of all gradients together). */
static fth_status clip(fth_graph *graph, float clip_norm, const struct rows_inputs *rows,
                       fth_id *out, fth_error *err) {
    uint32_t n = 0, n_values = graph->n_values;
    fth_id *squares = fth_arena_alloc(graph->arena, n_values + 1, sizeof *squares);
    if (!squares)
        return fth_fail(err, FTH_E_MEMORY, "clipping: out of memory");
    for (uint32_t i = 0; i < n_values; i++) {
        struct fth_value v = graph->values[i];
        if (v.role == FTH_ROLE_PARAMETER && v.gradient != FTH_NONE)
            FTH_TRY(fth_graph_node(graph, &fth_op_grad_squares, v.name, &v.gradient, 1, NULL, 0,
                                   &squares[n++], err));
    }
    if (rows->attributes->n)
        FTH_TRY(fth_graph_node(graph, &fth_op_row_squares, "rows", rows->inputs, rows->n_inputs,
                               rows->attributes, rows->bytes, &squares[n++], err));
    if (!n) {
        *out = FTH_NONE;
        return FTH_OK;
    }
    struct fth_clip_attributes attributes = {clip_norm};
    return fth_graph_node(graph, &fth_op_clip_factor, "clip", squares, n, &attributes,
                          sizeof attributes, out, err);
}

/* Of one parameter. */
static fth_status update(fth_graph *graph, fth_id parameter, fth_id factor, fth_error *err) {
    struct fth_value v = graph->values[parameter];
    fth_id inputs[3] = {parameter, v.gradient, factor};
    if (!graph->norm_updates)
        return fth_graph_node(graph, &fth_op_update, v.name, inputs, 3, NULL, 0, NULL, err);
    fth_id outputs[2];
    FTH_TRY(fth_graph_node(graph, &fth_op_update_direction, v.name, inputs, 3, NULL, 0, outputs, err));
    fth_id scaled[3] = {parameter, outputs[0], outputs[1]};
    return fth_graph_node(graph, &fth_op_update_scaled, v.name, scaled, 3, NULL, 0, NULL, err);
}

fth_status fth_layer_updates(fth_graph *graph, float clip_norm, fth_error *err) {
    struct rows_inputs rows = {0};
    FTH_TRY(rows_inputs_make(graph, &rows, err));
    graph->stage = FTH_UPDATE;
    fth_id factor = FTH_NONE;
    if (clip_norm > 0)
        FTH_TRY(clip(graph, clip_norm, &rows, &factor, err));
    uint32_t n_values = graph->n_values;
    for (uint32_t i = 0; i < n_values; i++) {
        struct fth_value v = graph->values[i];
        if (v.role == FTH_ROLE_PARAMETER && v.gradient != FTH_NONE)
            FTH_TRY(update(graph, (fth_id)i, factor, err));
    }
    if (!rows.attributes->n)
        return FTH_OK;
    if (factor != FTH_NONE) {
        rows.attributes->clip = (int32_t)rows.n_inputs;
        rows.inputs[rows.n_inputs++] = factor;
    }
    return fth_graph_node(graph, &fth_op_embedding_update, "rows", rows.inputs, rows.n_inputs,
                          rows.attributes, rows.bytes, NULL, err);
}
