/* kernels/peaks: every figure is positive and finite, one and two threads; bad arguments are
 * refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/peaks.h"

static void check_rate(fth_status status, const double *rate, const fth_error *err) {
    if (status != FTH_OK)
        fail_msg("%s", err->message);
    assert_true(isfinite(*rate) && *rate > 0.0);
}

static void rates_are_positive(void **state) {
    for (uint32_t threads = 1; threads <= 2; threads++) {
        fth_error err = {0};
        double rate = 0.0;
        check_rate(fth_peak_fma(threads, &rate, &err), &rate, &err);
        print_message("%u threads: %.1f GFLOP/s", threads, rate);
        rate = 0.0;
        check_rate(fth_peak_read(threads, &rate, &err), &rate, &err);
        print_message(", read %.1f", rate);
        rate = 0.0;
        check_rate(fth_peak_copy(threads, &rate, &err), &rate, &err);
        print_message(", copy %.1f GB/s", rate);
        rate = 0.0;
        check_rate(fth_peak_gather(threads, 16, &rate, &err), &rate, &err);
        print_message(", gather %.1f Mrows/s\n", rate);
    }
}

static void any_row_width(void **state) {
    static const uint32_t dims[] = {1, 130};
    for (int i = 0; i < 2; i++) {
        fth_error err = {0};
        double rate = 0.0;
        check_rate(fth_peak_gather(1, dims[i], &rate, &err), &rate, &err);
    }
}

static void refuses_bad_arguments(void **state) {
    fth_error err = {0};
    double rate = -1.0;
    assert_int_equal(fth_peak_fma(0, &rate, &err), FTH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "0 threads"));
    assert_int_equal(fth_peak_read(FTH_PEAKS_THREADS + 1, &rate, &err), FTH_E_ARGUMENT);
    assert_int_equal(fth_peak_copy(0, &rate, &err), FTH_E_ARGUMENT);
    assert_int_equal(fth_peak_gather(0, 16, &rate, &err), FTH_E_ARGUMENT);
    assert_int_equal(fth_peak_gather(1, 0, &rate, &err), FTH_E_ARGUMENT);
    assert_int_equal(fth_peak_gather(1, FTH_PEAKS_MAX_DIM + 1, &rate, &err), FTH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "1025 floats"));
    assert_true(rate == -1.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_positive),
        cmocka_unit_test(any_row_width),
        cmocka_unit_test(refuses_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
