/* base/error: codes, messages, frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"

static void fail_writes_code_and_message(void **state) {
    fth_error err = {0};
    assert_int_equal(fth_fail(&err, FTH_E_DATA, "%s:%d: bad", "f", 3), FTH_E_DATA);
    assert_int_equal(err.code, FTH_E_DATA);
    assert_string_equal(err.message, "f:3: bad");
    assert_int_equal(fth_fail(NULL, FTH_E_IO, "x"), FTH_E_IO);
}

static void frame_goes_in_front(void **state) {
    fth_error err = {0};
    fth_fail(&err, FTH_E_IO, "cannot read");
    fth_error_frame(&err, "file %s", "a");
    assert_int_equal(err.code, FTH_E_IO);
    assert_string_equal(err.message, "file a: cannot read");
    fth_error_append(&err, "; %s is whole", "b");
    assert_string_equal(err.message, "file a: cannot read; b is whole");
}

static void long_messages_stay_terminated(void **state) {
    fth_error err = {0};
    char big[3000];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    fth_fail(&err, FTH_E_IO, "%s", big);
    fth_error_frame(&err, "%s", "frame");
    assert_true(strlen(err.message) >= sizeof err.message - 8);
    assert_memory_equal(err.message, "frame: xxx", 10);
    fth_error_frame(&err, "%s", big);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

/* Where and why stay, whatever the path between them; no letter is cut in two. */
static void long_messages_keep_both_ends(void **state) {
    fth_error err = {0};
    char path[3001];
    for (size_t shift = 0; shift < 2; shift++) {
        for (size_t i = 0; i < 1500; i++)
            memcpy(path + 2 * i, "\xc3\xbc", 3);
        fth_fail(&err, FTH_E_DATA, "%s%s:7: not a number", shift ? "a" : "", path);
        const char *cut = strstr(err.message, "...");
        assert_non_null(cut);
        assert_int_equal((cut - err.message) % 2, shift);
        assert_memory_equal(cut, "...\xc3\xbc", 5);
        assert_non_null(strstr(cut, "\xbc:7: not a number"));
        fth_error_frame(&err, "cannot train on %s", path);
        assert_memory_equal(err.message, "cannot train on \xc3", 17);
        assert_non_null(strstr(err.message, "\xbc:7: not a number"));
        assert_int_equal(err.code, FTH_E_DATA);
        fth_error_append(&err, " (the last is %s)", "step-7");
        assert_memory_equal(err.message, "cannot train on \xc3", 17);
        assert_non_null(strstr(err.message, "\xbc:7: not a number (the last is step-7)"));
        assert_int_equal(err.code, FTH_E_DATA);
    }
}

static void statuses_have_names(void **state) {
    (void)state;
    assert_string_equal(fth_status_name(FTH_OK), "ok");
    for (int a = FTH_E_NUMERIC; a <= FTH_OK; a++)
        for (int b = FTH_E_NUMERIC - 1; b < a; b++) /* the first is none */
            assert_string_not_equal(fth_status_name((fth_status)a), fth_status_name((fth_status)b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(fail_writes_code_and_message),
        cmocka_unit_test(frame_goes_in_front),
        cmocka_unit_test(long_messages_stay_terminated),
        cmocka_unit_test(long_messages_keep_both_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
