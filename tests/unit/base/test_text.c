/* base/text: growing string, number parsing, nearest name, formatting for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/text.h"

static void text_grows(void **state) {
    struct fth_text text = {0};
    assert_string_equal(fth_text_get(&text), "");
    for (int i = 0; i < 1000; i++) {
        fth_text_append(&text, "ab", 2);
        fth_text_printf(&text, "%d,", i % 10);
    }
    assert_int_equal(text.length, 4000);
    assert_int_equal(strlen(fth_text_get(&text)), 4000);
    assert_memory_equal(fth_text_get(&text) + 3996, "ab9,", 5);
    fth_text_append(&text, "x", SIZE_MAX - 100);
    assert_true(text.failed);
    assert_int_equal(strlen(fth_text_get(&text)), 4000);
    fth_text_free(&text);
    assert_string_equal(fth_text_get(&text), "");
}

static int i64(const char *s, int64_t *out) { return fth_parse_i64(s, strlen(s), out); }
static int u64(const char *s, uint64_t *out) { return fth_parse_u64(s, strlen(s), out); }
static int f64(const char *s, double *out) { return fth_parse_f64(s, strlen(s), out); }

static void integers(void **state) {
    int64_t i = 5;
    uint64_t u = 5;
    assert_true(i64("-9223372036854775808", &i) && i == INT64_MIN);
    assert_true(i64("9223372036854775807", &i) && i == INT64_MAX);
    assert_true(i64("+7", &i) && i == 7);
    assert_true(i64("-0", &i) && i == 0);
    assert_true(u64("18446744073709551615", &u) && u == UINT64_MAX);
    assert_true(u64("000012", &u) && u == 12);
    assert_true(fth_parse_i64("12xyz", 2, &i) && i == 12);
    i = 5, u = 5;
    static const char *const bad[] = {"", "-", "+", "-+1", "+-1", "--1", " 1", "1 ", "1.0", "0x1", "a"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_false(i64(bad[k], &i));
        assert_false(u64(bad[k], &u));
    }
    assert_false(i64("9223372036854775808", &i));
    assert_false(i64("-9223372036854775809", &i));
    assert_false(u64("18446744073709551616", &u));
    assert_false(u64("99999999999999999999999", &u));
    assert_false(u64("-1", &u));
    assert_true(i == 5 && u == 5);
}

static void reals(void **state) {
    static const char *const good[] = {"0", "-0", "1", "+1.5", ".5", "5.", "-12.75e2", "1e22", "1e23",
        "1E-22", "1e-23", "123456789012345", "1234567890123456789", "12345678901234567890123",
        "0.1", "0.30000000000000004", "1.7976931348623157e308", "4.9e-324", "1e-400", "2.2250738585072011e-308",
        "0000000000000000000000000001", "0.00000000000000000000000000012", "9007199254740993",
        "0e999999999999999999999", "1e-999999999999999999999"};
    static const char *const bad[] = {"", ".", "-", "+", "e5", "1e", "1e+", "1e5x", "1..2", "1.2.3", " 1", "1 ",
        "nan", "inf", "-inf", "infinity", "0x10", "1,5", "1e309", "1e99999999999999999999", "--1", "1f"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double value = 7, expected = strtod(good[i], NULL);
        assert_true(f64(good[i], &value));
        assert_memory_equal(&value, &expected, sizeof value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = 7;
        assert_false(f64(bad[i], &value));
        assert_true(value == 7);
    }
    double value;
    assert_true(fth_parse_f64("2.5\t7", 3, &value) && value == 2.5);
    char longest[FTH_NUMBER_MAX + 2];
    memset(longest, '1', sizeof longest);
    memcpy(longest, "0.", 2);
    assert_true(fth_parse_f64(longest, FTH_NUMBER_MAX, &value) && value > 0.111 && value < 0.112);
    assert_false(fth_parse_f64(longest, FTH_NUMBER_MAX + 1, &value));
}

/* The short exact way and the C library must agree wherever both can go. */
static void reals_agree_with_the_c_library(void **state) {
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t r[4];
        char text[64];
        double value, expected;
        fth_random_draw(1, 1, 1, i, r);
        int digits = 1 + (int)(r[0] % 19);
        double x = ldexp(r[1] / 4294967296.0 + 0.5, (int)(r[2] % 120) - 60);
        snprintf(text, sizeof text, r[3] & 1 ? "%.*e" : "%.*g", digits, r[3] & 2 ? -x : x);
        expected = strtod(text, NULL);
        assert_true(f64(text, &value));
        assert_memory_equal(&value, &expected, sizeof value);
    }
}

/* A decimal comma in the process's locale must not matter (where such a locale is installed). */
static void numbers_have_a_point(void **state) {
    static const char *const names[] = {"C", "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < 4; i++) {
        char text[32], theirs[32];
        if (!setlocale(LC_NUMERIC, names[i]))
            continue;
        snprintf(theirs, sizeof theirs, "%g", 0.5);
        fth_format_f64(text, 9, 1.0 / 3);
        assert_string_equal(text, "0.333333333");
        fth_format_f64(text, 17, -1.7976931348623157e308);
        assert_string_equal(text, "-1.7976931348623157e+308");
        snprintf(text, sizeof text, "%g", 0.5); /* and theirs stays */
        assert_string_equal(text, theirs);
    }
    setlocale(LC_NUMERIC, "C");
}

static void nearest_name(void **state) {
    static const char *const names[] = {"batch_size", "learning_rate", "epochs", "adam", "adagrad"};
    assert_string_equal(fth_nearest("learning_rat", names, 5), "learning_rate");
    assert_string_equal(fth_nearest("bach_sise", names, 5), "batch_size");
    assert_string_equal(fth_nearest("AdaGrad", names, 5), "adagrad");
    assert_string_equal(fth_nearest("adan", names, 5), "adam");
    assert_string_equal(fth_nearest("aadm", names, 5), "adam"); /* neighbours swapped: one edit */
    assert_null(fth_nearest("zebra", names, 5));
    assert_null(fth_nearest("", names, 5));
    assert_null(fth_nearest("x", names, 0));
    char long_word[100];
    memset(long_word, 'a', 99);
    long_word[99] = 0;
    assert_null(fth_nearest(long_word, names, 5));
}

static void bytes_for_people(void **state) {
    static const struct {
        double bytes;
        const char *text;
    } cases[] = {{0, "0 B"}, {999, "999 B"}, {1000, "1.0 kB"}, {12345678901.0, "12.3 GB"},
                 {999960, "1.0 MB"}, {1e18, "1000.0 PB"}, {-2500, "-2.5 kB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[32];
        fth_format_bytes(out, cases[i].bytes);
        assert_string_equal(out, cases[i].text);
    }
}

static void quoting(void **state) {
    char out[16];
    fth_text_quote(out, sizeof out, "plain", 5);
    assert_string_equal(out, "plain");
    fth_text_quote(out, sizeof out, "a\tb\\\xc3", 5);
    assert_string_equal(out, "a\\x09b\\x5c\\xc3");
    fth_text_quote(out, sizeof out, "123456789012345", 15);
    assert_string_equal(out, "123456789012345");
    fth_text_quote(out, sizeof out, "1234567890123456", 16);
    assert_string_equal(out, "123456789012...");
    fth_text_quote(out, 3, "abcdef", 6);
    assert_string_equal(out, "..");
    fth_text_quote(out, 1, "abc", 3);
    assert_string_equal(out, "");
    fth_text_quote(out, sizeof out, "", 0);
    assert_string_equal(out, "");
}

static void names(void **state) {
    static const char *const few[] = {"y", "gr\xc3\xb6\xc3\x9f" "e", "u\r1"};
    const char *many[200];
    struct fth_text text = {0};
    fth_text_append(&text, "has ", 4);
    fth_text_names(&text, few, 3);
    assert_string_equal(fth_text_get(&text), "has y, gr\xc3\xb6\xc3\x9f" "e, u\\x0d1");
    fth_text_free(&text);
    for (int i = 0; i < 200; i++)
        many[i] = "column";
    fth_text_names(&text, many, 200);
    assert_in_range(text.length, 400, 415);
    assert_string_equal(fth_text_get(&text) + text.length - 11, "column, ...");
    fth_text_free(&text);
}

static void whole_numbers_as_text(void **state) {
    static const int64_t numbers[] = {0, 7, 10, -1, -10, 1234567890, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char out[FTH_WHOLE_TEXT], want[32];
        int length = snprintf(want, sizeof want, "%lld", (long long)numbers[i]);
        assert_int_equal(fth_format_i64(out, numbers[i]), length);
        assert_memory_equal(out, want, length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_as_text),
        cmocka_unit_test(text_grows),
        cmocka_unit_test(integers),
        cmocka_unit_test(reals),
        cmocka_unit_test(reals_agree_with_the_c_library),
        cmocka_unit_test(numbers_have_a_point),
        cmocka_unit_test(nearest_name),
        cmocka_unit_test(bytes_for_people),
        cmocka_unit_test(quoting),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
