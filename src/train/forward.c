/* The model forward over data, batch by batch: what evaluation and prediction share (session_private.h). On the thread
 * that calls, with the session's pool. */
#include "train/session_private.h"

fth_status fth_forward_open(struct fth_session *session, const struct fth_data_set_options *options,
                            int labels, struct fth_forward *out, fth_error *err) {
    struct fth_reader_options reading = {.batch_size = (uint32_t)session->config->train.batch_size,
                                         .seed = session->config->seed,
                                         .pool = session->pool,
                                         .wake = session->wake,
                                         .epochs = 1};
    out->session = session;
    FTH_TRY(fth_session_open_set(session, options, &out->set, err));
    FTH_TRY(fth_session_program_for(session, out->set, labels, &out->program, err));
    FTH_TRY(fth_feature_pass_create(out->program, session->position.feature_state,
                                    session->position.n_feature_state, &out->pass, err));
    struct fth_transform transform = fth_feature_pass_transform(out->pass);
    FTH_TRY(fth_reader_create(out->set, &transform, &reading, &out->reader, err));
    fth_reader_filler(out->reader, &out->filler);
    return FTH_OK;
}

void fth_forward_close(struct fth_forward *forward) {
    fth_reader_destroy(forward->reader);
    fth_feature_pass_destroy(forward->pass);
    fth_feature_destroy(forward->program);
    fth_data_set_destroy(forward->set);
}

static fth_status run_batch(const struct fth_forward *forward, const struct fth_batch *batch,
                            fth_forward_use *use, void *ctx, fth_error *err) {
    struct fth_session *session = forward->session;
    fth_plan *plan;
    uint32_t ld;
    FTH_TRY(fth_session_plan(session, 0, &plan, err));
    struct fth_step run = {.batch = batch,
                           .seed = session->config->seed,
                           .step = session->step,
                           .filler = &forward->filler};
    if (session->embedding) {
        FTH_TRY(fth_embedding_prepare(session->embedding, session->pool, batch, 0, session->step, err));
        run.rows = fth_embedding_rows(session->embedding);
    }
    fth_plan_run(plan, session->pool, &run);
    const float *logits = fth_plan_value(plan, session->graph->logit, &ld);
    return use(ctx, batch, logits, ld, err);
}

fth_status fth_forward_batches(struct fth_forward *forward, fth_forward_use *use, void *ctx,
                               fth_error *err) {
    for (;;) {
        struct fth_batch *batch = NULL;
        if (atomic_load(&forward->session->interrupted))
            return FTH_E_INTERRUPTED;
        FTH_TRY(fth_reader_next(forward->reader, &batch, err));
        if (!batch) {
            fth_session_warn(forward->session, forward->program);
            return FTH_OK;
        }
        fth_status status = run_batch(forward, batch, use, ctx, err);
        fth_reader_release(forward->reader, batch);
        FTH_TRY(status);
    }
}
