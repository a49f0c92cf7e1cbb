/* The training loop: steps, epochs, progress, interruption. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "train/loop_private.h"

#define REPORT_EVERY 100000000u /* nanoseconds */

static fth_status step(struct fth_loop *loop, const struct fth_batch *batch, double *loss, fth_error *err) {
    struct fth_session *session = loop->session;
    if (session->step == 0)
        fth_session_warn_numbers(batch);
    FTH_TRY(fth_session_step(session, loop->plan, batch, &loop->filler, loss, err));
    session->examples += batch->n;
    fth_session_note_labels(session, batch);
    return fth_session_set_position(session, &batch->after, err);
}

void fth_loop_count_time(struct fth_loop *loop) {
    uint64_t now = fth_now_ns();
    loop->session->times.total += now - loop->counted;
    loop->counted = now;
}

static void report(struct fth_loop *loop) {
    struct fth_session *session = loop->session;
    if (loop->loss_steps)
        loop->result->final_loss = loop->loss_sum / (double)loop->loss_steps;
    loop->last_report = fth_now_ns();
    loop->loss_sum = 0;
    loop->loss_steps = 0;
    fth_loop_warn_memory(loop);
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
    fth_loop_count_time(loop);
    loop->callbacks->progress(loop->callbacks->ctx, &progress);
}

static void note_loss(struct fth_loop *loop, double loss) {
    loop->loss_sum += loss;
    loop->loss_steps++;
    if (loop->callbacks && loop->callbacks->loss) {
        fth_loop_count_time(loop);
        loop->callbacks->loss(loop->callbacks->ctx, loop->session->step, loss);
    }
    if (fth_now_ns() - loop->last_report >= REPORT_EVERY)
        report(loop);
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
static fth_status between_steps(struct fth_loop *loop, const struct fth_batch *batch, fth_error *err) {
    struct fth_session *session = loop->session;
    if (!batch) {
        struct fth_position next;
        if (loop->whole_epoch && session->position.examples_seen == loop->epoch_begun)
            return fth_fail(err, FTH_E_DATA, "data.train: there are no training examples in it%s",
                            session->config->data.holdout != FTH_HOLDOUT_NONE ? " that are not held out (data.holdout)" : "");
        fth_reader_get_position(loop->reader, &next);
        FTH_TRY(fth_session_set_position(session, &next, err));
        loop->whole_epoch = 1;
        loop->epoch_begun = session->position.examples_seen;
        loop->result->epochs++;
        report(loop);
        fth_session_warn(session, loop->program);
        fth_session_warn_labels(session, loop->program);
        if (!session->config->train.eval_every)
            FTH_TRY(fth_loop_evaluate(loop, FTH_DUE_DECISION, err));
    }
    return fth_loop_save_if_due(loop, err);
}

/* Once, where a step is made behind the end of a schedule that falls to 0. */
static void warn_of_rate(struct fth_loop *loop) {
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

static fth_status train_on(struct fth_loop *loop, const struct fth_batch *batch, fth_error *err) {
    struct fth_session *session = loop->session;
    const struct fth_train_config *config = &session->config->train;
    double loss = 0;
    warn_of_rate(loop);
    fth_status status = step(loop, batch, &loss, err);
    /* Rows that found no room: nothing was trained on, and with more room training can go on. */
    if ((status == FTH_E_LIMIT || status == FTH_E_MEMORY) && loop->steps_here)
        fth_loop_save(loop, NULL);
    FTH_TRY(status);
    loop->steps_here++;
    note_loss(loop, loss);
    if (config->eval_every && session->step % (uint64_t)config->eval_every == 0)
        FTH_TRY(fth_loop_evaluate(loop, FTH_DUE_DECISION, err));
    return FTH_OK;
}

/* FTH_E_INTERRUPTED: as asked for. */
static fth_status run_steps(struct fth_loop *loop, fth_error *err) {
    struct fth_session *session = loop->session;
    FTH_TRY(fth_loop_make_up(loop, err));
    while (!fth_session_is_finished(session)) {
        struct fth_batch *batch = NULL;
        uint64_t start = fth_now_ns();
        fth_status status = fth_reader_next(loop->reader, &batch, err);
        session->times.wait += fth_now_ns() - start;
        if (status == FTH_E_INTERRUPTED && atomic_load(&session->interrupted))
            return status; /* while it waited for a pipe */
        if (status != FTH_OK && loop->steps_here)
            fth_loop_save(loop, NULL); /* what was trained is not lost to a line that cannot be read */
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
    return fth_loop_evaluate(loop, FTH_DUE_RESULT, err);
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

static fth_status open_reader(struct fth_loop *loop, fth_error *err) {
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

static void count_reader(struct fth_loop *loop) {
    struct fth_reader_counts counts;
    if (!loop->reader)
        return;
    fth_reader_get_counts(loop->reader, &counts);
    loop->session->read_ns += counts.read_ns;
    loop->session->parse_ns += counts.parse_ns + counts.assemble_ns;
    loop->session->bytes_read += counts.bytes;
    loop->session->direct_bytes += counts.direct_bytes;
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
        fth_loop_tidy(session);
        return FTH_OK;
    }
    FTH_TRY(fth_session_check_piped(session->config, session->position.epoch, err));
    if (*session->made_by && strcmp(session->made_by, FTH_VERSION) != 0)
        fth_log(FTH_LOG_WARN,
                "the checkpoint was made by Fathom %s, this is %s: what is learned from here on may differ from what that "
                "version would have learned", session->made_by, FTH_VERSION);
    if (!*session->config->checkpoint.dir)
        fth_log(FTH_LOG_WARN, "checkpoint.dir is not set: the model will not be saved");
    struct fth_loop loop = {.session = session,
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
    status = fth_session_check_held_out(session, err); /* from here on side files are read, which may be interrupted, too */
    if (status == FTH_OK)
        status = fth_session_plan(session, 1, &loop.plan, err);
    if (status == FTH_OK)
        status = fth_session_make_room(session, err);
    if (status == FTH_OK)
        status = open_reader(&loop, err);
    if (status == FTH_OK)
        status = run_steps(&loop, err);
    result->interrupted = status == FTH_E_INTERRUPTED;
    if (status != FTH_OK && !result->interrupted)
        goto done;
    if (loop.loss_steps)
        report(&loop);
    status = fth_loop_save(&loop, err);
    if (status == FTH_OK && !result->interrupted)
        fth_loop_warn_few_steps(&loop);
done:
    if (loop.loss_steps) /* it ended with an error */
        result->final_loss = loop.loss_sum / (double)loop.loss_steps;
    session->training = 0;
    if (loop.lock >= 0)
        close(loop.lock);
    count_reader(&loop);
    fth_reader_destroy(loop.reader);
    if (status == FTH_OK && loop.program)
        fth_session_warn(session, loop.program);
    fth_feature_pass_destroy(loop.pass);
    fth_feature_destroy(loop.program);
    fth_loop_count_time(&loop);
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
    FTH_TRY(fth_session_needs_slots(session, err));
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
    if (atomic_load(&session->interrupted)) /* another request, come between: its event may be gone */
        fth_session_interrupt(session);
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
