/* Layers that models are built from (layers.h): embedding, linear, elementwise, concat, sums, loss.
 * Each appends nodes while the graph is built; one thread. */
#include "ops/layers.h"

#include <math.h>

#include "ops/layers_private.h"

fth_status fth_layers_parameter(fth_graph *graph, const char *layer, const char *part,
                                fth_role role, uint32_t rows, uint32_t columns, fth_param_init init,
                                float scale, int no_decay, fth_id *out, fth_error *err) {
    const char *name = fth_arena_printf(graph->arena, "%s.%s", layer, part);
    if (!name)
        return fth_fail(err, FTH_E_MEMORY, "%s.%s: out of memory", layer, part);
    FTH_TRY(fth_graph_parameter(graph, role, name, rows, columns, init, scale, out, err));
    fth_graph_value(graph, *out)->no_decay = no_decay;
    return FTH_OK;
}

fth_status fth_layers_value(fth_graph *graph, const char *layer, fth_id id, struct fth_value *out,
                            fth_error *err) {
    const struct fth_value *value = fth_graph_value(graph, id);
    if (!value)
        return fth_fail(err, FTH_E_ARGUMENT, "%s: there is no value %d", layer, (int)id);
    *out = *value;
    return FTH_OK;
}

fth_status fth_layer_embedding(fth_graph *graph, const char *name, const uint32_t *lookups,
                               uint32_t n_lookups, fth_id *out, fth_error *err) {
    struct fth_embedding_attributes *attributes;
    size_t bytes = sizeof *attributes + n_lookups * sizeof attributes->lookups[0];
    attributes = fth_arena_alloc(graph->arena, 1, bytes);
    if (!attributes)
        return fth_fail(err, FTH_E_MEMORY, "%s: out of memory", name);
    attributes->n_lookups = n_lookups;
    for (uint32_t i = 0; i < n_lookups; i++)
        attributes->lookups[i] = lookups[i];
    return fth_graph_node(graph, &fth_op_embedding, name, NULL, 0, attributes, bytes, out, err);
}

/* Weights and bias are drawn from +-scale / sqrt(inputs). */
static fth_status linear(fth_graph *graph, const char *name, fth_id x, uint32_t columns, int bias, float scale,
                         fth_id *out, fth_error *err) {
    struct fth_value value = {0};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    if (!columns)
        return fth_fail(err, FTH_E_ARGUMENT, "%s: a layer needs at least one unit", name);
    fth_param_init init = scale > 0 ? FTH_PARAM_UNIFORM : FTH_PARAM_ZERO;
    scale /= sqrtf((float)value.columns);
    fth_id inputs[3] = {x, FTH_NONE, FTH_NONE};
    uint32_t rows = columns == 1 ? 1 : value.columns,
             width = columns == 1 ? value.columns : columns;
    FTH_TRY(fth_layers_parameter(graph, name, "weight", FTH_ROLE_PARAMETER, rows, width,
                                 init, scale, 0, &inputs[1], err));
    if (bias)
        FTH_TRY(fth_layers_parameter(graph, name, "bias", FTH_ROLE_PARAMETER, 1, columns, init, scale, 1,
                                     &inputs[2], err));
    struct fth_linear_attributes attributes = {.act = FTH_ACT_NONE};
    if (columns == 1)
        return fth_graph_node(graph, &fth_op_row_dot, name, inputs, 3, NULL, 0, out, err);
    return fth_graph_node(graph, &fth_op_linear, name, inputs, 3, &attributes, sizeof attributes,
                          out, err);
}

fth_status fth_layer_linear(fth_graph *graph, const char *name, fth_id x, uint32_t columns, int bias, fth_id *out,
                            fth_error *err) {
    return linear(graph, name, x, columns, bias, 1, out, err);
}

fth_status fth_layer_linear_terms(fth_graph *graph, const char *name, fth_id x, fth_id *out, fth_error *err) {
    return linear(graph, name, x, 1, 1, 0, out, err);
}

fth_status fth_layer_linear_again(fth_graph *graph, fth_id of, fth_id x, fth_id *out, fth_error *err) {
    const struct fth_node *made = NULL;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->n_outputs && graph->nodes[i]->outputs[0] == of)
            made = graph->nodes[i];
    if (!made || (made->op != &fth_op_linear && made->op != &fth_op_row_dot))
        return fth_fail(err, FTH_E_ARGUMENT, "value %d is of no linear layer", (int)of);
    fth_id inputs[3] = {x, made->inputs[1], made->inputs[2]};
    return fth_graph_node(graph, made->op, made->name, inputs, 3, made->attributes,
                          made->attributes ? sizeof(struct fth_linear_attributes) : 0, out, err);
}

fth_status fth_layer_bias(fth_graph *graph, const char *name, fth_id x, fth_id *out,
                          fth_error *err) {
    struct fth_value value = {0};
    FTH_TRY(fth_layers_value(graph, name, x, &value, err));
    fth_id inputs[2] = {x, FTH_NONE};
    FTH_TRY(fth_layers_parameter(graph, name, "bias", FTH_ROLE_PARAMETER, 1, value.columns,
                                 FTH_PARAM_ZERO, 0, 1, &inputs[1], err));
    struct fth_act_attributes act = {FTH_ACT_NONE};
    return fth_graph_node(graph, &fth_op_bias_act, name, inputs, 2, &act, sizeof act, out, err);
}

fth_status fth_layer_add(fth_graph *graph, fth_id a, fth_id b, fth_id *out, fth_error *err) {
    fth_id inputs[2] = {a, b};
    return fth_graph_node(graph, &fth_op_add, "add", inputs, 2, NULL, 0, out, err);
}

fth_status fth_layer_sub(fth_graph *graph, fth_id a, fth_id b, fth_id *out, fth_error *err) {
    fth_id inputs[2] = {a, b};
    return fth_graph_node(graph, &fth_op_sub, "sub", inputs, 2, NULL, 0, out, err);
}

fth_status fth_layer_mul(fth_graph *graph, fth_id a, fth_id b, fth_id *out, fth_error *err) {
    fth_id inputs[2] = {a, b};
    return fth_graph_node(graph, &fth_op_mul, "mul", inputs, 2, NULL, 0, out, err);
}

fth_status fth_layer_concat(fth_graph *graph, const char *name, const fth_id *inputs, uint32_t n,
                            fth_id *out, fth_error *err) {
    if (n == 1) {
        *out = inputs[0];
        return FTH_OK;
    }
    return fth_graph_node(graph, &fth_op_concat, name, inputs, n, NULL, 0, out, err);
}

fth_status fth_layer_row_sum(fth_graph *graph, const char *name, fth_id x, fth_id *out,
                             fth_error *err) {
    return fth_graph_node(graph, &fth_op_row_sum, name, &x, 1, NULL, 0, out, err);
}

static fth_status batch_softmax(fth_graph *graph, fth_id label, fth_id weight, fth_id *out, fth_error *err) {
    fth_id inputs[5] = {graph->softmax.user, graph->softmax.item, FTH_NONE, label, weight}, outputs[3];
    struct fth_log_frequency_attributes sampled = {(uint32_t)graph->softmax.sampled};
    if (graph->softmax.sampled >= 0)
        FTH_TRY(fth_graph_node(graph, &fth_op_log_frequency, "loss", NULL, 0, &sampled, sizeof sampled,
                               &inputs[2], err));
    FTH_TRY(fth_graph_node(graph, &fth_op_batch_softmax, "loss", inputs, 5, NULL, 0, outputs, err));
    *out = outputs[0];
    return FTH_OK;
}

/* Further losses: those of examples join `each` [E, 1], so that all are summed up at once. */
static fth_status losses_join(fth_graph *graph, fth_extent extent, fth_id *sum, fth_error *err) {
    struct fth_add_whole_attributes one = {1, 1};
    for (uint32_t i = 0; i < graph->n_losses; i++) {
        fth_id inputs[2] = {*sum, graph->losses[i]};
        if (fth_graph_value(graph, graph->losses[i])->extent != extent)
            continue;
        if (extent == FTH_EXAMPLES)
            FTH_TRY(fth_graph_node(graph, &fth_op_add, "loss", inputs, 2, NULL, 0, sum, err));
        else
            FTH_TRY(fth_graph_node(graph, &fth_op_add_whole, "loss", inputs, 2, &one, sizeof one, sum, err));
    }
    return FTH_OK;
}

fth_status fth_layer_loss(fth_graph *graph, float label_smoothing, fth_error *err) {
    fth_id inputs[3] = {graph->logit, FTH_NONE, FTH_NONE}, losses[2], tiles;
    if (graph->logit == FTH_NONE)
        return fth_fail(err, FTH_E_ARGUMENT, "loss: the graph has no logit");
    FTH_TRY(fth_graph_input(graph, FTH_ROLE_LABEL, &inputs[1], err));
    FTH_TRY(fth_graph_input(graph, FTH_ROLE_WEIGHT, &inputs[2], err));
    struct fth_bce_attributes *bce;
    size_t bytes = sizeof *bce + graph->n_tasks * sizeof bce->weights[0];
    bce = fth_arena_alloc(graph->arena, 1, bytes);
    if (!bce)
        return fth_fail(err, FTH_E_MEMORY, "loss: out of memory");
    bce->smoothing = label_smoothing;
    bce->n_tasks = graph->n_tasks;
    for (uint32_t t = 0; t < graph->n_tasks; t++)
        bce->weights[t] = graph->task_weights ? graph->task_weights[t] : 1;
    struct fth_sum_tiles_attributes mean = {1};
    uint32_t first = graph->n_nodes;
    if (graph->softmax.user != FTH_NONE)
        FTH_TRY(batch_softmax(graph, inputs[1], inputs[2], losses, err));
    else
        FTH_TRY(fth_graph_node(graph, &fth_op_bce, "loss", inputs, 3, bce, bytes, losses, err));
    FTH_TRY(losses_join(graph, FTH_EXAMPLES, &losses[0], err));
    FTH_TRY(fth_graph_node(graph, &fth_op_col_sum, "loss", losses, 1, NULL, 0, &tiles, err));
    FTH_TRY(fth_graph_node(graph, &fth_op_sum_tiles, "loss", &tiles, 1, &mean, sizeof mean,
                           &graph->loss, err));
    FTH_TRY(losses_join(graph, FTH_WHOLE, &graph->loss, err));
    /* Predicting has no labels: evaluation works from the logits. */
    for (uint32_t i = first; i < graph->n_nodes; i++)
        graph->nodes[i]->training_only = 1;
    return FTH_OK;
}
