/* Keys of categorical values (docs/models.md): 64 bits, salted by their table's name, as checkpoints have them. Where a
 * field's are those of buckets, batches hold the buckets' numbers: half the bytes, and only unique ones become keys. Pure. */
#ifndef FTH_CORE_KEY_H
#define FTH_CORE_KEY_H

#include <stdint.h>

#include "base/hash.h"

#define FTH_NUMBER_MISSING UINT32_MAX /* stands for a missing value's key */

static inline uint64_t fth_number_key(uint64_t salt, uint64_t number) {
    return fth_hash_mix(salt ^ fth_hash_mix(number));
}

static inline uint64_t fth_missing_key(uint64_t salt) {
    return fth_hash_mix(salt ^ 0x9d1c5f0b6a3e8247ull);
}

/* The key that a batch's number stands for. */
static inline uint64_t fth_bucket_key(uint64_t salt, uint32_t number) {
    return number == FTH_NUMBER_MISSING ? fth_missing_key(salt) : fth_number_key(salt, number);
}

#endif
