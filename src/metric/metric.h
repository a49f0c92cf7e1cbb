/* Metrics of an evaluation: the end of a batch's way, after the loss.
 *
 * Batches are added in order; sums run in that order in double precision, so the result is a function of
 * the examples and their order alone. AUC is exact, which needs every score: a collector holds 8 bytes an
 * example (16 with groups) while examples are added, and twice that while growing and computing.
 *
 * Threads: a collector belongs to one thread at a time. */
#ifndef FTH_METRIC_METRIC_H
#define FTH_METRIC_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "fathom/metric.h"

enum fth_better { FTH_BETTER_LARGER, FTH_BETTER_SMALLER };

/* A metric of metric.def. */
struct fth_metric {
    const char *name;
    enum fth_better better;
    size_t offset; /* of its double in fth_evaluation */
};

const struct fth_metric *fth_metric_find(const char *name); /* NULL when there is none */
double fth_metric_value(const struct fth_metric *metric, const fth_evaluation *evaluation);
/* By how much `value` is better than `than`: positive when better, NAN when one of them is. */
double fth_metric_gain(const struct fth_metric *metric, double value, double than);

typedef struct fth_metrics fth_metrics;

/* grouped: queries are collected too, for grouped AUC. Owned: fth_metrics_destroy. */
fth_status fth_metrics_create(int grouped, fth_metrics **out, fth_error *err);
void fth_metrics_destroy(fth_metrics *metrics); /* NULL-safe */

/* Adds n examples. logits: before the sigmoid; labels: 0 or 1; weights: finite and >= 0, NULL: all 1;
 * queries: needed when grouped, else ignored. FTH_E_NUMERIC for a logit that is not finite, FTH_E_DATA for
 * a label or weight out of its range, FTH_E_ARGUMENT after compute; none of the n is added then. */
fth_status fth_metrics_add(fth_metrics *metrics, uint32_t n, const float *logits, const float *labels,
                           const float *weights, const uint64_t *queries, fth_error *err);

/* Fills `out` but for seconds and lines_bad, which become 0. NAN stands for a metric that is not defined on
 * these examples: AUC and normalised entropy when a class is missing, calibration without a positive one,
 * grouped AUC without queries or without a group that has both classes, all without weight.
 *
 * AUC counts pairs of a positive and a negative example, a tie as half, each pair by the product of its
 * weights. Normalised entropy: He et al., ADKDD 2014, section 3. Grouped AUC: the mean of the groups' AUC,
 * each by the weight of its examples, groups with one class left out (Zhou et al., DIN, KDD 2018, 6.3). */
fth_status fth_metrics_compute(fth_metrics *metrics, fth_evaluation *out, fth_error *err);

#endif
