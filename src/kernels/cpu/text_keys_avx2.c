/* Keys of texts where there is AVX2 but not AVX-512: four at a time, where all of them have four to eight bytes, as nearly
 * all in most lists do, or none; the others one by one, those of other lengths by the library. A 64-bit product of vectors
 * is three of 32 bits and some sums. See kernels/text_key.h. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "kernels/cpu/simd_avx2.h"
#include "kernels/text_key.h"

/* Where there are buckets, keys are made in two passes: numbers of buckets, or NONE, and their keys. One pass is a chain of
 * products so long that the next texts' would not fit into what a core has in hand. */
#define NONE UINT64_MAX /* for the empty text */
#define STRETCH 128u    /* texts between the passes */

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
        return buckets ? NONE : hash->missing;
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

/* The upper halves of the products. */
static FTH_INLINE vw vw_mul_high(vw a, uint64_t b) {
    vw a_high = vw_right(a, 32), b_low = vw_set(b), b_high = vw_set(b >> 32);
    vw middle = vw_add(vi_mul_even(a_high, b_low), vw_right(vi_mul_even(a, b_low), 32));
    vw other = vw_add(vi_mul_even(a, b_high), vi_and(middle, vw_set(UINT32_MAX)));
    return vw_add(vi_mul_even(a_high, b_high), vw_add(vw_right(middle, 32), vw_right(other, 32)));
}

static FTH_INLINE vw vw_mix(vw x) { /* fth_hash_mix */
    x = vw_mul(vw_xor_right(x, 30), 0xbf58476d1ce4e5b9ull);
    x = vw_mul(vw_xor_right(x, 27), 0x94d049bb133111ebull);
    return vw_xor_right(x, 31);
}

static FTH_INLINE vw buckets_of(vw x, const struct fth_text_hash *hash) {
    x = vw_sub(x, vw_mul(vw_mul_high(x, hash->reciprocal), hash->buckets));
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
    vw empty = vw_set(buckets ? NONE : hash->missing);
    return _mm256_blendv_epi8(x, empty, _mm256_cmpeq_epi64(lengths, vw_set(0)));
}

/* Numbers of buckets, or NONE, become keys. */
static void mix_buckets(size_t n, const struct fth_text_hash *hash, uint64_t *keys) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        vw number = _mm256_loadu_si256((const __m256i *)(const void *)(keys + i));
        vw key = vw_mix(vi_xor(vw_mix(number), vw_set(hash->salt)));
        key = _mm256_blendv_epi8(key, vw_set(hash->missing), _mm256_cmpeq_epi64(number, vw_set(NONE)));
        _mm256_storeu_si256((__m256i *)(void *)(keys + i), key);
    }
    for (; i < n; i++)
        keys[i] = keys[i] == NONE ? hash->missing : fth_bucket_key(hash->salt, keys[i]);
}

static FTH_INLINE void texts_4(const char *text, const uint32_t *begins, const uint32_t *ends,
                               const struct fth_text_hash *hash, int buckets, uint64_t *keys) {
    __m128i from = _mm_loadu_si128((const __m128i *)(const void *)begins);
    __m128i lengths = _mm_sub_epi32(_mm_loadu_si128((const __m128i *)(const void *)ends), from);
    __m128i beyond = _mm_sub_epi32(lengths, _mm_set1_epi32(4));
    __m128i usual = _mm_cmpeq_epi32(_mm_min_epu32(beyond, _mm_set1_epi32(4)), beyond);
    usual = _mm_or_si128(usual, _mm_cmpeq_epi32(lengths, _mm_setzero_si128()));
    if (_mm_movemask_epi8(usual) != 0xffff) {
        for (int k = 0; k < 4; k++)
            keys[k] = hash_one(text + begins[k], ends[k] - begins[k], hash, buckets);
        return;
    }
    vw words = words_4(text, begins[0], begins[1], begins[2], begins[3]);
    vw last = _mm256_srlv_epi64(words, _mm256_cvtepu32_epi64(_mm_slli_epi32(beyond, 3)));
    vw x = vi_or(vw_left(words, 32), vi_and(last, vw_set(UINT32_MAX)));
    x = hash_4(x, _mm256_cvtepu32_epi64(lengths), hash, buckets);
    _mm256_storeu_si256((__m256i *)(void *)keys, x);
}

static FTH_INLINE void hash_texts(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends,
                                  const struct fth_text_hash *hash, int buckets, uint64_t *keys) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        texts_4(text, begins + i, ends + i, hash, buckets, keys + i);
    for (; i < n; i++)
        keys[i] = hash_one(text + begins[i], ends[i] - begins[i], hash, buckets);
}

void FTH_K(text_keys)(size_t n, const char *text, const uint32_t *begins,
                      const uint32_t *ends, const struct fth_text_hash *hash, uint64_t *keys) {
    if (!hash->buckets)
        hash_texts(n, text, begins, ends, hash, 0, keys);
    for (size_t i = 0, count; hash->buckets && i < n; i += count) {
        count = n - i < STRETCH ? n - i : STRETCH;
        hash_texts(count, text, begins + i, ends + i, hash, 1, keys + i);
        mix_buckets(count, hash, keys + i);
    }
}

static FTH_INLINE uint32_t hash_cells(size_t n, const char *text, const uint32_t *cells, size_t stride,
                                     const struct fth_text_hash *hash, int buckets, uint64_t *keys) {
    __m128i others = _mm_setzero_si128();
    size_t step = 2 * stride;
    for (size_t i = 0; i < n; i += 4) {
        uint64_t last[4], *to = n - i < 4 ? last : keys + i;
        size_t next = n - i > 1 ? step : 0, third = n - i > 2 ? 2 * step : 0, fourth = n - i > 3 ? 3 * step : 0;
        vw words = words_4(text, cells[0], cells[next], cells[third], cells[fourth]);
        __m128i lengths = _mm_set_epi32((int)cells[fourth + 1], (int)cells[third + 1], (int)cells[next + 1], (int)cells[1]);
        vw x = hash_4(_mm256_shuffle_epi32(words, 0xb1), _mm256_cvtepu32_epi64(lengths), hash, buckets);
        _mm256_storeu_si256((__m256i *)(void *)to, x);
        others = _mm_or_si128(others, _mm_andnot_si128(_mm_set1_epi32(8), lengths));
        if (to == last)
            memcpy(keys + i, last, (n - i) * sizeof *keys);
        cells += 4 * step;
    }
    return !_mm_testz_si128(others, others);
}

uint32_t FTH_K(cell_keys)(size_t n, const char *text, const uint32_t *cells, size_t stride,
                          const struct fth_text_hash *hash, uint64_t *keys) {
    if (!hash->buckets)
        return hash_cells(n, text, cells, stride, hash, 0, keys);
    uint32_t others = 0;
    for (size_t i = 0, count; i < n; i += count) {
        count = n - i < STRETCH ? n - i : STRETCH;
        others |= hash_cells(count, text, cells + 2 * i * stride, stride, hash, 1, keys + i);
        mix_buckets(count, hash, keys + i);
    }
    return others;
}

uint32_t FTH_K(key_buckets)(size_t n, const uint64_t *keys, uint64_t salt, uint32_t buckets, uint32_t *numbers) {
    return fth_buckets_of(n, keys, salt, buckets, numbers);
}
