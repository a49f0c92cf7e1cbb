/* What an evaluation gives. */
#ifndef FATHOM_METRIC_H
#define FATHOM_METRIC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of one task: of several, `others` has the second and so on, borrowed from the session until it evaluates
 * again (for the same purpose). Examples whose weight is 0, and of named tasks those whose label was not
 * observed, are none of its examples.
 * NAN stands for "not defined on this data": AUC with one class only, grouped AUC without a
 * query column or a group of both classes. */
typedef struct fth_evaluation {
    uint64_t examples;
    double weight;             /* sum of sample weights */
    double auc;                /* exact, ties half */
    double log_loss;           /* mean binary cross-entropy, nats */
    double normalised_entropy; /* log loss / entropy of the base rate (He et al. 2014) */
    double calibration;        /* mean prediction / mean label */
    double gauc;               /* AUC within groups of data.query, weighted by their examples' weights */
    uint64_t grouped;          /* not 0: there is such a column */
    double base_rate;          /* mean label */
    double seconds;
    uint64_t lines_bad;        /* malformed lines left out */
    const char *task;          /* its name; NULL where there is one task without a name */
    const struct fth_evaluation *others; /* of the further tasks, in order */
    uint64_t n_others;
} fth_evaluation;

#ifdef __cplusplus
}
#endif
#endif
