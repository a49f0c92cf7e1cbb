/* base/names: thousands of names, each with its number; a name that is there keeps the number it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/names.h"

#define NAMES 5000

static void each_has_its_number(void **state) {
    static char text[NAMES][8];
    struct fth_names names = {0};
    uint32_t there;
    assert_int_equal(fth_names_find(&names, "c0"), FTH_NO_NAME);
    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(text[i], sizeof text[i], "c%u", i);
        assert_true(fth_names_add(&names, text[i], i, &there));
        assert_int_equal(there, FTH_NO_NAME);
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        char again[8];
        snprintf(again, sizeof again, "c%u", i);
        assert_true(fth_names_add(&names, again, i + 1, &there));
        assert_int_equal(there, i);
        assert_int_equal(fth_names_find(&names, again), i);
    }
    assert_int_equal(names.n, NAMES);
    assert_int_equal(fth_names_find(&names, "c5000"), FTH_NO_NAME);
    assert_int_equal(fth_names_find(&names, ""), FTH_NO_NAME);
    fth_names_free(&names);
    assert_int_equal(fth_names_find(&names, "c0"), FTH_NO_NAME);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_has_its_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
