/* io: helpers over real files, and over files that are short, interrupted, full, failing, cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "fault_io.h"

static char *dir;

static int setup(void **state) {
    dir = scratch_create();
    return 0;
}

static int teardown(void **state) {
    scratch_remove(dir);
    return 0;
}

static void expect_file(const char *path, const char *bytes, size_t n) {
    char *read;
    size_t length;
    fth_error err = {0};
    if (fth_io_read_file(fth_io_posix(), path, 1 << 24, &read, &length, &err) != FTH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(length, n);
    assert_memory_equal(read, bytes, n);
    assert_int_equal(read[n], 0);
    fth_free(read);
}

static int exists(const char *path) { return access(path, F_OK) == 0; }

static void write_and_read_back(void **state) {
    const struct fth_io *io = fth_io_posix();
    const char *path = scratch_path(dir, "a");
    static char bytes[100000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    assert_int_equal(fth_io_write_file_atomic(io, path, bytes, sizeof bytes, NULL), FTH_OK);
    expect_file(path, bytes, sizeof bytes);
    assert_int_equal(fth_io_write_file_atomic(io, path, "", 0, NULL), FTH_OK);
    expect_file(path, "", 0);
    assert_false(exists(scratch_path(dir, "a.partial")));
}

static void limits_and_kinds_are_refused(void **state) {
    const struct fth_io *io = fth_io_posix();
    const char *path = scratch_path(dir, "a");
    char *read = NULL;
    size_t n = 99;
    fth_error err = {0};
    assert_int_equal(fth_io_write_file_atomic(io, path, "12345", 5, NULL), FTH_OK);
    assert_int_equal(fth_io_read_file(io, path, 5, &read, &n, NULL), FTH_OK);
    fth_free(read);
    read = NULL;
    n = 99;
    assert_int_equal(fth_io_read_file(io, path, 4, &read, &n, &err), FTH_E_LIMIT);
    assert_non_null(strstr(err.message, "4 bytes"));
    assert_int_equal(fth_io_read_file(io, dir, 100, &read, &n, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "directory"));
    assert_int_equal(fth_io_read_file(io, scratch_path(dir, "none"), 100, &read, &n, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "none: No such file"));
    char endless[5000];
    memset(endless, 'x', sizeof endless);
    memcpy(endless + sizeof endless - 5, "/end", 5);
    assert_int_equal(fth_io_read_file(io, endless, 100, &read, &n, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "open ...xxx"));
    assert_non_null(strstr(err.message, "xxx/end: File name too long"));
    assert_null(read);
    assert_int_equal(n, 99);
    /* Files that do not say their size are read to their end, and no further than the limit. */
    assert_int_equal(fth_io_read_file(io, "/dev/null", 10, &read, &n, NULL), FTH_OK);
    assert_int_equal(n, 0);
    fth_free(read);
    read = NULL;
    assert_int_equal(fth_io_read_file(io, "/dev/zero", 100000, &read, &n, &err), FTH_E_LIMIT);
    assert_null(read);
    assert_int_equal(fth_io_read_file(io, "/proc/self/status", 1 << 20, &read, &n, NULL), FTH_OK);
    assert_memory_equal(read, "Name:", 5);
    fth_free(read);
}

static void preads_are_exact(void **state) {
    const struct fth_io *io = fth_io_posix();
    const char *path = scratch_path(dir, "a");
    char bytes[8] = {0};
    fth_error err = {0};
    assert_int_equal(fth_io_write_file_atomic(io, path, "0123456789", 10, NULL), FTH_OK);
    int file = io->open(io->ctx, path, FTH_IO_READ);
    assert_int_equal(fth_io_pread(io, file, path, bytes, 4, 3, NULL), FTH_OK);
    assert_memory_equal(bytes, "3456", 4);
    assert_int_equal(fth_io_pread(io, file, path, bytes, 4, 7, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "ends at byte 10, 11"));
    assert_int_equal(fth_io_pread(io, file, path, bytes, 4, UINT64_MAX - 8, &err), FTH_E_IO);
    io->close(io->ctx, file);
    assert_int_equal(io->open(io->ctx, path, FTH_IO_NEW), -EEXIST);
}

static void directories_are_made_listed_removed(void **state) {
    const struct fth_io *io = fth_io_posix();
    const char *deep = scratch_path(dir, "x/y//z/");
    fth_error err = {0};
    char **names;
    size_t n;
    fth_arena *arena = fth_arena_create(0);
    assert_int_equal(fth_io_make_dirs(io, deep, &err), FTH_OK);
    assert_int_equal(fth_io_make_dirs(io, deep, &err), FTH_OK);
    assert_int_equal(fth_io_make_dirs(io, "", &err), FTH_E_ARGUMENT);
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "x/%c%03d", 'a' + i % 3, 199 - i);
        assert_int_equal(fth_io_write_file_atomic(io, scratch_path(dir, name), "", 0, NULL), FTH_OK);
    }
    assert_int_equal(fth_io_list(io, scratch_path(dir, "x"), arena, &names, &n, NULL), FTH_OK);
    assert_int_equal(n, 201);
    for (size_t i = 1; i < n; i++)
        assert_true(strcmp(names[i - 1], names[i]) < 0);
    assert_string_equal(names[200], "y");
    assert_int_equal(fth_io_list(io, scratch_path(dir, "x/y/z"), arena, &names, &n, NULL), FTH_OK);
    assert_int_equal(n, 0);
    assert_int_equal(fth_io_list(io, scratch_path(dir, "q"), arena, &names, &n, &err), FTH_E_IO);
    /* A file where a directory is wanted. */
    assert_int_equal(fth_io_make_dirs(io, scratch_path(dir, "x/a199"), &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "Not a directory"));
    /* A link is removed, and what it points to stays. */
    assert_int_equal(fth_io_write_file_atomic(io, scratch_path(dir, "keep"), "k", 1, NULL), FTH_OK);
    assert_int_equal(symlink(dir, scratch_path(dir, "x/y/link")), 0);
    assert_int_equal(fth_io_remove(io, scratch_path(dir, "x"), &err), FTH_OK);
    assert_false(exists(scratch_path(dir, "x")));
    expect_file(scratch_path(dir, "keep"), "k", 1);
    assert_int_equal(fth_io_remove(io, scratch_path(dir, "x"), &err), FTH_OK);
    fth_arena_destroy(arena);
}

static void names_without_a_directory_work(void **state) {
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(fth_io_write_file_atomic(fth_io_posix(), "plain", "p", 1, NULL), FTH_OK);
    expect_file("plain", "p", 1);
    assert_int_equal(fth_io_make_dirs(fth_io_posix(), "d", NULL), FTH_OK);
    assert_int_equal(fth_io_write_file_atomic(fth_io_posix(), "d/plain", "q", 1, NULL), FTH_OK);
    assert_int_equal(chdir(before), 0);
}

static void short_and_interrupted_calls_are_whole(void **state) {
    struct fault_io *fault = fault_io_create(fth_io_posix());
    const char *path = scratch_path(dir, "a");
    char *read;
    size_t n;
    fault->short_writes = 3;
    fault->short_reads = 2;
    fault->interrupt_every = 2;
    assert_int_equal(fth_io_write_file_atomic(&fault->io, path, "0123456789", 10, NULL), FTH_OK);
    assert_int_equal(fault->writes, 4);
    expect_file(path, "0123456789", 10);
    assert_int_equal(fth_io_read_file(&fault->io, path, 100, &read, &n, NULL), FTH_OK);
    assert_int_equal(n, 10);
    assert_memory_equal(read, "0123456789", 10);
    fth_free(read);
    char bytes[7];
    int file = fault->io.open(fault->io.ctx, path, FTH_IO_READ);
    assert_int_equal(fth_io_pread(&fault->io, file, path, bytes, 7, 2, NULL), FTH_OK);
    assert_memory_equal(bytes, "2345678", 7);
    fault->io.close(fault->io.ctx, file);
    assert_int_equal(fault_io_open_files(fault), 0);
    fault_io_destroy(fault);
}

/* Each kind of failure leaves the old file, no partial one, nothing open, and says why. */
static void failures_keep_the_old_file(void **state) {
    const char *path = scratch_path(dir, "a");
    static const struct {
        int write, fsync, error;
        const char *reason;
    } cases[] = {{1, 0, ENOSPC, "No space left"}, {2, 0, EIO, "Input/output"}, {0, 1, EIO, "fsync"}};
    assert_int_equal(fth_io_write_file_atomic(fth_io_posix(), path, "old", 3, NULL), FTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fault_io *fault = fault_io_create(fth_io_posix());
        fth_error err = {0};
        fault->short_writes = 2;
        fault->write_at = (uint64_t)cases[i].write;
        fault->fsync_at = (uint64_t)cases[i].fsync;
        fault->write_error = fault->fsync_error = cases[i].error;
        assert_int_equal(fth_io_write_file_atomic(&fault->io, path, "newer", 5, &err), FTH_E_IO);
        assert_non_null(strstr(err.message, cases[i].reason));
        assert_non_null(strstr(err.message, path));
        expect_file(path, "old", 3);
        assert_false(exists(scratch_path(dir, "a.partial")));
        assert_int_equal(fault_io_open_files(fault), 0);
        fault_io_destroy(fault);
    }
    struct fault_io *fault = fault_io_create(fth_io_posix());
    char *read = NULL;
    size_t n;
    fault->read_at = 1;
    fault->read_error = EIO;
    assert_int_equal(fth_io_read_file(&fault->io, path, 10, &read, &n, NULL), FTH_E_IO);
    assert_null(read);
    assert_int_equal(fault_io_open_files(fault), 0);
    fault_io_destroy(fault);
}

static int64_t write_nothing(void *ctx, int file, const void *bytes, size_t n) {
    uint32_t *calls = ctx;
    return ++*calls < 3 ? 0 : -ENOSPC;
}

/* A file that takes no byte and says no reason is not written to for ever. */
static void a_write_of_nothing_fails(void **state) {
    struct fth_io io = *fth_io_posix();
    uint32_t calls = 0;
    fth_error err = {0};
    io.write = write_nothing;
    io.ctx = &calls;
    assert_int_equal(fth_io_write(&io, 1, "a", "new", 3, &err), FTH_E_IO);
    assert_int_equal(calls, 1);
    assert_non_null(strstr(err.message, "Input/output"));
}

/* Stopped after every possible number of operations, with the bytes that were not fsynced kept or lost:
 * the file is the old one or the new one, whole. */
static void a_stop_at_any_operation_leaves_a_whole_file(void **state) {
    const char *path = scratch_path(dir, "a");
    int seen_old = 0, seen_new = 0;
    for (int lose = 0; lose < 2; lose++) {
        for (uint64_t stop = 1;; stop++) {
            struct fault_io *fault = fault_io_create(fth_io_posix());
            assert_int_equal(fth_io_write_file_atomic(fth_io_posix(), path, "old", 3, NULL), FTH_OK);
            fault->short_writes = 4;
            fault->crash_after = stop;
            fault->lose_unsynced = lose;
            fth_status status = fth_io_write_file_atomic(&fault->io, path, "new file", 8, NULL);
            struct stat found;
            assert_int_equal(stat(path, &found), 0);
            int is_new = found.st_size == 8;
            expect_file(path, is_new ? "new file" : "old", is_new ? 8 : 3);
            if (status == FTH_OK)
                assert_true(is_new);
            seen_old += !is_new;
            seen_new += is_new;
            int crashed = fault->crashed;
            fault_io_destroy(fault);
            if (!crashed)
                break;
        }
    }
    assert_true(seen_old >= 8 && seen_new >= 4);
}

/* The fault layer itself: a rename before an fsync must be caught as a loss. */
static void unsynced_bytes_are_lost_at_a_crash(void **state) {
    struct fault_io *fault = fault_io_create(fth_io_posix());
    const struct fth_io *io = &fault->io;
    const char *a = scratch_path(dir, "a"), *b = scratch_path(dir, "b");
    fault->crash_after = 6;
    fault->lose_unsynced = 1;
    int file = io->open(io->ctx, a, FTH_IO_WRITE);
    assert_int_equal(io->write(io->ctx, file, "123", 3), 3);
    assert_int_equal(io->fsync(io->ctx, file), 0);
    assert_int_equal(io->write(io->ctx, file, "456", 3), 3);
    assert_int_equal(io->close(io->ctx, file), 0);
    assert_int_equal(io->rename(io->ctx, a, b), 0);
    assert_int_equal(io->mkdir(io->ctx, scratch_path(dir, "d")), 0);
    expect_file(b, "123456", 6);
    assert_int_equal(io->unlink(io->ctx, b), -EIO);
    assert_true(fault->crashed);
    expect_file(b, "123", 3);
    assert_int_equal(io->open(io->ctx, b, FTH_IO_READ), -EIO);
    fault_io_destroy(fault);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* A new folder's name is made durable in the one above; where directories cannot be fsynced at all, that is no failure. */
static void new_folders_last(void **state) {
    static const struct {
        int error;
        fth_status status;
    } cases[] = {{0, FTH_OK}, {EINVAL, FTH_OK}, {ENOTSUP, FTH_OK}, {EIO, FTH_E_IO}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *folder = scratch_create();
        fth_error err = {0};
        struct fault_io *fault = fault_io_create(fth_io_posix());
        fault->fsync_at = cases[i].error ? 1 : 0;
        fault->fsync_error = cases[i].error;
        assert_int_equal(fth_io_make_dirs(&fault->io, scratch_path(folder, "a/b/c"), &err), cases[i].status);
        assert_int_equal(fault->fsyncs, cases[i].status == FTH_OK ? 3 : 1);
        assert_int_equal(fth_io_make_dirs(&fault->io, scratch_path(folder, "a"), &err), FTH_OK); /* it is there */
        assert_int_equal(fault->fsyncs, cases[i].status == FTH_OK ? 3 : 1);
        assert_int_equal(fault_io_open_files(fault), 0);
        fault_io_destroy(fault);
        scratch_remove(folder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_folders_last),
        TEST(write_and_read_back),
        TEST(limits_and_kinds_are_refused),
        TEST(preads_are_exact),
        TEST(directories_are_made_listed_removed),
        TEST(names_without_a_directory_work),
        TEST(short_and_interrupted_calls_are_whole),
        TEST(failures_keep_the_old_file),
        TEST(a_write_of_nothing_fails),
        TEST(a_stop_at_any_operation_leaves_a_whole_file),
        TEST(unsynced_bytes_are_lost_at_a_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
