/* Keys of texts where there is AVX2 but not AVX-512: one at a time, as a 64-bit product of vectors is three of 32 bits
 * and some sums there, and eight products of whole registers are as quick. Texts of four to eight bytes, nearly all in
 * most lists, come first; the rest by the library. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "kernels/cpu/simd_avx2.h"
#include "kernels/text_key.h"

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

static FTH_INLINE void keys_of(size_t n, const char *text, const uint32_t *begins,
                               const uint32_t *ends, const struct fth_text_hash *hash, int buckets,
                               uint64_t *keys) {
    uint64_t flip = fth_text_flip_4to8(hash->salt), key;
    for (size_t i = 0; i < n; i++) {
        uint32_t begin = begins[i], length = ends[i] - begin;
        if (__builtin_expect(length - 4 <= 4, 1)) {
            uint64_t word;
            memcpy(&word, text + begin, sizeof word);
            key = hash_4to8(word, length, flip);
        } else {
            key = XXH3_64bits_withSeed(text + begin, length, hash->salt);
        }
        if (buckets)
            key = fth_bucket_key(hash->salt, bucket_of(key, hash));
        keys[i] = length ? key : hash->missing;
    }
}

void FTH_K(text_keys)(size_t n, const char *text, const uint32_t *begins,
                      const uint32_t *ends, const struct fth_text_hash *hash, uint64_t *keys) {
    if (hash->buckets)
        keys_of(n, text, begins, ends, hash, 1, keys);
    else
        keys_of(n, text, begins, ends, hash, 0, keys);
}

static FTH_INLINE uint32_t cell_keys(size_t n, const char *text, const uint32_t *cells, size_t stride,
                                     const struct fth_text_hash *hash, int buckets, uint64_t *keys) {
    uint64_t flip = fth_text_flip_4to8(hash->salt), missing = hash->missing, word;
    uint32_t others = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t *cell = cells + 2 * i * stride;
        memcpy(&word, text + cell[0], sizeof word);
        uint64_t key = hash_4to8(word, 8, flip);
        if (buckets)
            key = fth_bucket_key(hash->salt, bucket_of(key, hash));
        uint64_t present = 0 - (uint64_t)(cell[1] != 0); /* no branch: nothing foretells it */
        keys[i] = (key & present) | (missing & ~present);
        others |= cell[1] & ~8u;
    }
    return others;
}

uint32_t FTH_K(cell_keys)(size_t n, const char *text, const uint32_t *cells, size_t stride,
                          const struct fth_text_hash *hash, uint64_t *keys) {
    return hash->buckets ? cell_keys(n, text, cells, stride, hash, 1, keys)
                         : cell_keys(n, text, cells, stride, hash, 0, keys);
}

uint32_t FTH_K(key_buckets)(size_t n, const uint64_t *keys, uint64_t salt, uint32_t buckets, uint32_t *numbers) {
    return fth_k_key_buckets_scalar(n, keys, salt, buckets, numbers);
}
