/* AVX-512 by SIMDe, for machines without it: the intrinsics under their own names, and below those that
 * SIMDe 0.7.4 lacks. Only tests include it (simd_avx512.h does, with FTH_SIMDE). Everything is compiled
 * without -mavx512*, so that an intrinsic that is missing here too is a compiler error and not the
 * machine's own instruction. */
#ifndef FTH_TEST_SIMDE_AVX512_H
#define FTH_TEST_SIMDE_AVX512_H

#if defined(__AVX512F__)
#error "compile without AVX-512: the emulation would not be used"
#endif

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

#include <stdint.h>
#include <string.h>

/* gcc's immintrin.h, which SIMDe includes for AVX2, has functions of these names: macros go first. */
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#define _mm512_cvtps_epi32 emulated_cvtps_epi32
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#define _mm512_srai_epi32 emulated_srai_epi32
#define _mm512_cvtps_pd emulated_cvtps_pd
#define _mm512_cvtpd_ps emulated_cvtpd_ps
#define _mm512_cvtepi64_pd emulated_cvtepi64_pd
#define _mm512_cvtepi32_epi64 emulated_cvtepi32_epi64
#define _mm512_reduce_add_ps emulated_reduce_add_ps
#define _mm512_cvtepu32_epi64 emulated_cvtepu32_epi64
#define _mm512_shuffle_f32x4 emulated_shuffle_f32x4
#define _mm512_shuffle_epi32 emulated_shuffle_epi32
#define _mm512_mask_expand_ps emulated_mask_expand_ps
#define _mm512_stream_ps _mm512_storeu_ps
#undef _mm512_madd_epi16 /* its alias has four parameters */
#define _mm512_madd_epi16 simde_mm512_madd_epi16

/* Touches the chosen floats only, as the instructions do. */
static inline __m512 emulated_maskz_loadu_ps(__mmask16 mask, const float *from) {
    float lanes[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            lanes[i] = from[i];
    return _mm512_loadu_ps(lanes);
}

static inline void emulated_mask_storeu_ps(float *to, __mmask16 mask, __m512 v) {
    float lanes[16];
    _mm512_storeu_ps(lanes, v);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            to[i] = lanes[i];
}

/* Halves by AVX2, whose conversions have the same rounding and the same answer to NaN. */
static inline __m512i emulated_cvtps_epi32(__m512 v) {
    float from[16];
    int32_t to[16];
    _mm512_storeu_ps(from, v);
    for (int i = 0; i < 16; i += 8)
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_cvtps_epi32(_mm256_loadu_ps(from + i)));
    return _mm512_loadu_si512(to);
}

static inline __m512 emulated_cvtepi32_ps(__m512i v) {
    int32_t from[16];
    float to[16];
    _mm512_storeu_si512(from, v);
    for (int i = 0; i < 16; i++)
        to[i] = (float)from[i];
    return _mm512_loadu_ps(to);
}

static inline __m512i emulated_srai_epi32(__m512i v, unsigned count) {
    int32_t lanes[16];
    _mm512_storeu_si512(lanes, v);
    for (int i = 0; i < 16; i++)
        lanes[i] >>= count;
    return _mm512_loadu_si512(lanes);
}

/* Quarters: two of a, then two of b. */
static inline __m512 emulated_shuffle_f32x4(__m512 a, __m512 b, int which) {
    float from[32], to[16];
    _mm512_storeu_ps(from, a);
    _mm512_storeu_ps(from + 16, b);
    for (int i = 0; i < 4; i++)
        memcpy(to + 4 * i, from + (i < 2 ? 0 : 16) + 4 * (which >> 2 * i & 3), 16);
    return _mm512_loadu_ps(to);
}

static inline __m512i emulated_shuffle_epi32(__m512i v, int which) {
    uint32_t from[16], to[16];
    _mm512_storeu_si512(from, v);
    for (int i = 0; i < 16; i++)
        to[i] = from[i / 4 * 4 + (which >> i % 4 * 2 & 3)];
    return _mm512_loadu_si512(to);
}

static inline __m512 emulated_mask_expand_ps(__m512 others, __mmask16 mask, __m512 v) {
    float from[16], lanes[16];
    _mm512_storeu_ps(from, v);
    _mm512_storeu_ps(lanes, others);
    for (int i = 0, next = 0; i < 16; i++)
        if (mask >> i & 1)
            lanes[i] = from[next++];
    return _mm512_loadu_ps(lanes);
}

static inline __m512d emulated_cvtps_pd(__m256 v) {
    float from[8];
    double to[8];
    _mm256_storeu_ps(from, v);
    for (int i = 0; i < 8; i++)
        to[i] = from[i];
    return _mm512_loadu_pd(to);
}

static inline __m256 emulated_cvtpd_ps(__m512d v) {
    double from[8];
    float to[8];
    _mm512_storeu_pd(from, v);
    for (int i = 0; i < 8; i++)
        to[i] = (float)from[i];
    return _mm256_loadu_ps(to);
}

static inline __m512d emulated_cvtepi64_pd(__m512i v) {
    int64_t from[8];
    double to[8];
    _mm512_storeu_si512(from, v);
    for (int i = 0; i < 8; i++)
        to[i] = (double)from[i];
    return _mm512_loadu_pd(to);
}

static inline __m512i emulated_cvtepi32_epi64(__m256i v) {
    int32_t from[8];
    int64_t to[8];
    _mm256_storeu_si256((__m256i *)from, v);
    for (int i = 0; i < 8; i++)
        to[i] = from[i];
    return _mm512_loadu_si512(to);
}

static inline __m512i emulated_cvtepu32_epi64(__m256i v) {
    uint32_t from[8];
    uint64_t to[8];
    _mm256_storeu_si256((__m256i *)from, v);
    for (int i = 0; i < 8; i++)
        to[i] = from[i];
    return _mm512_loadu_si512(to);
}

/* Halves are added up until one is left. */
static inline float emulated_reduce_add_ps(__m512 v) {
    float lanes[16];
    _mm512_storeu_ps(lanes, v);
    for (int n = 8; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lanes[i] += lanes[i + n];
    return lanes[0];
}

#endif
