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
