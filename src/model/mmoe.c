/* MMoE (Ma et al., KDD 2018): experts that all tasks share, a gate a task, a tower a task.
 *
 * Section 4.2: expert e is layers over the inputs, f_e(x); task k reads f^k(x) = sum_e g^k(x)_e f_e(x)
 * (eq. 6) with g^k(x) = softmax(W_gk x) (eq. 8) and answers h^k(f^k(x)) (eq. 7). With one expert there is
 * nothing to choose, and no gates: a bottom that the tasks share.
 *
 * The experts' first layers read the same inputs, so they are one product, their weights side by side:
 * "experts.0.weight" has expert e's columns from e * width on; so have all gates, "gates.weight". */
#include "model/parts.h"

/* Layers of all experts: [E, experts * last width]. */
static fth_status experts(fth_graph *graph, const struct fth_model_config *config, fth_id x, fth_id *out,
                          fth_error *err) {
    uint32_t n = (uint32_t)config->experts;
    fth_id *values;
    FTH_TRY(fth_parts_ids(graph, n, &values, err));
    for (uint32_t l = 0; l < config->expert_hidden.n; l++) {
        int64_t width = config->expert_hidden.items[l], all = width * n;
        struct fth_ints hidden = {l ? &width : &all, 1};
        struct fth_mlp_options options = fth_parts_mlp(config, &hidden);
        if (!l) {
            FTH_TRY(fth_layer_mlp(graph, "experts", x, &options, &x, err));
            continue;
        }
        uint32_t before = (uint32_t)config->expert_hidden.items[l - 1];
        for (uint32_t e = 0; e < n; e++) {
            const char *name = fth_arena_printf(graph->arena, "expert.%u.layer.%u", e, l);
            if (!name)
                return fth_fail(err, FTH_E_MEMORY, "mmoe: out of memory");
            FTH_TRY(fth_graph_view(graph, x, e * before, before, &values[e], err));
            FTH_TRY(fth_layer_mlp(graph, name, values[e], &options, &values[e], err));
        }
        FTH_TRY(fth_layer_concat(graph, "experts", values, n, &x, err));
    }
    *out = x;
    return FTH_OK;
}

/* What task k's tower reads. */
static fth_status mixture(fth_graph *graph, uint32_t experts, fth_id gates, fth_id values, uint32_t task,
                          fth_id *out, fth_error *err) {
    fth_id inputs[2] = {FTH_NONE, values};
    if (gates == FTH_NONE) {
        *out = values;
        return FTH_OK;
    }
    FTH_TRY(fth_graph_view(graph, gates, task * experts, experts, &inputs[0], err));
    FTH_TRY(fth_layer_row_softmax(graph, "gate", inputs[0], &inputs[0], err));
    return fth_layer_mix_experts(graph, "mixture", inputs[0], inputs[1], out, err);
}

static fth_status build(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err) {
    struct fth_parts_fields all = {0};
    uint32_t n = 0, tasks = inputs->n_tasks ? inputs->n_tasks : 1, n_experts = (uint32_t)config->experts;
    fth_id *values, *outputs, x, of_experts = FTH_NONE, gates = FTH_NONE;
    FTH_TRY(fth_parts_need("mmoe", inputs, 0, err));
    if (!config->expert_hidden.n)
        return fth_fail(err, FTH_E_CONFIG,
                        "model.expert_hidden: mmoe's experts need at least one layer, such as [128]");
    FTH_TRY(fth_parts_all(graph, inputs, &all, err));
    FTH_TRY(fth_parts_ids(graph, all.n, &values, err));
    FTH_TRY(fth_parts_ids(graph, tasks, &outputs, err));
    FTH_TRY(fth_parts_embeddings(graph, "embedding", inputs, &all, values, &n, err));
    FTH_TRY(fth_parts_with_dense(graph, "experts.in", inputs, values, n, &x, err));
    FTH_TRY(experts(graph, config, x, &of_experts, err));
    if (n_experts > 1)
        FTH_TRY(fth_layer_linear(graph, "gates", x, tasks * n_experts, 0, &gates, err));
    for (uint32_t t = 0; t < tasks; t++) {
        fth_id mixed;
        const char *name =
            inputs->tasks ? fth_arena_printf(graph->arena, "tower.%s", inputs->tasks[t]) : "tower";
        if (!name)
            return fth_fail(err, FTH_E_MEMORY, "mmoe: out of memory");
        FTH_TRY(mixture(graph, n_experts, gates, of_experts, t, &mixed, err));
        FTH_TRY(fth_parts_deep(graph, name, "model.tower", config, &config->tower, mixed, &outputs[t], err));
    }
    return fth_layer_concat(graph, "tasks", outputs, tasks, &graph->logit, err);
}

const struct fth_model fth_model_mmoe = {
    .name = "mmoe",
    .several_tasks = 1,
    .build = build};
