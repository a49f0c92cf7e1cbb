/* A session's life: made from a configuration or a checkpoint, ended. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "train/session_private.h"

/* Everything up to, but not including, what is learned from data or restored. */
static fth_status begin(fth_config *config, enum fth_columns_from from, int weights_only, fth_session **out,
                        fth_error *err) {
    fth_session *session = fth_alloc(1, sizeof *session);
    if (!session) {
        fth_config_free(config);
        return fth_fail(err, FTH_E_MEMORY, "no memory for a session");
    }
    session->config = config;
    session->weights_only = weights_only;
    session->best_metric = NAN;
    session->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fth_status status = FTH_OK;
    if (session->wake < 0)
        status = fth_fail(err, FTH_E_IO, "cannot create an event: %s", strerror(errno));
    if (status == FTH_OK)
        status = fth_session_columns(session, from, err);
    if (status == FTH_OK)
        status = fth_feature_create(config, session->columns, session->n_columns, &session->program,
                                    err);
    if (status == FTH_OK)
        status = fth_session_build(session, err);
    if (status != FTH_OK) {
        fth_session_destroy(session);
        return status;
    }
    *out = session;
    return FTH_OK;
}

static fth_status copy_config(const fth_config *config, fth_config **out, fth_error *err) {
    char *text = fth_config_print(config);
    if (!text)
        return fth_fail(err, FTH_E_MEMORY, "no memory for the configuration");
    fth_status status = fth_config_parse("configuration", text, strlen(text), NULL, 0, out, err);
    free(text);
    return status;
}

fth_status fth_session_check_piped(const fth_config *config, uint64_t before, fth_error *err) {
    uint64_t epochs = (uint64_t)config->train.epochs;
    for (uint32_t f = 0; f < config->data.train.n; f++)
        if (strcmp(config->data.train.items[f], "-") == 0 && epochs > before + 1)
            return fth_fail(err, FTH_E_CONFIG,
                            "train.epochs: %llu epochs%s cannot be read from standard input, which can be read once; use "
                            "%llu, or files",
                            (unsigned long long)(epochs - before), before ? " more" : "", (unsigned long long)before + 1);
    return FTH_OK;
}

fth_status fth_session_create(const fth_config *config, fth_purpose purpose, fth_session **out,
                              fth_error *err) {
    if (!config || !out)
        return fth_fail_null(err, "fth_session_create", "config, out");
    if (purpose != FTH_FOR_ALL && purpose != FTH_FOR_SHAPE && purpose != FTH_FOR_TRAINING)
        return fth_fail(err, FTH_E_ARGUMENT, "fth_session_create: there is no purpose %d", (int)purpose);
    fth_config *own = NULL;
    if (purpose == FTH_FOR_TRAINING)
        FTH_TRY(fth_session_check_piped(config, 0, err));
    FTH_TRY(copy_config(config, &own, err));
    fth_session *session = NULL;
    FTH_TRY(begin(own, purpose == FTH_FOR_SHAPE ? FTH_COLUMNS_FROM_CONFIG : FTH_COLUMNS_FROM_DATA, 0, &session, err));
    session->shape_only = purpose == FTH_FOR_SHAPE;
    fth_status status = purpose == FTH_FOR_TRAINING ? fth_session_ask_directory(session, err) : FTH_OK;
    if (status == FTH_OK && !session->shape_only)
        status = fth_session_learn(session, err);
    if (status != FTH_OK) {
        fth_session_destroy(session);
        return status;
    }
    *out = session;
    return FTH_OK;
}

/* Other settings of early stopping decide anew: another metric, or other held-out data, whose metrics cannot be compared,
 * from the beginning, others by what was counted. Other training files end the stop, and what was left of its epoch. */
static void decide_again(struct fth_session *session, const struct fth_config *own) {
    const struct fth_train_config *now = &session->config->train, *before = &own->train;
    int other = strcmp(now->early_stop_metric, before->early_stop_metric) != 0 ||
                strcmp(now->early_stop_task, before->early_stop_task) != 0 ||
                !fth_resume_holds_out_same(own, session->config);
    if (other) {
        session->best_metric = NAN;
        session->best_step = session->evaluations_without_better = 0;
    }
    if (session->stopped_early && !fth_resume_trains_on_same(session, own))
        fth_resume_begin_epoch(session); /* the next day's: what stopped yesterday says nothing of it */
    else if (other || now->early_stop_patience != before->early_stop_patience)
        session->stopped_early =
            !other && session->evaluations_without_better >= (uint64_t)now->early_stop_patience;
}

struct overridden {
    const char *const *overrides;
    size_t n;
    int weights_only;
    fth_session **out;
};

/* The checkpoint's own configuration is one that this program cannot read: another version wrote it, or another build. */
static void say_version(const struct fth_checkpoint_state *state, const char *path, fth_status status, fth_error *err) {
    fth_config *own = NULL;
    if (status == FTH_E_CONFIG &&
        fth_config_parse(path, state->config_yaml, strlen(state->config_yaml), NULL, 0, &own, NULL) != FTH_OK)
        fth_error_frame(err, "%s was saved by %sFathom %s, whose configuration this one, %s, does not know", path,
                        strcmp(state->program, FTH_VERSION) == 0 ? "another build of " : "", state->program, FTH_VERSION);
    fth_config_free(own);
}

static fth_status open_from(void *ctx, fth_checkpoint *checkpoint, fth_error *err) {
    const struct overridden *as = ctx;
    fth_config *config = NULL, *own = NULL; /* own: without the overrides */
    fth_session *session = NULL;
    fth_status status;
    const char *text = fth_checkpoint_state(checkpoint)->config_yaml, *path = fth_checkpoint_path(checkpoint);
    status = fth_config_parse(path, text, strlen(text), as->overrides, as->n, &config, err);
    if (status != FTH_OK) {
        say_version(fth_checkpoint_state(checkpoint), path, status, err);
        goto done;
    }
    FTH_TRY_GOTO(status, fth_config_parse(path, text, strlen(text), NULL, 0, &own, err), done);
    status = fth_resume_check_meaning(own, config, path, err);
    if (status != FTH_OK) {
        fth_config_free(config);
        goto done;
    }
    FTH_TRY_GOTO(status, begin(config, FTH_COLUMNS_FROM_NAMES, as->weights_only, &session, err), done);
    FTH_TRY_GOTO(status, fth_config_difference(own, config, FTH_DIFFERENCE_OF_RESULT, &session->other, err), done);
    session->begun_seed = own->seed;
    session->begun_shuffle = own->data.shuffle;
    session->same_dir = strcmp(own->checkpoint.dir, session->config->checkpoint.dir) == 0;
    FTH_TRY_GOTO(status, fth_session_restore(session, checkpoint, err), done);
    decide_again(session, own);
    if (session->step)
        fth_resume_warn_held_out(own, config, path);
    if (session->step && !as->weights_only)
        fth_resume_warn_precision(own, config, path);
    *as->out = session;
    session = NULL;
done:
    fth_session_destroy(session);
    fth_config_free(own);
    return status;
}

fth_status fth_session_open(const char *path, const char *const *overrides, size_t n_overrides,
                            fth_session **out, fth_error *err) {
    if (!path || !out || !fth_all_there(overrides, n_overrides))
        return fth_fail_null(err, "fth_session_open", "checkpoint, overrides, out");
    return fth_checkpoint_read(fth_io_posix(), path, open_from, &(struct overridden){overrides, n_overrides, 0, out}, err);
}

fth_status fth_session_open_to_predict(const char *path, const char *const *overrides, size_t n_overrides,
                                       fth_session **out, fth_error *err) {
    if (!path || !out || !fth_all_there(overrides, n_overrides))
        return fth_fail_null(err, "fth_session_open_to_predict", "checkpoint, overrides, out");
    return fth_checkpoint_read(fth_io_posix(), path, open_from, &(struct overridden){overrides, n_overrides, 1, out}, err);
}

fth_status fth_session_next_epoch(fth_session *session, fth_error *err) {
    if (!session)
        return fth_fail_null(err, "fth_session_next_epoch", "session");
    FTH_TRY(fth_session_needs_data(session, err));
    FTH_TRY(fth_session_needs_slots(session, err));
    if (session->training)
        return fth_fail(err, FTH_E_ARGUMENT, "fth_session_next_epoch: the session is training");
    if (!fth_resume_begin_epoch(session) || *session->other.key)
        return FTH_OK;
    snprintf(session->other.key, sizeof session->other.key, "place in the data");
    return FTH_OK;
}

fth_status fth_session_needs_data(const struct fth_session *session, fth_error *err) {
    if (session->shape_only)
        return fth_fail(err, FTH_E_ARGUMENT, "the session was made for its shape only: nothing was learned from data");
    return FTH_OK;
}

fth_status fth_session_needs_slots(const struct fth_session *session, fth_error *err) {
    if (session->weights_only)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "the session was opened to evaluate and predict only: it has no optimizer slots");
    return FTH_OK;
}

void fth_session_destroy(fth_session *session) {
    if (!session)
        return;
    fth_plan_destroy(session->train_plan);
    fth_plan_destroy(session->eval_plan);
    fth_embedding_destroy(session->embedding);
    fth_parameters_destroy(session->parameters);
    fth_graph_destroy(session->graph);
    fth_feature_destroy(session->program);
    fth_session_drop_joins(session);
    fth_pool_destroy(session->pool);
    fth_tuning_destroy(session->tuning);
    fth_data_set_destroy(session->train_set);
    fth_free(session->file_starts);
    fth_free(session->evaluations);
    fth_free(session->labels_seen);
    fth_free(session->indicators_seen);
    fth_free(session->lists_seen);
    fth_config_free(session->config);
    if (session->wake >= 0)
        close(session->wake);
    free(session->position.feature_state);
    free(session->checkpoint_path);
    free(session->copy_path);
    fth_free(session);
}

const fth_config *fth_session_config(const fth_session *session) {
    return session ? session->config : NULL;
}

uint64_t fth_session_log_every(const fth_session *session) {
    return session ? (uint64_t)session->config->train.log_every : 0;
}

const char *fth_session_checkpoint(const fth_session *session) {
    if (!session)
        return NULL;
    return session->copy_path ? session->copy_path : session->checkpoint_path;
}

uint64_t fth_session_model_bytes(const struct fth_session *session) {
    uint64_t bytes = session->parameters->bytes;
    for (uint32_t p = 0; session->embedding && p < fth_embedding_packs(session->embedding); p++) {
        struct fth_pack_info info;
        fth_embedding_pack_info(session->embedding, p, &info);
        bytes += info.bytes;
    }
    return bytes;
}

fth_status fth_session_features(fth_session *session, char **out, fth_error *err) {
    if (!session || !out)
        return fth_fail_null(err, "fth_session_features", "session, out");
    return fth_feature_describe(session->program, out, err);
}

fth_status fth_session_graph(fth_session *session, int dot, char **out, fth_error *err) {
    if (!session || !out)
        return fth_fail_null(err, "fth_session_graph", "session, out");
    struct fth_text text = {0};
    if (dot) {
        fth_graph_print_dot(session->graph, &text);
    } else {
        fth_plan *plan = NULL;
        FTH_TRY(fth_session_plan(session, 1, &plan, err));
        fth_graph_print(session->graph, &text);
        fth_text_append(&text, "\n", 1);
        if (session->embedding)
            fth_embedding_print(session->embedding, &text);
        fth_plan_print(plan, &text);
    }
    char *copy = text.failed ? NULL : strdup(fth_text_get(&text));
    fth_text_free(&text);
    if (!copy)
        return fth_fail(err, FTH_E_MEMORY, "no memory to print the graph");
    *out = copy;
    return FTH_OK;
}
