/* Hashing: see base/hash.h. Any thread. */
#include "base/hash.h"

#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>
#include <xxhash.h>

uint64_t fth_hash_bytes(const void *bytes, size_t length, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes, length, seed);
}

uint64_t fth_hash_factor(void) {
    static _Atomic uint64_t factor; /* 0: not drawn */
    uint64_t drawn = 0, there = atomic_load(&factor);
    if (there)
        return there;
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != sizeof drawn)
        drawn = fth_hash_mix((uint64_t)time(NULL) ^ (uint64_t)(uintptr_t)&drawn);
    return atomic_compare_exchange_strong(&factor, &there, drawn | 1) ? drawn | 1 : there;
}
