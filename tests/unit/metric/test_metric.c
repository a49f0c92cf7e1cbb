/* metric: against brute force over all pairs and against figures computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "config/config.h"
#include "metric/metric.h"

enum { MAX = 1500 };
static float logits[MAX], labels[MAX], weights[MAX];
static uint64_t queries[MAX];

static int near(double a, double b) { return fabs(a - b) <= 1e-12 * (1 + fabs(b)); }

/* Every pair of a positive and a negative example of one query (or of all, when `of` is NULL). */
static double brute_auc(uint32_t n, const float *w, const uint64_t *of, double *weight) {
    double won = 0, pairs = 0;
    *weight = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (of && queries[i] != *of)
            continue;
        *weight += w ? w[i] : 1;
        for (uint32_t j = 0; labels[i] == 1 && j < n; j++) {
            if (labels[j] == 1 || (of && queries[j] != *of))
                continue;
            double pair = (w ? (double)w[i] : 1) * (w ? (double)w[j] : 1);
            pairs += pair;
            won += pair * (logits[i] > logits[j] ? 1 : logits[i] == logits[j] ? 0.5 : 0);
        }
    }
    return pairs > 0 ? won / pairs : NAN;
}

static double brute_gauc(uint32_t n, const float *w) {
    double sum = 0, total = 0;
    for (uint32_t i = 0; i < n; i++) {
        double weight, auc;
        int first = 1;
        for (uint32_t j = 0; j < i; j++)
            first = first && queries[j] != queries[i];
        if (!first || isnan(auc = brute_auc(n, w, &queries[i], &weight)))
            continue;
        sum += auc * weight;
        total += weight;
    }
    return total > 0 ? sum / total : NAN;
}

/* `values`: how many different logits (few: many ties); `groups`: how many different queries. */
static void make_examples(uint64_t seed, uint32_t n, uint32_t values, uint32_t groups) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t r[4];
        fth_random_draw(seed, 1, 2, i, r);
        double x = (r[0] % values) / (double)values * 8 - 4;
        logits[i] = (float)x;
        if (logits[i] == 0 && r[0] & 0x10000)
            logits[i] = -0.0f;
        labels[i] = fth_random_unit(r[1]) < 1 / (1 + exp(-x / 2)) ? 1 : 0;
        weights[i] = r[2] % 10 ? (float)(r[2] % 1000) / 64 : 0;
        /* Spread over all bits, or different in the highest ones only. */
        uint64_t group = r[3] % groups;
        queries[i] = seed & 1 ? group << 54 : group * 0x9e3779b97f4a7c15ull;
    }
}

static fth_evaluation evaluate(uint32_t n, uint32_t batch, const float *w, int grouped) {
    fth_metrics *metrics;
    fth_evaluation result;
    assert_int_equal(fth_metrics_create(grouped, &metrics, NULL), FTH_OK);
    for (uint32_t at = 0; at < n; at += batch) {
        uint32_t count = n - at < batch ? n - at : batch;
        assert_int_equal(fth_metrics_add(metrics, count, logits + at, labels + at, w ? w + at : NULL,
                                         grouped ? queries + at : NULL, NULL),
                         FTH_OK);
    }
    assert_int_equal(fth_metrics_compute(metrics, &result, NULL), FTH_OK);
    fth_metrics_destroy(metrics);
    return result;
}

static void auc_agrees_with_all_pairs(void **state) {
    static const struct {
        uint32_t n, values, groups;
    } cases[] = {{2, 5, 1}, {10, 2, 3}, {100, 1, 5}, {300, 7, 20}, {MAX, 64, 100}, {MAX, 1u << 30, 400}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            uint32_t n = cases[c].n;
            double weight;
            make_examples(seed, n, cases[c].values, cases[c].groups);
            labels[0] = 1;
            labels[1] = 0;
            weights[0] = weights[1] = 2;
            for (int weighted = 0; weighted < 2; weighted++) {
                const float *w = weighted ? weights : NULL;
                fth_evaluation result = evaluate(n, 128, w, 1);
                assert_true(near(result.auc, brute_auc(n, w, NULL, &weight)));
                assert_true(near(result.weight, weight));
                assert_int_equal(result.examples, n);
                double gauc = brute_gauc(n, w);
                assert_true(isnan(gauc) ? isnan(result.gauc) : near(result.gauc, gauc));
            }
        }
    }
}

static void auc_of_known_cases(void **state) {
    static const float x[] = {-3, -1, 0.5f, 2}, tied[] = {1, 1, 1, 1}, zeros[] = {-0.0f, 0, 0, -0.0f};
    static const float y[] = {0, 0, 1, 1};
    memcpy(logits, x, sizeof x);
    memcpy(labels, y, sizeof y);
    assert_true(evaluate(4, 4, NULL, 0).auc == 1);
    logits[3] = -2;
    assert_true(evaluate(4, 4, NULL, 0).auc == 0.75);
    for (int i = 0; i < 4; i++)
        logits[i] = -x[i];
    assert_true(evaluate(4, 4, NULL, 0).auc == 0);
    memcpy(logits, tied, sizeof tied);
    assert_true(evaluate(4, 4, NULL, 0).auc == 0.5);
    memcpy(logits, zeros, sizeof zeros);
    assert_true(evaluate(4, 4, NULL, 0).auc == 0.5);
}

static void losses_agree_with_the_definition(void **state) {
    make_examples(9, MAX, 1u << 20, 10);
    for (int weighted = 0; weighted < 2; weighted++) {
        double loss = 0, predicted = 0, positive = 0, weight = 0;
        for (uint32_t i = 0; i < MAX; i++) {
            double w = weighted ? weights[i] : 1, p = 1 / (1 + exp(-(double)logits[i]));
            loss -= w * (labels[i] == 1 ? log(p) : log(1 - p));
            predicted += w * p;
            positive += w * labels[i];
            weight += w;
        }
        double rate = positive / weight;
        double entropy = -(rate * log(rate) + (1 - rate) * log(1 - rate));
        fth_evaluation result = evaluate(MAX, 100, weighted ? weights : NULL, 0);
        assert_true(near(result.log_loss, loss / weight));
        assert_true(near(result.normalised_entropy, loss / weight / entropy));
        assert_true(near(result.calibration, predicted / positive));
        assert_true(near(result.base_rate, rate));
        assert_true(isnan(result.gauc));
    }
    /* Far out the loss is the logit itself, where exp() alone would overflow. */
    logits[0] = 1000, labels[0] = 0;
    logits[1] = -2000, labels[1] = 1;
    assert_true(near(evaluate(2, 2, NULL, 0).log_loss, 1500));
    logits[0] = -1000;
    logits[1] = 2000;
    assert_true(evaluate(2, 2, NULL, 0).log_loss == 0);
    assert_true(evaluate(2, 2, NULL, 0).calibration == 1);
}

static void one_class_or_nothing_is_nan(void **state) {
    fth_evaluation none = evaluate(0, 1, NULL, 1);
    assert_int_equal(none.examples, 0);
    assert_true(isnan(none.auc) && isnan(none.log_loss) && isnan(none.gauc) && isnan(none.calibration));
    make_examples(1, 10, 5, 2);
    for (int label = 0; label < 2; label++) {
        for (int i = 0; i < 10; i++)
            labels[i] = (float)label;
        fth_evaluation one = evaluate(10, 10, NULL, 1);
        assert_true(isnan(one.auc) && isnan(one.gauc) && isnan(one.normalised_entropy));
        assert_true(isfinite(one.log_loss));
        assert_true(isnan(one.calibration) == (label == 0));
    }
    /* A class that is there with weight 0 only. */
    for (int i = 0; i < 10; i++) {
        labels[i] = (float)(i & 1);
        weights[i] = labels[i];
    }
    assert_true(isnan(evaluate(10, 10, weights, 1).auc));
}

static void refused(fth_status expected, const char *reason, float logit, float label, float weight) {
    fth_metrics *metrics;
    fth_error err = {0};
    fth_evaluation result;
    float x[] = {0.5f, logit}, y[] = {1, label}, w[] = {1, weight};
    assert_int_equal(fth_metrics_create(0, &metrics, NULL), FTH_OK);
    assert_int_equal(fth_metrics_add(metrics, 2, x, y, w, NULL, &err), expected);
    assert_non_null(strstr(err.message, reason));
    assert_non_null(strstr(err.message, "example 1"));
    assert_int_equal(fth_metrics_compute(metrics, &result, NULL), FTH_OK);
    assert_int_equal(result.examples, 0);
    fth_metrics_destroy(metrics);
}

static void bad_examples_are_refused_whole(void **state) {
    refused(FTH_E_NUMERIC, "nan", NAN, 1, 1);
    refused(FTH_E_NUMERIC, "inf", INFINITY, 1, 1);
    refused(FTH_E_NUMERIC, "-inf", -INFINITY, 1, 1);
    refused(FTH_E_DATA, "label 0.5", 1, 0.5f, 1);
    refused(FTH_E_DATA, "label nan", 1, NAN, 1);
    refused(FTH_E_DATA, "weight -1", 1, 0, -1);
    refused(FTH_E_DATA, "weight nan", 1, 0, NAN);
    refused(FTH_E_DATA, "weight inf", 1, 0, INFINITY);
}

static void order_of_calls(void **state) {
    fth_metrics *metrics;
    fth_evaluation first, second;
    make_examples(3, 100, 50, 5);
    assert_int_equal(fth_metrics_create(1, &metrics, NULL), FTH_OK);
    assert_int_equal(fth_metrics_add(metrics, 60, logits, labels, NULL, NULL, NULL), FTH_E_ARGUMENT);
    assert_int_equal(fth_metrics_add(metrics, 60, logits, labels, NULL, queries, NULL), FTH_OK);
    assert_int_equal(fth_metrics_add(metrics, 40, logits + 60, labels + 60, NULL, queries + 60, NULL),
                     FTH_OK);
    assert_int_equal(fth_metrics_compute(metrics, &first, NULL), FTH_OK);
    assert_int_equal(fth_metrics_compute(metrics, &second, NULL), FTH_OK);
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(fth_metrics_add(metrics, 1, logits, labels, NULL, queries, NULL), FTH_E_ARGUMENT);
    fth_metrics_destroy(metrics);
    fth_metrics_destroy(NULL);
}

/* Past the first growth of memory, and in batches of any size: the same bits. */
static void many_examples_and_any_batches(void **state) {
    enum { N = 200000 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *w = malloc(N * sizeof *w);
    uint64_t *q = malloc(N * sizeof *q);
    fth_evaluation results[2];
    for (uint32_t i = 0; i < N; i++) {
        uint32_t r[4];
        fth_random_draw(5, 1, 2, i, r);
        x[i] = fth_random_unit(r[0]) * 6 - 3;
        y[i] = fth_random_unit(r[1]) * 6 - 3 < x[i];
        w[i] = fth_random_unit(r[2]);
        q[i] = r[3] % 5000;
    }
    for (int round = 0; round < 2; round++) {
        fth_metrics *metrics;
        uint32_t batch = round ? 70001 : 512;
        assert_int_equal(fth_metrics_create(1, &metrics, NULL), FTH_OK);
        for (uint32_t at = 0; at < N; at += batch) {
            uint32_t n = N - at < batch ? N - at : batch;
            assert_int_equal(fth_metrics_add(metrics, n, x + at, y + at, w + at, q + at, NULL), FTH_OK);
        }
        assert_int_equal(fth_metrics_compute(metrics, &results[round], NULL), FTH_OK);
        fth_metrics_destroy(metrics);
    }
    assert_memory_equal(&results[0], &results[1], sizeof results[0]);
    /* For a uniform x and P(y) linear in it: AUC = 5 / 6. */
    assert_true(fabs(results[0].auc - 5.0 / 6) < 0.005 && fabs(results[0].gauc - 5.0 / 6) < 0.005);
    free(x), free(y), free(w), free(q);
}

static void list_says_what_is_better(void **state) {
    fth_evaluation evaluation = {.auc = 1, .log_loss = 2, .normalised_entropy = 3, .gauc = 4};
    static const struct {
        const char *name;
        double value, better, worse;
    } expected[] = {{"auc", 1, 0.8, 0.7}, {"log_loss", 2, 0.4, 0.5}, {"normalised_entropy", 3, 0.8, 0.9},
                    {"gauc", 4, 0.8, 0.7}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct fth_metric *metric = fth_metric_find(expected[i].name);
        assert_non_null(metric);
        assert_true(fth_metric_value(metric, &evaluation) == expected[i].value);
        assert_true(fth_metric_gain(metric, expected[i].better, expected[i].worse) > 0);
        assert_true(fth_metric_gain(metric, expected[i].worse, expected[i].better) < 0);
        assert_true(isnan(fth_metric_gain(metric, NAN, 1)));
    }
    assert_null(fth_metric_find("calibration"));
}

/* The schema's choices are the list. */
static void configurations_name_them(void **state) {
    static const char text[] = "model: {name: lr}\nfeatures: {numeric: [{columns: I1}]}\n"
                               "data: {query: C1, holdout: {by: hash, fraction: 0.1}}\n";
    static const char *const names[] = {
#define FTH_METRIC(name, better) #name,
#include "metric/metric.def"
#undef FTH_METRIC
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char set[64];
        const char *const override = set;
        struct fth_config *config = NULL;
        snprintf(set, sizeof set, "train.early_stopping.metric=%s", names[i]);
        assert_int_equal(fth_config_parse("f.yaml", text, sizeof text - 1, &override, 1, &config, NULL), FTH_OK);
        fth_config_free(config);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auc_agrees_with_all_pairs),
        cmocka_unit_test(auc_of_known_cases),
        cmocka_unit_test(losses_agree_with_the_definition),
        cmocka_unit_test(one_class_or_nothing_is_nan),
        cmocka_unit_test(bad_examples_are_refused_whole),
        cmocka_unit_test(order_of_calls),
        cmocka_unit_test(many_examples_and_any_batches),
        cmocka_unit_test(list_says_what_is_better),
        cmocka_unit_test(configurations_name_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
