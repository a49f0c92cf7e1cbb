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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_writes_code_and_message),
        cmocka_unit_test(frame_goes_in_front),
        cmocka_unit_test(long_messages_stay_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
