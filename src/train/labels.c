/* Labels that are all alike, or of which none counts: a text of data.positive that no line has, or another column than
 * was meant, trains without an error to a model of nothing. Noted in steps on the training thread, told at the end of an
 * epoch; and by an evaluation that was asked for, which has no AUC then. */
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "train/session_private.h"

#define FEWEST 100 /* examples that are worth a warning */
#define BOTH 3

static void note_task(const struct fth_batch *batch, uint32_t t, uint32_t tasks, uint8_t *seen) {
    for (size_t i = t; i < (size_t)batch->n * tasks && *seen != BOTH; i += tasks)
        if (!batch->weight || batch->weight[i] > 0)
            *seen |= batch->label[i] > 0 ? 2 : 1;
}

void fth_session_note_labels(struct fth_session *session, const struct fth_batch *batch) {
    uint32_t tasks = fth_session_tasks(session->config);
    for (uint32_t t = 0; t < tasks; t++)
        note_task(batch, t, tasks, &session->labels_seen[t]);
    session->labels_noted += batch->n;
    if (session->labels_warned || session->labels_noted != session->examples)
        return;
    fth_session_note_indicators(session, batch);
    fth_session_note_lists(session, batch);
}

static const char *label_of(const struct fth_config *config, uint32_t t) {
    return config->n_tasks ? config->tasks[t].label : config->data.label;
}

static void tell_none(const struct fth_session *session, uint32_t t, uint64_t examples) {
    const char *label = label_of(session->config, t);
    fth_log(FTH_LOG_WARN, "label%s%s%s: none of %llu examples counts: each has no label or the weight 0", *label ? " '" : "",
            label, *label ? "'" : "", (unsigned long long)examples);
}

/* What there is to say of `positive`: ">=4" and "< 4" are texts, and no line has them. */
static const char *about_positive(const struct fth_strings *positive) {
    double bound;
    int above;
    for (uint32_t i = 0; i < positive->n; i++) {
        const char *number = positive->items[i] + strspn(positive->items[i], "<>= ");
        if (number > positive->items[i] && fth_parse_f64(number, strlen(number), &bound) &&
            !fth_config_label_bound(positive->items[i], &bound, &above))
            return ": a bound is written \"> 4\" or \">= 4\", with a space (there is none by <); any other text of positive "
                   "is compared as it is";
    }
    return positive->n ? ": does positive name the texts that mean 1, as they are written?" : "";
}

static void tell(const struct fth_session *session, uint32_t t, uint64_t examples, int value) {
    const struct fth_config *config = session->config;
    const char *label = label_of(config, t);
    const struct fth_strings *positive = config->n_tasks ? &config->tasks[t].positive : &config->data.positive;
    fth_log(FTH_LOG_WARN, "label%s%s%s: all of %llu examples are %d%s", *label ? " '" : "", label,
            *label ? "'" : "", (unsigned long long)examples, value,
            about_positive(positive));
}

void fth_session_warn_labels(struct fth_session *session, const fth_feature_program *program) {
    const struct fth_config *config = session->config;
    if (session->labels_warned || session->labels_noted < FEWEST || session->labels_noted != session->examples)
        return; /* one that was resumed has not met all of the epoch */
    session->labels_warned = 1;
    fth_session_warn_indicators(session);
    fth_session_warn_lists(session, program);
    for (uint32_t t = 0; t < fth_session_tasks(config); t++) {
        uint8_t seen = session->labels_seen[t];
        if (seen == 0)
            tell_none(session, t, session->labels_noted);
        else if (seen != BOTH)
            tell(session, t, session->labels_noted, seen >> 1);
    }
}

void fth_session_warn_evaluated(const struct fth_session *session, const fth_evaluation *all) {
    for (uint32_t t = 0; t < fth_session_tasks(session->config); t++)
        if (all[t].examples >= FEWEST && (all[t].base_rate == 0 || all[t].base_rate == 1))
            tell(session, t, all[t].examples, all[t].base_rate == 1);
}
