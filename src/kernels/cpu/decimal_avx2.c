/* Short decimal texts by AVX2: four in the 64-bit lanes of a vector, eight from their digits' fours on. */
#include "kernels/cpu/simd_avx2.h"

#include "kernels/cpu/decimal_simd.h"

static FTH_INLINE __m256i equal_64(__m256i a, __m256i b) { return _mm256_cmpeq_epi64(a, b); }

/* 32-bit lanes from the low halves of 64-bit ones: of a's and b's first two, then of their last two. */
static FTH_INLINE __m256i halves(__m256i a, __m256i b) {
    return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
}

/* What four texts are; lanes of 64 bits. */
struct decimals_4 {
    __m256i fours;  /* the first four of eight digits as a number, and above it the last four */
    __m256i places; /* how many of them stand behind the point; 8 where there is none */
    __m256i minus;  /* all ones behind a minus */
    __m256i wrong;  /* not 0: something else */
};

static FTH_INLINE struct decimals_4 parse_4(__m256i word, __m128i lengths) {
    const __m256i ones = _mm256_set1_epi8(1), zero = _mm256_setzero_si256(), low_byte = _mm256_set1_epi64x(0xff);
    struct decimals_4 out;
    __m256i length = _mm256_cvtepi32_epi64(lengths); /* longer than 2^31: below 0, and as wrong */
    out.minus = equal_64(_mm256_and_si256(word, low_byte), _mm256_set1_epi64x('-'));
    word = _mm256_xor_si256(word, _mm256_set1_epi8(0x30));
    word = _mm256_andnot_si256(_mm256_and_si256(out.minus, low_byte), word);
    word = _mm256_sllv_epi64(word, _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64(length, 3)));
    __m256i point = _mm256_cmpeq_epi8(word, _mm256_set1_epi8(0x1e));
    __m256i absent = equal_64(point, zero), bit = _mm256_and_si256(point, ones);
    /* With one point `less` has ones below it. Bytes above it stay, those below move up. */
    __m256i less = _mm256_andnot_si256(absent, _mm256_sub_epi64(bit, _mm256_set1_epi64x(1)));
    __m256i not_above = _mm256_or_si256(less, point);
    __m256i digits = _mm256_or_si256(_mm256_andnot_si256(not_above, word),
                                     _mm256_slli_epi64(_mm256_and_si256(word, less), 8));
    out.places = _mm256_sad_epu8(_mm256_andnot_si256(not_above, ones), zero);
    /* length - 1 and the digits' count - 1, each 0 to 7; adding all ones subtracts one. */
    __m256i last = _mm256_add_epi64(length, _mm256_set1_epi64x(-1));
    __m256i count = _mm256_add_epi64(_mm256_add_epi64(length, _mm256_set1_epi64x(-2)),
                                     _mm256_sub_epi64(out.minus, absent));
    out.wrong = _mm256_andnot_si256(_mm256_set1_epi64x(7), _mm256_or_si256(last, count));
    out.wrong = _mm256_or_si256(out.wrong, _mm256_and_si256(bit, less)); /* a second point */
    out.wrong = _mm256_or_si256(out.wrong, _mm256_subs_epu8(digits, _mm256_set1_epi8(9)));
    /* Neighbours are added up: pairs, fours. */
    out.fours = _mm256_madd_epi16(_mm256_maddubs_epi16(digits, _mm256_set1_epi16(0x010a)),
                                  _mm256_set1_epi32(0x00010064));
    return out;
}

static FTH_INLINE __m128i decimals_8(__m256i low_words, __m256i high_words, __m256i lengths, float *out) {
    const __m256i a = _mm256_castpd_si256(_mm256_setr_pd(1e0, 1e-1, 1e-2, 1e-3));
    const __m256i b = _mm256_castpd_si256(_mm256_setr_pd(1e-4, 1e-5, 1e-6, 1e-7));
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6), odd = _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7);
    const __m256i tenths_low = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(a, even),
                                                  _mm256_permutevar8x32_epi32(b, even), 0xf0);
    const __m256i tenths_high = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(a, odd),
                                                   _mm256_permutevar8x32_epi32(b, odd), 0xf0);
    struct decimals_4 low = parse_4(low_words, _mm256_castsi256_si128(lengths));
    struct decimals_4 high = parse_4(high_words, _mm256_extracti128_si256(lengths, 1));
    /* From here on texts lie 0 1 4 5 | 2 3 6 7, until doubles are made. */
    __m256i value = _mm256_madd_epi16(_mm256_packus_epi32(low.fours, high.fours), _mm256_set1_epi32(0x00012710));
    value = _mm256_permute4x64_epi64(value, 0xd8);
    __m256i places = halves(low.places, high.places); /* 8 looks up the same as 0 */
    __m256i sign = _mm256_slli_epi32(halves(low.minus, high.minus), 31);
    __m256i tenth_low = _mm256_permutevar8x32_epi32(tenths_low, places);
    __m256i tenth_high = _mm256_or_si256(_mm256_permutevar8x32_epi32(tenths_high, places), sign);
    __m256d low_tenth = _mm256_castsi256_pd(_mm256_unpacklo_epi32(tenth_low, tenth_high));
    __m256d high_tenth = _mm256_castsi256_pd(_mm256_unpackhi_epi32(tenth_low, tenth_high));
    _mm_storeu_ps(out, _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(value)), low_tenth)));
    _mm_storeu_ps(out + 4,
                  _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(value, 1)), high_tenth)));
    const __m256i zero = _mm256_setzero_si256();
    __m256i right = halves(equal_64(low.wrong, zero), equal_64(high.wrong, zero));
    __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(right), _mm256_extracti128_si256(right, 1));
    return _mm_shuffle_epi8(packed, _mm_setr_epi8(0, 2, 8, 10, 4, 6, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0));
}

void FTH_K(decimals)(size_t n, const uint64_t *words, const uint32_t *lengths, float *out, uint8_t *other) {
    decimals_by(decimals_8, n, words, lengths, out, other);
}

int FTH_K(decimal_list)(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends, float *out,
                         uint8_t *other) {
    return decimal_list_by(decimals_8, n, text, begins, ends, out, other);
}
