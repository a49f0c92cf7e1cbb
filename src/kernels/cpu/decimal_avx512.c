/* Short decimal texts by AVX-512: eight in the 64-bit lanes of a vector. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/decimal_simd.h"

static FTH_INLINE __m512i set_64(int64_t x) { return _mm512_set1_epi64(x); }

static FTH_INLINE __m128i decimals_8(__m256i low_words, __m256i high_words, __m256i lengths, float *out) {
    const __m512d tenths = _mm512_setr_pd(1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7);
    const __m512i ones = _mm512_set1_epi8(1), one = set_64(1);
    __m512i word = _mm512_inserti64x4(_mm512_castsi256_si512(low_words), high_words, 1);
    __m512i length = _mm512_cvtepi32_epi64(lengths); /* longer than 2^31: below 0, and as wrong */
    __mmask8 minus = _mm512_cmpeq_epi64_mask(_mm512_and_si512(word, set_64(0xff)), set_64('-'));
    word = _mm512_xor_si512(word, _mm512_set1_epi8(0x30));
    word = _mm512_mask_and_epi64(word, minus, word, set_64(~0xff));
    word = _mm512_sllv_epi64(word, _mm512_sub_epi64(set_64(64), _mm512_slli_epi64(length, 3)));
    __m512i point = _mm512_movm_epi8(_mm512_cmpeq_epi8_mask(word, _mm512_set1_epi8(0x1e)));
    __m512i bit = _mm512_and_si512(point, ones);
    __mmask8 present = _mm512_test_epi64_mask(point, point);
    /* With one point `less` has ones below it. Bytes above it stay, those below move up. */
    __m512i less = _mm512_maskz_sub_epi64(present, bit, one);
    __m512i not_above = _mm512_or_si512(less, point);
    __m512i digits = _mm512_or_si512(_mm512_andnot_si512(not_above, word),
                                     _mm512_slli_epi64(_mm512_and_si512(word, less), 8));
    __m512i places = _mm512_sad_epu8(_mm512_andnot_si512(not_above, ones), _mm512_setzero_si512());
    /* length - 1 and the digits' count - 1, each 0 to 7. */
    __m512i last = _mm512_sub_epi64(length, one);
    __m512i count = _mm512_mask_sub_epi64(last, minus, last, one);
    count = _mm512_mask_sub_epi64(count, present, count, one);
    __m512i wrong = _mm512_andnot_si512(set_64(7), _mm512_or_si512(last, count));
    wrong = _mm512_or_si512(wrong, _mm512_and_si512(bit, less)); /* a second point */
    wrong = _mm512_or_si512(wrong, _mm512_subs_epu8(digits, _mm512_set1_epi8(9)));
    /* Neighbours are added up: pairs, fours, all eight. */
    __m512i value = _mm512_madd_epi16(_mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a)),
                                      _mm512_set1_epi32(0x00010064));
    value = _mm512_add_epi64(_mm512_mul_epu32(value, set_64(10000)), _mm512_srli_epi64(value, 32));
    __m512i tenth = _mm512_castpd_si512(_mm512_permutexvar_pd(places, tenths)); /* 8 places, of no point, look up 10^0 */
    tenth = _mm512_mask_or_epi64(tenth, minus, tenth, set_64(INT64_MIN));
    _mm256_storeu_ps(out, _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtepi64_pd(value), _mm512_castsi512_pd(tenth))));
    return _mm_movm_epi8(_mm512_testn_epi64_mask(wrong, wrong));
}

void FTH_K(decimals)(size_t n, const uint64_t *words, const uint32_t *lengths, float *out, uint8_t *other) {
    decimals_by(decimals_8, n, words, lengths, out, other);
}

int FTH_K(decimal_list)(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends, float *out,
                         uint8_t *other) {
    return decimal_list_by(decimals_8, n, text, begins, ends, out, other);
}
