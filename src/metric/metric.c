/* Collecting examples and computing the metrics: see metric/metric.h. */
#include "metric/metric.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "metric/rank_private.h"

#define FIRST_CAPACITY 65536

static const struct fth_metric list[] = {
#define FTH_METRIC(name, better) {#name, better, offsetof(fth_evaluation, name)},
#include "metric/metric.def"
#undef FTH_METRIC
};

const struct fth_metric *fth_metric_find(const char *name) {
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(name, list[i].name))
            return &list[i];
    return NULL;
}

double fth_metric_value(const struct fth_metric *metric, const fth_evaluation *evaluation) {
    double value;
    memcpy(&value, (const char *)evaluation + metric->offset, sizeof value);
    return value;
}

double fth_metric_gain(const struct fth_metric *metric, double value, double than) {
    return metric->better == FTH_BETTER_LARGER ? value - than : than - value;
}

struct fth_metrics {
    int grouped, computed;
    size_t n, capacity;   /* examples */
    struct fth_rank rank; /* [capacity], regions */
    double weight, loss, predicted, positive; /* sums of w, w * loss, w * p, w * label */
    fth_evaluation result;                    /* once computed */
};

static void rank_free(struct fth_rank *rank, size_t capacity) {
    fth_region_free(rank->entries, capacity * sizeof *rank->entries);
    fth_region_free(rank->queries, capacity * sizeof *rank->queries);
    *rank = (struct fth_rank){0};
}

/* Regions, because what is never touched of them costs nothing. */
static fth_status rank_alloc(size_t capacity, int grouped, struct fth_rank *out, fth_error *err) {
    size_t bytes;
    struct fth_rank rank = {0};
    if (fth_mul_size(capacity, sizeof(uint64_t), &bytes)) {
        rank.entries = fth_region_alloc(bytes);
        rank.queries = grouped ? fth_region_alloc(bytes) : NULL;
    }
    if (!rank.entries || (grouped && !rank.queries)) {
        rank_free(&rank, capacity);
        return fth_fail(err, FTH_E_MEMORY, "no memory for the scores of %llu examples",
                        (unsigned long long)capacity);
    }
    *out = rank;
    return FTH_OK;
}

fth_status fth_metrics_create(int grouped, fth_metrics **out, fth_error *err) {
    fth_metrics *metrics = fth_alloc(1, sizeof *metrics);
    if (!metrics)
        return fth_fail(err, FTH_E_MEMORY, "no memory for metrics");
    metrics->grouped = grouped != 0;
    *out = metrics;
    return FTH_OK;
}

void fth_metrics_destroy(fth_metrics *metrics) {
    if (!metrics)
        return;
    rank_free(&metrics->rank, metrics->capacity);
    fth_free(metrics);
}

static fth_status reserve(fth_metrics *metrics, size_t n, fth_error *err) {
    if (n <= metrics->capacity)
        return FTH_OK;
    size_t capacity = metrics->capacity + metrics->capacity / 2;
    capacity = capacity < n ? n : capacity;
    capacity = capacity < FIRST_CAPACITY ? FIRST_CAPACITY : capacity;
    struct fth_rank larger;
    FTH_TRY(rank_alloc(capacity, metrics->grouped, &larger, err));
    if (metrics->n) {
        memcpy(larger.entries, metrics->rank.entries, metrics->n * sizeof *larger.entries);
        if (metrics->grouped)
            memcpy(larger.queries, metrics->rank.queries, metrics->n * sizeof *larger.queries);
    }
    rank_free(&metrics->rank, metrics->capacity);
    metrics->rank = larger;
    metrics->capacity = capacity;
    return FTH_OK;
}

static fth_status check(const fth_metrics *metrics, uint32_t n, const float *logits,
                        const float *labels, const float *weights, fth_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        unsigned long long number = (unsigned long long)metrics->n + i;
        if (!isfinite(logits[i]))
            return fth_fail(err, FTH_E_NUMERIC, "evaluation example %llu: the model's output is %f",
                            number, (double)logits[i]);
        if (labels[i] != 0 && labels[i] != 1)
            return fth_fail(err, FTH_E_DATA,
                            "evaluation example %llu: label %g; metrics need 0 or 1", number,
                            (double)labels[i]);
        if (weights && !(weights[i] >= 0 && isfinite(weights[i])))
            return fth_fail(err, FTH_E_DATA,
                            "evaluation example %llu: weight %g; a finite number from 0 up is needed",
                            number, (double)weights[i]);
    }
    return FTH_OK;
}

fth_status fth_metrics_add(fth_metrics *metrics, uint32_t n, const float *logits, const float *labels,
                           const float *weights, const uint64_t *queries, fth_error *err) {
    if (metrics->computed)
        return fth_fail(err, FTH_E_ARGUMENT, "metrics are computed already");
    if (metrics->grouped && !queries)
        return fth_fail(err, FTH_E_ARGUMENT, "grouped metrics need each example's query");
    FTH_TRY(check(metrics, n, logits, labels, weights, err));
    FTH_TRY(reserve(metrics, metrics->n + n, err));
    for (uint32_t i = 0; i < n; i++) {
        double x = logits[i], y = labels[i], w = weights ? weights[i] : 1;
        double tail = exp(-fabs(x)); /* never overflows, unlike exp(x) */
        metrics->weight += w;
        metrics->positive += w * y;
        metrics->loss += w * ((x > 0 ? x : 0) - x * y + log1p(tail));
        metrics->predicted += w * ((x >= 0 ? 1 : tail) / (1 + tail));
        metrics->rank.entries[metrics->n + i] = fth_rank_entry_make(logits[i], y == 1, (float)w);
    }
    if (metrics->grouped && n)
        memcpy(metrics->rank.queries + metrics->n, queries, n * sizeof *queries);
    metrics->n += n;
    return FTH_OK;
}

static double grouped_auc(const struct fth_rank *rank, size_t n) {
    double sum = 0, total = 0;
    for (size_t start = 0, end; start < n; start = end) {
        for (end = start + 1; end < n && rank->queries[end] == rank->queries[start];)
            end++;
        double weight, auc = fth_rank_auc(rank->entries + start, end - start, &weight);
        if (!isnan(auc)) {
            sum += weight * auc;
            total += weight;
        }
    }
    return total > 0 ? sum / total : NAN;
}

fth_status fth_metrics_compute(fth_metrics *metrics, fth_evaluation *out, fth_error *err) {
    if (metrics->computed) {
        *out = metrics->result;
        return FTH_OK;
    }
    fth_evaluation result = {.examples = metrics->n, .weight = metrics->weight, .gauc = NAN, .grouped = metrics->grouped};
    struct fth_rank scratch = {0};
    FTH_TRY(reserve(metrics, 1, err));
    FTH_TRY(rank_alloc(metrics->capacity, metrics->grouped, &scratch, err));
    double weight, rate = metrics->positive / metrics->weight; /* 0 / 0: NAN */
    fth_rank_sort_keys(&metrics->rank, &scratch, metrics->n);
    result.auc = fth_rank_auc(metrics->rank.entries, metrics->n, &weight);
    if (metrics->grouped) {
        fth_rank_sort_queries(&metrics->rank, &scratch, metrics->n);
        result.gauc = grouped_auc(&metrics->rank, metrics->n);
    }
    rank_free(&scratch, metrics->capacity);
    double entropy = rate > 0 && rate < 1 ? -rate * log(rate) - (1 - rate) * log1p(-rate) : NAN;
    result.base_rate = rate;
    result.log_loss = metrics->loss / metrics->weight;
    result.normalised_entropy = result.log_loss / entropy;
    result.calibration = metrics->positive > 0 ? metrics->predicted / metrics->positive : NAN;
    metrics->result = *out = result;
    metrics->computed = 1;
    return FTH_OK;
}
