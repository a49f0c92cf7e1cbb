/* The loops that peaks.c times, one set for each instruction set. Threads: pure functions. */
#ifndef FTH_KERNELS_PEAKS_PRIVATE_H
#define FTH_KERNELS_PEAKS_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#define FTH_PEAKS_PREFETCH 16

/* A sanitizer's checks would be what is measured. */
#define FTH_PEAK_LOOP __attribute__((no_sanitize("address", "thread", "undefined")))

struct fth_peak_loops {
    double flop_per_turn;
    /* The result is there so that the loop cannot be removed. */
    float (*fma)(size_t turns, float factor);
    /* n: floats, a multiple of 64; x, y aligned to 64 bytes. */
    float (*read)(const float *x, size_t n);
    void (*copy)(const float *x, float *y, size_t n);
    /* sum[0..dim) += the rows of the table named by rows[0..n) and read FTH_PEAKS_PREFETCH beyond
     * n. */
    void (*gather)(const float *table, uint32_t dim, const uint32_t *rows, size_t n, float *sum);
};

extern const struct fth_peak_loops fth_peak_loops_scalar;
extern const struct fth_peak_loops fth_peak_loops_avx2;
extern const struct fth_peak_loops fth_peak_loops_avx512;

FTH_PEAK_LOOP static inline void fth_peak_gather_rows(const float *table, uint32_t dim,
                                                      const uint32_t *rows, size_t n,
                                                      float *restrict sum) {
    for (size_t i = 0; i < n; i++) {
        const char *ahead = (const char *)(table + (size_t)rows[i + FTH_PEAKS_PREFETCH] * dim);
        for (size_t byte = 0; byte < dim * sizeof(float); byte += 64)
            __builtin_prefetch(ahead + byte);
        const float *restrict row = table + (size_t)rows[i] * dim;
        for (uint32_t j = 0; j < dim; j++)
            sum[j] += row[j];
    }
}

#endif
