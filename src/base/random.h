/* Counter-based random numbers (Philox 4x32-10, Salmon et al., SC 2011): a draw is a pure function of
 * (seed, stream, a, b), so results never depend on the order in which draws are made. */
#ifndef FTH_BASE_RANDOM_H
#define FTH_BASE_RANDOM_H

#include <stdint.h>

/* What a draw is for; two purposes never share numbers. */
enum fth_random_stream {
    FTH_RANDOM_DENSE_INIT = 1, /* a = parameter's name hash, b = element / 4 */
    FTH_RANDOM_ROW_INIT = 2,   /* a = key, b = element / 4 */
    FTH_RANDOM_DROPOUT = 3,    /* a = step, b = node << 40 | example << 10 .. see ops/dropout.c */
    FTH_RANDOM_SHUFFLE = 4,    /* a = epoch, b = block, element */
    FTH_RANDOM_HOLDOUT = 5,    /* a = line number */
    FTH_RANDOM_GENERATE = 6,   /* data generator: a = example, b = draw within it */
};

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
