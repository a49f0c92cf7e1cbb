/* Keys of texts where there is AVX2 but not AVX-512: four at a time, where all of them have four to eight bytes, as nearly
 * all in most lists do, or none; the others one by one, those of other lengths by the library. A 64-bit product of vectors
 * is three of 32 bits and some sums. See kernels/text_key.h. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "kernels/cpu/simd_avx2.h"
#include "kernels/text_key.h"

/* ---- one at a time ---- */

static FTH_INLINE uint64_t rotate_left(uint64_t x, unsigned n) { return x << n | x >> (64 - n); }

static FTH_INLINE uint64_t hash_4to8(uint64_t word, uint32_t length, uint64_t flip) {
    uint64_t x = (word << 32 | (uint32_t)(word >> 8 * (length - 4))) ^ flip;
    x = (x ^ rotate_left(x, 49) ^ rotate_left(x, 24)) * FTH_TEXT_PRIME_C;
    x = (x ^ ((x >> 35) + length)) * FTH_TEXT_PRIME_C;
    return x ^ x >> 28;
}

/* x % buckets */
static FTH_INLINE uint64_t bucket_of(uint64_t x, const struct fth_text_hash *hash) {
    uint64_t quotient = (uint64_t)((unsigned __int128)x * hash->reciprocal >> 64);
    uint64_t rest = x - quotient * hash->buckets;
    return rest >= hash->buckets ? rest - hash->buckets : rest;
}

/* A text's key, or the number of its bucket. */
static FTH_INLINE uint64_t hash_one(const char *text, uint32_t length, const struct fth_text_hash *hash, int buckets) {
    uint64_t x;
    if (length == 0)
        return buckets ? UINT32_MAX : hash->missing;
    if (length - 4 <= 4) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
        x = hash_4to8(word, length, fth_text_flip_4to8(hash->salt));
    } else {
        x = XXH3_64bits_withSeed(text, length, hash->salt);
    }
    return buckets ? bucket_of(x, hash) : x;
}

/* ---- four at a time ---- */

typedef __m256i vw; /* four 64-bit numbers */

static FTH_INLINE vw vw_set(uint64_t x) { return _mm256_set1_epi64x((long long)x); }
static FTH_INLINE vw vw_add(vw a, vw b) { return _mm256_add_epi64(a, b); }
static FTH_INLINE vw vw_sub(vw a, vw b) { return _mm256_sub_epi64(a, b); }
static FTH_INLINE vw vw_right(vw a, int n) { return _mm256_srli_epi64(a, n); }
static FTH_INLINE vw vw_left(vw a, int n) { return _mm256_slli_epi64(a, n); }
static FTH_INLINE vw vw_xor_right(vw a, int n) { return vi_xor(a, vw_right(a, n)); }
static FTH_INLINE vw vw_mul(vw a, uint64_t b) {
    vw crossed = vw_add(vi_mul_even(vw_right(a, 32), vw_set(b)), vi_mul_even(a, vw_set(b >> 32)));
    return vw_add(vi_mul_even(a, vw_set(b)), vw_left(crossed, 32));
}

static FTH_INLINE vw vw_mul_32(vw a, uint32_t b) {
    return vw_add(vi_mul_even(a, vw_set(b)), vw_left(vi_mul_even(vw_right(a, 32), vw_set(b)), 32));
}

/* The upper halves of the products. */
static FTH_INLINE vw vw_mul_high(vw a, uint64_t b) {
    vw a_high = vw_right(a, 32), b_low = vw_set(b), b_high = vw_set(b >> 32);
    vw middle = vw_add(vi_mul_even(a_high, b_low), vw_right(vi_mul_even(a, b_low), 32));
    vw other = vw_add(vi_mul_even(a, b_high), vi_and(middle, vw_set(UINT32_MAX)));
    return vw_add(vi_mul_even(a_high, b_high), vw_add(vw_right(middle, 32), vw_right(other, 32)));
}

static FTH_INLINE vw buckets_of(vw x, const struct fth_text_hash *hash) {
    x = vw_sub(x, vw_mul_32(vw_mul_high(x, hash->reciprocal), hash->buckets));
    vw less = vw_sub(x, vw_set(hash->buckets)); /* negative: x is a bucket */
    __m256d signs = _mm256_castsi256_pd(less);
    return _mm256_castpd_si256(_mm256_blendv_pd(signs, _mm256_castsi256_pd(x), signs));
}

/* Four texts' first eight bytes. */
static FTH_INLINE vw words_4(const char *text, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const uint32_t begins[4] = {a, b, c, d};
    long long words[4];
    for (int k = 0; k < 4; k++)
        memcpy(&words[k], text + begins[k], sizeof *words);
    return _mm256_set_epi64x(words[3], words[2], words[1], words[0]);
}

/* Hashes four texts, of which x holds the last four bytes and then the first. */
static FTH_INLINE vw hash_4(vw x, vw lengths, const struct fth_text_hash *hash, int buckets) {
    const vw by_3_bytes = _mm256_set_epi64x(0x0c0b0a09080f0e0d, 0x0403020100070605, 0x0c0b0a09080f0e0d, 0x0403020100070605);
    x = vi_xor(x, vw_set(fth_text_flip_4to8(hash->salt)));
    vw by_49 = vi_or(vw_left(x, 49), vw_right(x, 15));
    x = vw_mul(vi_xor(vi_xor(x, by_49), _mm256_shuffle_epi8(x, by_3_bytes)), FTH_TEXT_PRIME_C);
    x = vw_mul(vi_xor(x, vw_add(vw_right(x, 35), lengths)), FTH_TEXT_PRIME_C);
    x = vw_xor_right(x, 28);
    if (buckets)
        x = buckets_of(x, hash);
    vw empty = vw_set(buckets ? UINT32_MAX : hash->missing);
    return _mm256_blendv_epi8(x, empty, _mm256_cmpeq_epi64(lengths, vw_set(0)));
}

/* Four keys, or numbers: their lower halves. */
static FTH_INLINE void store_4(vw x, int buckets, size_t i, uint64_t *keys, uint32_t *numbers) {
    if (!buckets) {
        _mm256_storeu_si256((__m256i *)(void *)(keys + i), x);
        return;
    }
    __m128 low = _mm_castsi128_ps(_mm256_castsi256_si128(x)), high = _mm_castsi128_ps(_mm256_extracti128_si256(x, 1));
    _mm_storeu_ps((float *)(void *)(numbers + i), _mm_shuffle_ps(low, high, 0x88));
}

static FTH_INLINE void store_one(uint64_t x, int buckets, size_t i, uint64_t *keys, uint32_t *numbers) {
    if (buckets)
        numbers[i] = (uint32_t)x;
    else
        keys[i] = x;
}

static FTH_INLINE void texts_4(size_t i, const char *text, const uint32_t *begins, const uint32_t *ends,
                               const struct fth_text_hash *hash, int buckets, uint64_t *keys, uint32_t *numbers) {
    __m128i from = _mm_loadu_si128((const __m128i *)(const void *)(begins + i));
    __m128i lengths = _mm_sub_epi32(_mm_loadu_si128((const __m128i *)(const void *)(ends + i)), from);
    __m128i beyond = _mm_sub_epi32(lengths, _mm_set1_epi32(4));
    __m128i usual = _mm_cmpeq_epi32(_mm_min_epu32(beyond, _mm_set1_epi32(4)), beyond);
    usual = _mm_or_si128(usual, _mm_cmpeq_epi32(lengths, _mm_setzero_si128()));
    if (_mm_movemask_epi8(usual) != 0xffff) {
        for (size_t k = i; k < i + 4; k++)
            store_one(hash_one(text + begins[k], ends[k] - begins[k], hash, buckets), buckets, k, keys, numbers);
        return;
    }
    vw words = words_4(text, begins[i], begins[i + 1], begins[i + 2], begins[i + 3]);
    vw last = _mm256_srlv_epi64(words, _mm256_cvtepu32_epi64(_mm_slli_epi32(beyond, 3)));
    vw x = vi_or(vw_left(words, 32), vi_and(last, vw_set(UINT32_MAX)));
    store_4(hash_4(x, _mm256_cvtepu32_epi64(lengths), hash, buckets), buckets, i, keys, numbers);
}

static FTH_INLINE void hash_texts(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends,
                                  const struct fth_text_hash *hash, int buckets, uint64_t *keys, uint32_t *numbers) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        texts_4(i, text, begins, ends, hash, buckets, keys, numbers);
    for (; i < n; i++)
        store_one(hash_one(text + begins[i], ends[i] - begins[i], hash, buckets), buckets, i, keys, numbers);
}

void FTH_K(text_keys)(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends,
                      const struct fth_text_hash *hash, uint64_t *keys, uint32_t *numbers) {
    if (hash->buckets)
        hash_texts(n, text, begins, ends, hash, 1, NULL, numbers);
    else
        hash_texts(n, text, begins, ends, hash, 0, keys, NULL);
}

static FTH_INLINE uint32_t hash_cells(size_t n, const char *text, const uint32_t *cells, size_t stride,
                                      const struct fth_text_hash *hash, int buckets, uint64_t *keys, uint32_t *numbers) {
    __m128i others = _mm_setzero_si128();
    size_t step = 2 * stride;
    for (size_t i = 0; i < n; i += 4) {
        size_t next = n - i > 1 ? step : 0, third = n - i > 2 ? 2 * step : 0, fourth = n - i > 3 ? 3 * step : 0;
        vw words = words_4(text, cells[0], cells[next], cells[third], cells[fourth]);
        __m128i lengths = _mm_set_epi32((int)cells[fourth + 1], (int)cells[third + 1], (int)cells[next + 1], (int)cells[1]);
        vw x = hash_4(_mm256_shuffle_epi32(words, 0xb1), _mm256_cvtepu32_epi64(lengths), hash, buckets);
        others = _mm_or_si128(others, _mm_andnot_si128(_mm_set1_epi32(8), lengths));
        if (n - i < 4) {
            uint64_t last[4];
            store_4(x, 0, 0, last, NULL);
            for (size_t k = i; k < n; k++)
                store_one(last[k - i], buckets, k, keys, numbers);
        } else {
            store_4(x, buckets, i, keys, numbers);
        }
        cells += 4 * step;
    }
    return !_mm_testz_si128(others, others);
}

uint32_t FTH_K(cell_keys)(size_t n, const char *text, const uint32_t *cells, size_t stride,
                          const struct fth_text_hash *hash, uint64_t *keys, uint32_t *numbers) {
    return hash->buckets ? hash_cells(n, text, cells, stride, hash, 1, NULL, numbers)
                         : hash_cells(n, text, cells, stride, hash, 0, keys, NULL);
}
