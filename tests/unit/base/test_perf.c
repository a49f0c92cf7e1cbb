/* base/perf: counters grow with work where the kernel has them, and a refusal says why. The kernel's own
 * (software) events stand for the hardware's, which virtual machines often lack. */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "base/perf.h"

static volatile double sink;

#define PAGES 64

static void work(void) {
    for (int i = 0; i < 3000000; i++)
        sink = sink + 1.0 / (i + 1);
    char *fresh = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(fresh != MAP_FAILED);
    for (int i = 0; i < PAGES; i++)
        ((volatile char *)fresh)[i * 4096] = 1;
    munmap(fresh, PAGES * 4096);
}

static void counters_grow_with_work(void **state) {
    static const struct fth_perf_event events[FTH_PERF_COUNTERS] = {
        {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, "task clock"},
        {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, "page faults"},
        {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, "minor faults"},
    };
    fth_perf perf;
    fth_error err = {0};
    if (fth_perf_open_events(events, &perf, &err) != FTH_OK) {
        print_message("%s\n", err.message);
        skip();
    }
    uint64_t before[FTH_PERF_COUNTERS], after[FTH_PERF_COUNTERS];
    fth_perf_read(&perf, before);
    work();
    fth_perf_read(&perf, after);
    for (int i = 0; i < FTH_PERF_COUNTERS; i++)
        if (after[i] <= before[i])
            fail_msg("%s: %llu, then %llu", events[i].name, (unsigned long long)before[i], (unsigned long long)after[i]);
    fth_perf_close(&perf);
    fth_perf_read(&perf, after); /* closed: nothing, no crash */
    assert_true(after[0] == 0);
}

static void hardware_counts_or_says_why(void **state) {
    fth_perf perf;
    fth_error err = {0};
    uint64_t before[FTH_PERF_COUNTERS], after[FTH_PERF_COUNTERS];
    fth_status status = fth_perf_open(&perf, &err);
    if (status != FTH_OK) {
        assert_int_equal(status, FTH_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, "does not count"));
        return;
    }
    fth_perf_read(&perf, before);
    work();
    fth_perf_read(&perf, after);
    fth_perf_close(&perf);
    assert_true(after[FTH_PERF_INSTRUCTIONS] - before[FTH_PERF_INSTRUCTIONS] > 3000000);
    assert_true(after[FTH_PERF_CYCLES] > before[FTH_PERF_CYCLES]);
}

static void unknown_events_are_refused(void **state) {
    static const struct fth_perf_event events[FTH_PERF_COUNTERS] = {
        {0xffff, 0, "nonsense"}, {0xffff, 0, "nonsense"}, {0xffff, 0, "nonsense"}};
    fth_perf perf;
    fth_error err = {0};
    assert_int_equal(fth_perf_open_events(events, &perf, &err), FTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "nonsense"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_grow_with_work),
        cmocka_unit_test(hardware_counts_or_says_why),
        cmocka_unit_test(unknown_events_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
