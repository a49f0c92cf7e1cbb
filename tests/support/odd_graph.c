/* See odd_graph.h. */
#include "odd_graph.h"

#include "model/parts.h"
#include "ops/layers.h"

/* A layer and its activation. */
static fth_status layer(fth_graph *graph, const char *name, const char *activation, fth_id x, uint32_t columns, fth_id *out,
                        fth_error *err) {
    FTH_TRY(fth_layer_linear(graph, name, x, columns, 1, out, err));
    return fth_layer_activation(graph, name, activation, *out, out, err);
}

/* Two activations of one layer, side by side, the first one twice, the embeddings, which others read, too. */
static fth_status twice(fth_graph *graph, fth_id x, fth_id embedding, fth_id first[2], fth_id *out, fth_error *err) {
    fth_id a, parts[4];
    FTH_TRY(fth_layer_linear(graph, "a", x, 20, 1, &a, err));
    FTH_TRY(fth_layer_activation(graph, "a.relu", "relu", a, &parts[0], err));
    FTH_TRY(fth_layer_activation(graph, "a.tanh", "tanh", a, &parts[1], err));
    parts[2] = parts[0];
    parts[3] = embedding;
    first[0] = parts[0];
    first[1] = a;
    return fth_layer_concat(graph, "twice", parts, 4, out, err);
}

/* One layer's weights three times, an activation of an activation between. */
static fth_status again(fth_graph *graph, fth_id x, fth_id *out, fth_error *err) {
    fth_id c, y;
    FTH_TRY(layer(graph, "b", "gelu", x, 20, &y, err));
    FTH_TRY(fth_layer_linear(graph, "c", y, 20, 1, &c, err));
    FTH_TRY(fth_layer_activation(graph, "c.prelu", "prelu", c, &y, err));
    FTH_TRY(fth_layer_linear_again(graph, c, y, &y, err));
    FTH_TRY(fth_layer_activation(graph, "c.relu", "relu", y, &y, err));
    FTH_TRY(fth_layer_activation(graph, "c.sigmoid", "sigmoid", y, &y, err));
    FTH_TRY(fth_layer_linear_again(graph, c, y, &y, err));
    return fth_layer_activation(graph, "c.tanh", "tanh", y, out, err);
}

/* Crossings, the last one of another one's result; x is read by a sum, too, whose gradient goes to both its parts. */
static fth_status crossings(fth_graph *graph, fth_id x, fth_id y, fth_id first, fth_id *out, fth_error *err) {
    fth_id cross[3], sum, parts[3];
    uint32_t columns = fth_graph_value(graph, x)->columns;
    FTH_TRY(layer(graph, "d", "tanh", y, columns, &sum, err)); /* backward it comes last, and still reads that gradient */
    FTH_TRY(fth_layer_cross_v2(graph, "cross.0", x, x, &cross[0], err));
    FTH_TRY(fth_layer_cross_v2(graph, "cross.1", x, cross[0], &cross[1], err));
    FTH_TRY(fth_layer_cross_v2(graph, "cross.2", cross[0], cross[1], &cross[2], err));
    FTH_TRY(fth_layer_add(graph, x, sum, &sum, err));
    FTH_TRY(fth_layer_linear_again(graph, first, sum, &parts[0], err)); /* the first layer's weights, on another x */
    FTH_TRY(layer(graph, "e", "tanh", cross[2], 20, &parts[1], err));
    parts[2] = cross[1];
    return fth_layer_concat(graph, "crossed", parts, 3, out, err);
}

static fth_status inputs_of(fth_graph *graph, const struct fth_model_inputs *inputs, fth_id *embedding, fth_id *x,
                            fth_error *err) {
    struct fth_parts_fields all;
    fth_id *values;
    uint32_t n = 0;
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_ids(graph, all.n, &values, err));
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, &all, values, &n, err));
    *embedding = values[0];
    return fth_parts_with_dense(graph, "in", inputs, values, n, x, err);
}

fth_status odd_crosses_build(fth_graph *graph, const struct fth_model_inputs *inputs, fth_error *err) {
    fth_id x, embedding, parts[2];
    FTH_TRY(inputs_of(graph, inputs, &embedding, &x, err));
    FTH_TRY(layer(graph, "deep", "relu", x, 20, &parts[0], err));
    FTH_TRY(fth_layer_cross_v2(graph, "cross.0", x, x, &parts[1], err));
    FTH_TRY(fth_layer_cross_v2(graph, "cross.1", x, parts[1], &parts[1], err));
    FTH_TRY(fth_layer_concat(graph, "last", parts, 2, &x, err));
    return fth_layer_linear(graph, "out", x, 1, 1, &graph->logit, err);
}

fth_status odd_graph_build(fth_graph *graph, const struct fth_model_inputs *inputs, fth_error *err) {
    fth_id embedding, x, y, z, first[2], one, parts[4];
    FTH_TRY(inputs_of(graph, inputs, &embedding, &x, err));
    FTH_TRY(twice(graph, x, embedding, first, &y, err));
    FTH_TRY(again(graph, y, &y, err));
    FTH_TRY(crossings(graph, x, y, first[1], &parts[0], err));
    FTH_TRY(layer(graph, "f", "relu", parts[0], 20, &parts[1], err));
    FTH_TRY(layer(graph, "j", "tanh", y, 20, &parts[2], err));
    FTH_TRY(fth_layer_add(graph, parts[1], parts[2], &z, err)); /* a layer's gradient is that of two activations */
    FTH_TRY(layer(graph, "g", "sigmoid", z, 12, &parts[0], err));
    FTH_TRY(layer(graph, "h", "tanh", y, 1, &one, err));
    FTH_TRY(layer(graph, "i", "relu", one, 6, &parts[1], err));
    FTH_TRY(fth_layer_mul(graph, y, first[0], &parts[2], err));
    FTH_TRY(fth_layer_row_sum(graph, "sum", embedding, &parts[3], err));
    FTH_TRY(fth_layer_concat(graph, "last", parts, 4, &z, err));
    return fth_layer_linear(graph, "out", z, 1, 1, &graph->logit, err);
}
