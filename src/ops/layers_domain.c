/* Layers with a part a domain (layers.h). While the graph is built, one thread. */
#include <math.h>

#include "ops/domain.h"
#include "ops/layers_private.h"

/* Shared "<name>.<part>" [rows, columns] and, a domain each, "<name>.domain_<part>", combined. */
static fth_status combined(fth_graph *graph, const char *name, const char *part, uint32_t domains, uint32_t rows,
                           uint32_t columns, fth_param_init init, float scale, int product, fth_id *out,
                           fth_error *err) {
    struct fth_domain_combine_attributes attributes = {product};
    fth_id inputs[2];
    const char *own = fth_arena_printf(graph->arena, "domain_%s", part);
    if (!own)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    if ((uint64_t)domains * rows > UINT32_MAX)
        return fth_fail(err, FTH_E_ARGUMENT, "%s: %u domains of %u rows are too many", name, domains, rows);
    int no_decay = rows == 1;
    FTH_TRY(fth_layers_parameter(graph, name, part, FTH_ROLE_PARAMETER, rows, columns, init, scale, no_decay,
                                 &inputs[0], err));
    FTH_TRY(fth_layers_parameter(graph, name, own, FTH_ROLE_PARAMETER, domains * rows, columns,
                                 product ? FTH_PARAM_CONSTANT : FTH_PARAM_ZERO, product ? 1 : 0, no_decay,
                                 &inputs[1], err));
    if (product && rows > 1 && columns > 1) {
        fth_id outputs[3];
        FTH_TRY(fth_graph_node(graph, &fth_op_domain_weights, name, inputs, 2, NULL, 0, outputs, err));
        *out = outputs[0];
        return FTH_OK;
    }
    return fth_graph_node(graph, &fth_op_domain_combine, name, inputs, 2, &attributes, sizeof attributes, out,
                          err);
}

fth_status fth_layer_domain_linear(fth_graph *graph, const char *name, fth_id x, fth_id domain, uint32_t columns,
                                   fth_id *out, fth_error *err) {
    struct fth_value value = {0}, domains = {0};
    fth_id inputs[5] = {x, domain, FTH_NONE, FTH_NONE, FTH_NONE};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    FTH_TRY(fth_layers_value(graph, name, domain, &domains, err));
    if (!columns)
        return fth_fail(err, FTH_E_ARGUMENT, "%s: a layer needs at least one unit", name);
    float scale = 1.0f / sqrtf((float)value.columns);
    FTH_TRY(combined(graph, name, "weight", domains.columns, value.columns, columns, FTH_PARAM_UNIFORM, scale, 1,
                     &inputs[2], err));
    FTH_TRY(combined(graph, name, "bias", domains.columns, 1, columns, FTH_PARAM_UNIFORM, scale, 0, &inputs[3],
                     err));
    inputs[4] = fth_domain_panels(graph, inputs[2], 0);
    return fth_graph_node(graph, &fth_op_domain_linear, name, inputs, 5, NULL, 0, out, err);
}

fth_status fth_layer_partitioned_norm(fth_graph *graph, const char *name, fth_id x, fth_id domain, fth_id *out,
                                      fth_error *err) {
    struct fth_value value = {0}, domains = {0};
    fth_id moments[4] = {x, domain, FTH_NONE, FTH_NONE}, apply[5] = {x, domain, FTH_NONE, FTH_NONE, FTH_NONE};
    fth_id affine[4] = {FTH_NONE, domain, FTH_NONE, FTH_NONE};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    FTH_TRY(fth_layers_value(graph, name, domain, &domains, err));
    FTH_TRY(fth_layers_parameter(graph, name, "running_mean", FTH_ROLE_STATE, domains.columns, value.columns,
                                 FTH_PARAM_ZERO, 0, 1, &moments[2], err));
    FTH_TRY(fth_layers_parameter(graph, name, "running_variance", FTH_ROLE_STATE, domains.columns, value.columns,
                                 FTH_PARAM_CONSTANT, 1, 1, &moments[3], err));
    FTH_TRY(fth_graph_node(graph, &fth_op_domain_moments, name, moments, 4, NULL, 0, apply + 2, err));
    FTH_TRY(fth_graph_node(graph, &fth_op_domain_standardise, name, apply, 5, NULL, 0, &affine[0], err));
    FTH_TRY(combined(graph, name, "scale", domains.columns, 1, value.columns, FTH_PARAM_CONSTANT, 1, 1,
                     &affine[2], err));
    FTH_TRY(combined(graph, name, "shift", domains.columns, 1, value.columns, FTH_PARAM_ZERO, 0, 0, &affine[3],
                     err));
    return fth_graph_node(graph, &fth_op_domain_affine, name, affine, 4, NULL, 0, out, err);
}
