/* What the checks of features share: check_items.c each item alone, check_features.c all together and what models
 * ask of them. Only these include it. */
#ifndef FTH_CONFIG_CHECK_FEATURES_H
#define FTH_CONFIG_CHECK_FEATURES_H

#include "config/config_private.h"

/* One column of an item of features, as an embedding field or a number. */
struct field {
    const char *name, *table, *group;
    const char *column;
    const char *section; /* "derived", "numeric", "indicator" or "categorical" */
    uint32_t item;       /* its number there */
    int64_t dim, buckets, min_count, max_length;
    const struct fth_categorical_config *categorical; /* NULL: a number's buckets */
    int keep_last, sequence;
};

#define FTH_ESCAPE_IN_DELIMITER "the delimiter has this sign, too, and could not be told from an escape; choose another"

struct fields {
    struct field *items; /* embedding fields */
    uint32_t n;
    struct field *numbers; /* dense inputs */
    uint32_t n_numbers;
};

/* An error about key `key` of the field's item. */
fth_status fth_check_fail_item(struct fth_loader *l, const struct field *field, const char *key,
                               const char *message);
static inline const char *fth_check_feature_name(const char *name, const char *column) {
    return *name ? name : column;
}
/* Whether the column is the label, or a task's. */
int fth_check_is_label(const struct fth_config *config, const char *column);

/* Each item alone; `item` is its number in its list. */
fth_status fth_check_derived(struct fth_loader *l, uint32_t item);
fth_status fth_check_numeric(struct fth_loader *l, uint32_t item);
fth_status fth_check_indicator(struct fth_loader *l, uint32_t item);
fth_status fth_check_categorical(struct fth_loader *l, uint32_t item);

#endif
