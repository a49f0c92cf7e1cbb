/* kernels/peaks' loops for what every x86-64 has: SSE2, multiply and add apart. */
#include <emmintrin.h>

#include "kernels/peaks_private.h"

#define SUMS 12

static float total(__m128 x) {
    float lanes[4];
    _mm_storeu_ps(lanes, x);
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

FTH_PEAK_LOOP static float fma_loop(size_t turns, float factor) {
    __m128 sum[SUMS], x = _mm_set1_ps(factor);
    for (int i = 0; i < SUMS; i++)
        sum[i] = _mm_set1_ps((float)i);
    for (size_t turn = 0; turn < turns; turn++)
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++)
            sum[i] = _mm_add_ps(_mm_mul_ps(sum[i], x), x);
    for (int i = 1; i < SUMS; i++)
        sum[0] = _mm_add_ps(sum[0], sum[i]);
    return total(sum[0]);
}

FTH_PEAK_LOOP static float read_loop(const float *x, size_t n) {
    __m128 sum[4] = {_mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps()};
    for (size_t i = 0; i < n; i += 16)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[j] = _mm_add_ps(sum[j], _mm_load_ps(x + i + 4 * j));
    return total(_mm_add_ps(_mm_add_ps(sum[0], sum[1]), _mm_add_ps(sum[2], sum[3])));
}

FTH_PEAK_LOOP static void copy_loop(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i += 4)
        _mm_stream_ps(y + i, _mm_load_ps(x + i));
    _mm_sfence();
}

FTH_PEAK_LOOP static void gather_loop(const float *table, uint32_t dim, const uint32_t *rows,
                                      size_t n, float *sum) {
    fth_peak_gather_rows(table, dim, rows, n, sum);
}

const struct fth_peak_loops fth_peak_loops_scalar = {2.0 * 4 * SUMS, fma_loop, read_loop, copy_loop,
                                                     gather_loop};
