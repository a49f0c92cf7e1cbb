/* Short decimal texts to floats, eight at a time: what is the same by AVX2 and AVX-512, with vectors of 256 bits.
 *
 * The eight are read by who includes this (decimals_8), in the steps of kernels/decimal.h, but multiplied by 10^-places: two
 * roundings of 2^-53 instead of the division's one, still far within the 2^-49 that lie between a quotient and the middle
 * of two floats; what lies in the middle exactly has no places, as its digits would be more than eight, and 10^0 does not
 * round. */
#ifndef FTH_KERNELS_CPU_DECIMAL_SIMD_H
#define FTH_KERNELS_CPU_DECIMAL_SIMD_H

#include <string.h>

#include "kernels/kernels.h"

/* The first four words, the others, and the lengths: eight floats to out; the low eight bytes of the result are all ones
 * where a text is such a number. */
typedef __m128i decimals_8_fn(__m256i low_words, __m256i high_words, __m256i lengths, float *out);

/* A byte, all ones or 0, of each of eight lanes that are. */
static FTH_INLINE __m128i narrow_32(__m256i lanes) {
    __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    return _mm_packs_epi16(packed, packed);
}
static FTH_INLINE void store_others(uint8_t *other, __m128i right) {
    _mm_storel_epi64((__m128i *)other, _mm_xor_si128(right, _mm_set1_epi8(-1)));
}

static FTH_INLINE void decimals_by(decimals_8_fn *decimals_8, size_t n, const uint64_t *words, const uint32_t *lengths,
                                   float *out, uint8_t *other) {
    for (size_t i = 0; i < n; i += 8) {
        __m256i length = _mm256_loadu_si256((const __m256i *)(lengths + i));
        __m128i right = decimals_8(_mm256_loadu_si256((const __m256i *)(words + i)),
                                   _mm256_loadu_si256((const __m256i *)(words + i + 4)), length, out + i);
        __m128i empty = narrow_32(_mm256_cmpeq_epi32(length, _mm256_setzero_si256()));
        store_others(other + i, _mm_or_si128(right, empty));
    }
}

/* Four texts' first bytes. */
static FTH_INLINE __m256i words_4(const char *text, const uint32_t *begins) {
    long long words[4];
    for (int k = 0; k < 4; k++)
        memcpy(&words[k], text + begins[k], sizeof *words);
    return _mm256_setr_epi64x(words[0], words[1], words[2], words[3]);
}

static FTH_INLINE int decimal_list_by(decimals_8_fn *decimals_8, size_t n, const char *text, const uint32_t *begins,
                                       const uint32_t *ends, float *out, uint8_t *other) {
    __m128i all_right = _mm_set1_epi8(-1);
    for (size_t i = 0; i < n; i += 8) {
        __m256i lengths = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(ends + i)),
                                           _mm256_loadu_si256((const __m256i *)(begins + i)));
        __m128i right = decimals_8(words_4(text, begins + i), words_4(text, begins + i + 4), lengths, out + i);
        store_others(other + i, right);
        all_right = _mm_and_si128(all_right, right);
    }
    return _mm_cvtsi128_si64(all_right) != -1;
}

static FTH_INLINE __m128d add_in_order(__m128d sum, __m256d x) {
    __m128d low = _mm256_castpd256_pd128(x), high = _mm256_extractf128_pd(x, 1);
    sum = _mm_add_sd(_mm_add_sd(sum, low), _mm_unpackhi_pd(low, low));
    return _mm_add_sd(_mm_add_sd(sum, high), _mm_unpackhi_pd(high, high));
}

void FTH_K(list_sums)(size_t n, const uint32_t *lengths, const float *x, double *sums) {
    for (size_t i = 0; i < n; i++) {
        __m128d sum = _mm_setzero_pd();
        size_t left = lengths[i];
        for (; left >= 4; left -= 4, x += 4)
            sum = add_in_order(sum, _mm256_cvtps_pd(_mm_loadu_ps(x)));
        for (; left > 0; left--)
            sum = _mm_add_sd(sum, _mm_set_sd((double)*x++));
        _mm_store_sd(sums + i, sum);
    }
}

void FTH_K(or_absent)(size_t n, const uint32_t *lengths, float absent, float *x) {
    for (size_t i = 0; i < n; i += 8) {
        __m256i missing = _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *)(lengths + i)),
                                             _mm256_setzero_si256());
        _mm256_storeu_ps(x + i, _mm256_blendv_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(absent),
                                                 _mm256_castsi256_ps(missing)));
    }
}

void FTH_K(look_up_whole)(size_t n, const float *table, uint32_t size, float *x, uint8_t *other) {
    const __m256 sign = _mm256_set1_ps(-0.0f), last = _mm256_set1_ps((float)(size - 1));
    for (size_t i = 0; i < n; i += 8) {
        __m256 value = _mm256_loadu_ps(x + i), magnitude = _mm256_andnot_ps(sign, value);
        __m256i whole = _mm256_cvttps_epi32(_mm256_min_ps(magnitude, last)); /* last where it is NaN */
        __m256 wrong = _mm256_cmp_ps(_mm256_cvtepi32_ps(whole), magnitude, _CMP_NEQ_UQ);
        __m256 found = _mm256_or_ps(_mm256_i32gather_ps(table, whole, 4), _mm256_and_ps(sign, value));
        _mm256_storeu_ps(x + i, _mm256_blendv_ps(found, value, wrong));
        _mm_storel_epi64((__m128i *)(other + i), narrow_32(_mm256_castps_si256(wrong)));
    }
}

#endif
