/* Short decimal texts to floats, eight at a time: what is the same by AVX2 and AVX-512, with vectors of 256 bits.
 *
 * The eight are read by who includes this (decimals_8), in the steps of kernels/decimal.h. Their words come as 128-bit
 * lanes of 256-bit instructions have them after packing: those of texts 0 1 4 5, and of 2 3 6 7. */
#ifndef FTH_KERNELS_CPU_DECIMAL_SIMD_H
#define FTH_KERNELS_CPU_DECIMAL_SIMD_H

#include <string.h>

#include "kernels/kernels.h"

/* Eight floats to out; lanes of the result are not 0 where a text is no such number. */
typedef __m256i decimals_8_fn(__m256i words_0145, __m256i words_2367, __m256i lengths, float *out);

#define POWERS_OF_TEN _mm256_setr_ps(1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f)

/* A byte, all ones or 0, of each of eight lanes that are. */
static FTH_INLINE __m128i narrow_32(__m256i lanes) {
    __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    return _mm_packs_epi16(packed, packed);
}
/* Others are the wrong ones, but those in `fine`. */
static FTH_INLINE void store_others(uint8_t *other, __m256i wrong, __m256i fine) {
    __m128i right = narrow_32(_mm256_or_si256(_mm256_cmpeq_epi32(wrong, _mm256_setzero_si256()), fine));
    _mm_storel_epi64((__m128i *)other, _mm_xor_si128(right, _mm_set1_epi8(-1)));
}

static FTH_INLINE __m256i lanes_of(const void *low, const void *high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
}

static FTH_INLINE void decimals_by(decimals_8_fn *decimals_8, size_t n, const uint64_t *words, const uint32_t *lengths,
                                   float *out, uint8_t *other) {
    for (size_t i = 0; i < n; i += 8) {
        __m256i length = _mm256_loadu_si256((const __m256i *)(lengths + i));
        __m256i wrong = decimals_8(lanes_of(words + i, words + i + 4), lanes_of(words + i + 2, words + i + 6), length,
                                   out + i);
        store_others(other + i, wrong, _mm256_cmpeq_epi32(length, _mm256_setzero_si256()));
    }
}

/* First bytes of the texts 0 1 4 5 of those whose begins these are. */
static FTH_INLINE __m256i words_0145(const char *text, const uint32_t *begins) {
    static const int texts[4] = {0, 1, 4, 5};
    long long words[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        memcpy(&words[k], text + begins[texts[k]], sizeof *words);
    return _mm256_setr_epi64x(words[0], words[1], words[2], words[3]);
}

static FTH_INLINE __m256i decimals_at(decimals_8_fn *decimals_8, const char *text, const uint32_t *begins,
                                      const uint32_t *ends, float *out) {
    __m256i lengths = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)ends),
                                       _mm256_loadu_si256((const __m256i *)begins));
    return decimals_8(words_0145(text, begins), words_0145(text, begins + 2), lengths, out);
}

static FTH_INLINE int decimal_list_by(decimals_8_fn *decimals_8, size_t n, const char *text, const uint32_t *begins,
                                       const uint32_t *ends, float *out, uint8_t *other) {
    __m256i any = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 8)
        any = _mm256_or_si256(any, decimals_at(decimals_8, text, begins + i, ends + i, out + i));
    if (_mm256_testz_si256(any, any))
        return 0;
    for (size_t i = 0; i < n; i += 8) /* rare: which are they? */
        store_others(other + i, decimals_at(decimals_8, text, begins + i, ends + i, out + i), _mm256_setzero_si256());
    return 1;
}

static FTH_INLINE __m128d add_in_order(__m128d sum, __m256d x) {
    __m128d low = _mm256_castpd256_pd128(x), high = _mm256_extractf128_pd(x, 1);
    sum = _mm_add_sd(_mm_add_sd(sum, low), _mm_unpackhi_pd(low, low));
    return _mm_add_sd(_mm_add_sd(sum, high), _mm_unpackhi_pd(high, high));
}

void FTH_K(list_sums)(size_t n, const uint32_t *lengths, const float *x, double *sums) {
    for (size_t i = 0; i < n; i++) {
        __m128d sum = _mm_setzero_pd();
        size_t length = lengths[i];
        for (size_t eights = length / 8; eights > 0; eights--, x += 8) {
            sum = add_in_order(sum, _mm256_cvtps_pd(_mm_loadu_ps(x)));
            sum = add_in_order(sum, _mm256_cvtps_pd(_mm_loadu_ps(x + 4)));
        }
        if (length & 4) {
            sum = add_in_order(sum, _mm256_cvtps_pd(_mm_loadu_ps(x)));
            x += 4;
        }
        for (length &= 3; length > 0; length--)
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
