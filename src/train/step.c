/* One training step: rows are found, the plan runs, the loss is looked at. */
#include <math.h>

#include "train/session_private.h"

/* An example of the short batch that ends an epoch counts as much as any other: as if the batch were full. One example
 * by itself would move the model as far as thousands do. An epoch of a single batch is taken as it is. */
static uint32_t mean_over(const struct fth_session *session, const struct fth_batch *batch) {
    const struct fth_position *at = &session->position;
    uint32_t full = (uint32_t)session->config->train.batch_size;
    int first = !at->file_index && !at->byte_offset && !at->block && !at->taken;
    return first ? batch->n : full;
}

/* Of the step that follows; examples: that a gradient is the mean over. */
static void set_row_args(const struct fth_session *session, uint32_t examples) {
    const struct fth_config *config = session->config;
    const struct fth_optimizer_config *of[] = {&config->sparse_optimizer, fth_config_linear_optimizer(config)};
    struct fth_opt_args args[2];
    for (int i = 0; i < 2 && of[i]; i++)
        fth_optimizer_args(fth_optimizer_find(of[i]->name), of[i], &config->schedule, session->step + 1, examples, 1,
                           &args[i]);
    fth_embedding_set_args(session->embedding, &args[0], of[1] ? &args[1] : NULL);
}

fth_status fth_session_step(struct fth_session *session, fth_plan *plan, const struct fth_batch *batch,
                            const struct fth_filler *filler, double *loss, fth_error *err) {
    const struct fth_config *config = session->config;
    uint64_t number = session->step + 1, start = fth_now_ns();
    struct fth_opt_args opt, opt_no_decay;
    uint32_t examples = mean_over(session, batch);
    fth_optimizer_args(session->dense_optimizer, &config->dense_optimizer, &config->schedule, number,
                       examples, 1, &opt);
    fth_optimizer_args(session->dense_optimizer, &config->dense_optimizer, &config->schedule, number,
                       examples, 0, &opt_no_decay);
    struct fth_step run = {.batch = batch,
                           .mean_over = examples,
                           .opt = &opt,
                           .opt_no_decay = &opt_no_decay,
                           .seed = config->seed,
                           .step = number,
                           .filler = filler};
    if (session->embedding) {
        FTH_TRY(fth_embedding_prepare(session->embedding, session->pool, batch, 1, number, err));
        set_row_args(session, examples);
        run.rows = fth_embedding_rows(session->embedding);
        uint64_t keys = 0, unique = 0;
        fth_embedding_last_batch(session->embedding, &keys, &unique);
        session->keys += keys;
        session->unique_rows += unique;
    }
    if (session->step == 0) /* behind the rows, for which there may be no room: once */
        FTH_TRY(fth_session_begin_at_base_rate(session, batch, err));
    uint64_t looked_up = fth_now_ns();
    session->times.lookup += looked_up - start;
    fth_plan_run(plan, session->pool, &run);
    session->times.step += fth_now_ns() - looked_up;
    *loss = *fth_plan_value(plan, session->graph->loss, NULL);
    if (!isfinite(*loss))
        return fth_fail(err, FTH_E_NUMERIC,
                        "step %llu: the loss is not finite; " FTH_DIVERGED_ADVICE,
                        (unsigned long long)number);
    session->step = number;
    session->unsaved = 1;
    return FTH_OK;
}
