/* Counter-based random numbers (Philox 4x32-10, Salmon et al., SC 2011): a draw is a pure function of
 * (seed, stream, a, b), so results never depend on the order in which draws are made. */
#ifndef FTH_BASE_RANDOM_H
#define FTH_BASE_RANDOM_H

#include <stdint.h>

#include "base/hash.h"

/* What a draw is for; two purposes never share numbers. */
enum fth_random_stream {
    FTH_RANDOM_DENSE_INIT = 1, /* a = parameter's name hash, b = element / 4 */
    FTH_RANDOM_ROW_INIT = 2,   /* a = key, b = element / 4 */
    FTH_RANDOM_DROPOUT = 3,    /* a = step, b = node, row, column: see kernels/cpu/cpu_kernels.h */
    FTH_RANDOM_SHUFFLE = 4,    /* a = epoch, b = block, element */
    FTH_RANDOM_HOLDOUT = 5,    /* a = line number */
    FTH_RANDOM_NEGATIVE = 7,   /* a = step, b = node (32 bits), position (32 bits): ops/next_loss.c */
    FTH_RANDOM_GENERATE = 6,   /* data generator: a = example, b = draw within it */
};

/* The Philox key of (seed, stream), for code that makes many draws side by side: mixed so that for one
 * seed no two streams share a key. A draw's counter is (a, b), low words first. */
static inline uint64_t fth_random_key(uint64_t seed, uint32_t stream) {
    return fth_hash_mix(seed ^ (stream * 0x9e3779b97f4a7c15ull));
}

/* Four independent 32-bit draws. */
void fth_random_draw(uint64_t seed, uint32_t stream, uint64_t a, uint64_t b, uint32_t out[4]);

/* [0, 1) with 24 bits; never 1. */
static inline float fth_random_unit(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }

/* Fills out[0..n) with uniform draws in [low, high) / normal draws (Box-Muller) for element numbers
 * 0..n-1 of (seed, stream, a). */
void fth_random_uniform(uint64_t seed, uint32_t stream, uint64_t a, uint32_t n, float low, float high,
                        float *out);
void fth_random_normal(uint64_t seed, uint32_t stream, uint64_t a, uint32_t n, float mean,
                       float deviation, float *out);

#endif
