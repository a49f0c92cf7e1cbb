/* Building a set of numbered hashes: see codes.h. Half of the slots at most are used. */
#include "feature/codes.h"

#include <string.h>

#include "base/memory.h"

fth_status fth_codes_build(const uint64_t *hashes, uint32_t n, struct fth_codes *out, uint32_t *twice,
                           fth_error *err) {
    struct fth_codes codes = {.n = n, .mask = 3, .factor = fth_hash_factor()};
    *twice = n;
    if (n > 1u << 30)
        return fth_fail(err, FTH_E_LIMIT, "%u texts are more than a vocabulary can hold", n);
    while (codes.mask + 1 < 2 * n)
        codes.mask = 2 * codes.mask + 1;
    codes.hashes = fth_alloc((size_t)n + 1, sizeof *codes.hashes);
    codes.slots = fth_alloc((size_t)codes.mask + 1, sizeof *codes.slots);
    if (!codes.hashes || !codes.slots) {
        fth_codes_free(&codes);
        return fth_fail(err, FTH_E_MEMORY, "no memory for a vocabulary of %u texts", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)fth_hash_place(hashes[i], codes.factor, codes.mask);
        for (; codes.slots[at]; at = (at + 1) & codes.mask)
            if (codes.hashes[codes.slots[at] - 1] == hashes[i]) {
                *twice = i;
                fth_codes_free(&codes);
                return FTH_OK;
            }
        codes.hashes[i] = hashes[i];
        codes.slots[at] = i + 1;
    }
    *out = codes;
    return FTH_OK;
}

void fth_codes_free(struct fth_codes *codes) {
    fth_free(codes->hashes);
    fth_free(codes->slots);
    *codes = (struct fth_codes){0};
}
