/* Short decimal texts to floats, one in each 64-bit lane of 256-bit vectors; the steps are those of
 * kernels/decimal.h. AVX2 is all it needs; the AVX-512 table has it, too. */
#ifndef FTH_KERNELS_CPU_DECIMAL_SIMD_H
#define FTH_KERNELS_CPU_DECIMAL_SIMD_H

#include <string.h>

#include "kernels/kernels.h"

static FTH_INLINE __m256i equal_64(__m256i a, __m256i b) { return _mm256_cmpeq_epi64(a, b); }
static FTH_INLINE __m256i any_but_64(__m256i v) { /* all ones in lanes that are not 0 */
    return _mm256_xor_si256(equal_64(v, _mm256_setzero_si256()), _mm256_set1_epi8(-1));
}

/* The low halves of the four lanes. */
static FTH_INLINE __m128i narrow_64(__m256i v) {
    return _mm256_castsi256_si128(
        _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
}

/* 10^-places in each lane, to be multiplied with: two roundings of 2^-53 instead of the division's one, still far
 * within the 2^-49 that lie between a quotient and the middle of two floats (kernels/decimal.h); what lies in the
 * middle exactly has no places, as its digits would be more than eight, and 10^0 does not round. */
static FTH_INLINE __m256d tenth_to_the(__m256i places) {
    const __m256i a = _mm256_castpd_si256(_mm256_setr_pd(1e0, 1e-1, 1e-2, 1e-3));
    const __m256i b = _mm256_castpd_si256(_mm256_setr_pd(1e-4, 1e-5, 1e-6, 1e-7));
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    const __m256i odd = _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7);
    __m256i low = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(a, even),
                                     _mm256_permutevar8x32_epi32(b, even), 0xf0);
    __m256i high = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(a, odd),
                                      _mm256_permutevar8x32_epi32(b, odd), 0xf0);
    low = _mm256_permutevar8x32_epi32(low, places); /* the upper half takes place 0, of 1.0: 0 */
    high = _mm256_slli_epi64(_mm256_permutevar8x32_epi32(high, places), 32);
    return _mm256_castsi256_pd(_mm256_or_si256(low, high));
}

/* Four texts; the lanes of the result are not 0 where a text is something else. */
static FTH_INLINE __m128i decimals_4(__m256i word, __m128i lengths, float *out) {
    const __m256i ones = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
    const __m256i one = _mm256_set1_epi64x(1), low_byte = _mm256_set1_epi64x(0xff);
    __m256i length = _mm256_cvtepu32_epi64(lengths);
    __m256i minus = equal_64(_mm256_and_si256(word, low_byte), _mm256_set1_epi64x('-'));
    word = _mm256_xor_si256(word, _mm256_set1_epi8(0x30));
    word = _mm256_andnot_si256(_mm256_and_si256(minus, low_byte), word);
    word = _mm256_sllv_epi64(word, _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64(length, 3)));
    __m256i point = _mm256_cmpeq_epi8(word, _mm256_set1_epi8(0x1e));
    __m256i present = any_but_64(point), bit = _mm256_and_si256(point, ones);
    /* With one point `less` has ones below it. Bytes above it stay, those below move up. */
    __m256i less = _mm256_and_si256(present, _mm256_sub_epi64(bit, one));
    __m256i above = _mm256_andnot_si256(_mm256_or_si256(less, point), _mm256_set1_epi8(-1));
    __m256i digits = _mm256_or_si256(_mm256_and_si256(word, above),
                                     _mm256_slli_epi64(_mm256_and_si256(word, less), 8));
    __m256i places = _mm256_and_si256(present, _mm256_sad_epu8(_mm256_and_si256(above, ones), zero));
    /* Subtracting all ones adds one: these are length - 1 and the digits' count - 1, each 0 to 7. */
    __m256i last = _mm256_sub_epi64(length, one);
    __m256i count = _mm256_add_epi64(last, _mm256_add_epi64(minus, present));
    __m256i wrong = _mm256_andnot_si256(_mm256_set1_epi64x(7), _mm256_or_si256(last, count));
    wrong = _mm256_or_si256(wrong, _mm256_and_si256(bit, less)); /* a second point */
    wrong = _mm256_or_si256(wrong, _mm256_subs_epu8(digits, _mm256_set1_epi8(9)));
    /* Neighbours are added up: pairs, fours, all eight. */
    __m256i value = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(0x010a));
    value = _mm256_madd_epi16(value, _mm256_set1_epi32(0x00010064));
    value = _mm256_add_epi64(_mm256_mul_epu32(value, _mm256_set1_epi64x(10000)),
                             _mm256_srli_epi64(value, 32));
    __m128 result = _mm256_cvtpd_ps(
        _mm256_mul_pd(_mm256_cvtepi32_pd(narrow_64(value)), tenth_to_the(places)));
    __m128i sign = _mm_slli_epi32(narrow_64(minus), 31);
    _mm_storeu_ps(out, _mm_or_ps(result, _mm_castsi128_ps(sign)));
    return narrow_64(any_but_64(wrong));
}

static FTH_INLINE void decimals_8(__m256i low_words, __m256i high_words, __m256i lengths, float *out,
                                  uint8_t *other) {
    __m128i low = decimals_4(low_words, _mm256_castsi256_si128(lengths), out);
    __m128i high = decimals_4(high_words, _mm256_extracti128_si256(lengths, 1), out + 4);
    __m128i packed = _mm_packs_epi32(low, high);
    _mm_storel_epi64((__m128i *)other, _mm_packs_epi16(packed, packed));
}

void FTH_K(decimals)(size_t n, const uint64_t *words, const uint32_t *lengths, float *out,
                     uint8_t *other) {
    for (size_t i = 0; i < n; i += 8)
        decimals_8(_mm256_loadu_si256((const __m256i *)(words + i)),
                   _mm256_loadu_si256((const __m256i *)(words + i + 4)),
                   _mm256_loadu_si256((const __m256i *)(lengths + i)), out + i, other + i);
}

/* Four texts' first bytes. */
static FTH_INLINE __m256i words_4(const char *text, const uint32_t *begins) {
    long long words[4];
    for (int k = 0; k < 4; k++)
        memcpy(&words[k], text + begins[k], sizeof *words);
    return _mm256_setr_epi64x(words[0], words[1], words[2], words[3]);
}

void FTH_K(decimal_list)(size_t n, const char *text, uint32_t start, uint32_t gap, const uint32_t *ends,
                         float *out, uint8_t *other) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i gaps = _mm256_set1_epi32((int)gap), starts = _mm256_set1_epi32((int)start);
    for (size_t i = 0; i < n; i += 8) {
        __m256i end = _mm256_loadu_si256((const __m256i *)(ends + i)), before;
        if (i > 0)
            before = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(ends + i - 1)), gaps);
        else
            before = _mm256_blend_epi32(
                _mm256_add_epi32(_mm256_permutevar8x32_epi32(end, _mm256_sub_epi32(lanes, _mm256_set1_epi32(1))), gaps),
                starts, 1);
        /* What lies behind the last one is read where there is text. */
        uint32_t left = n - i < 8 ? (uint32_t)(n - i) : 8, begins[8];
        before = _mm256_blendv_epi8(starts, before, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), lanes));
        _mm256_storeu_si256((__m256i *)begins, before);
        decimals_8(words_4(text, begins), words_4(text, begins + 4), _mm256_sub_epi32(end, before), out + i,
                   other + i);
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
        __m256i lanes = _mm256_castps_si256(wrong);
        __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
        _mm_storel_epi64((__m128i *)(other + i), _mm_packs_epi16(packed, packed));
    }
}

#endif
