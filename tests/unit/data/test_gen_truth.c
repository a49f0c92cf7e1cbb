/* data/gen: the truth beside the data: the best possible score against brute force, calibration, drift. */
#include <math.h>

#include "base/hash.h"
#include "gen_test.h"

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* AUC by comparing every pair, log loss and base rate by the sidecar's probabilities. */
static void best_score_matches_brute_force(void **state) {
    preset("csv", 4000);
    struct bytes data, truth;
    generate(&data, &truth);
    double *p = malloc(4000 * sizeof *p), pairs = 0, wins = 0, loss = 0, expected_loss = 0, mean = 0;
    double expected_pairs = 0, expected_wins = 0;
    int *label = malloc(4000 * sizeof *label);
    char *line = strchr(data.data, '\n') + 1, *probability = truth.data;
    for (int i = 0; i < 4000; i++) {
        label[i] = line[0] - '0';
        p[i] = strtod(probability, &probability);
        assert_int_equal(*probability, '\n');
        line = strchr(line, '\n') + 1;
        loss -= log(label[i] ? p[i] : 1 - p[i]) / 4000;
        expected_loss -= (p[i] * log(p[i]) + (1 - p[i]) * log(1 - p[i])) / 4000;
        mean += p[i] / 4000;
    }
    assert_int_equal(*line, 0);
    for (int i = 0; i < 4000; i++)
        for (int k = 0; k < 4000; k++) {
            double win = p[i] > p[k] ? 1 : p[i] == p[k] ? 0.5 : 0;
            if (label[i] && !label[k]) {
                pairs++;
                wins += win;
            }
            expected_pairs += p[i] * (1 - p[k]);
            expected_wins += p[i] * (1 - p[k]) * win;
        }
    assert_true(fabs(result.bayes_auc - wins / pairs) < 1e-5);
    assert_true(fabs(result.bayes_auc - wins / pairs) <= result.auc_error + 1e-7);
    assert_true(result.auc_error < 2e-6);
    assert_true(fabs(result.expected_bayes_auc - expected_wins / expected_pairs) < 1e-4);
    assert_true(fabs(result.bayes_log_loss - loss) < 1e-6);
    assert_true(fabs(result.expected_bayes_log_loss - expected_loss) < 1e-6);
    assert_true(fabs(result.expected_base_rate - mean) < 1e-6);
    /* Labels are drawn by these probabilities: in each tenth of them the rate fits. */
    double *order = malloc(4000 * sizeof *order);
    memcpy(order, p, 4000 * sizeof *order);
    qsort(order, 4000, sizeof *order, compare);
    for (int d = 0; d < 10; d++) {
        double n = 0, sum = 0, variance = 0, low = order[d * 400], high = d < 9 ? order[d * 400 + 400] : 2;
        for (int i = 0; i < 4000; i++)
            if (p[i] >= low && p[i] < high) {
                n++;
                sum += label[i] - p[i];
                variance += p[i] * (1 - p[i]);
            }
        assert_true(n > 300 && fabs(sum) < 4.5 * sqrt(variance));
    }
    free(order);
    free(p);
    free(label);
    free(data.data);
    free(truth.data);
}

static void base_rate_and_signal_are_calibrated(void **state) {
    const double rates[] = {0.02, 0.25, 0.6};
    for (int i = 0; i < 3; i++) {
        preset("criteo-small", 40000);
        o.base_rate = rates[i];
        struct bytes data;
        generate(&data, NULL);
        assert_true(fabs(result.expected_base_rate - rates[i]) < 0.02 * sqrt(rates[i]));
        assert_true(fabs(result.base_rate - rates[i]) < 0.03 * sqrt(rates[i]));
        assert_true(result.bayes_auc > 0.75 && result.bayes_auc < 0.85);
        assert_true(fabs(result.bayes_auc - result.expected_bayes_auc) < 0.02);
        free(data.data);
    }
    preset("libffm", 20000);
    o.signal = 0;
    struct bytes data;
    generate(&data, NULL);
    assert_true(fabs(result.bayes_auc - 0.5) < 1e-6);
    double entropy = -(0.25 * log(0.25) + 0.75 * log(0.75));
    assert_true(fabs(result.expected_bayes_log_loss - entropy) < 1e-6);
    free(data.data);
}

/* The same columns always have the same probability: the truth can be learned from the file. */
static void truth_is_a_function_of_the_columns(void **state) {
    preset("csv", 30000);
    o.n_numbers = 0;
    o.n_columns = 3;
    struct bytes data, truth;
    generate(&data, &truth);
    char *line = strchr(data.data, '\n') + 1, *p = truth.data;
    static double seen[1 << 16];
    static uint64_t key_of[1 << 16];
    size_t repeated = 0;
    for (int i = 0; i < 30000; i++) {
        char *end = strchr(line, '\n');
        uint64_t key = fth_hash_bytes(line + 1, (size_t)(end - line - 1), 3) | 1;
        double probability = strtod(p, &p);
        size_t slot = key >> 48;
        if (key_of[slot] == key) {
            assert_true(seen[slot] == probability);
            repeated++;
        }
        key_of[slot] = key;
        seen[slot] = probability;
        line = end + 1;
    }
    assert_true(repeated > 20000);
    free(data.data);
    free(truth.data);
}

/* With drift the popular ids at the end are others than at the start. */
static void drift_moves_popularity_and_weights(void **state) {
    struct bytes data[2];
    for (int drift = 0; drift < 2; drift++) {
        preset("criteo-small", 20000);
        o.drift_popularity = drift ? 0.2 : 0;
        generate(&data[drift], NULL);
        char first[9] = "", *middle = data[drift].data + data[drift].n / 2;
        size_t counts[2] = {0};
        size_t best = 0;
        /* The most popular text of C3 in the first half: found by counting candidates. */
        static struct { char text[9]; size_t n[2]; } seen[4096];
        memset(seen, 0, sizeof seen);
        for (char *line = data[drift].data, *end; *line; line = end + 1) {
            end = strchr(line, '\n');
            char *cell = line;
            for (int tab = 0; tab < 16; tab++)
                cell = strchr(cell, '\t') + 1;
            if (*cell == '\t')
                continue;
            size_t slot = fth_hash_bytes(cell, 8, 5) & 4095;
            if (!seen[slot].text[0])
                memcpy(seen[slot].text, cell, 8);
            if (memcmp(seen[slot].text, cell, 8) == 0)
                seen[slot].n[line >= middle]++;
        }
        for (size_t i = 0; i < 4096; i++)
            if (seen[i].n[0] > best) {
                best = seen[i].n[0];
                memcpy(first, seen[i].text, 9);
                counts[0] = seen[i].n[0];
                counts[1] = seen[i].n[1];
            }
        if (drift)
            assert_true(counts[1] * 10 < counts[0]);
        else
            assert_true(counts[1] * 2 > counts[0] && counts[0] > 500);
    }
    assert_true(data[0].n != data[1].n || memcmp(data[0].data, data[1].data, data[0].n) != 0);
    free(data[0].data);
    free(data[1].data);

    /* Weights: the same columns early and late in the file have other probabilities. */
    preset("csv", 20000);
    o.n_numbers = 0;
    o.n_columns = 1;
    o.columns[0].cardinality = 2;
    o.columns[0].zipf = 0;
    o.drift_weights = 1;
    struct bytes truth;
    generate(&data[0], &truth);
    double low = 1, high = 0;
    for (char *p = truth.data; *p; p++) {
        double probability = strtod(p, &p);
        low = probability < low ? probability : low;
        high = probability > high ? probability : high;
    }
    size_t distinct = 0;
    double last = -1;
    for (char *p = truth.data; *p; p++) {
        double probability = strtod(p, &p);
        distinct += probability != last;
        last = probability;
    }
    assert_true(distinct > 10000 && high > low);
    free(data[0].data);
    free(truth.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_score_matches_brute_force),
        cmocka_unit_test(base_rate_and_signal_are_calibrated),
        cmocka_unit_test(truth_is_a_function_of_the_columns),
        cmocka_unit_test(drift_moves_popularity_and_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
