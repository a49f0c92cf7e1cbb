/* What a training keeps of the model on its way: evaluations and early stopping, checkpoints, the best. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "metric/metric.h"
#include "train/loop_private.h"

/* ---- evaluation and early stopping ---- */

/* The task whose metric decides. */
static const fth_evaluation *watched(const struct fth_train_config *config, const fth_evaluation *all) {
    for (uint32_t t = 0; t < all->n_others; t++)
        if (*config->early_stop_task && strcmp(all->others[t].task, config->early_stop_task) == 0)
            return &all->others[t];
    return all;
}

/* Whether the model of the best evaluation stays on disk. */
static int keeps_best(const struct fth_session *session) {
    const struct fth_config *config = session->config;
    return *config->checkpoint.dir && config->checkpoint.keep_best && *config->train.early_stop_metric;
}

static void keep_best(struct fth_session *session) {
    uint32_t n = fth_session_tasks(session->config);
    memcpy(session->evaluations + FTH_EVALUATION_BEST * (size_t)n,
           session->evaluations + FTH_EVALUATION_LAST * (size_t)n, n * sizeof *session->evaluations);
    session->best_evaluated = session->step;
}

/* Of an evaluation before the session was opened nothing is known but its step. */
static fth_evaluation best_of(const struct fth_session *session, uint64_t step) {
    int known = session->best_evaluated == step;
    fth_evaluation best = fth_session_evaluation(session, known ? FTH_EVALUATION_BEST : FTH_EVALUATION_LAST);
    return known ? best
                 : (fth_evaluation){.weight = NAN, .auc = NAN, .log_loss = NAN, .normalised_entropy = NAN, .calibration = NAN,
                                    .gauc = NAN, .base_rate = NAN, .seconds = NAN, .task = best.task};
}

/* As it stands. */
static int is_evaluated(const struct fth_loop *loop) {
    return loop->evaluated && loop->evaluated_step == loop->session->step;
}

/* One that is due decides about early stopping. The one behind the last step is for the result alone: a run
 * that goes on from there is to be the run that never paused. */
static fth_status evaluate(struct fth_loop *loop, fth_error *err) {
    struct fth_session *session = loop->session;
    int due = session->evaluation_due == FTH_DUE_DECISION;
    const struct fth_train_config *config = &session->config->train;
    if (!loop->has_held_out || is_evaluated(loop))
        return FTH_OK;
    uint64_t start = fth_now_ns();
    fth_training *result = loop->result;
    FTH_TRY(fth_session_evaluate_held_out(session, &result->last, err));
    session->times.evaluate += fth_now_ns() - start;
    const struct fth_metric *metric =
        fth_metric_find(*config->early_stop_metric ? config->early_stop_metric : "auc");
    double value = fth_metric_value(metric, watched(&session->config->train, &result->last));
    int defined = !isnan(value);
    int better = defined && (isnan(session->best_metric) ||
                             fth_metric_gain(metric, value, session->best_metric) > config->early_stop_min_delta);
    if (due && !defined && *config->early_stop_metric)
        fth_log(FTH_LOG_WARN, "train.early_stopping: %s is not defined on the held-out data at step %llu: it decides nothing",
                config->early_stop_metric, (unsigned long long)session->step);
    if (due && better) {
        loop->best_unsaved = keeps_best(session);
        session->best_metric = value;
        session->best_step = session->step;
        session->evaluations_without_better = 0;
    } else if (due && defined) {
        session->evaluations_without_better++;
    }
    if (better || !session->best_step)
        keep_best(session);
    result->best_step = better ? session->step : session->best_step;
    result->best = best_of(session, result->best_step ? result->best_step : session->step);
    result->evaluated = 1;
    loop->evaluated = 1;
    loop->evaluated_step = session->step;
    if (due && *config->early_stop_metric &&
        session->evaluations_without_better >= (uint64_t)config->early_stop_patience)
        session->stopped_early = 1;
    fth_loop_count_time(loop);
    if (loop->callbacks && loop->callbacks->evaluated)
        loop->callbacks->evaluated(loop->callbacks->ctx, session->step, &result->last, better);
    return FTH_OK;
}

/* ---- checkpoints ---- */

/* Nothing was trained since the checkpoint that is there: it learns of what was found out, an evaluation or the data's
 * end. */
static fth_status amend(struct fth_loop *loop, fth_error *err) {
    int changed;
    FTH_TRY(fth_session_amend(loop->session, &changed, err));
    loop->best_unsaved = 0;
    fth_loop_count_time(loop);
    if (changed && loop->callbacks && loop->callbacks->saved)
        loop->callbacks->saved(loop->callbacks->ctx, loop->session->step, loop->session->checkpoint_path);
    return FTH_OK;
}

fth_status fth_loop_save(struct fth_loop *loop, fth_error *err) {
    struct fth_session *session = loop->session;
    const struct fth_checkpoint_config *config = &session->config->checkpoint;
    if (!*config->dir)
        return FTH_OK;
    if (loop->saved && loop->saved_step == session->step && fth_session_owns_directory(session, config->dir)) {
        enum fth_evaluation_due known = loop->saved_due;
        loop->saved_due = session->evaluation_due;
        return known == session->evaluation_due ? FTH_OK : amend(loop, err);
    }
    if (!session->unsaved && fth_session_owns_directory(session, config->dir))
        return loop->result->epochs ? amend(loop, err) : FTH_OK; /* the data's end was found; fth_loop_make_up has amended */
    uint64_t start = fth_now_ns();
    fth_loop_count_time(loop);
    if (loop->callbacks && loop->callbacks->saving)
        loop->callbacks->saving(loop->callbacks->ctx, session->step);
    FTH_TRY(fth_session_keep_directory(session, &loop->lock, err));
    FTH_TRY(fth_session_write(session, config->dir, config->keep, keeps_best(session) ? session->best_step : 0, 1, err));
    loop->last_save = fth_now_ns(); /* its end: else a save longer than every_minutes would follow on every step */
    session->times.checkpoint += loop->last_save - start;
    loop->saved = 1;
    loop->best_unsaved = 0;
    loop->saved_step = session->step;
    loop->saved_due = session->evaluation_due;
    fth_loop_count_time(loop);
    if (loop->callbacks && loop->callbacks->saved)
        loop->callbacks->saved(loop->callbacks->ctx, session->step, session->checkpoint_path);
    return FTH_OK;
}

void fth_loop_tidy(const struct fth_session *session) {
    const struct fth_checkpoint_config *config = &session->config->checkpoint;
    int lock;
    if (session->unsaved || !fth_session_owns_directory(session, config->dir) ||
        fth_session_lock_directory(session, config->dir, &lock, NULL) != FTH_OK)
        return;
    fth_checkpoint_tidy(fth_io_posix(), config->dir);
    if (lock >= 0)
        close(lock);
}

static int save_is_due(const struct fth_loop *loop) {
    const struct fth_checkpoint_config *config = &loop->session->config->checkpoint;
    if (loop->steps_here == 0)
        return 0;
    if (loop->best_unsaved)
        return 1;
    if (config->every_steps && loop->session->step % (uint64_t)config->every_steps == 0)
        return 1;
    return config->every_minutes > 0 && (double)(fth_now_ns() - loop->last_save) * 1e-9 >=
                                            config->every_minutes * 60;
}

fth_status fth_loop_save_if_due(struct fth_loop *loop, fth_error *err) {
    struct fth_session *session = loop->session;
    if (!save_is_due(loop))
        return FTH_OK;
    if (fth_session_is_finished(session) && loop->has_held_out && !is_evaluated(loop))
        session->evaluation_due = FTH_DUE_RESULT; /* it comes next, and may not end */
    return fth_loop_save(loop, err);
}

fth_status fth_loop_evaluate(struct fth_loop *loop, enum fth_evaluation_due due, fth_error *err) {
    loop->session->evaluation_due = due;
    fth_status status = evaluate(loop, err);
    if (status == FTH_OK)
        loop->session->evaluation_due = FTH_DUE_NOTHING;
    else if (status != FTH_E_INTERRUPTED) /* saved as every interrupted run is */
        fth_loop_save(loop, NULL);
    return status;
}

fth_status fth_loop_make_up(struct fth_loop *loop, fth_error *err) {
    enum fth_evaluation_due due = loop->session->evaluation_due;
    loop->session->evaluation_due = FTH_DUE_NOTHING;
    if (due == FTH_DUE_NOTHING || (due == FTH_DUE_RESULT && !fth_session_is_finished(loop->session)))
        return FTH_OK;
    FTH_TRY(fth_loop_evaluate(loop, due, err));
    return fth_session_owns_directory(loop->session, loop->session->config->checkpoint.dir) ? amend(loop, err) : FTH_OK;
}
