/* Interaction layers: dots, crosses, and what works on ragged positions (layers.h). While the graph
 * is built, one thread. */
#include <math.h>

#include "ops/layers_private.h"

fth_status fth_layer_fm(fth_graph *graph, const char *name, fth_id x, uint32_t dim, fth_id *out,
                        fth_error *err) {
    struct fth_vectors_attributes attributes = {dim};
    return fth_graph_node(graph, &fth_op_fm, name, &x, 1, &attributes, sizeof attributes, out, err);
}

fth_status fth_layer_dot_interaction(fth_graph *graph, const char *name, fth_id x, uint32_t dim,
                                     fth_id *out, fth_error *err) {
    struct fth_vectors_attributes attributes = {dim};
    return fth_graph_node(graph, &fth_op_dot_interaction, name, &x, 1, &attributes,
                          sizeof attributes, out, err);
}

fth_status fth_layer_cin(fth_graph *graph, const char *name, fth_id x, fth_id x0, uint32_t dim, uint32_t maps,
                         fth_id *out, fth_id *pooled, fth_error *err) {
    struct fth_cin_attributes attributes = {dim, maps};
    struct fth_value value = {0}, value0 = {0};
    fth_id inputs[3] = {x, x0, FTH_NONE}, outputs[2];
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    FTH_TRY(fth_layers_value(graph, name, x0, &value0, err));
    uint64_t products = dim ? (uint64_t)(value.columns / dim) * (value0.columns / dim) : 0;
    if (!products || products > UINT32_MAX / 64)
        return fth_fail(err, FTH_E_ARGUMENT, "%s: vectors of %u columns cannot be crossed", name, dim);
    FTH_TRY(fth_layers_parameter(graph, name, "weight", FTH_ROLE_PARAMETER, (uint32_t)products, maps,
                                 FTH_PARAM_UNIFORM, 1.0f / sqrtf((float)products), 0, &inputs[2], err));
    FTH_TRY(fth_graph_node(graph, &fth_op_cin, name, inputs, 3, &attributes, sizeof attributes, outputs, err));
    *out = outputs[0];
    *pooled = outputs[1];
    return FTH_OK;
}

fth_status fth_layer_normalise(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err) {
    fth_id outputs[2];
    FTH_TRY(fth_graph_node(graph, &fth_op_row_normalise, name, &x, 1, NULL, 0, outputs, err));
    *out = outputs[0];
    return FTH_OK;
}

fth_status fth_layer_scale(fth_graph *graph, const char *name, fth_id x, float factor, fth_id *out,
                           fth_error *err) {
    struct fth_scale_attributes attributes = {factor};
    return fth_graph_node(graph, &fth_op_scale, name, &x, 1, &attributes, sizeof attributes, out, err);
}

fth_status fth_layer_co_action(fth_graph *graph, const char *name, fth_id weights, fth_id x,
                               const struct fth_co_action_options *options, fth_id *out, fth_error *err) {
    struct fth_co_action_attributes *attributes;
    size_t bytes = sizeof *attributes + options->n * sizeof attributes->widths[0];
    fth_id inputs[2] = {weights, x};
    attributes = fth_arena_alloc(graph->arena, 1, bytes);
    if (!attributes)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    attributes->orders = options->orders;
    attributes->n = options->n;
    for (uint32_t i = 0; i < options->n; i++)
        attributes->widths[i] = options->widths[i];
    return fth_graph_node(graph, &fth_op_co_action, name, inputs, 2, attributes, bytes, out, err);
}

fth_status fth_layer_cross(fth_graph *graph, const char *name, fth_id x0, fth_id xl, fth_id *out,
                           fth_error *err) {
    fth_id inputs[3] = {FTH_NONE, x0, xl}, sum;
    struct fth_value value = {0};
    FTH_TRY(fth_layers_value(graph, name, xl, &value, err));
    FTH_TRY(fth_layer_linear(graph, name, xl, 1, 0, &inputs[0], err));
    FTH_TRY(fth_graph_node(graph, &fth_op_scale_rows, name, inputs, 3, NULL, 0, &sum, err));
    return fth_layer_bias(graph, name, sum, out, err);
}

fth_status fth_layer_cross_v2(fth_graph *graph, const char *name, fth_id x0, fth_id xl, fth_id *out,
                              fth_error *err) {
    fth_id inputs[4] = {x0, FTH_NONE, xl, FTH_NONE};
    struct fth_value value = {0};
    FTH_TRY(fth_layers_value(graph, name, xl, &value, err));
    FTH_TRY(fth_layer_linear(graph, name, xl, value.columns, 0, &inputs[1], err));
    FTH_TRY(fth_layers_parameter(graph, name, "bias", FTH_ROLE_PARAMETER, 1, value.columns,
                                 FTH_PARAM_UNIFORM, 1.0f / sqrtf((float)value.columns), 1, &inputs[3], err));
    return fth_graph_node(graph, &fth_op_mul_add, name, inputs, 4, NULL, 0, out, err);
}

fth_status fth_layer_row_softmax(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err) {
    return fth_graph_node(graph, &fth_op_row_softmax, name, &x, 1, NULL, 0, out, err);
}

fth_status fth_layer_mix_experts(fth_graph *graph, const char *name, fth_id gates, fth_id x, fth_id *out,
                                 fth_error *err) {
    fth_id inputs[2] = {gates, x};
    return fth_graph_node(graph, &fth_op_mix_experts, name, inputs, 2, NULL, 0, out, err);
}

fth_status fth_layer_expand(fth_graph *graph, const char *name, fth_id x, int32_t group,
                            fth_id *out, fth_error *err) {
    struct fth_expand_attributes attributes = {group};
    return fth_graph_node(graph, &fth_op_expand, name, &x, 1, &attributes, sizeof attributes, out,
                          err);
}

fth_status fth_layer_segment_sum(fth_graph *graph, const char *name, fth_id x, fth_id weights,
                                 fth_id *out, fth_error *err) {
    fth_id inputs[2] = {x, weights};
    return fth_graph_node(graph, &fth_op_segment_sum, name, inputs, 2, NULL, 0, out, err);
}

fth_status fth_layer_segment_softmax(fth_graph *graph, const char *name, fth_id x, fth_id *out,
                                     fth_error *err) {
    return fth_graph_node(graph, &fth_op_segment_softmax, name, &x, 1, NULL, 0, out, err);
}

fth_status fth_layer_segment_dot(fth_graph *graph, const char *name, fth_id x, fth_id v, fth_id *out,
                                 fth_error *err) {
    fth_id inputs[2] = {x, v};
    return fth_graph_node(graph, &fth_op_segment_dot, name, inputs, 2, NULL, 0, out, err);
}

fth_status fth_layer_segment_last(fth_graph *graph, const char *name, fth_id x, int first, fth_id *out,
                                  fth_error *err) {
    struct fth_segment_last_attributes attributes = {first, -1};
    return fth_graph_node(graph, &fth_op_segment_last, name, &x, 1, &attributes, sizeof attributes, out,
                          err);
}

fth_status fth_layer_attention(fth_graph *graph, const char *name, fth_id query, fth_id keys,
                               const int64_t *hidden, uint32_t n_hidden, const char *activation,
                               fth_id *out, fth_error *err) {
    struct fth_value k = {0};
    struct fth_mlp_options options = {
        .hidden = hidden, .n_hidden = n_hidden, .activation = activation};
    fth_id parts[4] = {FTH_NONE, keys, FTH_NONE, FTH_NONE}, x, weights;
    FTH_TRY(fth_layers_value(graph, name, keys, &k, err));
    const char *last = fth_arena_printf(graph->arena, "%s.out", name);
    if (!last)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    FTH_TRY(fth_layer_expand(graph, name, query, k.group, &parts[0], err));
    FTH_TRY(fth_layer_sub(graph, parts[0], keys, &parts[2], err));
    FTH_TRY(fth_layer_mul(graph, parts[0], keys, &parts[3], err));
    FTH_TRY(fth_layer_concat(graph, name, parts, 4, &x, err));
    FTH_TRY(fth_layer_mlp(graph, name, x, &options, &x, err));
    FTH_TRY(fth_layer_linear(graph, last, x, 1, 1, &weights, err));
    return fth_layer_segment_sum(graph, name, keys, weights, out, err);
}
