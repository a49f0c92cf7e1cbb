/* Activations by name and hidden layers (layers.h). While the graph is built, one thread. */
#include <string.h>

#include "base/text.h"
#include "ops/layers_private.h"

static const char *const activation_names[] = {"none",    "relu", "prelu", "dice",
                                               "sigmoid", "tanh", "gelu"};

static fth_status plain(fth_graph *graph, const char *name, fth_act act, fth_id x, fth_id *out,
                        fth_error *err) {
    struct fth_act_attributes attributes = {act};
    return fth_graph_node(graph, &fth_op_bias_act, name, &x, 1, &attributes, sizeof attributes, out,
                          err);
}

/* The trained slope of PReLU and Dice, one a column. */
static fth_status slope(fth_graph *graph, const char *name, fth_id x, float start, fth_id *out,
                        fth_error *err) {
    struct fth_value value = {0};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    return fth_layers_parameter(graph, name, "slope", FTH_ROLE_PARAMETER, 1, value.columns,
                                FTH_PARAM_CONSTANT, start, 1, out, err);
}

static fth_status prelu(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err) {
    fth_id inputs[2] = {x, FTH_NONE};
    FTH_TRY(slope(graph, name, x, 0.25f, &inputs[1], err));
    return fth_graph_node(graph, &fth_op_prelu, name, inputs, 2, NULL, 0, out, err);
}

static fth_status dice(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err) {
    fth_id inputs[3] = {x, FTH_NONE, FTH_NONE};
    const char *norm = fth_arena_printf(graph->arena, "%s.dice", name);
    if (!norm)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    FTH_TRY(fth_layers_standardise(graph, norm, x, &inputs[1], err));
    FTH_TRY(slope(graph, name, x, 0, &inputs[2], err));
    return fth_graph_node(graph, &fth_op_dice_gate, name, inputs, 3, NULL, 0, out, err);
}

fth_status fth_layer_activation(fth_graph *graph, const char *name, const char *activation,
                                fth_id x, fth_id *out, fth_error *err) {
    if (!strcmp(activation, "none")) {
        *out = x;
        return FTH_OK;
    }
    if (!strcmp(activation, "relu"))
        return plain(graph, name, FTH_ACT_RELU, x, out, err);
    if (!strcmp(activation, "sigmoid"))
        return plain(graph, name, FTH_ACT_SIGMOID, x, out, err);
    if (!strcmp(activation, "tanh"))
        return plain(graph, name, FTH_ACT_TANH, x, out, err);
    if (!strcmp(activation, "gelu"))
        return plain(graph, name, FTH_ACT_GELU, x, out, err);
    if (!strcmp(activation, "prelu"))
        return prelu(graph, name, x, out, err);
    if (!strcmp(activation, "dice"))
        return dice(graph, name, x, out, err);
    const char *near = fth_nearest(activation, activation_names,
                                   sizeof activation_names / sizeof *activation_names);
    return fth_fail(
        err, FTH_E_CONFIG,
        "%s: unknown activation \"%s\"%s%s%s; accepted: none, relu, prelu, dice, sigmoid, "
        "tanh, gelu",
        name, activation, near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "");
}

/* One hidden layer. */
static fth_status hidden(fth_graph *graph, const char *name, fth_id x, uint32_t columns,
                         const struct fth_mlp_options *options, fth_id *out, fth_error *err) {
    struct fth_value before = {0};
    const char *norm = fth_arena_printf(graph->arena, "%s.norm", name);
    if (!norm)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    FTH_TRY(fth_layers_value(graph, name, x, &before, err));
    fth_id y;
    FTH_TRY(fth_layer_linear(graph, name, x, columns, 1, &y, err));
    if (options->batch_norm)
        FTH_TRY(fth_layer_batch_norm(graph, norm, y, 1, &y, err));
    if (options->layer_norm)
        FTH_TRY(fth_layer_layer_norm(graph, norm, y, &y, err));
    FTH_TRY(fth_layer_activation(graph, name, options->activation, y, &y, err));
    FTH_TRY(fth_layer_dropout(graph, name, y, options->dropout, &y, err));
    if (options->residual && before.columns == columns)
        FTH_TRY(fth_layer_add(graph, y, x, &y, err));
    *out = y;
    return FTH_OK;
}

fth_status fth_layer_mlp(fth_graph *graph, const char *name, fth_id x,
                         const struct fth_mlp_options *options, fth_id *out, fth_error *err) {
    if (options->batch_norm && options->layer_norm)
        return fth_fail(err, FTH_E_CONFIG,
                        "%s: model.batch_norm and model.layer_norm exclude each other; set one",
                        name);
    for (uint32_t i = 0; i < options->n_hidden; i++) {
        int64_t columns = options->hidden[i];
        if (columns < 1 || columns > 1 << 20)
            return fth_fail(err, FTH_E_CONFIG, "%s: layer %u has %lld units, it takes 1 to 1048576",
                            name, i, (long long)columns);
        const char *layer = fth_arena_printf(graph->arena, "%s.%u", name, i);
        if (!layer)
            return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
        FTH_TRY(hidden(graph, layer, x, (uint32_t)columns, options, &x, err));
    }
    *out = x;
    return FTH_OK;
}
