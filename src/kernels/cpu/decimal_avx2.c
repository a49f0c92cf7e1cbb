/* Short decimal texts by AVX2: four in the 64-bit lanes of a vector, eight from their digits' fours on. */
#include "kernels/cpu/simd_avx2.h"

#include "kernels/cpu/decimal_simd.h"

/* The low halves of 64-bit lanes, of texts 0 1 4 5 and 2 3 6 7, as 32-bit ones. */
static FTH_INLINE __m256i halves(__m256i a, __m256i b) {
    return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
}

/* What four texts are; lanes of 64 bits. */
struct decimals_4 {
    __m256i fours;  /* the first four of eight digits as a number, and above it the last four */
    __m256i places; /* how many of them stand behind the point */
    __m256i minus;  /* bit 0: there is one; the others mean nothing */
    __m256i wrong;  /* not 0: something else */
};

/* shifts: 64 - 8 * length */
static FTH_INLINE struct decimals_4 parse_4(__m256i word, __m256i shifts) {
    const __m256i zero = _mm256_setzero_si256();
    struct decimals_4 out;
    word = _mm256_xor_si256(word, _mm256_set1_epi8(0x30));
    out.minus = _mm256_cmpeq_epi8(word, _mm256_set1_epi64x('-' ^ 0x30)); /* and where there is 0, which stays so */
    word = _mm256_sllv_epi64(_mm256_andnot_si256(out.minus, word), shifts);
    /* Bytes above the point stay, those below move up into its place. All stay where there is none, or nothing above it;
     * it is left among the digits then, as a second one is. */
    __m256i behind = _mm256_slli_epi64(_mm256_abs_epi8(_mm256_cmpeq_epi8(word, _mm256_set1_epi8(0x1e))), 8);
    __m256i above = _mm256_sub_epi64(zero, behind);
    out.places = _mm256_sad_epu8(_mm256_and_si256(above, _mm256_set1_epi8(1)), zero);
    __m256i digits = _mm256_blendv_epi8(_mm256_slli_epi64(word, 8), word,
                                        _mm256_or_si256(above, _mm256_cmpeq_epi64(behind, zero)));
    out.wrong = _mm256_subs_epu8(digits, _mm256_set1_epi8(9));
    /* Neighbours are added up: pairs, fours. */
    out.fours = _mm256_madd_epi16(_mm256_maddubs_epi16(digits, _mm256_set1_epi16(0x010a)),
                                  _mm256_set1_epi32(0x00010064));
    return out;
}

static FTH_INLINE __m256i decimals_8(__m256i words_0145, __m256i words_2367, __m256i lengths, float *out) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i shifts = _mm256_sub_epi32(_mm256_set1_epi32(64), _mm256_slli_epi32(lengths, 3));
    struct decimals_4 a = parse_4(words_0145, _mm256_unpacklo_epi32(shifts, zero));
    struct decimals_4 b = parse_4(words_2367, _mm256_unpackhi_epi32(shifts, zero));
    __m256 digits = _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_packus_epi32(a.fours, b.fours), _mm256_set1_epi32(0x00012710)));
    __m256 value = _mm256_div_ps(digits, _mm256_permutevar8x32_ps(POWERS_OF_TEN, halves(a.places, b.places)));
    __m256i sign = _mm256_slli_epi32(halves(a.minus, b.minus), 31);
    _mm256_storeu_ps(out, _mm256_or_ps(value, _mm256_castsi256_ps(sign)));
    /* length - 1, and without a minus, is 0 to 7. */
    __m256i last = _mm256_add_epi32(lengths, _mm256_set1_epi32(-1));
    __m256i rest = _mm256_sub_epi32(last, _mm256_srli_epi32(sign, 31));
    __m256i wrong = _mm256_andnot_si256(_mm256_set1_epi32(7), _mm256_or_si256(last, rest));
    return _mm256_or_si256(wrong, _mm256_packs_epi32(a.wrong, b.wrong)); /* saturates: what is not 0 stays so */
}

void FTH_K(decimals)(size_t n, const uint64_t *words, const uint32_t *lengths, float *out, uint8_t *other) {
    decimals_by(decimals_8, n, words, lengths, out, other);
}

int FTH_K(decimal_list)(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends, float *out,
                         uint8_t *other) {
    return decimal_list_by(decimals_8, n, text, begins, ends, out, other);
}
