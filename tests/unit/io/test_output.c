/* io/output: several runs that begin to write one file at the same time; what is left beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault_io.h"
#include "io/output.h"

#define RUNS 4
#define ROUNDS 300

struct one_run {
    pthread_barrier_t *start;
    const char *path;
    char name;
    int whole;
};

/* Locks belong to open files, so threads stand for processes. */
static void *run_main(void *arg) {
    struct one_run *run = arg;
    fth_output out;
    pthread_barrier_wait(run->start);
    if (fth_output_open(run->path, &out, NULL) != FTH_OK)
        return NULL;
    run->whole = write(out.file, &run->name, 1) == 1;
    usleep(200);
    run->whole &= write(out.file, &run->name, 1) == 1;
    run->whole &= fth_output_close(&out, 1, NULL) == FTH_OK;
    run->whole = run->whole ? 1 : -1;
    return NULL;
}

/* Each run is refused, or all its bytes got the name, whoever meets what is left of one that was killed. */
static void runs_at_once(void **state) {
    char *dir = scratch_create(), path[512], beside[520];
    pthread_barrier_t start;
    (void)state;
    snprintf(path, sizeof path, "%s", scratch_path(dir, "result"));
    snprintf(beside, sizeof beside, "%s.part", path);
    assert_int_equal(pthread_barrier_init(&start, NULL, RUNS), 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct one_run runs[RUNS];
        pthread_t threads[RUNS];
        char text[4] = {0};
        FILE *left = fopen(beside, "w");
        assert_non_null(left);
        fclose(left);
        for (int r = 0; r < RUNS; r++) {
            runs[r] = (struct one_run){.start = &start, .path = path, .name = (char)('a' + r)};
            assert_int_equal(pthread_create(&threads[r], NULL, run_main, &runs[r]), 0);
        }
        for (int r = 0; r < RUNS; r++)
            pthread_join(threads[r], NULL);
        FILE *result = fopen(path, "r");
        assert_non_null(result);
        assert_int_equal(fread(text, 1, sizeof text, result), 2);
        fclose(result);
        assert_int_equal(text[0], text[1]);
        assert_int_equal(runs[text[0] - 'a'].whole, 1);
        for (int r = 0; r < RUNS; r++)
            assert_int_not_equal(runs[r].whole, -1);
        assert_int_equal(access(beside, F_OK), -1);
        assert_int_equal(unlink(path), 0);
    }
    pthread_barrier_destroy(&start);
    scratch_remove(dir);
}

/* It is opened to be locked: a pipe must not be waited for, nor a link followed. */
static void left_is_no_file(void **state) {
    char *dir = scratch_create(), path[512], beside[520], other[520];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch_path(dir, "result"));
    snprintf(beside, sizeof beside, "%s.part", path);
    snprintf(other, sizeof other, "%s.other", path);
    for (int link = 0; link < 2; link++) {
        fth_output out;
        assert_int_equal(link ? symlink(other, beside) : mkfifo(beside, 0600), 0);
        assert_int_equal(fth_output_open(path, &out, NULL), FTH_OK);
        assert_int_equal(write(out.file, "x", 1), 1);
        assert_int_equal(fth_output_close(&out, 1, NULL), FTH_OK);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(access(other, F_OK), -1);
        assert_int_equal(access(beside, F_OK), -1);
    }
    scratch_remove(dir);
}

/* A link's file is written in its place: nobody else empties it meanwhile, and the link stays. */
static void a_link_is_locked(void **state) {
    char *dir = scratch_create(), path[512], link[520], other[520], text[4] = {0};
    (void)state;
    snprintf(path, sizeof path, "%s", scratch_path(dir, "result"));
    snprintf(link, sizeof link, "%s.link", path);
    snprintf(other, sizeof other, "%s.other", path);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(symlink(path, other), 0);
    for (int round = 0; round < 2; round++) { /* the file is new, and is there */
        fth_output out, second;
        fth_error err = {0};
        assert_int_equal(fth_output_open(link, &out, NULL), FTH_OK);
        assert_int_equal(write(out.file, "ab", 2), 2);
        assert_int_equal(fth_output_open(other, &second, &err), FTH_E_IO);
        assert_non_null(strstr(err.message, "another run is writing it"));
        assert_int_equal(fth_output_close(&out, 1, NULL), FTH_OK);
        FILE *result = fopen(path, "r");
        assert_non_null(result);
        assert_int_equal(fread(text, 1, sizeof text, result), 2);
        fclose(result);
    }
    fth_output null[2];
    assert_int_equal(unlink(other), 0);
    assert_int_equal(symlink("/dev/null", other), 0);
    for (int i = 0; i < 2; i++) /* devices are everybody's */
        assert_int_equal(fth_output_open(other, &null[i], NULL), FTH_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fth_output_close(&null[i], 1, NULL), FTH_OK);
    scratch_remove(dir);
}

/* A signal's handler is about to remove what an output has beside; another thread closes the output meanwhile. */
static fth_output closing;
static pthread_t handler;
static int removing;
static char removed[520];

int unlink(const char *path) { /* in the place of the C library's */
    if (removing && pthread_equal(pthread_self(), handler)) {
        removing = 0;
        assert_int_equal(fth_output_close(&closing, 1, NULL), FTH_OK);
        char *next = malloc(strlen(removed) + 1); /* memory that was freed is soon another's */
        assert_non_null(next);
        memset(next, 'x', strlen(removed) + 1);
        snprintf(removed, sizeof removed, "%s", path);
        free(next);
    }
    return unlinkat(AT_FDCWD, path, 0);
}

static void closed_while_abandoned(void **state) {
    char *dir = scratch_create(), path[512];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch_path(dir, "result"));
    assert_int_equal(fth_output_open(path, &closing, NULL), FTH_OK);
    char *beside = closing.beside, expected[520];
    snprintf(expected, sizeof expected, "%s.part", path);
    snprintf(removed, sizeof removed, "%s", expected);
    handler = pthread_self();
    removing = 1;
    fth_output_abandon();
    assert_string_equal(removed, expected);
    assert_int_equal(access(path, F_OK), 0);
    free(beside); /* nobody else does, once names are read */
    scratch_remove(dir);
}

static int close_fails(void *ctx, int file) {
    fth_io_posix()->close(ctx, file);
    return -EIO;
}

/* What was written may not have arrived: what was there before keeps the name. */
static void a_close_that_fails(void **state) {
    char *dir = scratch_create(), path[512], text[8] = {0};
    struct fth_io io = *fth_io_posix();
    fth_output out;
    fth_error err = {0};
    (void)state;
    io.close = close_fails;
    snprintf(path, sizeof path, "%s", scratch_path(dir, "result"));
    FILE *before = fopen(path, "w");
    assert_non_null(before);
    fputs("old", before);
    fclose(before);
    assert_int_equal(fth_output_open_io(&io, path, &out, NULL), FTH_OK);
    assert_int_equal(write(out.file, "new", 3), 3);
    assert_int_equal(fth_output_close_io(&io, &out, 1, &err), FTH_E_IO);
    FILE *there = fopen(path, "r");
    assert_non_null(there);
    assert_int_equal(fread(text, 1, sizeof text, there), 3);
    fclose(there);
    assert_string_equal(text, "old");
    snprintf(path, sizeof path, "%s", scratch_path(dir, "result.part"));
    assert_int_equal(access(path, F_OK), -1);
    scratch_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_at_once),
        cmocka_unit_test(left_is_no_file),
        cmocka_unit_test(a_link_is_locked),
        cmocka_unit_test(a_close_that_fails),
        cmocka_unit_test(closed_while_abandoned), /* the last: a process that abandons its outputs ends */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
