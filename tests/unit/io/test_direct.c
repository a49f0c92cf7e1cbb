/* io/direct.h: the file's bytes, whatever is asked for; files that change, and what cannot be read so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fault_io.h"
#include "io/direct.h"

#define BYTES ((size_t)FTH_DIRECT_BYTES * (FTH_DIRECT_REQUESTS + 3) + 12345)

static char *dir, *bytes;

static int setup(void **state) {
    dir = scratch_create();
    bytes = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    return 0;
}

static int teardown(void **state) {
    scratch_remove(dir);
    free(bytes);
    return 0;
}

/* The file of `n` bytes, open; *direct is NULL where its file system has no O_DIRECT, which is no failure. */
static int new_file(const char *name, size_t n, fth_direct **direct) {
    int file = open(scratch_path(dir, name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    for (size_t at = 0; at < n;) {
        ssize_t written = write(file, bytes + at, n - at);
        assert_true(written > 0);
        at += (size_t)written;
    }
    *direct = fth_direct_open(file);
    if (!*direct) {
        close(file);
        print_message("no O_DIRECT in %s: not tested\n", dir);
        skip();
    }
    return file;
}

static int64_t read_at(fth_direct *direct, char *to, size_t n, uint64_t offset, int wait) {
    int64_t got;
    while ((got = fth_direct_read(direct, to, n, offset, wait)) == -EAGAIN)
        assert_false(wait);
    return got;
}

static void every_byte_in_order(void **state) {
    static const size_t steps[] = {1000, 128 << 10, (128 << 10) - 777, 3 << 20}, sizes[] = {1, 4095, 1 << 20, BYTES};
    char *read = malloc(3 << 20);
    for (size_t s = 0; s < 4; s++)
        for (int wait = 0; wait < 2; wait++)
            for (size_t k = 0; k < 4; k++) {
                fth_direct *direct;
                int file = new_file("a", sizes[s], &direct);
                uint64_t at = 0;
                int64_t got;
                while ((got = read_at(direct, read, steps[k], at, wait)) > 0) {
                    assert_true((size_t)got <= steps[k]);
                    assert_memory_equal(read, bytes + at, (size_t)got);
                    at += (uint64_t)got;
                }
                assert_int_equal(got, 0);
                assert_int_equal(at, sizes[s]);
                fth_direct_close(direct);
                close(file);
            }
    free(read);
}

static void any_offset(void **state) {
    static const uint64_t offsets[] = {BYTES - 1, 0, 5 << 20, (5 << 20) + 100, 1 << 20, BYTES, BYTES + (7 << 20), 4095, UINT64_MAX};
    fth_direct *direct;
    int file = new_file("a", BYTES, &direct);
    char read[100];
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        uint64_t left = offsets[i] < BYTES ? BYTES - offsets[i] : 0, n = left < sizeof read ? left : sizeof read;
        assert_int_equal(read_at(direct, read, sizeof read, offsets[i], 1), n);
        assert_memory_equal(read, bytes + (n ? offsets[i] : 0), n);
    }
    fth_direct_close(direct); /* with requests on their way */
    close(file);
}

static void another_file_by_that_name(void **state) {
    fth_direct *direct;
    int file = new_file("a", BYTES, &direct);
    char read[100];
    fth_direct_close(direct);
    assert_int_equal(rename(scratch_path(dir, "a"), scratch_path(dir, "b")), 0);
    int other = open(scratch_path(dir, "a"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(other, "other", 5), 5);
    direct = fth_direct_open(file);
    assert_non_null(direct);
    close(file); /* it has its own */
    assert_int_equal(read_at(direct, read, sizeof read, 3, 1), sizeof read);
    assert_memory_equal(read, bytes + 3, sizeof read);
    fth_direct_close(direct);
    close(other);
}

static void a_file_that_becomes_shorter(void **state) {
    fth_direct *direct;
    int file = new_file("a", BYTES, &direct);
    char read[100];
    assert_int_equal(ftruncate(file, 3000000), 0);
    assert_int_equal(read_at(direct, read, sizeof read, 2999990, 1), 10);
    assert_memory_equal(read, bytes + 2999990, 10);
    assert_true(read_at(direct, read, sizeof read, 3000000, 1) < 0);
    assert_true(read_at(direct, read, sizeof read, 9 << 20, 1) < 0);
    fth_direct_close(direct);
    close(file);
}

static void what_is_no_file(void **state) {
    int ends[2], folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(pipe(ends), 0);
    assert_null(fth_direct_open(ends[0]));
    assert_null(fth_direct_open(folder));
    assert_null(fth_direct_open(-1));
    fth_direct_close(NULL);
    close(ends[0]);
    close(ends[1]);
    close(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_in_order),
        cmocka_unit_test(any_offset),
        cmocka_unit_test(another_file_by_that_name),
        cmocka_unit_test(a_file_that_becomes_shorter),
        cmocka_unit_test(what_is_no_file),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
