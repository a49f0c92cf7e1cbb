/* kernels/cpu/decimal: every instruction set gives what the scalar one gives. (The scalar one against the exact
 * parser: tests/unit/feature/test_lists.c.) */
#include "kernel_test.h"

static void decimals_agree(void **state) {
    const struct fth_kernels *tables[2], *scalar = fth_kernels_for(FTH_ISA_SCALAR);
    const char *names[2];
    size_t count = tables_under_test(tables, names), good = 0, total = 0;
    struct call c = {.state = 5};
    for (int round = 0; round < 20000; round++) {
        uint64_t words[24] = {0};
        uint32_t lengths[24] = {0};
        size_t n = call_bits(&c) % 17;
        for (size_t i = 0; i < n; i++) {
            char text[8];
            uint32_t plain = call_bits(&c) >> 8 & 3;
            for (int k = 0; k < 8; k++)
                text[k] = (plain || call_bits(&c) >> 8 & 7) ? (char)('0' + (call_bits(&c) >> 8) % 10)
                                                            : (char)(call_bits(&c) >> 8);
            if (call_bits(&c) >> 8 & 1)
                text[(call_bits(&c) >> 8) % 8] = '.';
            if ((call_bits(&c) >> 8) % 4 == 0)
                text[(call_bits(&c) >> 8) % 3] = "-.+"[(call_bits(&c) >> 8) % 3];
            memcpy(&words[i], text, 8);
            lengths[i] = (call_bits(&c) >> 8) % (plain ? 9 : 12);
            if (call_bits(&c) >> 8 % 100 == 0)
                lengths[i] = UINT32_MAX - lengths[i];
        }
        float want[24], got[24];
        uint8_t want_other[24], got_other[24];
        scalar->decimals(n, words, lengths, want, want_other);
        for (size_t k = 0; k < count; k++) {
            tables[k]->decimals(n, words, lengths, got, got_other);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(want_other[i] != 0, got_other[i] != 0);
                if (!want_other[i])
                    assert_memory_equal(&want[i], &got[i], sizeof *want);
                good += !want_other[i];
                total++;
            }
        }
    }
    assert_true(count == 0 || (good > total / 4 && good < total * 3 / 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decimals_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
