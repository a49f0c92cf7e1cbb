/* Numbers of a list and what they become: shared by the fused form (number_list.c) and the one in steps
 * (plain.c). */
#ifndef FTH_FEATURE_NUMBER_LIST_H
#define FTH_FEATURE_NUMBER_LIST_H

#include <math.h>

#include "feature/program_private.h"

struct fth_number_list {
    struct fth_feature_chunk *chunk;
    const struct fth_feature_numeric *numeric;
    uint32_t row; /* of the chunk */
    const char *text;
    uint32_t length;
    double sum;       /* of values so far, as the reduction needs */
    float low, high;
    uint32_t count;   /* of values that are neither missing nor bad */
    int dropped;      /* a bad value makes the whole list missing */
};

void fth_number_list_begin(struct fth_number_list *list, struct fth_feature_chunk *chunk,
                           const struct fth_feature_numeric *numeric, uint32_t row,
                           struct fth_feature_text text);
/* The general way from text to number: 1 and *out; 0 when it is missing or bad (told). */
int fth_number_list_value(struct fth_number_list *list, const char *bytes, uint32_t length,
                          float *out);
/* Takes n more values, in order. */
void fth_number_list_reduce(struct fth_number_list *list, const float *x, uint32_t n);
/* 1 and the list's number; 0 and *out = 0: missing. */
int fth_number_list_result(struct fth_number_list *list, float *out);

#endif
