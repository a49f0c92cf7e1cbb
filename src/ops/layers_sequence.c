/* Layers over the positions of a history or its sessions: self-attention, position embeddings, bilinear scores,
 * pooling (layers.h). While the graph is built, one thread. */
#include <math.h>
#include <string.h>

#include "ops/layers_private.h"

fth_status fth_layer_self_attention(fth_graph *graph, const char *name, fth_id x, uint32_t heads,
                                    int32_t sessions, fth_id *out, fth_error *err) {
    struct fth_value value = {0};
    struct fth_segment_attention_attributes attributes = {sessions, heads};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    if (!heads || value.columns % heads)
        return fth_fail(err, FTH_E_CONFIG,
                        "model.heads: %u, which does not divide the %u columns of %s", heads, value.columns, name);
    const char *parts = fth_arena_printf(graph->arena, "%s.qkv", name);
    const char *last = fth_arena_printf(graph->arena, "%s.out", name);
    if (!parts || !last)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    if (value.columns > UINT32_MAX / 3)
        return fth_fail(err, FTH_E_CONFIG, "%s: %u columns are too many", name, value.columns);
    FTH_TRY(fth_layer_linear(graph, parts, x, 3 * value.columns, 0, &x, err));
    FTH_TRY(fth_graph_node(graph, &fth_op_segment_attention, name, &x, 1, &attributes,
                           sizeof attributes, &x, err));
    return fth_layer_linear(graph, last, x, value.columns, 0, out, err);
}

fth_status fth_layer_position_bias(fth_graph *graph, const char *name, fth_id x, uint32_t rows,
                                   int one, enum fth_position_index index, int32_t sessions,
                                   fth_id *out, fth_error *err) {
    struct fth_value value = {0};
    fth_id inputs[2] = {x, FTH_NONE};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    struct fth_position_bias_attributes attributes = {sessions, index, rows, one ? 1 : value.columns};
    FTH_TRY(fth_layers_parameter(graph, name, "weight", FTH_ROLE_PARAMETER, rows, attributes.columns,
                                 FTH_PARAM_UNIFORM, 1.0f / sqrtf((float)value.columns), 1, &inputs[1],
                                 err));
    return fth_graph_node(graph, &fth_op_position_bias, name, inputs, 2, &attributes,
                          sizeof attributes, out, err);
}

fth_status fth_layer_bilinear(fth_graph *graph, const char *name, fth_id x, fth_id v, fth_id *out,
                              fth_error *err) {
    struct fth_value value = {0};
    fth_id row;
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    FTH_TRY(fth_layer_linear(graph, name, v, value.columns, 0, &row, err));
    return fth_layer_segment_dot(graph, name, x, row, out, err);
}

fth_status fth_layer_prune_graph(fth_graph *graph, const char *name, int32_t group,
                                 const struct fth_graph_relation *relations, uint32_t n, fth_id *target,
                                 fth_id *behaviours, fth_error *err) {
    struct fth_prune_graph_attributes *attributes;
    size_t bytes = sizeof *attributes + n * sizeof *relations;
    fth_id outputs[2];
    attributes = fth_arena_alloc(graph->arena, 1, bytes);
    if (!attributes)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    attributes->group = group;
    attributes->n = n;
    memcpy(attributes->relations, relations, n * sizeof *relations);
    FTH_TRY(fth_graph_node(graph, &fth_op_prune_graph, name, NULL, 0, attributes, bytes, outputs, err));
    *target = outputs[0];
    *behaviours = outputs[1];
    return FTH_OK;
}

fth_status fth_layer_segment_pool(fth_graph *graph, const char *name, fth_id x, fth_pooling pooling,
                                  int32_t sessions, fth_id *out, fth_error *err) {
    struct fth_segment_pool_attributes attributes = {sessions, -1, pooling};
    return fth_graph_node(graph, &fth_op_segment_pool, name, &x, 1, &attributes, sizeof attributes,
                          out, err);
}
