/* 64-bit hashing: XXH3 (xxHash). */
#ifndef FTH_BASE_HASH_H
#define FTH_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t fth_hash_bytes(const void *bytes, size_t length, uint64_t seed);

/* An odd number, drawn once a process: the factor of places in tables in memory. Hashes are known to whoever writes the
 * data, and keys that all had one place would cost the square of their number. So of hash * factor the high bits are
 * taken, which are those of another in 2^bits at most one time in 2^(bits - 1) (Dietzfelbinger and others, "A reliable
 * randomized algorithm for the closest-pair problem", 1997). Nothing but time may depend on it. */
uint64_t fth_hash_factor(void);

/* A place from 0 to mask, 2^n - 1 and not 0. */
static inline uint64_t fth_hash_place(uint64_t hash, uint64_t factor, uint64_t mask) {
    return hash * factor >> __builtin_clzll(mask);
}

/* A bijective mix of 64 bits (splitmix64 finaliser), for keys that are numbers already. */
static inline uint64_t fth_hash_mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* What fth_hash_mix, which is one to one, has made this of. */
static inline uint64_t fth_hash_unmix(uint64_t x) {
    x ^= x >> 31 ^ x >> 62;
    x *= 0x319642b2d24d8ec3ull;
    x ^= x >> 27 ^ x >> 54;
    x *= 0x96de1b173f119089ull;
    return x ^ x >> 30 ^ x >> 60;
}

#endif
