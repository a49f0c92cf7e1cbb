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
            if ((call_bits(&c) >> 8) % 100 == 0)
                lengths[i] = UINT32_MAX - lengths[i];
        }
        float want[24], got[24];
        uint8_t want_other[24], got_other[24];
        scalar->decimals(n, words, lengths, want, want_other);
        for (size_t k = 0; k < count; k++) {
            tables[k]->decimals(n, words, lengths, got, got_other);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(want_other[i] != 0, got_other[i] != 0);
                if (!lengths[i])
                    assert_int_equal(0, got_other[i]);
                else if (!want_other[i])
                    assert_memory_equal(&want[i], &got[i], sizeof *want);
                good += lengths[i] && !want_other[i];
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
        uint32_t begins[40] = {0}, ends[40], lengths[40] = {0}, n = 1 + (call_bits(&c) >> 8) % 24;
        uint64_t words[40] = {0};
        for (uint32_t i = 0, at = 0; i < n; i++) {
            begins[i] = at += (call_bits(&c) >> 8) % 5;
            lengths[i] = (call_bits(&c) >> 8) % 11;
            for (uint32_t k = 0; k < lengths[i] + 4; k++)
                text[at + k] = "01234567890123456789.-;"[(call_bits(&c) >> 8) % 23];
            ends[i] = at += lengths[i];
        }
        for (uint32_t i = n; i < 40; i++) {
            begins[i] = begins[0];
            ends[i] = ends[0];
        }
        for (uint32_t i = 0; i < n; i++)
            memcpy(&words[i], text + begins[i], sizeof *words);
        float want[40], got[40];
        uint8_t want_other[40], got_other[40];
        scalar->decimals(n, words, lengths, want, want_other);
        for (uint32_t i = 0; i < n; i++)
            want_other[i] |= lengths[i] == 0; /* an element that is empty is no number */
        for (size_t k = 0; k < count; k++) {
            int any = tables[k]->decimal_list(n, text, begins, ends, got, got_other), wanted = 0;
            for (uint32_t i = 0; i < n; i++)
                wanted |= want_other[i] != 0;
            assert_int_equal(any != 0, wanted);
            for (uint32_t i = 0; i < n; i++) {
                if (any)
                    assert_int_equal(want_other[i] != 0, got_other[i] != 0);
                if (!want_other[i])
                    assert_memory_equal(&want[i], &got[i], sizeof *want);
                good += !want_other[i];
            }
        }
    }
    assert_true(good > 100000);
}

/* Nothing is read but eight bytes of each element. */
static void lists_end_where_they_end(void **state) {
    const struct fth_kernels *tables[FTH_ISA_COUNT];
    const char *names[FTH_ISA_COUNT];
    size_t count = tables_under_test(tables, names);
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    for (uint32_t n = 1; n <= 17; n++) {
        enum { GAP = 5000 };
        size_t length = (size_t)(n - 1) * (1 + GAP) + 8;
        char *text = malloc(length);
        size_t all = (n + 7) / 8 * 8;
        uint32_t *begins = calloc(all, sizeof *begins), *ends = calloc(all, sizeof *ends);
        float *out = malloc(all * sizeof *out);
        uint8_t *other = malloc(all);
        memset(text, ';', length);
        for (uint32_t i = 0; i < n; i++) {
            begins[i] = i * (1 + GAP);
            ends[i] = begins[i] + 1;
            text[begins[i]] = (char)('0' + i % 10);
        }
        for (uint32_t i = n; i < all; i++)
            ends[i] = 1;
        for (size_t k = 0; k < count; k++) {
            assert_false(tables[k]->decimal_list(n, text, begins, ends, out, other));
            for (uint32_t i = 0; i < n; i++)
                assert_true(out[i] == (float)(i % 10));
        }
        free(text), free(begins), free(ends), free(out), free(other);
    }
}

/* Sums of lists of every length, of numbers whose sum depends on the order. */
static void sums_agree(void **state) {
    const struct fth_kernels *tables[FTH_ISA_COUNT];
    const char *names[FTH_ISA_COUNT];
    size_t count = tables_under_test(tables, names);
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    struct call c = {.state = 4};
    for (int round = 0; round < 2000; round++) {
        uint32_t lengths[20], n = (call_bits(&c) >> 8) % 21, all = 0;
        double got[20], want[20];
        for (uint32_t i = 0; i < n; i++)
            all += lengths[i] = (call_bits(&c) >> 8) % 12;
        float *x = malloc(all * sizeof *x + 1), *next = x; /* of its length: nothing behind it is read */
        for (uint32_t i = 0; i < all; i++)
            x[i] = ldexpf(call_number(&c, -1, 1), (int)((call_bits(&c) >> 8) % 120) - 60);
        for (uint32_t i = 0; i < n; i++) {
            want[i] = 0;
            for (uint32_t k = 0; k < lengths[i]; k++)
                want[i] += (double)*next++;
        }
        for (size_t k = 0; k < count; k++) {
            tables[k]->list_sums(n, lengths, x, got);
            assert_memory_equal(got, want, n * sizeof *got);
        }
        free(x);
    }
}

/* Missing cells' numbers, and numbers looked up: whole ones of both signs at a table's end, fractions, NaN. */
static void look_ups_agree(void **state) {
    const struct fth_kernels *tables[2], *scalar = fth_kernels_for(FTH_ISA_SCALAR);
    const char *names[2];
    size_t count = tables_under_test(tables, names);
    static const float odd[] = {0.0f, -0.0f, 9, -9, 10, -10, 0.5f, -8.5f, 3e9f, -1e30f, INFINITY, NAN, 9.000001f};
    struct call c = {.state = 3};
    float table[10], x[32], want[32], got[32];
    uint8_t want_other[32], got_other[32];
    uint32_t lengths[32];
    for (uint32_t i = 0; i < 10; i++)
        table[i] = call_number(&c, 0, 5);
    for (int round = 0; round < 2000; round++) {
        size_t n = call_bits(&c) % 25, all = (n + 7) / 8 * 8;
        for (size_t i = 0; i < all; i++) {
            uint32_t k = (call_bits(&c) >> 8) % 30;
            x[i] = k < sizeof odd / sizeof *odd ? odd[k] : (float)k - 20;
            lengths[i] = call_bits(&c) >> 8 & 1 ? call_bits(&c) : 0;
        }
        memcpy(want, x, sizeof x);
        scalar->look_up_whole(n, table, 10, want, want_other);
        for (size_t i = 0; i < n; i++) {
            int known = fabsf(x[i]) < 10 && fabsf(x[i]) == floorf(fabsf(x[i]));
            float is = known ? copysignf(table[(int)fabsf(x[i])], x[i]) : x[i];
            assert_memory_equal(&is, &want[i], sizeof is);
            assert_int_equal(want_other[i] == 0, known);
        }
        for (size_t k = 0; k < count; k++) {
            memcpy(got, x, sizeof x);
            tables[k]->look_up_whole(n, table, 10, got, got_other);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(want_other[i] != 0, got_other[i] != 0);
            assert_memory_equal(want, got, n * sizeof *got);
        }
        memcpy(want, x, sizeof x);
        scalar->or_absent(n, lengths, -3.5f, want);
        for (size_t i = 0; i < n; i++)
            assert_memory_equal(&want[i], lengths[i] ? &x[i] : (float[]){-3.5f}, sizeof *x);
        for (size_t k = 0; k < count; k++) {
            memcpy(got, x, sizeof x);
            tables[k]->or_absent(n, lengths, -3.5f, got);
            assert_memory_equal(want, got, n * sizeof *got);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decimals_agree), cmocka_unit_test(lists_agree), cmocka_unit_test(lists_end_where_they_end),
                                       cmocka_unit_test(sums_agree), cmocka_unit_test(look_ups_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
