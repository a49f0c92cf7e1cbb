/* Keys of texts by AVX-512: eight texts of up to eight bytes at a time, a word each; longer ones one by one. See
 * kernels/text_key.h. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "kernels/cpu/simd_avx512.h"
#include "kernels/text_key.h"

typedef __m512i vw; /* eight 64-bit numbers */

static FTH_INLINE vw vw_set(uint64_t x) { return _mm512_set1_epi64((long long)x); }
static FTH_INLINE vw vw_mul(vw a, vw b) { return _mm512_mullo_epi64(a, b); }
static FTH_INLINE vw vw_xor_right(vw a, unsigned n) {
    return _mm512_xor_si512(a, _mm512_srli_epi64(a, n));
}

/* What is multiplied by PRIME_C for a text of four to eight bytes, by PRIME_A for one of one to three. */
static FTH_INLINE vw start_4to8(vw words, vw lengths, vw flip) {
    vw last = _mm512_srlv_epi64(words, _mm512_slli_epi64(_mm512_sub_epi64(lengths, vw_set(4)), 3));
    vw x = _mm512_or_si512(_mm512_slli_epi64(words, 32), _mm512_and_si512(last, vw_set(UINT32_MAX)));
    x = _mm512_xor_si512(x, flip);
    return _mm512_xor_si512(x, _mm512_xor_si512(_mm512_rol_epi64(x, 49), _mm512_rol_epi64(x, 24)));
}
static FTH_INLINE vw start_1to3(vw words, vw lengths, vw flip) {
    vw byte = vw_set(0xff), half = _mm512_srli_epi64(lengths, 1);
    vw first = _mm512_slli_epi64(_mm512_and_si512(words, byte), 16);
    vw middle = _mm512_and_si512(_mm512_srlv_epi64(words, _mm512_slli_epi64(half, 3)), byte);
    vw before = _mm512_slli_epi64(_mm512_sub_epi64(lengths, vw_set(1)), 3);
    vw last = _mm512_and_si512(_mm512_srlv_epi64(words, before), byte);
    vw x = _mm512_or_si512(_mm512_or_si512(first, _mm512_slli_epi64(middle, 24)),
                           _mm512_or_si512(last, _mm512_slli_epi64(lengths, 8)));
    return vw_xor_right(_mm512_xor_si512(x, flip), 33);
}

static FTH_INLINE vw hash_of(vw words, vw lengths, vw flip_4to8, vw flip_1to3) {
    const vw c = vw_set(FTH_TEXT_PRIME_C);
    vw x = start_4to8(words, lengths, flip_4to8);
    __mmask8 little = _mm512_cmpgt_epi64_mask(vw_set(4), lengths);
    if (!little) {
        x = vw_mul(x, c);
        x = vw_mul(_mm512_xor_si512(x, _mm512_add_epi64(_mm512_srli_epi64(x, 35), lengths)), c);
        return vw_xor_right(x, 28);
    }
    x = _mm512_mask_mov_epi64(x, little, start_1to3(words, lengths, flip_1to3));
    x = vw_mul(x, _mm512_mask_mov_epi64(c, little, vw_set(FTH_TEXT_PRIME_A)));
    vw right = _mm512_srlv_epi64(x, _mm512_mask_mov_epi64(vw_set(35), little, vw_set(29)));
    right = _mm512_mask_add_epi64(right, (__mmask8)~little, right, lengths);
    x = vw_mul(_mm512_xor_si512(x, right), _mm512_mask_mov_epi64(c, little, vw_set(FTH_TEXT_PRIME_B)));
    right = _mm512_srlv_epi64(x, _mm512_mask_mov_epi64(vw_set(28), little, vw_set(32)));
    return _mm512_xor_si512(x, right);
}

/* The upper halves of the products. */
static FTH_INLINE vw vw_mul_high(vw a, vw b) {
    const vw low = vw_set(UINT32_MAX);
    vw a_high = _mm512_srli_epi64(a, 32), b_high = _mm512_srli_epi64(b, 32);
    vw middle = _mm512_add_epi64(_mm512_mul_epu32(a_high, b),
                                 _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32));
    vw other = _mm512_add_epi64(_mm512_mul_epu32(a, b_high), _mm512_and_si512(middle, low));
    return _mm512_add_epi64(_mm512_mul_epu32(a_high, b_high),
                            _mm512_add_epi64(_mm512_srli_epi64(middle, 32), _mm512_srli_epi64(other, 32)));
}

static FTH_INLINE vw buckets_of(vw x, const struct fth_text_hash *hash) {
    vw buckets = vw_set(hash->buckets);
    x = _mm512_sub_epi64(x, vw_mul(vw_mul_high(x, vw_set(hash->reciprocal)), buckets));
    return _mm512_min_epu64(x, _mm512_sub_epi64(x, buckets)); /* below 0 is far above */
}

/* Where there are buckets x holds their numbers. */
static FTH_INLINE void store_8(vw x, vw lengths, const struct fth_text_hash *hash, int buckets, size_t i, uint64_t *keys,
                               uint32_t *numbers) {
    x = _mm512_mask_mov_epi64(x, _mm512_testn_epi64_mask(lengths, lengths), vw_set(buckets ? UINT32_MAX : hash->missing));
    if (buckets)
        _mm256_storeu_si256((__m256i *)(void *)(numbers + i), _mm512_cvtepi64_epi32(x));
    else
        _mm512_storeu_si512(keys + i, x);
}

/* Eight texts' first bytes. */
static FTH_INLINE vw words_8(const char *text, const uint32_t *begins) {
    long long words[8];
    for (int k = 0; k < 8; k++)
        memcpy(&words[k], text + begins[k], sizeof *words);
    return _mm512_set_epi64(words[7], words[6], words[5], words[4], words[3], words[2], words[1], words[0]);
}

/* Keys of eight texts, from the i-th on; which of them are longer, and have no key yet. */
static FTH_INLINE unsigned keys_8(size_t i, const char *text, const uint32_t *begins, const uint32_t *ends,
                                  const struct fth_text_hash *hash, int buckets, uint64_t *keys, uint32_t *numbers) {
    vw lengths = _mm512_cvtepu32_epi64(_mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(ends + i)),
                                                        _mm256_loadu_si256((const __m256i *)(const void *)(begins + i))));
    vw x = hash_of(words_8(text, begins + i), lengths, vw_set(fth_text_flip_4to8(hash->salt)),
                   vw_set(fth_text_flip_1to3(hash->salt)));
    store_8(buckets ? buckets_of(x, hash) : x, lengths, hash, buckets, i, keys, numbers);
    return _mm512_cmpgt_epi64_mask(lengths, vw_set(8));
}

static FTH_INLINE unsigned keys_of(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends,
                                   const struct fth_text_hash *hash, int buckets, uint64_t *keys, uint32_t *numbers) {
    unsigned longer = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        longer |= keys_8(i, text, begins, ends, hash, buckets, keys, numbers);
    if (i < n && n >= 8) { /* the last eight, some of them once more */
        longer |= keys_8(n - 8, text, begins, ends, hash, buckets, keys, numbers);
    } else if (i < n) {
        uint32_t last_begins[8] = {0}, last_ends[8] = {0}, last_numbers[8];
        uint64_t last_keys[8];
        memcpy(last_begins, begins, n * sizeof *begins);
        memcpy(last_ends, ends, n * sizeof *ends);
        longer = keys_8(0, text, last_begins, last_ends, hash, buckets, last_keys, last_numbers);
        if (buckets)
            memcpy(numbers, last_numbers, n * sizeof *numbers);
        else
            memcpy(keys, last_keys, n * sizeof *keys);
    }
    return longer;
}

#define LISTED 64

/* By themselves, as a call in the loop above would cost it all its constants in registers. Which texts are long cannot be
 * predicted: they are listed first. */
static __attribute__((noinline)) void long_keys(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends,
                                                const struct fth_text_hash *hash, uint64_t *keys, uint32_t *numbers) {
    for (size_t i = 0; i < n;) {
        size_t listed[LISTED], count = 0, end = n - i < LISTED ? n : i + LISTED;
        for (; i < end; i++) {
            listed[count] = i;
            count += ends[i] - begins[i] > 8;
        }
        for (size_t k = 0; k < count; k++) {
            size_t at = listed[k];
            uint64_t key = XXH3_64bits_withSeed(text + begins[at], ends[at] - begins[at], hash->salt);
            if (hash->buckets)
                numbers[at] = (uint32_t)(key % hash->buckets);
            else
                keys[at] = key;
        }
    }
}

void FTH_K(text_keys)(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends,
                      const struct fth_text_hash *hash, uint64_t *keys, uint32_t *numbers) {
    unsigned longer = hash->buckets ? keys_of(n, text, begins, ends, hash, 1, NULL, numbers)
                                    : keys_of(n, text, begins, ends, hash, 0, keys, NULL);
    if (longer)
        long_keys(n, text, begins, ends, hash, keys, numbers);
}

/* Eight cells `step` numbers apart, offset and length side by side, and their texts' first eight bytes. */
static FTH_INLINE vw cells_8(const uint32_t *cells, size_t step) {
    long long pairs[8];
    for (int k = 0; k < 8; k++)
        memcpy(&pairs[k], cells + k * step, sizeof *pairs);
    return _mm512_set_epi64(pairs[7], pairs[6], pairs[5], pairs[4], pairs[3], pairs[2], pairs[1], pairs[0]);
}
static FTH_INLINE vw texts_8(const char *text, const uint32_t *cells, size_t step) {
    uint32_t begins[8];
    for (int k = 0; k < 8; k++)
        begins[k] = cells[k * step];
    return words_8(text, begins);
}

static FTH_INLINE vw hash_8(vw words, vw flip) { /* of eight bytes: what is left of start_4to8 and the rest */
    const vw c = vw_set(FTH_TEXT_PRIME_C);
    vw x = _mm512_xor_si512(_mm512_rol_epi64(words, 32), flip);
    x = vw_mul(_mm512_xor_si512(x, _mm512_xor_si512(_mm512_rol_epi64(x, 49), _mm512_rol_epi64(x, 24))), c);
    x = vw_mul(_mm512_xor_si512(x, _mm512_add_epi64(_mm512_srli_epi64(x, 35), vw_set(8))), c);
    return vw_xor_right(x, 28);
}

static FTH_INLINE uint32_t cell_keys(size_t n, const char *text, const uint32_t *cells, size_t stride,
                                     const struct fth_text_hash *hash, int buckets, uint64_t *keys, uint32_t *numbers) {
    vw flip = vw_set(fth_text_flip_4to8(hash->salt)), others = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 8) {
        size_t step = n - i < 8 ? 0 : 2 * stride; /* the last ones, fewer than eight, one by one */
        vw lengths = _mm512_srli_epi64(cells_8(cells, step), 32);
        vw x = hash_8(texts_8(text, cells, step), flip);
        if (buckets)
            x = buckets_of(x, hash);
        others = _mm512_or_si512(others, _mm512_andnot_si512(vw_set(8), lengths));
        if (step == 0) {
            uint64_t last_keys[8];
            uint32_t last_numbers[8];
            store_8(x, lengths, hash, buckets, 0, last_keys, last_numbers);
            if (buckets)
                numbers[i] = last_numbers[0];
            else
                keys[i] = last_keys[0];
            i -= 7;
            cells += 2 * stride;
        } else {
            store_8(x, lengths, hash, buckets, i, keys, numbers);
            cells += 8 * step;
        }
    }
    return _mm512_test_epi64_mask(others, others);
}

uint32_t FTH_K(cell_keys)(size_t n, const char *text, const uint32_t *cells, size_t stride,
                          const struct fth_text_hash *hash, uint64_t *keys, uint32_t *numbers) {
    return hash->buckets ? cell_keys(n, text, cells, stride, hash, 1, NULL, numbers)
                         : cell_keys(n, text, cells, stride, hash, 0, keys, NULL);
}
