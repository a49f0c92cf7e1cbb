/* What the best possible model would score on the generated examples: labels counted in fine bins of the
 * true logit. Two logits of one bin count as a tie, so the AUC is off by at most half the share of pairs of
 * a positive and a negative that share a bin; memory does not depend on the number of examples. */
#include <math.h>

#include "base/memory.h"
#include "data/gen_private.h"

#define BINS (1u << 21)
#define SPREAD 10.0 /* deviations to each side; what lies beyond falls in the outer bins */

struct fth_gen_metric {
    double low, per_unit;
    uint64_t n, positives;
    double loss, expected_loss, expected_positives;
    uint64_t (*counts)[2]; /* [BINS][label] */
};

fth_status fth_gen_metric_create(double mean, double deviation, struct fth_gen_metric **out,
                                 fth_error *err) {
    struct fth_gen_metric *metric = fth_alloc(1, sizeof *metric);
    if (metric != NULL)
        metric->counts = fth_region_alloc(BINS * sizeof *metric->counts);
    if (metric == NULL || metric->counts == NULL) {
        fth_free(metric);
        return fth_fail(err, FTH_E_MEMORY, "no memory for the generator's histogram");
    }
    if (!(deviation > 1e-12))
        deviation = 1e-12;
    metric->low = mean - SPREAD * deviation;
    metric->per_unit = BINS / (2 * SPREAD * deviation);
    *out = metric;
    return FTH_OK;
}

void fth_gen_metric_destroy(struct fth_gen_metric *metric) {
    if (metric == NULL)
        return;
    fth_region_free(metric->counts, BINS * sizeof *metric->counts);
    fth_free(metric);
}

void fth_gen_metric_add(struct fth_gen_metric *metric, double logit, int label) {
    double at = (logit - metric->low) * metric->per_unit;
    uint32_t bin = at <= 0 ? 0 : at >= BINS - 1 ? BINS - 1 : (uint32_t)at;
    metric->counts[bin][label]++;
    metric->n++;
    metric->positives += (uint64_t)label;
    /* -log p = log(1 + exp(-logit)), without overflow; the other class costs logit more. */
    double positive = log1p(exp(-fabs(logit))) + (logit < 0 ? -logit : 0);
    double p = fth_gen_probability(logit);
    metric->loss += label ? positive : positive + logit;
    metric->expected_loss += positive + (1 - p) * logit;
    metric->expected_positives += p;
}

void fth_gen_metric_result(const struct fth_gen_metric *metric, fth_gen_result *result) {
    double below = 0, wins = 0, ties = 0;                      /* counts of labels */
    double expected_below = 0, expected_wins = 0, all_positive = 0; /* by probability */
    for (uint32_t b = 0; b < BINS; b++) {
        double negative = (double)metric->counts[b][0], positive = (double)metric->counts[b][1];
        if (negative + positive == 0)
            continue;
        double p = fth_gen_probability(metric->low + (b + 0.5) / metric->per_unit);
        double p_positive = (negative + positive) * p, p_negative = negative + positive - p_positive;
        wins += positive * (below + negative / 2);
        ties += positive * negative;
        below += negative;
        expected_wins += p_positive * (expected_below + p_negative / 2);
        expected_below += p_negative;
        all_positive += p_positive;
    }
    double n = (double)metric->n, pairs = below * (double)metric->positives;
    result->examples = metric->n;
    result->positives = metric->positives;
    result->base_rate = n > 0 ? (double)metric->positives / n : NAN;
    result->expected_base_rate = n > 0 ? metric->expected_positives / n : NAN;
    result->bayes_auc = pairs > 0 ? wins / pairs : NAN;
    result->auc_error = pairs > 0 ? ties / pairs / 2 : NAN;
    result->expected_bayes_auc = n > 0 ? expected_wins / (expected_below * all_positive) : NAN;
    result->bayes_log_loss = n > 0 ? metric->loss / n : NAN;
    result->expected_bayes_log_loss = n > 0 ? metric->expected_loss / n : NAN;
}
