/* Ranking examples by score: see rank_private.h. Sorting is by radix, least significant digit first: stable,
 * and at a cost that does not depend on the scores. */
#include "metric/rank_private.h"

#include <math.h>
#include <string.h>

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

struct fth_rank_entry fth_rank_entry_make(float logit, int positive, float weight) {
    float score = logit + 0.0f; /* -0 becomes 0 */
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    /* Positive floats order as their bits do, negative ones the other way round. */
    uint32_t key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (struct fth_rank_entry){key, copysignf(weight, positive ? -1.0f : 1.0f)};
}

static uint32_t digit_of(const struct fth_rank *rank, size_t i, int by_query, uint32_t shift) {
    uint64_t value = by_query ? rank->queries[i] : rank->entries[i].key;
    return (uint32_t)(value >> shift) & (DIGITS - 1);
}

static void sort_digit(struct fth_rank *rank, struct fth_rank *scratch, size_t n, int by_query,
                       uint32_t shift) {
    size_t starts[DIGITS] = {0};
    for (size_t i = 0; i < n; i++)
        starts[digit_of(rank, i, by_query, shift)]++;
    if (n == 0 || starts[digit_of(rank, 0, by_query, shift)] == n)
        return; /* one digit only: they are sorted by it */
    size_t start = 0;
    for (uint32_t d = 0; d < DIGITS; d++) {
        size_t count = starts[d];
        starts[d] = start;
        start += count;
    }
    for (size_t i = 0; i < n; i++) {
        size_t to = starts[digit_of(rank, i, by_query, shift)]++;
        scratch->entries[to] = rank->entries[i];
        if (rank->queries)
            scratch->queries[to] = rank->queries[i];
    }
    struct fth_rank sorted = *scratch;
    *scratch = *rank;
    *rank = sorted;
}

void fth_rank_sort_keys(struct fth_rank *rank, struct fth_rank *scratch, size_t n) {
    for (uint32_t shift = 0; shift < 32; shift += DIGIT_BITS)
        sort_digit(rank, scratch, n, 0, shift);
}

void fth_rank_sort_queries(struct fth_rank *rank, struct fth_rank *scratch, size_t n) {
    for (uint32_t shift = 0; shift < 64; shift += DIGIT_BITS)
        sort_digit(rank, scratch, n, 1, shift);
}

double fth_rank_auc(const struct fth_rank_entry *entries, size_t n, double *weight) {
    double positives = 0, negatives = 0, pairs = 0;
    for (size_t i = 0; i < n;) {
        double tied_positives = 0, tied_negatives = 0;
        uint32_t key = entries[i].key;
        for (; i < n && entries[i].key == key; i++) {
            if (signbit(entries[i].weight))
                tied_positives -= entries[i].weight;
            else
                tied_negatives += entries[i].weight;
        }
        pairs += tied_positives * (negatives + 0.5 * tied_negatives);
        positives += tied_positives;
        negatives += tied_negatives;
    }
    *weight = positives + negatives;
    return positives > 0 && negatives > 0 ? pairs / (positives * negatives) : NAN;
}
