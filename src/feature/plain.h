/* The unfused forms of a feature program's operations (plain.c); only feature/ includes this. */
#ifndef FTH_FEATURE_PLAIN_H
#define FTH_FEATURE_PLAIN_H

#include "feature/program_private.h"

fth_status fth_feature_plain_number_lists(struct fth_feature_chunk *chunk,
                                          const struct fth_feature_numeric *numeric, float *x,
                                          uint32_t *present);
/* Keys of a list cell that is not missing, at most group->max, from `at` on; *n how many. */
fth_status fth_feature_plain_keys(struct fth_feature_chunk *chunk,
                                  const struct fth_feature_group *group,
                                  const struct fth_feature_field *field,
                                  struct fth_feature_text text, const struct fth_keys *to, uint32_t at, uint32_t *n);
/* Sets the inputs out[0..width), which are 0, of a list or of one value. */
fth_status fth_feature_plain_indicator(struct fth_feature_chunk *chunk,
                                       const struct fth_feature_indicator *indicator,
                                       struct fth_feature_text text, float *out);

#endif
