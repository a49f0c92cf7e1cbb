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

/* Elements of a list are the same texts one by one, whatever stands between them. */
static void lists_agree(void **state) {
    const struct fth_kernels *tables[FTH_ISA_COUNT], *scalar = fth_kernels_for(FTH_ISA_SCALAR);
    const char *names[FTH_ISA_COUNT];
    size_t count = tables_under_test(tables, names);
    tables[count++] = scalar;
    struct call c = {.state = 9};
    uint64_t good = 0;
    for (int round = 0; round < 20000; round++) {
        char text[1024] = {0};
        uint32_t ends[40], lengths[40] = {0}, gap = 1 + (call_bits(&c) >> 8) % 3, at;
        uint32_t n = 1 + (call_bits(&c) >> 8) % 24, start = (call_bits(&c) >> 8) % 5;
        uint64_t words[40] = {0};
        memset(ends, 0xff, sizeof ends); /* what is behind them is not looked at */
        at = start;
        for (uint32_t i = 0; i < n; i++) {
            lengths[i] = (call_bits(&c) >> 8) % 11;
            for (uint32_t k = 0; k < lengths[i] + gap; k++)
                text[at + k] = "01234567890123456789.-;"[(call_bits(&c) >> 8) % 23];
            ends[i] = at + lengths[i];
            at = ends[i] + gap;
        }
        at = start;
        for (uint32_t i = 0; i < n; i++) {
            memcpy(&words[i], text + at, sizeof *words);
            at = ends[i] + gap;
        }
        float want[40], got[40];
        uint8_t want_other[40], got_other[40];
        scalar->decimals(n, words, lengths, want, want_other);
        for (size_t k = 0; k < count; k++) {
            tables[k]->decimal_list(n, text, start, gap, ends, got, got_other);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(want_other[i] != 0, got_other[i] != 0);
                if (!want_other[i])
                    assert_memory_equal(&want[i], &got[i], sizeof *want);
                good += !want_other[i];
            }
        }
    }
    assert_true(good > 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decimals_agree), cmocka_unit_test(lists_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
