/* base/hash: XXH3's published values stay what they are, since checkpoints hold keys made from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"

static void xxh3_is_pinned(void **state) {
    assert_true(fth_hash_bytes("", 0, 0) == 0x2d06800538d394c2ull);
    assert_true(fth_hash_bytes("abc", 3, 1) != fth_hash_bytes("abc", 3, 2));
    assert_true(fth_hash_bytes("abc", 3, 1) != fth_hash_bytes("abd", 3, 1));
}

static void mix_spreads_and_keeps_apart(void **state) {
    uint64_t seen[4096];
    assert_true(fth_hash_mix(0) == 0);
    for (uint64_t i = 0; i < 4096; i++) {
        seen[i] = fth_hash_mix(i);
        assert_true(fth_hash_unmix(seen[i]) == i);
        for (uint64_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
    }
    int flipped = 0;
    for (int bit = 0; bit < 64; bit++)
        flipped += __builtin_popcountll(fth_hash_mix(12345) ^ fth_hash_mix(12345 ^ (1ull << bit)));
    assert_in_range(flipped, 64 * 28, 64 * 36);
}

/* Hashes that somebody has made alike in their low 40 bits, and in their high 24. */
static void crafted_hashes_have_places_of_their_own(void **state) {
    uint64_t factor = fth_hash_factor();
    assert_true(factor & 1);
    assert_true(fth_hash_factor() == factor);
    for (int shift = 0; shift <= 40; shift += 40) {
        unsigned char taken[1024] = {0};
        unsigned different = 0;
        for (uint64_t i = 0; i < 4096; i++) {
            uint64_t place = fth_hash_place((fth_hash_mix(i) >> 40) << shift, factor, 1023);
            assert_in_range(place, 0, 1023);
            different += !taken[place];
            taken[place] = 1;
        }
        assert_in_range(different, 900, 1024);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xxh3_is_pinned),
        cmocka_unit_test(mix_spreads_and_keeps_apart),
        cmocka_unit_test(crafted_hashes_have_places_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
