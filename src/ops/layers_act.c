/* Activations by name and hidden layers (layers.h). While the graph is built, one thread. */
#include <string.h>

#include "base/text.h"
#include "ops/layers_private.h"

static const char *const activation_names[] = {"none", "relu", "prelu", "dice",
                                               "sigmoid", "tanh", "gelu"};

static fth_status plain(fth_graph *graph, const char *name, fth_act act, fth_id x, fth_id *out,
                        fth_error *err) {
    struct fth_act_attributes attributes = {act};
    return fth_graph_node(graph, &fth_op_bias_act, name, &x, 1, &attributes, sizeof attributes, out,
                          err);
}

fth_status fth_layer_activation(fth_graph *graph, const char *name, const char *activation, fth_id x,
                                fth_id *out, fth_error *err) {
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
    const char *near = fth_nearest(activation, activation_names,
                                   sizeof activation_names / sizeof *activation_names);
    return fth_fail(err, FTH_E_CONFIG,
                    "%s: unknown activation \"%s\"%s%s%s; accepted: none, relu, prelu, dice, sigmoid, "
                    "tanh, gelu",
                    name, activation, near ? ", did you mean \"" : "", near ? near : "",
                    near ? "\"" : "");
}

/* One hidden layer. */
static fth_status hidden(fth_graph *graph, const char *name, fth_id x, uint32_t columns,
                         const struct fth_mlp_options *options, fth_id *out, fth_error *err) {
    fth_id y;
    const char *activation = options->activation ? options->activation : "relu";
    FTH_TRY(fth_layer_linear(graph, name, x, columns, 1, &y, err));
    FTH_TRY(fth_layer_activation(graph, name, activation, y, &y, err));
    *out = y;
    return FTH_OK;
}

fth_status fth_layer_mlp(fth_graph *graph, const char *name, fth_id x,
                         const struct fth_mlp_options *options, fth_id *out, fth_error *err) {
    for (uint32_t i = 0; i < options->n_hidden; i++) {
        int64_t columns = options->hidden[i];
        if (columns < 1 || columns > 1 << 20)
            return fth_fail(err, FTH_E_CONFIG, "%s: layer %u has %lld units, it takes 1 to 1048576", name,
                            i, (long long)columns);
        const char *layer = fth_arena_printf(graph->arena, "%s.%u", name, i);
        if (!layer)
            return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
        FTH_TRY(hidden(graph, layer, x, (uint32_t)columns, options, &x, err));
    }
    *out = x;
    return FTH_OK;
}
