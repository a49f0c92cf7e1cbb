/* The training loop: steps, evaluations, checkpoints, early stopping, interruption. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "metric/metric.h"
#include "train/session_private.h"

/* What one fth_session_train keeps in hand. */
struct loop {
    struct fth_session *session;
    const struct fth_callbacks *callbacks;
    fth_training *result;
    fth_reader *reader;
    fth_feature_program *program; /* for the training files' columns */
    fth_feature_pass *pass;
    fth_plan *plan;
    struct fth_filler filler; /* the reader's */
    uint64_t begun, last_report, last_save;
    double loss_sum;       /* since the last progress report */
    uint64_t loss_steps;
    uint64_t examples_begun;
    int whole_epoch;       /* this call has read the epoch from its beginning */
    uint64_t epoch_begun;  /* position.examples_seen there */
    uint64_t steps_here;     /* made by this call */
    uint64_t counted;        /* up to when times.total is right */
    int has_held_out, evaluated;
    uint64_t evaluated_step; /* of the last evaluation */
    int saved, best_unsaved;
    uint64_t saved_step;
    enum fth_evaluation_due saved_due; /* as saved */
    int lock; /* on checkpoint.dir; -1: none */
    int told_rate;
};

#define REPORT_EVERY 100000000u /* nanoseconds */

static fth_status step(struct loop *loop, const struct fth_batch *batch, double *loss, fth_error *err) {
    struct fth_session *session = loop->session;
    if (session->step == 0)
        fth_session_warn_numbers(batch);
    FTH_TRY(fth_session_step(session, loop->plan, batch, &loop->filler, loss, err));
    session->examples += batch->n;
    fth_session_note_labels(session, batch);
    return fth_session_set_position(session, &batch->after, err);
}

/* Before a callback, too, which may ask for fth_session_report. */
static void count_time(struct loop *loop) {
    uint64_t now = fth_now_ns();
    loop->session->times.total += now - loop->counted;
    loop->counted = now;
}

static void report(struct loop *loop) {
    struct fth_session *session = loop->session;
    if (loop->loss_steps)
        loop->result->final_loss = loop->loss_sum / (double)loop->loss_steps;
    loop->last_report = fth_now_ns();
    loop->loss_sum = 0;
    loop->loss_steps = 0;
    if (!loop->callbacks || !loop->callbacks->progress)
        return;
    const struct fth_config *config = session->config;
    fth_progress progress = {
        .step = session->step,
        .epoch = session->position.epoch,
        .epochs = (uint64_t)config->train.epochs,
        .max_steps = (uint64_t)config->train.max_steps,
        .examples = session->examples - loop->examples_begun,
        .loss = loop->result->final_loss,
        .seconds = (double)(loop->last_report - loop->begun) * 1e-9,
        .epoch_fraction = fth_session_epoch_fraction(session),
        .learning_rate = config->dense_optimizer.lr *
                         fth_schedule_factor(&config->schedule, session->step),
        .memory_bytes = fth_session_model_bytes(session),
        .lines_bad = session->position.lines_bad,
    };
    count_time(loop);
    loop->callbacks->progress(loop->callbacks->ctx, &progress);
}

static void note_loss(struct loop *loop, double loss) {
    loop->loss_sum += loss;
    loop->loss_steps++;
    if (loop->callbacks && loop->callbacks->loss) {
        count_time(loop);
        loop->callbacks->loss(loop->callbacks->ctx, loop->session->step, loss);
    }
    if (fth_now_ns() - loop->last_report >= REPORT_EVERY)
        report(loop);
}

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
static int is_evaluated(const struct loop *loop) {
    return loop->evaluated && loop->evaluated_step == loop->session->step;
}

/* One that is due decides about early stopping. The one behind the last step is for the result alone: a run
 * that goes on from there is to be the run that never paused. */
static fth_status evaluate(struct loop *loop, fth_error *err) {
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
    count_time(loop);
    if (loop->callbacks && loop->callbacks->evaluated)
        loop->callbacks->evaluated(loop->callbacks->ctx, session->step, &result->last, better);
    return FTH_OK;
}

/* ---- checkpoints ---- */

/* Nothing was trained since the checkpoint that is there: it learns of what was found out, an evaluation or the data's
 * end. */
static fth_status amend(struct loop *loop, fth_error *err) {
    int changed;
    FTH_TRY(fth_session_amend(loop->session, &changed, err));
    loop->best_unsaved = 0;
    count_time(loop);
    if (changed && loop->callbacks && loop->callbacks->saved)
        loop->callbacks->saved(loop->callbacks->ctx, loop->session->step, loop->session->checkpoint_path);
    return FTH_OK;
}

static fth_status save(struct loop *loop, fth_error *err) {
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
        return loop->result->epochs ? amend(loop, err) : FTH_OK; /* the data's end was found; make_up has amended */
    uint64_t start = fth_now_ns();
    loop->last_save = start;
    count_time(loop);
    if (loop->callbacks && loop->callbacks->saving)
        loop->callbacks->saving(loop->callbacks->ctx, session->step);
    FTH_TRY(fth_session_keep_directory(session, &loop->lock, err));
    FTH_TRY(fth_session_write(session, config->dir, config->keep, keeps_best(session) ? session->best_step : 0, 1, err));
    session->times.checkpoint += fth_now_ns() - start;
    loop->saved = 1;
    loop->best_unsaved = 0;
    loop->saved_step = session->step;
    loop->saved_due = session->evaluation_due;
    count_time(loop);
    if (loop->callbacks && loop->callbacks->saved)
        loop->callbacks->saved(loop->callbacks->ctx, session->step, session->checkpoint_path);
    return FTH_OK;
}

static int save_is_due(const struct loop *loop) {
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

/* What was trained is not lost to held-out data that cannot be read, and the checkpoint knows what is still due. */
static fth_status evaluate_or_save(struct loop *loop, enum fth_evaluation_due due, fth_error *err) {
    loop->session->evaluation_due = due;
    fth_status status = evaluate(loop, err);
    if (status == FTH_OK)
        loop->session->evaluation_due = FTH_DUE_NOTHING;
    else if (status != FTH_E_INTERRUPTED) /* saved as every interrupted run is */
        save(loop, NULL);
    return status;
}

/* ---- the loop ---- */

static int steps_are_done(const struct fth_session *session) {
    const struct fth_train_config *config = &session->config->train;
    return config->max_steps && session->step >= (uint64_t)config->max_steps;
}

int fth_session_is_finished(const struct fth_session *session) {
    return session->position.epoch >= (uint64_t)session->config->train.epochs ||
           steps_are_done(session) || session->stopped_early;
}

/* What follows a step before the next one may begin. A checkpoint is only written once it is known whether
 * the epoch goes on (`batch`: it does): else the last step of an epoch would have two states, one before
 * the epoch's end and one behind it. */
static fth_status between_steps(struct loop *loop, const struct fth_batch *batch, fth_error *err) {
    struct fth_session *session = loop->session;
    if (!batch) {
        struct fth_position next;
        if (loop->whole_epoch && session->position.examples_seen == loop->epoch_begun)
            return fth_fail(err, FTH_E_DATA, "data.train: there are no training examples in it");
        fth_reader_get_position(loop->reader, &next);
        FTH_TRY(fth_session_set_position(session, &next, err));
        loop->whole_epoch = 1;
        loop->epoch_begun = session->position.examples_seen;
        loop->result->epochs++;
        report(loop);
        fth_session_warn(session, loop->program);
        fth_session_warn_labels(session);
        if (!session->config->train.eval_every)
            FTH_TRY(evaluate_or_save(loop, FTH_DUE_DECISION, err));
    }
    if (!save_is_due(loop))
        return FTH_OK;
    if (fth_session_is_finished(session) && loop->has_held_out && !is_evaluated(loop))
        session->evaluation_due = FTH_DUE_RESULT; /* it comes next, and may not end */
    return save(loop, err);
}

/* Once, where a step is made behind the end of a schedule that falls to 0. */
static void warn_of_rate(struct loop *loop) {
    const struct fth_schedule_config *schedule = &loop->session->config->schedule;
    if (loop->told_rate || schedule->kind == FTH_SCHEDULE_CONSTANT || schedule->end_factor > 0 ||
        loop->session->step < (uint64_t)schedule->total_steps)
        return;
    loop->told_rate = 1;
    fth_log(FTH_LOG_WARN,
            "the learning rate is 0 from step %lld on (optimizer.schedule.total_steps), and there are more steps: they learn "
            "nothing; raise total_steps, or set end_factor",
            (long long)schedule->total_steps);
}

static fth_status train_on(struct loop *loop, const struct fth_batch *batch, fth_error *err) {
    struct fth_session *session = loop->session;
    const struct fth_train_config *config = &session->config->train;
    double loss = 0;
    warn_of_rate(loop);
    fth_status status = step(loop, batch, &loss, err);
    /* Rows that found no room: nothing was trained on, and with more room training can go on. */
    if ((status == FTH_E_LIMIT || status == FTH_E_MEMORY) && loop->steps_here)
        save(loop, NULL);
    FTH_TRY(status);
    loop->steps_here++;
    note_loss(loop, loss);
    if (config->eval_every && session->step % (uint64_t)config->eval_every == 0)
        FTH_TRY(evaluate_or_save(loop, FTH_DUE_DECISION, err));
    return FTH_OK;
}

/* The evaluation that the run before this one left to it. */
static fth_status make_up(struct loop *loop, fth_error *err) {
    enum fth_evaluation_due due = loop->session->evaluation_due;
    loop->session->evaluation_due = FTH_DUE_NOTHING;
    if (due == FTH_DUE_NOTHING || (due == FTH_DUE_RESULT && !fth_session_is_finished(loop->session)))
        return FTH_OK;
    FTH_TRY(evaluate_or_save(loop, due, err));
    return fth_session_owns_directory(loop->session, loop->session->config->checkpoint.dir) ? amend(loop, err) : FTH_OK;
}

/* FTH_E_INTERRUPTED: as asked for. */
static fth_status run_steps(struct loop *loop, fth_error *err) {
    struct fth_session *session = loop->session;
    FTH_TRY(make_up(loop, err));
    while (!fth_session_is_finished(session)) {
        struct fth_batch *batch = NULL;
        uint64_t start = fth_now_ns();
        fth_status status = fth_reader_next(loop->reader, &batch, err);
        session->times.wait += fth_now_ns() - start;
        if (status == FTH_E_INTERRUPTED && atomic_load(&session->interrupted))
            return status; /* while it waited for a pipe */
        if (status != FTH_OK && loop->steps_here)
            save(loop, NULL); /* what was trained is not lost to a line that cannot be read */
        FTH_TRY(status);
        status = between_steps(loop, batch, err);
        int stop = atomic_load(&session->interrupted);
        if (status == FTH_OK && batch && !stop)
            status = train_on(loop, batch, err);
        if (batch)
            fth_reader_release(loop->reader, batch);
        FTH_TRY(status);
        if (stop && !fth_session_is_finished(session))
            return FTH_E_INTERRUPTED;
    }
    if (loop->loss_steps)
        report(loop);
    return evaluate_or_save(loop, FTH_DUE_RESULT, err);
}

/* Within a shuffle block the examples that were used are known by their place in its order alone. */
static fth_status check_order(const struct fth_session *session, fth_error *err) {
    const struct fth_config *config = session->config;
    if (!session->position.taken || !session->begun_shuffle ||
        (config->seed == session->begun_seed && config->data.shuffle == session->begun_shuffle))
        return FTH_OK;
    return fth_fail(err, FTH_E_CONFIG,
                    "data.shuffle, seed: %s stands within a shuffle block (data.shuffle %lld, seed %llu), "
                    "which cannot be gone on with in another order; leave both as they are",
                    session->checkpoint_path, (long long)session->begun_shuffle,
                    (unsigned long long)session->begun_seed);
}

static fth_status open_reader(struct loop *loop, fth_error *err) {
    struct fth_session *session = loop->session;
    struct fth_reader_options options = {.batch_size = (uint32_t)session->config->train.batch_size,
                                         .seed = session->config->seed,
                                         .epochs = (uint64_t)session->config->train.epochs,
                                         .train = 1,
                                         .pool = session->pool,
                                         .wake = session->wake,
                                         .start = session->step ? &session->position : NULL};
    FTH_TRY(fth_session_train_set(session, err));
    fth_resume_warn_data(session);
    fth_resume_warn_moved(session, session->train_set);
    fth_session_warn_files(session);
    FTH_TRY(fth_session_program_for(session, session->train_set, 1, &loop->program, err));
    FTH_TRY(fth_feature_pass_create(loop->program, session->position.feature_state,
                                    session->position.n_feature_state, &loop->pass, err));
    struct fth_transform transform = fth_feature_pass_transform(loop->pass);
    FTH_TRY(fth_reader_create(session->train_set, &transform, &options, &loop->reader, err));
    fth_reader_filler(loop->reader, &loop->filler);
    return FTH_OK;
}

static void count_reader(struct loop *loop) {
    struct fth_reader_counts counts;
    if (!loop->reader)
        return;
    fth_reader_get_counts(loop->reader, &counts);
    loop->session->read_ns += counts.read_ns;
    loop->session->parse_ns += counts.parse_ns + counts.assemble_ns;
    loop->session->bytes_read += counts.bytes;
    loop->session->times.wait -= counts.rounds_ns;
    loop->session->times.parse += counts.rounds_ns;
}

static fth_status train(struct fth_session *session, const fth_callbacks *callbacks, fth_training *result, fth_error *err) {
    if (!session->config->data.train.n)
        return fth_fail(err, FTH_E_CONFIG, "data.train: no training files are named");
    int save_is_missing = session->unsaved && *session->config->checkpoint.dir; /* it failed at the last end */
    if (session->step && fth_session_is_finished(session) && !session->evaluation_due && !save_is_missing) {
        result->already_finished = 1;
        result->stopped_early = session->stopped_early;
        result->best_step = session->best_step;
        return FTH_OK;
    }
    FTH_TRY(fth_session_check_piped(session->config, session->position.epoch, err));
    if (*session->made_by && strcmp(session->made_by, FTH_VERSION) != 0)
        fth_log(FTH_LOG_WARN,
                "the checkpoint was made by Fathom %s, this is %s: what is learned from here on may differ from what that "
                "version would have learned", session->made_by, FTH_VERSION);
    if (!*session->config->checkpoint.dir)
        fth_log(FTH_LOG_WARN, "checkpoint.dir is not set: the model will not be saved");
    struct loop loop = {.session = session,
                        .callbacks = callbacks,
                        .result = result,
                        .begun = fth_now_ns(),
                        .examples_begun = session->examples,
                        .whole_epoch = fth_resume_epoch_begins(session),
                        .epoch_begun = session->position.examples_seen,
                        .has_held_out = fth_session_has_held_out(session),
                        .lock = -1};
    loop.last_save = loop.last_report = loop.counted = loop.begun;
    result->best_step = session->best_step;
    uint64_t first_step = session->step, first_bad = session->position.lines_bad;
    fth_status status;
    FTH_TRY(check_order(session, err));
    session->training = 1;
    FTH_TRY_GOTO(status, fth_session_take_directory(session, &loop.lock, err), done);
    FTH_TRY_GOTO(status, fth_session_check_held_out(session, err), done);
    FTH_TRY_GOTO(status, fth_session_plan(session, 1, &loop.plan, err), done);
    FTH_TRY_GOTO(status, open_reader(&loop, err), done);
    status = run_steps(&loop, err);
    result->interrupted = status == FTH_E_INTERRUPTED;
    if (status != FTH_OK && !result->interrupted)
        goto done;
    if (loop.loss_steps)
        report(&loop);
    status = save(&loop, err);
done:
    if (loop.loss_steps) /* it ended with an error */
        result->final_loss = loop.loss_sum / (double)loop.loss_steps;
    session->training = 0;
    if (loop.lock >= 0)
        close(loop.lock);
    count_reader(&loop);
    fth_reader_destroy(loop.reader);
    if (status == FTH_OK)
        fth_session_warn(session, loop.program);
    fth_feature_pass_destroy(loop.pass);
    fth_feature_destroy(loop.program);
    count_time(&loop);
    result->steps = session->step - first_step;
    result->examples = session->examples - loop.examples_begun;
    result->stopped_early = session->stopped_early;
    result->lines_bad = session->position.lines_bad - first_bad;
    return status;
}

fth_status fth_session_train(fth_session *session, const fth_callbacks *callbacks,
                             fth_training *result, fth_error *err) {
    if (!session)
        return fth_fail_null(err, "fth_session_train", "session");
    FTH_TRY(fth_session_needs_data(session, err));
    if (session->training)
        return fth_fail(err, FTH_E_ARGUMENT, "fth_session_train: the session is training; a callback cannot train it, too");
    fth_training unused;
    if (!result)
        result = &unused;
    *result = (fth_training){0};
    fth_status status = train(session, callbacks, result, err);
    fth_session_interrupt_heard(session);
    return status;
}

void fth_session_interrupt_heard(struct fth_session *session) {
    uint64_t woken;
    if (session->training)
        return;
    atomic_store(&session->interrupted, 0);
    ssize_t unused_count = read(session->wake, &woken, sizeof woken); /* the next one's waits are its own */
    (void)unused_count;
}

void fth_session_interrupt(fth_session *session) {
    if (!session)
        return;
    int error = errno; /* a signal handler's caller has one of its own */
    uint64_t one = 1;
    atomic_store(&session->interrupted, 1);
    ssize_t written = write(session->wake, &one, sizeof one);
    (void)written;
    errno = error;
}
