/* From a configuration to something that runs: features, graph, passes, parameters, tables, plans. */
#include <float.h>
#include <string.h>

#include "model/model.h"
#include "ops/layers.h"
#include "passes/passes.h"
#include "train/session_private.h"

/* config.h has numbers of kernels/, which it may not include. */
_Static_assert((int)FTH_PRECISION_FP32 == (int)FTH_FP32 && (int)FTH_PRECISION_BF16 == (int)FTH_BF16 &&
                   (int)FTH_PRECISION_BF16X3 == (int)FTH_BF16X3 && (int)FTH_PRECISION_BF16X6 == (int)FTH_BF16X6,
               "precisions");
_Static_assert((int)FTH_CONFIG_POOL_SUM == (int)FTH_POOL_SUM && (int)FTH_CONFIG_POOL_MEAN == (int)FTH_POOL_MEAN &&
                   (int)FTH_CONFIG_POOL_MAX == (int)FTH_POOL_MAX,
               "poolings");

int fth_session_with(const struct fth_config *config, const char *name) {
    for (uint32_t i = 0; i < config->without.n; i++)
        if (strcmp(config->without.items[i], name) == 0)
            return 0;
    return 1;
}

/* `without` may name passes and the switches that other parts read. */
static fth_status check_without(const struct fth_config *config, fth_error *err) {
    const char *const *names = fth_pass_names();
    size_t n = 0;
    while (names[n])
        n++;
    for (uint32_t i = 0; i < config->without.n; i++) {
        const char *name = config->without.items[i];
        size_t at = 0;
        while (at < n && strcmp(names[at], name) != 0)
            at++;
        if (at < n)
            continue;
        struct fth_text known = {0};
        for (size_t k = 0; k < n; k++)
            fth_text_printf(&known, "%s%s", k ? ", " : "", names[k]);
        const char *near = fth_nearest(name, names, n);
        fth_fail(err, FTH_E_CONFIG, "without: there is no optimisation '%s'%s%s%s (there are: %s)", name,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                 fth_text_get(&known));
        fth_text_free(&known);
        return FTH_E_CONFIG;
    }
    return FTH_OK;
}

/* Only some models have an output a task. */
static fth_status check_tasks(const struct fth_config *config, const struct fth_model *model,
                              fth_error *err) {
    if (config->n_tasks <= 1 || model->several_tasks)
        return FTH_OK;
    struct fth_text able = {0};
    for (const struct fth_model *const *other = fth_models(); *other; other++)
        if ((*other)->several_tasks)
            fth_text_printf(&able, "%s%s", able.length ? ", " : "", (*other)->name);
    fth_fail(err, FTH_E_CONFIG, "tasks: %s has one output, there are %u tasks; models with an output a task: %s",
             model->name, config->n_tasks, fth_text_get(&able));
    fth_text_free(&able);
    return FTH_E_CONFIG;
}

/* What the graph keeps of the tasks; names for the model. */
static fth_status take_tasks(const struct fth_config *config, fth_graph *graph,
                             struct fth_model_inputs *inputs, fth_error *err) {
    if (!config->n_tasks)
        return FTH_OK;
    const char **names = fth_arena_alloc(graph->arena, config->n_tasks, sizeof *names);
    float *weights = fth_arena_alloc(graph->arena, config->n_tasks, sizeof *weights);
    if (!names || !weights)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the model");
    for (uint32_t t = 0; t < config->n_tasks; t++) {
        names[t] = config->tasks[t].name;
        weights[t] = (float)config->tasks[t].weight;
    }
    graph->n_tasks = inputs->n_tasks = config->n_tasks;
    graph->task_weights = weights;
    inputs->tasks = names;
    return FTH_OK;
}

static fth_status take_indicators(const fth_feature_program *program, fth_graph *graph,
                                  struct fth_model_inputs *inputs, fth_error *err) {
    uint32_t n = 0, first, width;
    while (fth_feature_indicator(program, n, &first, &width))
        n++;
    struct fth_model_indicator *indicators = fth_arena_alloc(graph->arena, n + 1, sizeof *indicators);
    if (!indicators)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the model");
    for (uint32_t i = 0; i < n; i++)
        indicators[i].name =
            fth_feature_indicator(program, i, &indicators[i].first, &indicators[i].width);
    inputs->indicators = indicators;
    inputs->n_indicators = n;
    return FTH_OK;
}

static fth_status model_graph(struct fth_session *session, fth_graph *graph, fth_error *err) {
    const struct fth_config *config = session->config;
    const struct fth_model *model = fth_model_find(config->model.name);
    if (!model)
        return fth_fail(err, FTH_E_CONFIG, "model.name: there is no model '%s'", config->model.name);
    FTH_TRY(check_tasks(config, model, err));
    uint32_t n = 0;
    const struct fth_field_info *infos = fth_feature_fields(session->program, &n);
    struct fth_model_field *fields = fth_alloc(n ? n : 1, sizeof *fields);
    if (!fields)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the model");
    for (uint32_t i = 0; i < n; i++)
        fields[i] = (struct fth_model_field){.name = infos[i].name,
                                             .table = infos[i].table,
                                             .dim = infos[i].dim,
                                             .min_count = infos[i].min_count,
                                             .group = infos[i].group,
                                             .pooling = infos[i].pooling,
                                             .sequence = infos[i].sequence,
                                             .weighted = infos[i].weighted,
                                             .missing = infos[i].missing};
    struct fth_model_inputs inputs = {.n_dense = fth_feature_schema(session->program)->n_dense,
                                      .fields = fields,
                                      .n_fields = n};
    fth_status status = take_tasks(config, graph, &inputs, err);
    if (status == FTH_OK)
        status = take_indicators(session->program, graph, &inputs, err);
    if (status == FTH_OK)
        status = model->build(graph, &config->model, &inputs, err);
    fth_free(fields);
    return status;
}

/* An optimizer with norms of whole parameters (LAMB) leaves its update unfused. Products in another precision
 * than fp32 are cheaper than what factorising puts in their place, and of a small batch no field is factorised. */
static fth_status run_passes(struct fth_session *session, enum fth_pass_when when, fth_error *err) {
    const struct fth_strings *without = &session->config->without;
    const char **names = fth_alloc(without->n + 3, sizeof *names);
    if (!names)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the model");
    uint32_t n = 0;
    while (n < without->n) {
        names[n] = without->items[n];
        n++;
    }
    if (session->dense_optimizer->whole_parameter)
        names[n++] = "fuse_updates";
    uint32_t batch = (uint32_t)session->config->train.batch_size;
    if (session->config->precision != FTH_PRECISION_FP32 || fth_unique_most(batch) == 0)
        names[n++] = "factorise_first_layer";
    fth_status status = fth_passes_run(session->graph, when, names, n, err);
    fth_free(names);
    return status;
}

static fth_status build_graph(struct fth_session *session, fth_error *err) {
    const struct fth_config *config = session->config;
    FTH_TRY(fth_graph_create(fth_feature_schema(session->program)->n_dense, &session->graph, err));
    fth_graph *graph = session->graph;
    graph->precision = (int)config->precision;
    graph->norm_updates = session->dense_optimizer->whole_parameter;
    FTH_TRY(model_graph(session, graph, err));
    FTH_TRY(fth_session_find_output_biases(session, err));
    FTH_TRY(fth_layer_loss(graph, (float)config->train.label_smoothing, err));
    FTH_TRY(run_passes(session, FTH_PASS_FORWARD, err));
    FTH_TRY(fth_graph_differentiate(graph, err));
    float clip_norm = (float)config->train.clip_norm;
    if (config->train.clip_norm > 0 && clip_norm < FLT_MIN) /* 0 would be never */
        clip_norm = FLT_MIN;
    FTH_TRY(fth_layer_updates(graph, clip_norm, err));
    FTH_TRY(run_passes(session, FTH_PASS_TRAINING, err));
    return fth_graph_verify(graph, err);
}

/* What no graph can be made of is a matter of the configuration, not of the command line. */
static fth_status as_config(fth_status status, fth_error *err) {
    if (status != FTH_E_ARGUMENT)
        return status;
    return err ? (err->code = FTH_E_CONFIG) : FTH_E_CONFIG;
}

static int has_linear_terms(const fth_graph *graph) {
    for (uint32_t l = 0; l < graph->n_lookups; l++)
        if (graph->lookups[l].zero_init && !graph->lookups[l].counted)
            return 1;
    return 0;
}

static fth_status build_tables(struct fth_session *session, fth_error *err) {
    const struct fth_config *config = session->config;
    if (fth_config_linear_optimizer(config) && !has_linear_terms(session->graph))
        return fth_fail(err, FTH_E_CONFIG,
                        "optimizer.linear.name: %s, but model %s has no linear terms of categories; expected " FTH_AS_SPARSE,
                        config->linear_optimizer.name, config->model.name);
    if (!session->graph->n_lookups)
        return FTH_OK;
    const struct fth_optimizer_config without_slots = {.name = "sgd"};
    struct fth_embedding_options options = {
        .lookups = session->graph->lookups,
        .n_lookups = session->graph->n_lookups,
        .config = &config->embedding,
        .optimizer = session->weights_only ? &without_slots : &config->sparse_optimizer,
        .linear = session->weights_only ? NULL : fth_config_linear_optimizer(config),
        .seed = config->seed,
        .max_batch = (uint32_t)config->train.batch_size,
        .packing = fth_session_with(config, "packing"),
        .norms = config->train.clip_norm > 0,
    };
    return fth_embedding_create(&options, &session->embedding, err);
}

static void init_worker(void *arg, uint32_t worker) {
    (void)arg;
    (void)worker;
    fth_gemm_thread_init();
}

static fth_status build_pool(struct fth_session *session, fth_error *err) {
    int64_t threads = session->config->threads;
    if (threads == 0)
        threads = fth_cpu_get()->cores;
    FTH_TRY(fth_pool_create((uint32_t)threads, &session->pool, err));
    fth_pool_run(session->pool, init_worker, NULL);
    return FTH_OK;
}

fth_status fth_session_build(struct fth_session *session, fth_error *err) {
    const struct fth_config *config = session->config;
    FTH_TRY(check_without(config, err));
    if (!fth_session_with(config, "gemm_choice")) {
        FTH_TRY(fth_tuning_one_provider(FTH_GEMM_XSMM, &session->tuning, err));
    } else if (config->tuning && *config->tuning) {
        fth_status status = fth_tuning_load(config->tuning, &session->tuning, err);
        if (status != FTH_OK)
            fth_error_frame(err, "tuning (--set tuning= goes without; the last bits may differ)");
        FTH_TRY(status);
    }
    session->dense_optimizer = fth_optimizer_find(config->dense_optimizer.name);
    if (!session->dense_optimizer)
        return fth_fail(err, FTH_E_CONFIG, "optimizer.dense.name: there is no optimizer '%s'",
                        config->dense_optimizer.name);
    FTH_TRY(as_config(build_graph(session, err), err));
    session->evaluations =
        fth_alloc((size_t)FTH_EVALUATIONS * fth_session_tasks(config), sizeof *session->evaluations);
    session->labels_seen = fth_alloc(fth_session_tasks(config), sizeof *session->labels_seen);
    session->indicators_seen = fth_alloc(fth_feature_schema(session->program)->n_dense + 1, 1);
    session->lists_seen = fth_alloc(fth_feature_schema(session->program)->n_groups + 1, 1);
    if (!session->evaluations || !session->labels_seen || !session->indicators_seen || !session->lists_seen)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a session");
    FTH_TRY(fth_parameters_create(session->graph, session->dense_optimizer, &config->dense_optimizer,
                                  config->seed, &session->parameters, err));
    FTH_TRY(build_tables(session, err));
    return build_pool(session, err);
}

void fth_session_plan_options(const struct fth_session *session, int training,
                              struct fth_plan_options *out) {
    const struct fth_config *config = session->config;
    const struct fth_schema *schema = fth_feature_schema(session->program);
    const struct fth_rows *rows = session->embedding ? fth_embedding_rows(session->embedding) : NULL;
    *out = (struct fth_plan_options){
        .max_batch = (uint32_t)config->train.batch_size,
        .tile = (uint32_t)config->tile,
        .group_max = schema->group_max,
        .n_groups = schema->n_groups,
        .training = training,
        .precision = config->precision,
        .tuning = session->tuning,
        .optimizer = session->dense_optimizer,
        .workers = fth_pool_size(session->pool),
        .cores = fth_cpu_get()->cores,
        .row_update_tasks = rows ? rows->update_tasks(rows->ctx) : 0,
        .row_update_scratch = rows ? rows->update_scratch(rows->ctx) : 0,
    };
}

uint32_t fth_session_tile(const struct fth_session *session, uint32_t cores) {
    const struct fth_config *config = session->config;
    return config->tile ? (uint32_t)config->tile
                        : fth_plan_tile(session->graph, fth_feature_schema(session->program)->group_max, config->precision,
                                        (uint32_t)config->train.batch_size, cores ? cores : fth_cpu_get()->cores);
}

fth_status fth_session_make_room(struct fth_session *session, fth_error *err) {
    uint64_t rows = (uint64_t)session->config->embedding.expected_rows, start = fth_now_ns();
    if (!rows || !session->embedding)
        return FTH_OK;
    FTH_TRY(fth_embedding_expect(session->embedding, session->pool, rows, &session->interrupted, err));
    session->times.room += fth_now_ns() - start;
    return FTH_OK;
}

fth_status fth_session_plan(struct fth_session *session, int training, fth_plan **out, fth_error *err) {
    fth_plan **plan = training ? &session->train_plan : &session->eval_plan;
    if (!*plan) {
        struct fth_plan_options options;
        fth_session_plan_options(session, training, &options);
        FTH_TRY(as_config(fth_plan_create(session->graph, session->parameters, &options, plan, err), err));
    }
    *out = *plan;
    return FTH_OK;
}
