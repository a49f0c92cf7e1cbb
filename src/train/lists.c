/* Lists that never have more than one value: with another separator than the data's a whole list is one text, which trains
 * without an error. Noted and told beside the labels; as are lists that all stand in brackets. */
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "train/session_private.h"

enum { NONE, ONE, SEVERAL }; /* the most values that a list of the group had */

void fth_session_note_lists(struct fth_session *session, const struct fth_batch *batch) {
    for (uint32_t g = 0; g < batch->schema->n_groups; g++)
        for (uint32_t i = 0; i < batch->n && session->lists_seen[g] != SEVERAL; i++) {
            uint32_t n = batch->groups[g].offsets[i + 1] - batch->groups[g].offsets[i];
            uint8_t most = n > 1 ? SEVERAL : n ? ONE : NONE;
            session->lists_seen[g] = most > session->lists_seen[g] ? most : session->lists_seen[g];
        }
}

/* The separator of the feature of this name; "": it has none. */
static const char *separator_of(const struct fth_config *config, const char *name) {
    for (uint32_t k = 0; k < config->features.n_categorical; k++) {
        const struct fth_categorical_config *item = &config->features.categorical[k];
        for (uint32_t c = 0; c < item->columns.n; c++)
            if (strcmp(*item->name ? item->name : item->columns.items[c], name) == 0)
                return item->separator;
    }
    return "";
}

void fth_session_warn_lists(const struct fth_session *session, const fth_feature_program *program) {
    const struct fth_schema *schema = fth_feature_schema(session->program);
    uint32_t n;
    const struct fth_field_info *fields = fth_feature_fields(session->program, &n);
    for (uint32_t f = 0; f < n; f++) {
        const char *separator = separator_of(session->config, fields[f].name);
        const char *bracketed = fth_feature_bracketed(program, f);
        if (bracketed)
            fth_log(FTH_LOG_WARN,
                    "features.categorical: '%s': all lists of '%s' that were looked at are in brackets, which are taken for "
                    "parts of their first and last values; leave them out by a column {as: replace, from: %s, characters: "
                    "\"[](){}'\"} in features.derived",
                    fields[f].name, bracketed, bracketed);
        if (fields[f].group == FTH_NO_GROUP || schema->group_max[fields[f].group] < 2 ||
            session->lists_seen[fields[f].group] != ONE || !*separator)
            continue;
        char quoted[96];
        fth_text_quote(quoted, sizeof quoted, separator, strlen(separator));
        fth_log(FTH_LOG_WARN,
                "features.categorical: '%s': none of %llu lists has more than one value: is '%s' what separates them?",
                fields[f].name, (unsigned long long)session->labels_noted, quoted);
    }
}
