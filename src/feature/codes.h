/* Texts by number: a fixed set of 64-bit hashes, each with its place in the set. Read-only once built; any
 * thread. Two texts of one hash are one text (as everywhere in features; 2^-64 a pair). */
#ifndef FTH_FEATURE_CODES_H
#define FTH_FEATURE_CODES_H

#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

struct fth_codes {
    uint64_t *hashes; /* [n], in order */
    uint32_t *slots;  /* [mask + 1] place + 1, 0: empty */
    uint32_t n, mask;
    uint64_t factor; /* base/hash.h */
};

/* Copies the hashes. *twice: n, or the first place whose hash stood before (nothing is built then). Owned:
 * fth_codes_free. Errors: FTH_E_MEMORY, FTH_E_LIMIT above 2^30. */
fth_status fth_codes_build(const uint64_t *hashes, uint32_t n, struct fth_codes *out, uint32_t *twice,
                           fth_error *err);
void fth_codes_free(struct fth_codes *codes);

/* The hash's place, or n. */
static inline uint32_t fth_codes_find(const struct fth_codes *codes, uint64_t hash) {
    for (uint32_t at = (uint32_t)fth_hash_place(hash, codes->factor, codes->mask);; at = (at + 1) & codes->mask) {
        uint32_t place = codes->slots[at];
        if (place == 0)
            return codes->n;
        if (codes->hashes[place - 1] == hash)
            return place - 1;
    }
}

static inline void fth_codes_prefetch(const struct fth_codes *codes, uint64_t hash) {
    __builtin_prefetch(&codes->slots[fth_hash_place(hash, codes->factor, codes->mask)]);
}

#endif
