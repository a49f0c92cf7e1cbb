/* data/reader: a thread that cannot be started is an error that is told, whichever it is; nobody waits for it. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "reader_files.h"

static int left = -1; /* threads that may still be started; -1: any number */

/* In place of the C library's. The pause lets those that run meet what is missing. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg) {
    if (left == 0) {
        usleep(20000);
        return EAGAIN;
    }
    left -= left > 0;
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &symbol, sizeof real);
    return real(thread, attributes, start, arg);
}

static void threads_that_do_not_start(void **state) {
    struct fth_transform transform = hash_transform();
    struct fth_data_config config = make_config();
    struct fth_reader_options options = {.batch_size = 8, .epochs = 1};
    fth_data_set *set;
    config.parse_threads = 2;
    config.block_bytes = 50;
    for (int started = 0; started < 4; started++) { /* one reads, two parse, one assembles */
        fth_reader *reader = NULL;
        fth_error err = {0};
        assert_int_equal(fth_data_set_create(&config, &train_set, &set, NULL), FTH_OK);
        left = started;
        fth_status status = fth_reader_create(set, &transform, &options, &reader, &err);
        left = -1;
        assert_int_equal(status, FTH_E_MEMORY);
        assert_non_null(strstr(err.message, "cannot start a reading thread"));
        assert_null(reader);
        fth_data_set_destroy(set);
    }
    struct read_result result = read_all(&config, &train_set, &options);
    assert_int_equal(result.status, FTH_OK);
    assert_int_equal(result.examples, LINES);
    read_result_free(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_that_do_not_start)};
    return cmocka_run_group_tests(tests, make_files, free_pool);
}
