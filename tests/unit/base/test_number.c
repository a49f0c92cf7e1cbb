/* base/number: equal to strtof for every accepted text; everything else refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <locale.h>
#include <cmocka.h>

#include "base/number.h"

static void same_as_strtof(const char *text) {
    size_t n = strlen(text);
    /* Not terminated: more digits follow in memory. */
    char *copy = malloc(n + 3);
    memcpy(copy, text, n);
    memcpy(copy + n, "99", 3);
    float expected = strtof(text, NULL), got = 12345;
    enum fth_number result = fth_number_parse(copy, n, &got);
    free(copy);
    if (isinf(expected)) {
        if (result != FTH_NUMBER_TOO_LARGE)
            fail_msg("'%s' should be too large", text);
        return;
    }
    if (result != FTH_NUMBER_OK || memcmp(&expected, &got, sizeof got) != 0)
        fail_msg("'%s': strtof %a, got %a (result %d)", text, (double)expected, (double)got, result);
}

static void hand_picked(void **state) {
    const char *texts[] = {
        "0", "-0", "+0", "1", "-1", "+7", "0001", "5.", ".5", "-.5e1", "1e5", "1E+5", "1e-5", "0.1",
        "16777216", "16777217", "16777219", "9999999", "-9999999", "123456789", "1e22", "1e23",
        "3.4028234e38", "3.4028235e38", "3.40282356e38", "3.4028236e38", "1e39", "-1e39", "1e400",
        "1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999",
        "1.17549435e-38", "1.1754943e-38", "1.4e-45", "7e-46", "7.0064923216240853e-46",
        "7.0064923216240854e-46", "7.1e-46", "1e-46", "1e-400", "5.877471754111438e-39",
        /* halfway between two floats, and a hair to either side */
        "1.000000059604644775390625", "1.00000005960464477539062500000000000000000000000001",
        "1.00000005960464477539062499999999999999999999999999", "16777217.0", "16777217.00000000001",
        "33554434.000000000000000000000000001", "8388608.5", "8388609.5", "0.000000059604644775390625",
        "9007199254740993", "9007199254740991", "9007199791611905", "9007199791611904",
        "18446744073709551615", "18446744073709551616", "340282346638528859811704183484516925440",
        "340282356779733661637539395458142568447", "340282356779733661637539395458142568448"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        same_as_strtof(texts[i]);
}

static void long_digit_strings(void **state) {
    char text[1200];
    for (int variant = 0; variant < 12; variant++) {
        size_t n = 0;
        if (variant & 1)
            n += (size_t)sprintf(text, "0.");
        for (int i = 0; i < 400; i++)
            text[n++] = (char)('0' + (i * 7 + variant) % 10);
        if ((variant & 3) == 2)
            n += (size_t)sprintf(text + n, ".25");
        sprintf(text + n, "e%d", variant >= 6 ? -390 : variant == 5 ? 12 : 0);
        same_as_strtof(text);
    }
    /* A tie decided by the 400th digit. */
    size_t n = (size_t)sprintf(text, "1.000000059604644775390625");
    memset(text + n, '0', 370);
    strcpy(text + n + 370, "1");
    same_as_strtof(text);
    strcpy(text + n + 370, "0");
    same_as_strtof(text);
    strcpy(text, "0.");
    memset(text + 2, '0', 500);
    strcpy(text + 502, "123456e505");
    same_as_strtof(text);
    memset(text, '0', 500);
    strcpy(text + 500, "12.5");
    same_as_strtof(text);
}

static void random_texts(void **state) {
    uint64_t x = 88172645463325252ull;
    char text[256];
    for (int i = 0; i < 300000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint32_t bits = (uint32_t)(x >> 20);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value) || nextafterf(value, INFINITY) == INFINITY)
            continue;
        double halfway = ((double)value + (double)nextafterf(value, INFINITY)) / 2;
        switch (i % 6) {
        case 0:
            sprintf(text, "%d", (int)(x >> 40) - (1 << 23));
            break;
        case 1:
            sprintf(text, "%.*f", (int)(x % 8), (double)(int64_t)(x >> 8 & 0xffffffffff) / 1000.0);
            break;
        case 2:
            sprintf(text, "%.*g", 6 + (int)(x % 20), (double)value);
            break;
        case 3: /* nearly halfway between two floats, as far as 17 digits show it */
            sprintf(text, "%.17g", halfway);
            break;
        case 4:
            sprintf(text, "%llu.%llue%d", (unsigned long long)(x >> 11),
                    (unsigned long long)(x & 0xffff), (int)(x % 90) - 60);
            break;
        default: /* exactly halfway */
            sprintf(text, "%.180g", halfway);
        }
        same_as_strtof(text);
    }
}

static void refused(void **state) {
    const char *texts[] = {"",    " ",   " 1",   "1 ",  "-",     "+",      ".",    "-.", "e5",
                           "1e",  "1e+", "1e-",  "1e5x", "0x10",  "0X1p3",  "inf",  "-inf", "nan",
                           "NaN", "infinity", "1..2", "1.2.3", "--1", "+-1", "1,5", "1_000", "1e1.5",
                           "12a", "a12", "1\t",  "1234567x", "\xff", ".e1", "1f"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        float x = 7;
        if (fth_number_parse(texts[i], strlen(texts[i]), &x) != FTH_NUMBER_MALFORMED || x != 7)
            fail_msg("'%s' was not refused", texts[i]);
    }
    float x = 7;
    assert_int_equal(fth_number_parse("1\0", 2, &x), FTH_NUMBER_MALFORMED);
}

/* A decimal comma in the process's locale must not matter (where such a locale is installed). */
static void locale_does_not_matter(void **state) {
    const char *names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (int i = 0; i < 3; i++)
        if (setlocale(LC_NUMERIC, names[i]))
            break;
    float x = 0;
    assert_int_equal(fth_number_parse("1.000000059604644775390625", 26, &x), FTH_NUMBER_OK);
    assert_true(x == 1.0f);
    setlocale(LC_NUMERIC, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_picked), cmocka_unit_test(long_digit_strings),
        cmocka_unit_test(random_texts), cmocka_unit_test(refused),
        cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
