/* Hashing: see base/hash.h. Pure functions. */
#include "base/hash.h"

#include <xxhash.h>

uint64_t fth_hash_bytes(const void *bytes, size_t length, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes, length, seed);
}
