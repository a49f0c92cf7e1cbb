/* Evaluation: metrics of the model as it stands on labelled data. */
#include <string.h>

#include "metric/metric.h"
#include "train/session_private.h"

int fth_session_has_held_out(const struct fth_session *session) {
    const struct fth_data_config *data = &session->config->data;
    return data->valid.n > 0 || data->holdout != FTH_HOLDOUT_NONE;
}

fth_status fth_session_forward(struct fth_session *session, const struct fth_batch *batch,
                               const float **logits, fth_error *err) {
    fth_plan *plan;
    FTH_TRY(fth_session_plan(session, 0, &plan, err));
    struct fth_step run = {.batch = batch, .seed = session->config->seed, .step = session->step};
    if (session->embedding) {
        FTH_TRY(fth_embedding_prepare(session->embedding, session->pool, batch, 0, session->step, err));
        run.rows = fth_embedding_rows(session->embedding);
    }
    fth_plan_run(plan, session->pool, &run);
    uint32_t ld;
    *logits = fth_plan_value(plan, session->graph->logit, &ld);
    return FTH_OK;
}

static fth_status run_batches(struct fth_session *session, fth_reader *reader, fth_metrics *metrics,
                              fth_error *err) {
    for (;;) {
        struct fth_batch *batch = NULL;
        const float *logits = NULL;
        FTH_TRY(fth_reader_next(reader, &batch, err));
        if (!batch)
            return FTH_OK;
        fth_status status = fth_session_forward(session, batch, &logits, err);
        if (status == FTH_OK)
            status = fth_metrics_add(metrics, batch->n, logits, batch->label, batch->weight,
                                     batch->query, err);
        fth_reader_release(reader, batch);
        FTH_TRY(status);
    }
}

static fth_status evaluate(struct fth_session *session, const struct fth_data_set_options *options,
                           fth_evaluation *out, fth_error *err) {
    uint64_t start = fth_now_ns();
    fth_data_set *set = NULL;
    fth_feature_program *program = NULL;
    fth_feature_pass *pass = NULL;
    fth_reader *reader = NULL;
    fth_metrics *metrics = NULL;
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
    FTH_TRY_GOTO(status, fth_metrics_create(transform.schema->has_query, 0, &metrics, err), done);
    FTH_TRY_GOTO(status, run_batches(session, reader, metrics, err), done);
    FTH_TRY_GOTO(status, fth_metrics_compute(metrics, out, err), done);
    if (out->examples == 0) {
        status = fth_fail(err, FTH_E_DATA, "%s: there are no examples to evaluate on",
                          fth_data_set_files(set).n ? fth_data_set_files(set).items[0] : "data");
        goto done;
    }
    struct fth_reader_counts counts;
    fth_reader_get_counts(reader, &counts);
    out->lines_bad = counts.bad;
    out->seconds = (double)(fth_now_ns() - start) * 1e-9;
done:
    fth_metrics_destroy(metrics);
    fth_reader_destroy(reader);
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
    fth_data_set_destroy(set);
    return status;
}

fth_status fth_session_evaluate_held_out(struct fth_session *session, fth_evaluation *out,
                                         fth_error *err) {
    struct fth_data_set_options options = {.part = FTH_PART_VALID};
    return evaluate(session, &options, out, err);
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
    return evaluate(session, &options, out, err);
}
