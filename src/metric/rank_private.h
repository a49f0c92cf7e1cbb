/* Examples in the order of their scores, and what is counted along it. */
#ifndef FTH_METRIC_RANK_PRIVATE_H
#define FTH_METRIC_RANK_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

/* 8 bytes an example. */
struct fth_rank_entry {
    uint32_t key; /* ordered as the logit; equal for equal logits, 0 and -0 too */
    float weight; /* its sign bit is the label, set for a positive example (-0: weight 0, label 1) */
};

struct fth_rank {
    struct fth_rank_entry *entries;
    uint64_t *queries; /* beside entries, or NULL */
};

struct fth_rank_entry fth_rank_entry_make(float logit, int positive, float weight);

/* Stable sorts by key and by query (by key and then by query: each query's examples together, in the order
 * of their scores). `scratch` has room for as much; the two may change places. */
void fth_rank_sort_keys(struct fth_rank *rank, struct fth_rank *scratch, size_t n);
void fth_rank_sort_queries(struct fth_rank *rank, struct fth_rank *scratch, size_t n);

/* AUC of n entries sorted by key; NAN without weight in one of the classes. *weight: their sum. */
double fth_rank_auc(const struct fth_rank_entry *entries, size_t n, double *weight);

#endif
