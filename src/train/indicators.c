/* One-hot inputs that are never 1: values written otherwise than the data's texts ("true" where they are "True"), or in
 * another coding, train without an error to a model that lacks the feature. Noted and told beside the labels. */
#include "base/log.h"
#include "train/session_private.h"

static uint8_t is_any(const struct fth_batch *batch, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < batch->n; i++)
        for (uint32_t c = first; c < first + n; c++)
            if (batch->dense[(size_t)i * batch->dense_ld + c] > 0)
                return 1;
    return 0;
}

void fth_session_note_indicators(struct fth_session *session, const struct fth_batch *batch) {
    const struct fth_features_config *features = &session->config->features;
    uint32_t at = 0, first, width;
    for (uint32_t k = 0; k < features->n_indicator; k++)
        for (uint32_t c = 0; c < features->indicator[k].columns.n; c++, at++)
            if (!session->indicators_seen[at] && fth_feature_indicator(session->program, at, &first, &width))
                session->indicators_seen[at] = is_any(batch, first, features->indicator[k].values.n);
}

void fth_session_warn_indicators(const struct fth_session *session) {
    uint32_t first, width;
    const char *name;
    for (uint32_t i = 0; (name = fth_feature_indicator(session->program, i, &first, &width)) != NULL; i++)
        if (!session->indicators_seen[i])
            fth_log(FTH_LOG_WARN,
                    "features.indicator: '%s': none of its values is in any of %llu examples: are they written as the data "
                    "are?",
                    name, (unsigned long long)session->labels_noted);
}
