/* Normalisation and dropout layers (layers.h). While the graph is built, one thread. */
#include "ops/layers_private.h"

fth_status fth_layers_standardise(fth_graph *graph, const char *name, fth_id x, fth_id *out,
                                  fth_error *err) {
    struct fth_value value = {0};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    fth_id finalize[5], apply[4] = {x, FTH_NONE, FTH_NONE, FTH_NONE};
    FTH_TRY(fth_layers_parameter(graph, name, "running_mean", FTH_ROLE_STATE, 1, value.columns,
                                 FTH_PARAM_ZERO, 0, 1, &finalize[3], err));
    FTH_TRY(fth_layers_parameter(graph, name, "running_variance", FTH_ROLE_STATE, 1, value.columns,
                                 FTH_PARAM_CONSTANT, 1, 1, &finalize[4], err));
    FTH_TRY(fth_graph_node(graph, &fth_op_col_moments, name, &x, 1, NULL, 0, finalize, err));
    FTH_TRY(fth_graph_node(graph, &fth_op_bn_finalize, name, finalize, 5, NULL, 0, apply + 1, err));
    return fth_graph_node(graph, &fth_op_bn_apply, name, apply, 4, NULL, 0, out, err);
}

/* Factors from 1 and addends from 0, one a column. */
static fth_status scale_and_shift(fth_graph *graph, const char *name, uint32_t columns,
                                  fth_id *scale, fth_id *shift, fth_error *err) {
    FTH_TRY(fth_layers_parameter(graph, name, "scale", FTH_ROLE_PARAMETER, 1, columns,
                                 FTH_PARAM_CONSTANT, 1, 1, scale, err));
    return fth_layers_parameter(graph, name, "shift", FTH_ROLE_PARAMETER, 1, columns,
                                FTH_PARAM_ZERO, 0, 1, shift, err);
}

fth_status fth_layer_batch_norm(fth_graph *graph, const char *name, fth_id x, int affine,
                                fth_id *out, fth_error *err) {
    struct fth_value value = {0};
    fth_id inputs[3];
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    FTH_TRY(fth_layers_standardise(graph, name, x, &inputs[0], err));
    if (!affine) {
        *out = inputs[0];
        return FTH_OK;
    }
    FTH_TRY(scale_and_shift(graph, name, value.columns, &inputs[1], &inputs[2], err));
    return fth_graph_node(graph, &fth_op_affine, name, inputs, 3, NULL, 0, out, err);
}

fth_status fth_layer_layer_norm(fth_graph *graph, const char *name, fth_id x, fth_id *out,
                                fth_error *err) {
    struct fth_value value = {0};
    fth_id inputs[3] = {x, FTH_NONE, FTH_NONE}, outputs[3];
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    FTH_TRY(scale_and_shift(graph, name, value.columns, &inputs[1], &inputs[2], err));
    FTH_TRY(fth_graph_node(graph, &fth_op_layer_norm, name, inputs, 3, NULL, 0, outputs, err));
    *out = outputs[0];
    return FTH_OK;
}

fth_status fth_layer_dropout(fth_graph *graph, const char *name, fth_id x, float drop, fth_id *out,
                             fth_error *err) {
    if (!(drop >= 0 && drop < 1))
        return fth_fail(err, FTH_E_CONFIG, "%s: dropout %g is not in [0, 1)", name, (double)drop);
    if (drop == 0) {
        *out = x;
        return FTH_OK;
    }
    struct fth_dropout_attributes attributes = {1 - drop, 0};
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        attributes.stream += graph->nodes[i]->op == &fth_op_dropout;
    return fth_graph_node(graph, &fth_op_dropout, name, &x, 1, &attributes, sizeof attributes, out,
                          err);
}
