/* Evaluation: metrics of the model as it stands on labelled data. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "metric/metric.h"
#include "train/session_private.h"

int fth_session_has_held_out(const struct fth_session *session) {
    const struct fth_data_config *data = &session->config->data;
    return data->valid.n > 0 || data->holdout != FTH_HOLDOUT_NONE;
}

/* A collector a task, and room for one task's column of a batch. */
struct tasks {
    fth_metrics *items[FTH_CONFIG_MAX_TASKS];
    uint32_t n;
    int weighted; /* batches have weights; what has none (of tasks: no label, too) does not count */
    uint64_t examples;
    uint32_t capacity;
    float *column;    /* [3][capacity]: logits, labels, weights */
    uint64_t *queries;
};

static fth_status tasks_create(const struct fth_session *session, const struct fth_schema *schema, struct tasks *out,
                               fth_error *err) {
    out->n = fth_session_tasks(session->config);
    out->weighted = schema->has_weight;
    out->capacity = (uint32_t)session->config->train.batch_size;
    if (out->weighted) {
        out->column = fth_alloc(3 * (size_t)out->capacity, sizeof *out->column);
        out->queries = fth_alloc(out->capacity, sizeof *out->queries);
        if (!out->column || !out->queries)
            return fth_fail(err, FTH_E_MEMORY, "no memory for metrics");
    }
    for (uint32_t t = 0; t < out->n; t++)
        FTH_TRY(fth_metrics_create(schema->has_query, &out->items[t], err));
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

/* One line's numbers can be beyond what the weights were made for. */
static fth_status check_logits(const struct tasks *tasks, const struct fth_batch *batch, const float *logits, uint32_t ld,
                               fth_error *err) {
    for (uint32_t i = 0; i < batch->n; i++)
        for (uint32_t t = 0; t < tasks->n; t++)
            if (!isfinite(logits[(size_t)i * ld + t]) && !(tasks->weighted && batch->weight[(size_t)i * tasks->n + t] == 0))
                return fth_fail(err, FTH_E_NUMERIC,
                                "the model's output for data line %llu of those evaluated on is %s; correct or remove the "
                                "line, if its numbers are far beyond the others",
                                (unsigned long long)batch->example_number[i] + 1,
                                isnan(logits[(size_t)i * ld + t]) ? "not a number" : "infinite");
    return FTH_OK;
}

static fth_status add_batch(void *ctx, const struct fth_batch *batch, const float *logits, uint32_t ld,
                            fth_error *err) {
    struct tasks *tasks = ctx;
    FTH_TRY(check_logits(tasks, batch, logits, ld, err));
    tasks->examples += batch->n;
    if (!tasks->weighted)
        return fth_metrics_add(tasks->items[0], batch->n, logits, batch->label, NULL, batch->query, err);
    for (uint32_t t = 0; t < tasks->n; t++)
        FTH_TRY(add_task(tasks, t, batch, logits, ld, err));
    return FTH_OK;
}

static fth_status compute(const struct fth_session *session, struct tasks *tasks, fth_evaluation *out,
                          fth_error *err) {
    for (uint32_t t = 0; t < tasks->n; t++) {
        FTH_TRY(fth_metrics_compute(tasks->items[t], &out[t], err));
        out[t].task = session->config->n_tasks ? session->config->tasks[t].name : NULL;
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

/* Evaluations of one training are compared with each other (early stopping, the best model), so of one set of files. */
static void warn_other_files(struct fth_session *session, const fth_data_set *set) {
    const struct fth_strings files = fth_data_set_files(set);
    const struct fth_io *io = fth_io_posix();
    uint64_t seen = files.n;
    for (uint32_t f = 0; f < files.n; f++) {
        struct fth_io_stat now = {0};
        if (io->stat(io->ctx, files.items[f], &now) < 0)
            continue;
        seen = fth_hash_mix(seen ^ fth_hash_bytes(files.items[f], strlen(files.items[f]), 0));
        seen = fth_hash_mix(fth_hash_mix(seen ^ (uint64_t)now.size) ^ (uint64_t)now.modified);
    }
    if (session->held_out_seen && session->held_out_seen != seen)
        fth_log(FTH_LOG_WARN,
                "data.valid: its files are not those of the evaluation before; metrics from step %llu on do not compare with "
                "earlier ones", (unsigned long long)session->step);
    session->held_out_seen = seen;
}

static fth_status evaluate(struct fth_session *session, const struct fth_data_set_options *options,
                           int which, fth_evaluation *out, fth_error *err) {
    uint64_t start = fth_now_ns();
    fth_evaluation *all = session->evaluations + (size_t)which * fth_session_tasks(session->config);
    struct fth_forward forward = {0};
    struct tasks tasks = {0};
    fth_status status;
    FTH_TRY_GOTO(status, fth_forward_open(session, options, 1, &forward, err), done);
    if (options->part == FTH_PART_VALID)
        fth_resume_warn_moved(session, forward.set);
    if (options->part == FTH_PART_VALID && session->config->data.valid.n)
        warn_other_files(session, forward.set);
    FTH_TRY_GOTO(status, tasks_create(session, fth_feature_schema(forward.program), &tasks, err), done);
    FTH_TRY_GOTO(status, fth_forward_batches(&forward, add_batch, &tasks, err), done);
    if (tasks.examples == 0) {
        const struct fth_data_config *data = &session->config->data;
        const char *file = fth_data_set_files(forward.set).n ? fth_data_set_files(forward.set).items[0] : "data";
        if (options->part == FTH_PART_VALID && !data->valid.n)
            status = fth_fail(err, FTH_E_DATA, "data.holdout: none of the lines of data.train (%s) is held out, or none of "
                              "those counts: there are no examples to evaluate on; hold out a larger fraction, or name files "
                              "in data.valid", file);
        else
            status = fth_fail(err, FTH_E_DATA, "%s%s: there are no examples to evaluate on",
                              options->part == FTH_PART_VALID ? "data.valid: " : "", file);
        goto done;
    }
    FTH_TRY_GOTO(status, compute(session, &tasks, all, err), done);
    struct fth_reader_counts counts;
    fth_reader_get_counts(forward.reader, &counts);
    for (uint32_t t = 0; t < tasks.n; t++) {
        all[t].lines_bad = counts.bad;
        all[t].seconds = (double)(fth_now_ns() - start) * 1e-9;
    }
    *out = fth_session_evaluation(session, which);
    if (which == FTH_EVALUATION_ASKED)
        fth_session_warn_evaluated(session, all);
done:
    tasks_free(&tasks);
    fth_forward_close(&forward);
    return status;
}

int fth_session_is_pipe(const char *path) {
    const struct fth_io *io = fth_io_posix();
    struct fth_io_stat info;
    return strcmp(path, "-") == 0 || (io->stat(io->ctx, path, &info) >= 0 && info.kind == FTH_IO_OTHER);
}

fth_status fth_session_check_held_out(struct fth_session *session, fth_error *err) {
    const struct fth_strings *valid = &session->config->data.valid;
    struct fth_data_set_options options = {.part = FTH_PART_VALID};
    struct fth_forward opened = {0};
    const struct fth_train_config *train = &session->config->train;
    for (uint32_t i = 0; i < valid->n; i++) {
        if (!fth_session_is_pipe(valid->items[i]))
            continue;
        if (train->eval_every || train->epochs > 1)
            return fth_fail(err, FTH_E_CONFIG,
                            "data.valid: %s is a pipe, which can be read once, and there may be several evaluations; use files",
                            valid->items[i]);
        return FTH_OK;
    }
    if (!valid->n)
        return FTH_OK;
    fth_status status = fth_session_open_set(session, &options, &opened.set, err);
    if (status == FTH_OK) {
        status = fth_session_program_for(session, opened.set, 1, &opened.program, err);
        if (status != FTH_OK && fth_data_set_files(opened.set).n)
            fth_error_frame(err, "data.valid: %s", fth_data_set_files(opened.set).items[0]);
    }
    fth_forward_close(&opened);
    return status;
}

fth_status fth_session_evaluate_held_out(struct fth_session *session, fth_evaluation *out,
                                         fth_error *err) {
    struct fth_data_set_options options = {.part = FTH_PART_VALID};
    return evaluate(session, &options, FTH_EVALUATION_LAST, out, err);
}

fth_status fth_session_evaluate(fth_session *session, const char *const *files, size_t n,
                                fth_evaluation *out, fth_error *err) {
    if (!session || !out || !fth_all_there(files, n))
        return fth_fail_null(err, "fth_session_evaluate", "session, files, out");
    FTH_TRY(fth_session_needs_data(session, err));
    struct fth_data_set_options options = {.part = FTH_PART_FILES,
                                           .files = {files, (uint32_t)n},
                                           .files_key = "FILE"};
    if (n == 0 && session->config->data.test.n)
        options.part = FTH_PART_TEST;
    else if (n == 0 && fth_session_has_held_out(session))
        options.part = FTH_PART_VALID;
    fth_status status =
        n || options.part != FTH_PART_FILES
            ? evaluate(session, &options, FTH_EVALUATION_ASKED, out, err)
            : fth_fail(err, FTH_E_CONFIG, "no data to evaluate on: name files, or set data.test, data.valid or data.holdout");
    fth_session_interrupt_heard(session);
    return status == FTH_E_INTERRUPTED ? fth_fail(err, status, "the evaluation was stopped") : status;
}
