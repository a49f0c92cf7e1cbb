/* Evaluation: metrics of the model as it stands on labelled data. */
#include <string.h>

#include "metric/metric.h"
#include "train/session_private.h"

int fth_session_has_held_out(const struct fth_session *session) {
    const struct fth_data_config *data = &session->config->data;
    return data->valid.n > 0 || data->holdout != FTH_HOLDOUT_NONE;
}

fth_status fth_session_forward(struct fth_session *session, const struct fth_batch *batch,
                               const float **logits, uint32_t *ld, fth_error *err) {
    fth_plan *plan;
    FTH_TRY(fth_session_plan(session, 0, &plan, err));
    struct fth_step run = {.batch = batch, .seed = session->config->seed, .step = session->step};
    if (session->embedding) {
        FTH_TRY(fth_embedding_prepare(session->embedding, session->pool, batch, 0, session->step, err));
        run.rows = fth_embedding_rows(session->embedding);
    }
    fth_plan_run(plan, session->pool, &run);
    *logits = fth_plan_value(plan, session->graph->logit, ld);
    return FTH_OK;
}

/* A collector a task, and room for one task's column of a batch. */
struct tasks {
    fth_metrics *items[FTH_CONFIG_MAX_TASKS];
    uint32_t n;
    int named; /* labels may be missing, batches have weights */
    uint64_t examples;
    uint32_t capacity;
    float *column;    /* [3][capacity]: logits, labels, weights */
    uint64_t *queries;
};

static fth_status tasks_create(const struct fth_session *session, int grouped, struct tasks *out,
                               fth_error *err) {
    out->n = fth_session_tasks(session->config);
    out->named = session->config->n_tasks > 0;
    out->capacity = (uint32_t)session->config->train.batch_size;
    if (out->named) {
        out->column = fth_alloc(3 * (size_t)out->capacity, sizeof *out->column);
        out->queries = fth_alloc(out->capacity, sizeof *out->queries);
        if (!out->column || !out->queries)
            return fth_fail(err, FTH_E_MEMORY, "no memory for metrics");
    }
    for (uint32_t t = 0; t < out->n; t++)
        FTH_TRY(fth_metrics_create(grouped, 0, &out->items[t], err));
    return FTH_OK;
}

static void tasks_free(struct tasks *tasks) {
    for (uint32_t t = 0; t < tasks->n; t++)
        fth_metrics_destroy(tasks->items[t]);
    fth_free(tasks->column);
    fth_free(tasks->queries);
}

/* The examples that count in the task. */
static fth_status add_task(struct tasks *tasks, uint32_t task, const struct fth_batch *batch,
                           const float *logits, uint32_t ld, fth_error *err) {
    float *logit = tasks->column, *label = logit + tasks->capacity, *weight = label + tasks->capacity;
    uint32_t n = 0;
    for (uint32_t i = 0; i < batch->n; i++) {
        size_t at = (size_t)i * tasks->n + task;
        if (batch->weight[at] == 0)
            continue;
        logit[n] = logits[(size_t)i * ld + task];
        label[n] = batch->label[at];
        weight[n] = batch->weight[at];
        tasks->queries[n++] = batch->query ? batch->query[i] : 0;
    }
    return fth_metrics_add(tasks->items[task], n, logit, label, weight, tasks->queries, err);
}

static fth_status add_batch(struct tasks *tasks, const struct fth_batch *batch, const float *logits,
                            uint32_t ld, fth_error *err) {
    tasks->examples += batch->n;
    if (!tasks->named)
        return fth_metrics_add(tasks->items[0], batch->n, logits, batch->label, batch->weight,
                               batch->query, err);
    for (uint32_t t = 0; t < tasks->n; t++)
        FTH_TRY(add_task(tasks, t, batch, logits, ld, err));
    return FTH_OK;
}

static fth_status run_batches(struct fth_session *session, fth_reader *reader, struct tasks *tasks,
                              fth_error *err) {
    for (;;) {
        struct fth_batch *batch = NULL;
        const float *logits = NULL;
        uint32_t ld;
        FTH_TRY(fth_reader_next(reader, &batch, err));
        if (!batch)
            return FTH_OK;
        fth_status status = fth_session_forward(session, batch, &logits, &ld, err);
        if (status == FTH_OK)
            status = add_batch(tasks, batch, logits, ld, err);
        fth_reader_release(reader, batch);
        FTH_TRY(status);
    }
}

static fth_status compute(const struct fth_session *session, struct tasks *tasks, fth_evaluation *out,
                          fth_error *err) {
    for (uint32_t t = 0; t < tasks->n; t++) {
        FTH_TRY(fth_metrics_compute(tasks->items[t], &out[t], err));
        out[t].task = tasks->named ? session->config->tasks[t].name : NULL;
    }
    return FTH_OK;
}

fth_evaluation fth_session_evaluation(const struct fth_session *session, int which) {
    uint32_t n = fth_session_tasks(session->config);
    const fth_evaluation *all = session->evaluations + (size_t)which * n;
    fth_evaluation first = all[0];
    first.others = n > 1 ? all + 1 : NULL;
    first.n_others = n - 1;
    return first;
}

static fth_status evaluate(struct fth_session *session, const struct fth_data_set_options *options,
                           int which, fth_evaluation *out, fth_error *err) {
    uint64_t start = fth_now_ns();
    fth_evaluation *all = session->evaluations + (size_t)which * fth_session_tasks(session->config);
    fth_data_set *set = NULL;
    fth_feature_program *program = NULL;
    fth_feature_pass *pass = NULL;
    fth_reader *reader = NULL;
    struct tasks tasks = {0};
    struct fth_reader_options reading = {.batch_size = (uint32_t)session->config->train.batch_size,
                                         .seed = session->config->seed,
                                         .pool = session->pool,
                                         .epochs = 1};
    fth_status status;
    FTH_TRY_GOTO(status, fth_session_open_set(session, options, &set, err), done);
    FTH_TRY_GOTO(status, fth_session_program_for(session, set, 1, &program, err), done);
    FTH_TRY_GOTO(status,
                 fth_feature_pass_create(program, session->position.feature_state,
                                         session->position.n_feature_state, &pass, err),
                 done);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    FTH_TRY_GOTO(status, fth_reader_create(set, &transform, &reading, &reader, err), done);
    FTH_TRY_GOTO(status, tasks_create(session, transform.schema->has_query, &tasks, err), done);
    FTH_TRY_GOTO(status, run_batches(session, reader, &tasks, err), done);
    if (tasks.examples == 0) {
        status = fth_fail(err, FTH_E_DATA, "%s: there are no examples to evaluate on",
                          fth_data_set_files(set).n ? fth_data_set_files(set).items[0] : "data");
        goto done;
    }
    FTH_TRY_GOTO(status, compute(session, &tasks, all, err), done);
    struct fth_reader_counts counts;
    fth_reader_get_counts(reader, &counts);
    for (uint32_t t = 0; t < tasks.n; t++) {
        all[t].lines_bad = counts.bad;
        all[t].seconds = (double)(fth_now_ns() - start) * 1e-9;
    }
    *out = fth_session_evaluation(session, which);
done:
    tasks_free(&tasks);
    fth_reader_destroy(reader);
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
    fth_data_set_destroy(set);
    return status;
}

fth_status fth_session_evaluate_held_out(struct fth_session *session, fth_evaluation *out,
                                         fth_error *err) {
    struct fth_data_set_options options = {.part = FTH_PART_VALID};
    return evaluate(session, &options, FTH_EVALUATION_LAST, out, err);
}

fth_status fth_session_evaluate(fth_session *session, const char *const *files, size_t n,
                                fth_evaluation *out, fth_error *err) {
    struct fth_data_set_options options = {.part = FTH_PART_FILES,
                                           .files = {files, (uint32_t)n},
                                           .files_key = "FILE"};
    if (n == 0 && session->config->data.test.n)
        options.part = FTH_PART_TEST;
    else if (n == 0 && fth_session_has_held_out(session))
        options.part = FTH_PART_VALID;
    else if (n == 0)
        return fth_fail(err, FTH_E_CONFIG,
                        "no data to evaluate on: name files, or set data.test, data.valid or data.holdout");
    return evaluate(session, &options, FTH_EVALUATION_ASKED, out, err);
}
