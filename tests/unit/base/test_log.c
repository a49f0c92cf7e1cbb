/* base/log: lines arrive whole, one call at a time, and none when silenced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>

#include "base/log.h"

static int lines, inside; /* plain: the log's own lock is what keeps them right */
static char last[3000];

static void keep(void *ctx, int level, const char *line) {
    inside++;
    assert_int_equal(inside, 1);
    assert_ptr_equal(ctx, &lines);
    strncpy(last, line, sizeof last - 1);
    lines++;
    inside--;
}

static void *log_many(void *arg) {
    for (int i = 0; i < 200; i++)
        fth_log(FTH_LOG_INFO, "line %d", i);
    return NULL;
}

static void lines_do_not_mix(void **state) {
    pthread_t threads[3];
    fth_log(FTH_LOG_WARN, "nobody listens");
    fth_log_set(keep, &lines);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lines, 600);
    assert_string_equal(last, "line 199");
    fth_log(FTH_LOG_WARN, "%2500d", 1);
    assert_int_equal(strlen(last), 2047);
    fth_log_set(NULL, NULL);
    fth_log(FTH_LOG_WARN, "nobody listens");
    assert_int_equal(lines, 601);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_do_not_mix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
