/* Keys of categorical texts: a salted 64-bit hash (XXH3), reduced to a bucket's number where there are buckets. A text of
 * eight bytes or fewer is hashed from one word of memory, without a loop; what its hash is then, the xxHash
 * specification says ("XXH3 algorithm: small inputs"). The vector forms (kernels.def: text_keys) do that to several
 * texts at a time. Pure. */
#ifndef FTH_KERNELS_TEXT_KEY_H
#define FTH_KERNELS_TEXT_KEY_H

#include <stddef.h>
#include <stdint.h>

/* What keys of a table are made with. */
struct fth_text_hash {
    uint64_t salt;
    uint64_t missing;    /* the key of the empty text, whose number is UINT32_MAX */
    uint32_t buckets;    /* 0: the hash is the key */
    uint64_t reciprocal; /* fth_text_reciprocal(buckets) */
};

/* (2^64 - 1) / buckets. Its product with a hash has a quotient in its upper half that is right or too small by 1: what
 * is left out is below hash / 2^64. */
static inline uint64_t fth_text_reciprocal(uint32_t buckets) {
    return buckets ? UINT64_MAX / buckets : 0;
}

/* Constants of XXH3: what a short text is changed by before it is mixed (parts of the default secret), multipliers. */
#define FTH_TEXT_FLIP_1TO3 0x0000000087275a9bull
#define FTH_TEXT_FLIP_4TO8 0xc73ab174c5ecd5a2ull
#define FTH_TEXT_PRIME_A 0xc2b2ae3d27d4eb4full
#define FTH_TEXT_PRIME_B 0x165667b19e3779f9ull
#define FTH_TEXT_PRIME_C 0x9fb21c651e98df25ull

static inline uint64_t fth_text_flip_1to3(uint64_t salt) { return FTH_TEXT_FLIP_1TO3 + salt; }
static inline uint64_t fth_text_flip_4to8(uint64_t salt) {
    return FTH_TEXT_FLIP_4TO8 - (salt ^ (uint64_t)__builtin_bswap32((uint32_t)salt) << 32);
}

#endif
