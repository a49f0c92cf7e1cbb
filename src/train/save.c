/* Between a session and a checkpoint. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "train/session_private.h"

fth_status fth_session_set_position(struct fth_session *session, const struct fth_position *position,
                                    fth_error *err) {
    size_t n = fth_feature_state_size(session->program);
    double *state = session->position.feature_state;
    if (n && !state) {
        state = calloc(n, sizeof *state);
        if (!state)
            return fth_fail(err, FTH_E_MEMORY, "no memory for the feature state");
    }
    if (n && position->feature_state && position->n_feature_state == n)
        memcpy(state, position->feature_state, n * sizeof *state);
    session->position = *position;
    session->position.feature_state = state;
    session->position.n_feature_state = n;
    return FTH_OK;
}

/* The files of an epoch; what was not read by this session is as the checkpoint that it goes on from knows it. */
static fth_status describe_data(struct fth_session *session, struct fth_checkpoint_state *state, fth_error *err) {
    struct fth_strings files = {0};
    if (session->train_set)
        files = fth_data_set_files(session->train_set);
    state->n_data = files.n ? files.n : session->n_data;
    state->data = fth_alloc((size_t)state->n_data + 1, sizeof *state->data);
    if (!state->data)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the list of files");
    for (uint32_t f = 0; f < state->n_data; f++) {
        struct fth_data_file *file = &state->data[f];
        const struct fth_data_file *before = f < session->n_data ? &session->data[f] : NULL;
        struct fth_io_stat seen;
        if (files.n)
            file->name = files.items[f];
        if (before && (!files.n || (before->name && strcmp(before->name, file->name) == 0)))
            *file = *before;
        if (files.n && fth_data_set_seen(session->train_set, f, &seen))
            *file = (struct fth_data_file){files.items[f], 1, seen.size, seen.modified};
    }
    return FTH_OK;
}

/* What goes into the checkpoint besides tensors; `features`, `config_yaml` and `data` are the caller's to free. */
static fth_status describe(struct fth_session *session, struct fth_checkpoint_state *state,
                           fth_error *err) {
    *state = (struct fth_checkpoint_state){
        .step = session->step,
        .seed = session->config->seed,
        .position = session->position,
        .best_metric = session->best_metric,
        .best_step = session->best_step,
        .evaluations_without_better = session->evaluations_without_better,
        .stopped_early = session->stopped_early,
        .evaluation_due = session->evaluation_due,
        .finished = fth_session_is_finished(session),
        .train_seconds = session->earlier_seconds + (double)session->times.total * 1e-9,
        .tuning_digest = fth_tuning_digest(session->tuning),
        .isa = fth_cpu_instructions(session->config->precision != FTH_FP32),
        .cores = fth_cpu_get()->cores,
    };
    FTH_TRY(fth_feature_state_save(session->program, session->position.feature_state,
                                   session->position.n_feature_state, &state->features, err));
    state->config_yaml = fth_config_print(session->config);
    if (!state->config_yaml)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the configuration");
    return describe_data(session, state, err);
}

static void forget(struct fth_checkpoint_state *state) {
    json_decref(state->features);
    free((char *)state->config_yaml);
    fth_free(state->data);
}

static struct fth_checkpoint_source source_of(const struct fth_session *session) {
    return (struct fth_checkpoint_source){session->parameters, session->embedding, session->pool};
}

static fth_status write_checkpoint(struct fth_session *session, const char *dir, int64_t keep, uint64_t best, int replace,
                                   char **path, fth_error *err) {
    const struct fth_checkpoint_source source = source_of(session);
    struct fth_checkpoint_state state = {0};
    fth_status status = describe(session, &state, err);
    if (status == FTH_OK)
        status = fth_checkpoint_save(fth_io_posix(), dir, keep, best, replace, &source, &state, path, err);
    forget(&state);
    if (status != FTH_E_NUMERIC || !err)
        return status;
    fth_error found = *err;
    return fth_fail(err, status, "step %llu: %s; " FTH_DIVERGED_ADVICE, (unsigned long long)session->step, found.message);
}

fth_status fth_session_write(struct fth_session *session, const char *dir, int64_t keep, uint64_t best, int replace,
                             fth_error *err) {
    char *path = NULL;
    int there = !session->unsaved && fth_session_owns_directory(session, dir); /* the same state: nothing is written */
    fth_status status = write_checkpoint(session, dir, keep, best, replace, &path, err);
    if (!path)
        return status;
    free(session->checkpoint_path);
    free(session->copy_path);
    session->checkpoint_path = path;
    session->copy_path = NULL;
    if (status != FTH_OK) { /* it is there, is no other run's, and may not last: the next save sees to that */
        session->unsaved = 1;
        return status;
    }
    session->unsaved = 0;
    if (there)
        return FTH_OK;
    session->made_by[0] = 0;
    session->other = (struct fth_difference){0}; /* it is of these settings */
    return FTH_OK;
}

fth_status fth_session_amend(struct fth_session *session, int *changed, fth_error *err) {
    const struct fth_checkpoint_source source = source_of(session);
    struct fth_checkpoint_state state = {0};
    *changed = 0;
    if (*session->other.key)
        return FTH_OK;
    fth_status status = describe(session, &state, err);
    if (status == FTH_OK)
        status = fth_checkpoint_amend(fth_io_posix(), session->checkpoint_path, &source, &state, changed, err);
    forget(&state);
    return status;
}

/* A copy beside the training's own checkpoints, which it goes on from as if there were none. */
static fth_status write_copy(struct fth_session *session, const char *dir, int64_t keep, fth_error *err) {
    char *path = NULL;
    fth_status status = write_checkpoint(session, dir, keep, 0, 0, &path, err);
    if (status != FTH_OK) {
        free(path);
        return status;
    }
    free(session->copy_path);
    session->copy_path = path;
    return FTH_OK;
}

fth_status fth_session_save(fth_session *session, const char *dir, int64_t keep, fth_error *err) {
    if (!session || !dir)
        return fth_fail_null(err, "fth_session_save", "session, dir");
    FTH_TRY(fth_session_needs_data(session, err));
    FTH_TRY(fth_session_needs_slots(session, err));
    if (keep < 0)
        return fth_fail(err, FTH_E_ARGUMENT, "fth_session_save: keep is %lld; 0 keeps all", (long long)keep);
    int lock;
    FTH_TRY(fth_session_lock_directory(session, dir, &lock, err));
    fth_status status = fth_session_saves_into(session, dir) ? fth_session_write(session, dir, keep, 0, 0, err)
                                                             : write_copy(session, dir, keep, err);
    if (lock >= 0)
        close(lock);
    return status;
}

fth_status fth_session_digest(fth_session *session, char out[17], fth_error *err) {
    if (!session || !out)
        return fth_fail_null(err, "fth_session_digest", "session, out");
    FTH_TRY(fth_session_needs_slots(session, err));
    const struct fth_checkpoint_source source = source_of(session);
    struct fth_checkpoint_state state = {0};
    fth_status status = describe(session, &state, err);
    if (status == FTH_OK)
        status = fth_checkpoint_digest_of(&source, &state, out, err);
    forget(&state);
    return status;
}

static fth_status keep_data(struct fth_session *session, const struct fth_checkpoint_state *state, fth_error *err) {
    fth_arena *arena = session->config->arena;
    session->data = fth_arena_alloc(arena, (size_t)state->n_data + 1, sizeof *session->data);
    for (uint32_t f = 0; session->data && f < state->n_data; f++) {
        session->data[f] = state->data[f];
        if (state->data[f].name && !(session->data[f].name = fth_arena_strdup(arena, state->data[f].name)))
            session->data = NULL;
    }
    if (!session->data)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the list of files");
    session->n_data = state->n_data;
    return FTH_OK;
}

/* Earlier checkpoints did not tell what multiplied bf16; in fp32 nothing does, whatever did before. */
static int same_instructions(const struct fth_session *session, const char *isa) {
    const char *name = fth_isa_name(fth_cpu_get()->isa);
    size_t n = strlen(name);
    int reduced = session->config->precision != FTH_FP32;
    return strcmp(isa, fth_cpu_instructions(reduced)) == 0 ||
           (strncmp(isa, name, n) == 0 && (!isa[n] || (isa[n] == ',' && !reduced)));
}

static void tell_instructions(struct fth_session *session, const char *isa) {
    if (same_instructions(session, isa))
        return;
    if (!*session->other.key)
        session->other = (struct fth_difference){"instruction set", {0}};
    if (!session->weights_only)
        fth_log(FTH_LOG_WARN,
                "the checkpoint was trained on the instruction set %s, here it is %s; results will differ in the last bits", isa,
                fth_cpu_instructions(session->config->precision != FTH_FP32));
}

/* cores: of the machine that the checkpoint is from. */
static void tell_tiles(struct fth_session *session, uint32_t cores) {
    uint32_t there = cores ? fth_session_tile(session, cores) : 0, here = fth_session_tile(session, 0);
    if (!there || there == here || session->weights_only)
        return;
    if (!*session->other.key)
        session->other = (struct fth_difference){"number of cores", {0}};
    fth_log(FTH_LOG_WARN,
            "the checkpoint was trained on %u cores, in tiles of %u examples, %u here; results will differ in the last bits, "
            "but with tile: %u", cores, there, here, there);
}

fth_status fth_session_restore(struct fth_session *session, fth_checkpoint *checkpoint,
                               fth_error *err) {
    const struct fth_checkpoint_state *state = fth_checkpoint_state(checkpoint);
    size_t n = fth_feature_state_size(session->program);
    double *features = calloc(n + 1, sizeof *features);
    if (!features)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the feature state");
    fth_status status =
        fth_feature_state_load(session->program, state->features, features, n, err);
    if (status == FTH_E_CHECKPOINT)
        fth_error_frame(err, "%s/manifest.json", fth_checkpoint_path(checkpoint));
    if (status == FTH_OK)
        status = fth_checkpoint_restore(checkpoint, session->pool, session->parameters, session->embedding,
                                        session->weights_only, err);
    if (status == FTH_OK) {
        struct fth_position position = state->position;
        position.feature_state = features;
        position.n_feature_state = n;
        status = fth_session_set_position(session, &position, err);
    }
    free(features);
    if (status == FTH_OK)
        status = keep_data(session, state, err);
    if (status != FTH_OK)
        return status;
    session->step = state->step;
    session->best_metric = state->best_metric;
    session->best_step = state->best_step;
    session->evaluations_without_better = state->evaluations_without_better;
    session->stopped_early = state->stopped_early;
    session->evaluation_due = state->evaluation_due;
    session->earlier_seconds = state->train_seconds;
    tell_instructions(session, state->isa);
    if (!*session->other.key && strcmp(state->program, FTH_VERSION) != 0)
        session->other = (struct fth_difference){"version of Fathom", {0}};
    snprintf(session->made_by, sizeof session->made_by, "%s", state->program);
    if (state->tuning_digest != fth_tuning_digest(session->tuning)) {
        if (!*session->other.key)
            session->other = (struct fth_difference){"tuning", {0}};
        fth_log(FTH_LOG_WARN,
                "the checkpoint was trained with another tuning table; results will differ in the last bits");
    }
    tell_tiles(session, state->cores);
    session->checkpoint_path = strdup(fth_checkpoint_path(checkpoint));
    if (!session->checkpoint_path)
        return fth_fail(err, FTH_E_MEMORY, "no memory for a path");
    return FTH_OK;
}
