/* Short decimal texts to floats, one in each 64-bit lane of 256-bit vectors; the steps are those of
 * kernels/decimal.h. AVX2 is all it needs; the AVX-512 table has it, too. */
#ifndef FTH_KERNELS_CPU_DECIMAL_SIMD_H
#define FTH_KERNELS_CPU_DECIMAL_SIMD_H

#include <string.h>

#include "kernels/kernels.h"

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

/* Eight texts. The low eight bytes of the result are all ones where a text is such a number.
 *
 * Multiplied by 10^-places: two roundings of 2^-53 instead of the division's one, still far within the 2^-49 that lie
 * between a quotient and the middle of two floats (kernels/decimal.h); what lies in the middle exactly has no places, as
 * its digits would be more than eight, and 10^0 does not round. */
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

/* A byte, all ones or 0, of each of eight such lanes. */
static FTH_INLINE __m128i narrow_32(__m256i lanes) {
    __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    return _mm_packs_epi16(packed, packed);
}
static FTH_INLINE void store_others(uint8_t *other, __m128i right) {
    _mm_storel_epi64((__m128i *)other, _mm_xor_si128(right, _mm_set1_epi8(-1)));
}

void FTH_K(decimals)(size_t n, const uint64_t *words, const uint32_t *lengths, float *out,
                     uint8_t *other) {
    for (size_t i = 0; i < n; i += 8) {
        __m256i length = _mm256_loadu_si256((const __m256i *)(lengths + i));
        __m128i right = decimals_8(_mm256_loadu_si256((const __m256i *)(words + i)),
                                   _mm256_loadu_si256((const __m256i *)(words + i + 4)), length, out + i);
        __m128i empty = narrow_32(_mm256_cmpeq_epi32(length, _mm256_setzero_si256()));
        store_others(other + i, _mm_or_si128(right, empty));
    }
}

/* Four texts' first bytes. */
static FTH_INLINE __m256i words_4(const char *a, const char *b, const char *c, const char *d) {
    long long words[4];
    memcpy(&words[0], a, sizeof *words);
    memcpy(&words[1], b, sizeof *words);
    memcpy(&words[2], c, sizeof *words);
    memcpy(&words[3], d, sizeof *words);
    return _mm256_setr_epi64x(words[0], words[1], words[2], words[3]);
}

/* Number by number, as the scan has just written them: a whole vector would be loaded only when all are in the cache. */
static FTH_INLINE __m128i ends_4(const uint32_t *to) {
    __m128i end = _mm_cvtsi32_si128((int)to[0]);
    end = _mm_insert_epi32(end, (int)to[1], 1);
    end = _mm_insert_epi32(end, (int)to[2], 2);
    return _mm_insert_epi32(end, (int)to[3], 3);
}
static FTH_INLINE __m256i ends_8(const uint32_t *to) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(ends_4(to)), ends_4(to + 4), 1);
}

void FTH_K(decimal_list)(size_t n, const char *text, uint32_t start, uint32_t gap, const uint32_t *ends,
                         float *out, uint8_t *other) {
    const __m256i back = _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6);
    const char *from = text + gap; /* behind an element's end the next one begins */
    uint32_t begin = start;
    for (size_t i = 0; i < n; i += 8) {
        uint32_t filled[8];
        const uint32_t *to = ends + i;
        if (n - i < 8) { /* what lies behind the last one is read where there is text */
            for (size_t k = 0; k < 8; k++)
                filled[k] = to[k < n - i ? k : 0];
            to = filled;
        }
        __m256i end = ends_8(to);
        __m256i before = _mm256_add_epi32(_mm256_permutevar8x32_epi32(end, back), _mm256_set1_epi32((int)gap));
        before = _mm256_blend_epi32(before, _mm256_castsi128_si256(_mm_cvtsi32_si128((int)begin)), 1);
        __m256i low = words_4(text + begin, from + to[0], from + to[1], from + to[2]);
        __m256i high = words_4(from + to[3], from + to[4], from + to[5], from + to[6]);
        store_others(other + i, decimals_8(low, high, _mm256_sub_epi32(end, before), out + i));
        begin = to[7] + gap;
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
