/* Keys of texts, plain: the reference of text_keys_avx2.c and text_keys_avx512.c. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/text_key.h"

void fth_k_text_keys_scalar(size_t n, const char *text, const uint32_t *begins,
                            const uint32_t *ends, const struct fth_text_hash *hash, uint64_t *keys) {
    for (size_t i = 0; i < n; i++) {
        uint32_t begin = begins[i], length = ends[i] - begin;
        uint64_t key = XXH3_64bits_withSeed(text + begin, length, hash->salt);
        if (hash->buckets)
            key = fth_bucket_key(hash->salt, key % hash->buckets);
        keys[i] = length ? key : hash->missing;
    }
}

uint32_t fth_k_cell_keys_scalar(size_t n, const char *text, const uint32_t *cells, size_t stride,
                                const struct fth_text_hash *hash, uint64_t *keys) {
    uint32_t others = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t *cell = cells + 2 * i * stride;
        uint64_t key = XXH3_64bits_withSeed(text + cell[0], 8, hash->salt);
        if (hash->buckets)
            key = fth_bucket_key(hash->salt, key % hash->buckets);
        uint64_t present = 0 - (uint64_t)(cell[1] != 0); /* no branch: nothing foretells it */
        keys[i] = (key & present) | (hash->missing & ~present);
        others |= cell[1] & ~8u;
    }
    return others;
}

uint32_t fth_k_key_buckets_scalar(size_t n, const uint64_t *keys, uint64_t salt, uint32_t buckets, uint32_t *numbers) {
    return fth_buckets_of(n, keys, salt, buckets, numbers);
}
