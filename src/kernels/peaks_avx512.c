/* kernels/peaks' loops, AVX-512: 64-byte vectors; 16 independent sums hide the latency of two
 * units. */
#ifdef FTH_SIMDE
#include "simde_avx512.h" /* tests: the same code emulated, see tests/simde */
#else
#include <immintrin.h>
#endif

#include "kernels/peaks_private.h"

#define SUMS 16

FTH_PEAK_LOOP static float fma_loop(size_t turns, float factor) {
    __m512 sum[SUMS], x = _mm512_set1_ps(factor);
    for (int i = 0; i < SUMS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (size_t turn = 0; turn < turns; turn++)
#pragma GCC unroll 16
        for (int i = 0; i < SUMS; i++)
            sum[i] = _mm512_fmadd_ps(sum[i], x, x);
    for (int i = 1; i < SUMS; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_reduce_add_ps(sum[0]);
}

FTH_PEAK_LOOP static float read_loop(const float *x, size_t n) {
    __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                     _mm512_setzero_ps()};
    for (size_t i = 0; i < n; i += 64)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[j] = _mm512_add_ps(sum[j], _mm512_load_ps(x + i + 16 * j));
    return _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

FTH_PEAK_LOOP static void copy_loop(const float *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i += 16)
        _mm512_stream_ps(y + i, _mm512_load_ps(x + i));
    _mm_sfence();
}

FTH_PEAK_LOOP static void gather_loop(const float *table, uint32_t dim, const uint32_t *rows,
                                      size_t n, float *sum) {
    fth_peak_gather_rows(table, dim, rows, n, sum);
}

const struct fth_peak_loops fth_peak_loops_avx512 = {2.0 * 16 * SUMS, fma_loop, read_loop,
                                                     copy_loop, gather_loop};
