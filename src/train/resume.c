/* Going on from a checkpoint with overrides: which of them cannot be, or are not what they look like. Tensors are
 * compared when they are restored (checkpoint/restore.c). */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/paths.h"
#include "train/session_private.h"

/* ---- what its weights mean: the checkpoint's stays ---- */

fth_status fth_resume_check_meaning(const fth_config *own, const fth_config *now, const char *checkpoint,
                                    fth_error *err) {
    struct fth_difference other;
    FTH_TRY(fth_config_difference(own, now, FTH_DIFFERENCE_OF_MEANING, &other, err));
    if (!*other.key)
        return FTH_OK;
    return fth_fail(err, FTH_E_CONFIG,
                    "%s: %s was trained with %s, and what it learned means nothing otherwise; leave it as it was, or train "
                    "anew",
                    other.key, checkpoint, *other.was ? other.was : "\"\"");
}

/* ---- what is held out ---- */

static int same_strings(const struct fth_strings *a, const struct fth_strings *b) {
    int same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = strcmp(a->items[i], b->items[i]) == 0;
    return same;
}

/* By what the configurations say: files that have changed under their names are not looked at. */
int fth_resume_holds_out_same(const fth_config *before, const fth_config *now) {
    const struct fth_data_config *was = &before->data, *is = &now->data;
    if (was->valid.n || is->valid.n)
        return same_strings(&was->valid, &is->valid);
    return was->holdout == is->holdout &&
           (is->holdout == FTH_HOLDOUT_NONE ||
            (was->holdout_fraction == is->holdout_fraction && same_strings(&was->train, &is->train) &&
             strcmp(was->holdout_column, is->holdout_column) == 0 &&
             (is->holdout != FTH_HOLDOUT_HASH || before->seed == now->seed)));
}

/* Whether what is held out of the same files now has examples that were trained on before. */
static int holds_out_trained(const struct fth_config *before, const struct fth_config *now) {
    const struct fth_data_config *was = &before->data, *is = &now->data;
    if (is->valid.n || is->holdout == FTH_HOLDOUT_NONE || !same_strings(&was->train, &is->train))
        return 0;
    return was->valid.n || was->holdout != is->holdout || is->holdout_fraction > was->holdout_fraction ||
           (is->holdout == FTH_HOLDOUT_HASH &&
            (before->seed != now->seed || strcmp(was->holdout_column, is->holdout_column) != 0));
}

void fth_resume_warn_held_out(const fth_config *own, const fth_config *now, const char *checkpoint) {
    if (holds_out_trained(own, now))
        fth_log(FTH_LOG_WARN,
                "data.holdout, seed: other examples are held out than when %s was trained (data.holdout, seed "
                "%llu): it has learned from some of them, and evaluations of them look better than they are",
                checkpoint, (unsigned long long)own->seed);
}

/* ---- what rounds otherwise from here on ---- */

void fth_resume_warn_precision(const fth_config *own, const fth_config *now, const char *checkpoint) {
    if (own->precision != now->precision)
        fth_log(FTH_LOG_WARN, "precision: %s was trained with %s, training goes on with %s; results will differ", checkpoint,
                fth_precision_name((fth_precision)own->precision), fth_precision_name((fth_precision)now->precision));
}

/* ---- what was read ---- */

/* What is other about the file than the checkpoint knows, as a text; "": nothing. */
static const char *difference(const struct fth_data_file *was, const char *name, char text[128]) {
    struct fth_io_stat now;
    const struct fth_io *io = fth_io_posix();
    text[0] = 0;
    if (!was->known || io->stat(io->ctx, name, &now) < 0) /* one that is gone is an error when it is opened */
        return text;
    if (was->bytes != now.size)
        snprintf(text, 128, "%llu bytes then, %llu now", (unsigned long long)was->bytes, (unsigned long long)now.size);
    else if (was->modified != now.modified)
        snprintf(text, 128, "written to since");
    return text;
}

static const char *name_in_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Of the same size and time, and the same name in whatever folder. */
static int is_same_file(const struct fth_data_file *was, const char *name) {
    char text[128];
    return was->name && strcmp(name_in_folder(was->name), name_in_folder(name)) == 0 && !*difference(was, name, text);
}

int fth_resume_trains_on_same(const struct fth_session *session, const fth_config *before) {
    const struct fth_config *now = session->config;
    struct fth_strings files;
    if (session->n_data == 0 || fth_paths_expand(&now->data.train, "data.train", now->arena, &files, NULL) != FTH_OK)
        return same_strings(&before->data.train, &now->data.train);
    int same = files.n == session->n_data;
    for (uint32_t f = 0; same && f < files.n; f++)
        same = is_same_file(&session->data[f], files.items[f]);
    return same;
}

/* The file as the checkpoint knows it; n_data: not at all. */
static uint32_t find_known(const struct fth_session *session, const char *name, uint32_t at) {
    const struct fth_data_file *data = session->data;
    if (at < session->n_data && data[at].name && strcmp(data[at].name, name) == 0)
        return at;
    for (uint32_t k = 0; k < session->n_data; k++)
        if (data[k].name && strcmp(data[k].name, name) == 0)
            return k;
    return session->n_data;
}

void fth_resume_warn_moved(struct fth_session *session, const fth_data_set *set) {
    const struct fth_data_config *config = &session->config->data;
    struct fth_strings files = fth_data_set_files(set);
    int moved = 0; /* lines of files from here on */
    if (session->warned_moved || !session->step || config->valid.n || config->holdout != FTH_HOLDOUT_HASH ||
        *config->holdout_column)
        return;
    for (uint32_t f = 0; f < files.n; f++) {
        char text[128];
        uint32_t was = find_known(session, files.items[f], f);
        if (was < session->n_data && (moved || was != f)) {
            session->warned_moved = 1;
            fth_log(FTH_LOG_WARN,
                    "data.train: other lines stand before %s than when %s was saved, and lines are held out by their number "
                    "(data.holdout.by: hash): some that were trained on are held out now, so evaluations look better than "
                    "they are; put new files behind the others, or set data.holdout.column or data.valid",
                    files.items[f], session->checkpoint_path);
            return;
        }
        moved |= f < session->n_data && (was == session->n_data || *difference(&session->data[was], files.items[f], text));
    }
}

int fth_resume_data_changed(const struct fth_session *session) {
    char text[128];
    for (uint32_t f = 0; f < session->n_data; f++) {
        const struct fth_data_file *was = &session->data[f];
        if (was->known && was->name && *difference(was, was->name, text))
            return 1;
    }
    return 0;
}

int fth_resume_epoch_begins(const struct fth_session *session) {
    const struct fth_position *at = &session->position;
    return at->file_index == 0 && at->example == 0 && at->taken == 0;
}

int fth_resume_begin_epoch(struct fth_session *session) {
    struct fth_position *at = &session->position;
    session->stopped_early = 0;
    session->evaluations_without_better = 0;
    if (fth_resume_epoch_begins(session))
        return 0;
    at->epoch++;
    at->line = 1;
    at->file_index = at->byte_offset = at->example = at->block = at->taken = at->epoch_lines_bad = 0;
    return 1;
}

void fth_resume_warn_data(const struct fth_session *session) {
    const struct fth_position *at = &session->position;
    struct fth_strings files = fth_data_set_files(session->train_set);
    uint32_t n = files.n < session->n_data ? files.n : session->n_data;
    if (!session->step || fth_resume_epoch_begins(session))
        return;
    for (uint32_t f = 0; f < n; f++) {
        const struct fth_data_file *was = &session->data[f];
        char text[128];
        const char *name = files.items[f], *why = difference(was, name, text);
        int renamed = was->name && strcmp(was->name, name) != 0 && (*why || !was->known);
        if (!renamed && !*why)
            continue;
        fth_log(FTH_LOG_WARN,
                "data.train: file %u, %s, is not the %s that was there when %s was saved, in the midst of an epoch%s%s: "
                "training goes on with what is there, from line %llu of file %llu on; change files between epochs",
                f + 1, name, renamed ? was->name : "file", session->checkpoint_path, *why ? "; " : "", why,
                (unsigned long long)at->line, (unsigned long long)at->file_index + 1);
        return;
    }
}
