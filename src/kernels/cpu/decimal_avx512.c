/* Short decimal texts by AVX-512: eight in the 64-bit lanes of a vector. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/decimal_simd.h"

static FTH_INLINE __m512i set_64(int64_t x) { return _mm512_set1_epi64(x); }

static FTH_INLINE __m256i decimals_8(__m256i words_0145, __m256i words_2367, __m256i lengths, float *out) {
    const __m512i ones = _mm512_set1_epi8(1), one = set_64(1), zero = _mm512_setzero_si512();
    __m512i word = _mm512_permutex2var_epi64(_mm512_castsi256_si512(words_0145),
                                             _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                                             _mm512_castsi256_si512(words_2367));
    __m512i length = _mm512_cvtepi32_epi64(lengths); /* longer than 2^31: below 0, and as wrong */
    __mmask8 minus = _mm512_cmpeq_epi64_mask(_mm512_and_si512(word, set_64(0xff)), set_64('-'));
    word = _mm512_xor_si512(word, _mm512_set1_epi8(0x30));
    word = _mm512_mask_and_epi64(word, minus, word, set_64(~0xff));
    word = _mm512_sllv_epi64(word, _mm512_sub_epi64(set_64(64), _mm512_slli_epi64(length, 3)));
    /* Bytes above the point stay, those below move up into its place. All stay where there is none, or nothing above it;
     * it is left among the digits then, as a second one is. */
    __m512i behind = _mm512_slli_epi64(_mm512_maskz_mov_epi8(_mm512_cmpeq_epi8_mask(word, _mm512_set1_epi8(0x1e)), ones), 8);
    __m512i above = _mm512_mask_sub_epi64(set_64(-1), _mm512_test_epi64_mask(behind, behind), zero, behind);
    __m512i digits = _mm512_mask_blend_epi8(_mm512_movepi8_mask(above), _mm512_slli_epi64(word, 8), word);
    __m512i places = _mm512_sad_epu8(_mm512_and_si512(above, ones), zero);
    /* length - 1, and without a minus, is 0 to 7. */
    __m512i last = _mm512_sub_epi64(length, one), rest = _mm512_mask_sub_epi64(last, minus, last, one);
    __m512i wrong = _mm512_andnot_si512(set_64(7), _mm512_or_si512(last, rest));
    wrong = _mm512_or_si512(wrong, _mm512_subs_epu8(digits, _mm512_set1_epi8(9)));
    /* Neighbours are added up: pairs, fours, all eight. */
    __m512i value = _mm512_madd_epi16(_mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a)),
                                      _mm512_set1_epi32(0x00010064));
    value = _mm512_add_epi64(_mm512_mul_epu32(value, set_64(10000)), _mm512_srli_epi64(value, 32));
    /* 8 places, of no point, look up 10^0. */
    __m256 power = _mm256_permutevar8x32_ps(POWERS_OF_TEN, _mm512_cvtepi64_epi32(places));
    __m256i sign = _mm256_slli_epi32(_mm256_movm_epi32(minus), 31);
    __m256 x = _mm256_div_ps(_mm256_cvtepi32_ps(_mm512_cvtepi64_epi32(value)), power);
    _mm256_storeu_ps(out, _mm256_or_ps(x, _mm256_castsi256_ps(sign)));
    return _mm256_movm_epi32(_mm512_test_epi64_mask(wrong, wrong));
}

void FTH_K(decimals)(size_t n, const uint64_t *words, const uint32_t *lengths, float *out, uint8_t *other) {
    decimals_by(decimals_8, n, words, lengths, out, other);
}

int FTH_K(decimal_list)(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends, float *out,
                         uint8_t *other) {
    return decimal_list_by(decimals_8, n, text, begins, ends, out, other);
}
