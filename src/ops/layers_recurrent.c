/* Recurrent layers and the loss over their states (layers.h). Nodes are made in the plain form; the pass gate_split takes
 * the input products out of the loop. */
#include <math.h>

#include "ops/layers_private.h"

static fth_status layer(fth_graph *graph, const struct fth_op *op, const char *name, fth_id x, fth_id scores,
                        uint32_t units, int reverse, fth_id *out, fth_error *err) {
    struct fth_value value = {0};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    if (units < 2)
        return fth_fail(err, FTH_E_ARGUMENT, "%s: a recurrent layer needs at least 2 units", name);
    uint32_t gates = (op == &fth_op_lstm ? 4 : 3) * units;
    float scale = 1.0f / sqrtf((float)units);
    fth_id inputs[5] = {x, FTH_NONE, scores, FTH_NONE, FTH_NONE}, outputs[2];
    FTH_TRY(fth_layers_parameter(graph, name, "weight", FTH_ROLE_PARAMETER, value.columns, gates,
                                 FTH_PARAM_UNIFORM, scale, 0, &inputs[FTH_RECURRENT_W], err));
    FTH_TRY(fth_layers_parameter(graph, name, "bias", FTH_ROLE_PARAMETER, 1, gates, FTH_PARAM_UNIFORM,
                                 scale, 1, &inputs[FTH_RECURRENT_B], err));
    FTH_TRY(fth_layers_parameter(graph, name, "recurrent", FTH_ROLE_PARAMETER, units, gates,
                                 FTH_PARAM_UNIFORM, scale, 0, &inputs[FTH_RECURRENT_U], err));
    struct fth_recurrent_attributes attributes = {reverse};
    FTH_TRY(fth_graph_node(graph, op, name, inputs, 5, &attributes, sizeof attributes, outputs, err));
    *out = outputs[0];
    return FTH_OK;
}

fth_status fth_layer_gru(fth_graph *graph, const char *name, fth_id x, uint32_t units, int reverse,
                         fth_id *out, fth_error *err) {
    return layer(graph, &fth_op_gru, name, x, FTH_NONE, units, reverse, out, err);
}

fth_status fth_layer_augru(fth_graph *graph, const char *name, fth_id x, fth_id scores, uint32_t units,
                           fth_id *out, fth_error *err) {
    return layer(graph, &fth_op_gru, name, x, scores, units, 0, out, err);
}

fth_status fth_layer_lstm(fth_graph *graph, const char *name, fth_id x, uint32_t units, int reverse,
                          fth_id *out, fth_error *err) {
    return layer(graph, &fth_op_lstm, name, x, FTH_NONE, units, reverse, out, err);
}

fth_status fth_layer_next_loss(fth_graph *graph, const char *name, fth_id states, fth_id x, fth_id negatives,
                               float factor, fth_error *err) {
    struct fth_next_loss_attributes attributes = {factor, (uint32_t)graph->next_node};
    fth_id inputs[3] = {states, x, negatives}, outputs[3];
    FTH_TRY(fth_graph_node(graph, &fth_op_next_loss, name, inputs, 3, &attributes, sizeof attributes,
                           outputs, err));
    graph->nodes[graph->n_nodes - 1]->training_only = 1;
    return fth_graph_add_loss(graph, outputs[0], err);
}
