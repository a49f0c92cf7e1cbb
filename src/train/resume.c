/* Going on from a checkpoint with overrides: which of them cannot be, or are not what they look like. Shapes are
 * compared when tensors are restored (checkpoint/restore.c). */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "train/session_private.h"

/* ---- what is learned from data before the first step: the checkpoint's stays ---- */

static int has(const struct fth_strings *columns, const char *column) {
    for (uint32_t i = 0; i < columns->n; i++)
        if (strcmp(columns->items[i], column) == 0)
            return 1;
    return 0;
}

/* One feature's settings now, and what the checkpoint is called. */
struct feature {
    const char *list; /* of features: numeric, categorical */
    uint32_t item;
    const char *column, *checkpoint;
};

static fth_status refuse(const struct feature *feature, const char *key, const char *before, fth_error *err) {
    return fth_fail(err, FTH_E_CONFIG,
                    "features.%s.%u.%s: %s was begun with %s for column '%s' and keeps what it learned then; leave "
                    "it as it was, or train anew",
                    feature->list, feature->item, key, feature->checkpoint, before, feature->column);
}

static fth_status check_number(const struct feature *feature, const char *key, int64_t was, int64_t is,
                               fth_error *err) {
    char before[32];
    snprintf(before, sizeof before, "%lld", (long long)was);
    return was == is ? FTH_OK : refuse(feature, key, before, err);
}

static fth_status check_numeric(const struct fth_features_config *own, const struct fth_numeric_config *is,
                                const struct feature *feature, fth_error *err) {
    for (uint32_t k = 0; k < own->n_numeric; k++) {
        const struct fth_numeric_config *was = &own->numeric[k];
        if (has(&was->columns, feature->column) && strcmp(was->name, is->name) == 0)
            FTH_TRY(check_number(feature, "quantiles", was->quantiles, is->quantiles, err));
    }
    return FTH_OK;
}

static fth_status check_categorical(const struct fth_features_config *own, const struct fth_categorical_config *is,
                                    const struct feature *feature, fth_error *err) {
    for (uint32_t k = 0; k < own->n_categorical; k++) {
        const struct fth_categorical_config *was = &own->categorical[k];
        if (!has(&was->columns, feature->column) || strcmp(was->name, is->name) != 0)
            continue;
        if (strcmp(was->vocabulary_file, is->vocabulary_file) != 0)
            return refuse(feature, "vocabulary_file", *was->vocabulary_file ? was->vocabulary_file : "none", err);
        FTH_TRY(check_number(feature, "vocabulary_size", was->vocabulary_size, is->vocabulary_size, err));
        FTH_TRY(check_number(feature, "vocabulary_min_count", was->vocabulary_min_count,
                             is->vocabulary_min_count, err));
    }
    return FTH_OK;
}

fth_status fth_resume_check_learned(const fth_config *own, const fth_config *now, const char *checkpoint,
                                    fth_error *err) {
    const struct fth_features_config *was = &own->features, *is = &now->features;
    int learned = 0;
    for (uint32_t k = 0; k < is->n_numeric; k++) {
        learned |= is->numeric[k].quantiles > 0;
        for (uint32_t c = 0; c < is->numeric[k].columns.n; c++) {
            struct feature feature = {"numeric", k, is->numeric[k].columns.items[c], checkpoint};
            FTH_TRY(check_numeric(was, &is->numeric[k], &feature, err));
        }
    }
    for (uint32_t k = 0; k < is->n_categorical; k++) {
        learned |= is->categorical[k].vocabulary_size > 0;
        for (uint32_t c = 0; c < is->categorical[k].columns.n; c++) {
            struct feature feature = {"categorical", k, is->categorical[k].columns.items[c], checkpoint};
            FTH_TRY(check_categorical(was, &is->categorical[k], &feature, err));
        }
    }
    if (learned && was->learn_lines != is->learn_lines)
        return fth_fail(err, FTH_E_CONFIG,
                        "features.learn_lines: %s was begun with %lld and keeps what it learned then; leave it as it "
                        "was, or train anew",
                        checkpoint, (long long)was->learn_lines);
    return FTH_OK;
}

/* ---- what is held out ---- */

static int same_strings(const struct fth_strings *a, const struct fth_strings *b) {
    int same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = strcmp(a->items[i], b->items[i]) == 0;
    return same;
}

/* Whether what is held out of the same files now has examples that were trained on before. */
static int holds_out_trained(const struct fth_config *before, const struct fth_config *now) {
    const struct fth_data_config *was = &before->data, *is = &now->data;
    if (is->valid.n || is->holdout == FTH_HOLDOUT_NONE || !same_strings(&was->train, &is->train))
        return 0;
    return was->valid.n || was->holdout != is->holdout || is->holdout_fraction > was->holdout_fraction ||
           (is->holdout == FTH_HOLDOUT_HASH && before->seed != now->seed);
}

void fth_resume_warn_held_out(const fth_config *own, const fth_config *now, const char *checkpoint) {
    if (holds_out_trained(own, now))
        fth_log(FTH_LOG_WARN,
                "data.holdout, seed: other examples are held out than when %s was trained (data.holdout, seed "
                "%llu): it has learned from some of them, and evaluations of them look better than they are",
                checkpoint, (unsigned long long)own->seed);
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

void fth_resume_warn_data(const struct fth_session *session) {
    const struct fth_position *at = &session->position;
    struct fth_strings files = fth_data_set_files(session->train_set);
    uint32_t n = files.n < session->n_data ? files.n : session->n_data;
    if (!session->step || (at->file_index == 0 && at->example == 0 && at->taken == 0)) /* an epoch begins */
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
