/* kernels/peaks' loops, AVX2: 32-byte vectors; 12 independent sums hide the latency of two units
 * and leave registers for the factor. */
#include <immintrin.h>

#include "kernels/peaks_private.h"

#define SUMS 12

static float total(__m256 x) {
    float lanes[8], sum = 0.0f;
    _mm256_storeu_ps(lanes, x);
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

FTH_PEAK_LOOP static float fma_loop(size_t turns, float factor) {
    __m256 sum[SUMS], x = _mm256_set1_ps(factor);
    for (int i = 0; i < SUMS; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (size_t turn = 0; turn < turns; turn++)
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++)
            sum[i] = _mm256_fmadd_ps(sum[i], x, x);
    for (int i = 1; i < SUMS; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return total(sum[0]);
}

FTH_PEAK_LOOP static float read_loop(const float *x, size_t n) {
    __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    for (size_t i = 0; i < n; i += 32)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[j] = _mm256_add_ps(sum[j], _mm256_load_ps(x + i + 8 * j));
    return total(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
}

FTH_PEAK_LOOP static void copy_loop(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i += 8)
        _mm256_stream_ps(y + i, _mm256_load_ps(x + i));
    _mm_sfence();
}

FTH_PEAK_LOOP static void gather_loop(const float *table, uint32_t dim, const uint32_t *rows,
                                      size_t n, float *sum) {
    fth_peak_gather_rows(table, dim, rows, n, sum);
}

const struct fth_peak_loops fth_peak_loops_avx2 = {2.0 * 8 * SUMS, fma_loop, read_loop, copy_loop,
                                                   gather_loop};
