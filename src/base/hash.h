/* 64-bit hashing: XXH3 (xxHash). */
#ifndef FTH_BASE_HASH_H
#define FTH_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t fth_hash_bytes(const void *bytes, size_t length, uint64_t seed);

/* A bijective mix of 64 bits (splitmix64 finaliser), for keys that are numbers already. */
static inline uint64_t fth_hash_mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

#endif
