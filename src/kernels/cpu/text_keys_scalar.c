/* Keys of texts, plain: the reference of text_keys_avx2.c and text_keys_avx512.c. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/text_key.h"

static inline void put(const struct fth_text_hash *hash, uint64_t key, int present, size_t i, uint64_t *keys,
                       uint32_t *numbers) {
    uint64_t mask = 0 - (uint64_t)(present != 0); /* no branch: nothing foretells it */
    if (hash->buckets)
        numbers[i] = (uint32_t)(key % hash->buckets | ~mask);
    else
        keys[i] = (key & mask) | (hash->missing & ~mask);
}

void fth_k_text_keys_scalar(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends,
                            const struct fth_text_hash *hash, uint64_t *keys, uint32_t *numbers) {
    for (size_t i = 0; i < n; i++) {
        uint32_t length = ends[i] - begins[i];
        put(hash, XXH3_64bits_withSeed(text + begins[i], length, hash->salt), length != 0, i, keys, numbers);
    }
}

uint32_t fth_k_cell_keys_scalar(size_t n, const char *text, const uint32_t *cells, size_t stride,
                                const struct fth_text_hash *hash, uint64_t *keys, uint32_t *numbers) {
    uint32_t others = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t *cell = cells + 2 * i * stride;
        put(hash, XXH3_64bits_withSeed(text + cell[0], 8, hash->salt), cell[1] != 0, i, keys, numbers);
        others |= cell[1] & ~8u;
    }
    return others;
}
