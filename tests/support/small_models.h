/* One small configuration of every model and inputs for it, which tests change where they look for something else. */
#ifndef FTH_TESTS_SMALL_MODELS_H
#define FTH_TESTS_SMALL_MODELS_H

#include "model/model.h"

enum { SMALL_FIELDS = 6, SMALL_PLAIN_FIELDS = 4 };
/* user, item, category; tags, ragged and pooled; then a history of items and categories. All of dimension 4. */
extern const struct fth_model_field small_fields[SMALL_FIELDS];
/* star's "domain": two columns of the dense ones, from 1 on. */
extern const struct fth_model_indicator small_domain[1];

struct small_sizes {
    struct fth_ints hidden;    /* of deep parts, dlrm's top and experts */
    struct fth_ints bottom;    /* dlrm's, ends with the fields' dimension; the first: towers, star's auxiliary network */
    struct fth_ints attention;
    struct fth_ints maps;      /* of xdeepfm's interaction, can's co-action */
};

/* ReLU (din: Dice), no dropout, no batch norm; borrows from `sizes`. */
struct fth_model_config small_model(const char *name, const struct small_sizes *sizes);
/* Models that take histories for what they are. */
int small_has_history(const char *name);

#endif
