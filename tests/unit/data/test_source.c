/* data/ sources and paths: what the first bytes say, damaged and truncated files, globs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <zstd.h>

#include "data/paths.h"
#include "data/source.h"
#include "data_support.h"
#include "fathom/fathom.h"
#include "fault_io.h"

/* Everything of a source, in reads of `step` bytes; NULL when it fails. Owned: free(). */
static char *drain(fth_source *source, size_t step, size_t *n, fth_error *err) {
    size_t capacity = 1 << 20, got;
    char *bytes = malloc(capacity);
    *n = 0;
    do {
        assert_true(*n + step <= capacity);
        if (fth_source_read(source, bytes + *n, step, &got, err) != FTH_OK) {
            free(bytes);
            return NULL;
        }
        *n += got;
    } while (got);
    return bytes;
}

static char *numbers_text(size_t *n) {
    char *text = malloc(400000);
    *n = 0;
    for (int i = 0; i < 40000; i++)
        *n += (size_t)sprintf(text + *n, "%d\n", i * 7919 % 100003);
    return text;
}

static void every_encoding(void **state) {
    size_t n, got;
    char *text = numbers_text(&n);
    const char *path = temp_path("encoded");
    for (int kind = 0; kind < 3; kind++) {
        unlink(path);
        if (kind == 0) {
            write_file(path, text, n);
        } else {
            /* Two members or frames, cut anywhere. */
            (kind == 1 ? write_gzip : write_zstd)(path, text, 12345, 0);
            (kind == 1 ? write_gzip : write_zstd)(path, text + 12345, n - 12345, 1);
        }
        static const size_t steps[] = {17, 4096, 100000};
        for (int s = 0; s < 3; s++) {
            fth_source *source;
            fth_error err = {0};
            const char *peeked;
            uint64_t size;
            assert_int_equal(fth_source_open(fth_io_posix(), path, -1, &source, &err), FTH_OK);
            assert_int_equal(fth_source_size(source, &size), kind == 0);
            assert_int_equal(fth_source_peek(source, 1000, &peeked, &got, &err), FTH_OK);
            assert_int_equal(got, 1000);
            assert_memory_equal(peeked, text, 1000);
            assert_int_equal(fth_source_skip(source, 3, &err), FTH_OK);
            assert_int_equal(fth_source_peek(source, 2000, &peeked, &got, &err), FTH_OK);
            assert_memory_equal(peeked, text + 3, 2000);
            assert_int_equal(fth_source_skip(source, 20000, &err), FTH_OK);
            char *rest = drain(source, steps[s], &got, &err);
            assert_non_null(rest);
            assert_int_equal(got, n - 20003);
            assert_memory_equal(rest, text + 20003, got);
            assert_int_equal(fth_source_skip(source, 1, &err), FTH_E_DATA);
            assert_non_null(strstr(err.message, "ends 1 bytes before"));
            free(rest);
            fth_source_close(source);
        }
    }
    free(text);
}

static void expect_refused(const char *path, const char *reason) {
    fth_source *source = NULL;
    fth_error err = {0};
    size_t n;
    fth_status status = fth_source_open(fth_io_posix(), path, -1, &source, &err);
    if (status == FTH_OK) {
        assert_null(drain(source, 4096, &n, &err));
        assert_int_equal(err.code, FTH_E_DATA);
    }
    assert_non_null(strstr(err.message, path));
    if (!strstr(err.message, reason))
        fail_msg("'%s' does not say '%s'", err.message, reason);
    fth_source_close(source);
}

/* A whole file, of more memory than is given to one. */
static void window_that_is_too_large(void **state) {
    char out[256];
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_inBuffer in = {"1\n2\n", 4, 0};
    ZSTD_outBuffer to = {out, sizeof out, 0};
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 28);
    assert_false(ZSTD_isError(ZSTD_compressStream2(context, &to, &in, ZSTD_e_flush))); /* its size is not known yet */
    assert_int_equal(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end), 0);
    ZSTD_freeCCtx(context);
    const char *path = temp_path("window");
    write_file(path, out, to.pos);
    expect_refused(path, "a window of more than 128 MiB");
}

static void damaged_files(void **state) {
    size_t n, packed;
    char *text = numbers_text(&n);
    const char *whole = temp_path("whole"), *part = temp_path("part");
    for (int zstd = 0; zstd < 2; zstd++) {
        (zstd ? write_zstd : write_gzip)(whole, text, n, 0);
        char *bytes = read_whole(whole, &packed);
        static const size_t cuts[] = {5, 20, 1000};
        for (int c = 0; c < 3; c++) {
            write_file(part, bytes, cuts[c]);
            expect_refused(part, "truncated");
        }
        write_file(part, bytes, packed - 1);
        expect_refused(part, "truncated");
        bytes[packed / 2] ^= 0x55;
        bytes[packed / 2 + 1] ^= 0x55;
        write_file(part, bytes, packed);
        expect_refused(part, zstd ? "zstd data is damaged" : "gzip data is damaged");
        free(bytes);
    }
    write_gzip(part, "1\n", 2, 0);
    FILE *file = fopen(part, "ab");
    fputs("tail", file);
    fclose(file);
    expect_refused(part, "bytes behind the gzip data");
    static const struct {
        const char *bytes, *reason;
        size_t n;
    } others[] = {
        {"\xfd" "7zXZ\0\0\4", "xz data; what can be read", 8},
        {"BZh91AY&SY\1", "bzip2 data", 11},
        {"\x04\x22\x4d\x18@", "lz4 data", 5},
        {"PK\3\4\x14", "a zip archive", 5},
        {"\xff\xfe" "1\0", "UTF-16 text", 4},
        {"\xfe\xff\0" "1", "UTF-16 text", 4},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_file(part, others[i].bytes, others[i].n);
        expect_refused(part, others[i].reason);
    }
    expect_refused(temp_path("absent"), "cannot open");
    mkdir(temp_path("folder"), 0700);
    expect_refused(temp_path("folder"), "is a directory");
    free(text);
}

static void zeros_behind_gzip(void **state) {
    const char *path = temp_path("padded");
    char zeros[700] = {0};
    size_t n;
    fth_source *source;
    fth_error err = {0};
    write_gzip(path, "1\n", 2, 0);
    FILE *file = fopen(path, "ab");
    fwrite(zeros, 1, sizeof zeros, file);
    fclose(file);
    assert_int_equal(fth_source_open(fth_io_posix(), path, -1, &source, &err), FTH_OK);
    char *rest = drain(source, 100, &n, &err);
    assert_non_null(rest);
    assert_int_equal(n, 2);
    free(rest);
    fth_source_close(source);
}

static void short_files(void **state) {
    static const char *const texts[] = {"", "\x1f", "ab", "abc", "abcd", "(\xb5/"};
    const char *path = temp_path("short");
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        size_t n;
        fth_source *source;
        fth_error err = {0};
        write_file(path, texts[t], strlen(texts[t]));
        assert_int_equal(fth_source_open(fth_io_posix(), path, -1, &source, &err), FTH_OK);
        char *rest = drain(source, 1, &n, &err);
        assert_non_null(rest);
        assert_int_equal(n, strlen(texts[t]));
        assert_memory_equal(rest, texts[t], n);
        free(rest);
        fth_source_close(source);
    }
}

/* Short and interrupted reads change nothing; a failing one is told with its place. */
static void failing_reads(void **state) {
    size_t n, got;
    char *text = numbers_text(&n);
    const char *path = temp_path("faulty");
    for (int zstd = 0; zstd < 2; zstd++) {
        fth_source *source;
        fth_error err = {0};
        unlink(path);
        if (zstd)
            write_zstd(path, text, n, 0);
        else
            write_file(path, text, n);
        struct fault_io *fault = fault_io_create(fth_io_posix());
        fault->short_reads = 777;
        fault->interrupt_every = 3;
        assert_int_equal(fth_source_open(&fault->io, path, -1, &source, &err), FTH_OK);
        char *whole = drain(source, 5000, &got, &err);
        assert_non_null(whole);
        assert_int_equal(got, n);
        assert_memory_equal(whole, text, n);
        free(whole);
        fth_source_close(source);
        assert_int_equal(fault_io_open_files(fault), 0);
        fault_io_destroy(fault);

        fault = fault_io_create(fth_io_posix());
        fault->short_reads = 1000;
        fault->read_at = 5;
        fault->read_error = EIO;
        assert_int_equal(fth_source_open(&fault->io, path, -1, &source, &err), FTH_OK);
        assert_null(drain(source, 5000, &got, &err));
        assert_int_equal(err.code, FTH_E_IO);
        fth_source_close(source);
        fault->reads = 0;
        assert_int_equal(fth_source_open(&fault->io, path, -1, &source, &err), FTH_OK);
        assert_null(drain(source, 5000, &got, NULL)); /* whoever asks for no message is told, too */
        assert_non_null(strstr(err.message, path));
        assert_non_null(strstr(err.message, "offset 3010: cannot read"));
        fth_source_close(source);
        fault_io_destroy(fault);
    }
    free(text);
}

/* A file may grow, but what is cut off from it while it is read is missed. */
static void count_written(void *ctx, int level, const char *line) {
    *(int *)ctx += strstr(line, "was written to while it was read (2 bytes then, 4 now)") != NULL;
}

static void files_that_change(void **state) {
    size_t n, got;
    char *text = numbers_text(&n), part[1000];
    const char *path = temp_path("changing");
    for (int zstd = 0; zstd < 2; zstd++) {
        fth_source *source;
        fth_error err = {0};
        unlink(path);
        if (zstd)
            write_zstd(path, text, n, 0);
        else
            write_file(path, text, n);
        assert_int_equal(fth_source_open(fth_io_posix(), path, -1, &source, &err), FTH_OK);
        if (!zstd)
            assert_int_equal(fth_source_read(source, part, sizeof part, &got, &err), FTH_OK);
        assert_int_equal(truncate(path, 1500), 0);
        assert_null(drain(source, 5000, &got, &err));
        assert_int_equal(err.code, FTH_E_DATA);
        assert_non_null(strstr(err.message, "bytes none is left behind byte 1500"));
        fth_source_close(source);
    }
    fth_source *source;
    fth_error err = {0};
    write_file(path, "1\n", 2);
    assert_int_equal(fth_source_open(fth_io_posix(), path, -1, &source, &err), FTH_OK);
    write_file(path, "1\n2\n", 4);
    int told = 0;
    fth_log_to(count_written, &told);
    char *grown = drain(source, 100, &got, &err);
    fth_log_to(NULL, NULL);
    assert_int_equal(told, 1);
    assert_non_null(grown);
    assert_memory_equal(grown, "1\n", 2);
    free(grown);
    fth_source_close(source);
    free(text);
}

static void globs(void **state) {
    static const char *const names[] = {"g-10.csv", "g-2.csv", "g-B.csv", "g-a.csv", "h[1].csv"};
    const char *items[3];
    char pattern[256], literal[256];
    fth_arena *arena = fth_arena_create(1024);
    fth_error err = {0};
    struct fth_strings list = {items, 2}, files;
    for (int i = 0; i < 5; i++)
        write_file(temp_path(names[i]), "1\n", 2);
    mkdir(temp_path("g-dir.csv"), 0700);
    strcpy(pattern, temp_path("g-*.csv"));
    strcpy(literal, temp_path("h[1].csv"));
    items[0] = literal;
    items[1] = pattern;
    assert_int_equal(fth_paths_expand(&list, "data.train", arena, &files, &err), FTH_OK);
    assert_int_equal(files.n, 5);
    assert_string_equal(files.items[0], literal);
    for (int i = 0; i < 4; i++)
        assert_string_equal(files.items[i + 1], temp_path(names[i]));

    items[0] = temp_path("none-*");
    assert_int_equal(fth_paths_expand(&list, "data.train", arena, &files, &err), FTH_E_CONFIG);
    assert_non_null(strstr(err.message, "data.train: '"));
    assert_non_null(strstr(err.message, "none-*' matches no file"));
    items[0] = temp_path("absent");
    assert_int_equal(fth_paths_expand(&list, "data.valid", arena, &files, &err), FTH_E_IO);
    assert_non_null(strstr(err.message, "data.valid: '"));
    assert_non_null(strstr(err.message, "absent': No such file"));
    items[0] = items[1] = "-";
    assert_int_equal(fth_paths_expand(&list, "data.train", arena, &files, &err), FTH_E_CONFIG);
    items[0] = temp_path("g-dir.csv");
    assert_int_equal(fth_paths_expand(&list, "data.train", arena, &files, &err), FTH_E_CONFIG);
    assert_non_null(strstr(err.message, "is a directory"));
    list.n = 0;
    assert_int_equal(fth_paths_expand(&list, "data.train", arena, &files, &err), FTH_E_CONFIG);
    assert_string_equal(err.message, "data.train: no file is given");
    fth_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_encoding),
        cmocka_unit_test(window_that_is_too_large),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(zeros_behind_gzip),
        cmocka_unit_test(short_files),
        cmocka_unit_test(globs),
        cmocka_unit_test(failing_reads),
        cmocka_unit_test(files_that_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
