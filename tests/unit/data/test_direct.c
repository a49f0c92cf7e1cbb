/* data.direct_reads: when it begins and ends, and that the bytes are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/source_private.h"
#include "data_support.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define BYTES ((size_t)20000000)

static void verdicts(void **state) {
    int some;
    fth_direct *reads = (fth_direct *)&some; /* only looked at */
    static const struct {
        int direct;
        uint64_t bytes;
        double cost, cached_cost;
        uint64_t from_disk, left, all, memory;
        enum fth_direct_verdict verdict;
    } cases[] = {
        /* In memory: as fast as its copies are. */
        {0, 16 * MIB, .1, 0, 0, GIB, GIB, 8 * GIB, FTH_DIRECT_GO_ON},
        {0, 16 * MIB, 2, 0, 0, GIB, GIB, 8 * GIB, FTH_DIRECT_BEGIN},
        {0, 16 * MIB, 2, 0, MIB, GIB, GIB, 8 * GIB, FTH_DIRECT_BEGIN},
        {0, 16 * MIB, 2, 0, 0, 31 * MIB, GIB, 8 * GIB, FTH_DIRECT_GO_ON},
        /* From the disk: what fits into memory is to get there. */
        {0, 16 * MIB, 2, 0, 16 * MIB, GIB, GIB, 8 * GIB, FTH_DIRECT_GO_ON},
        {0, 16 * MIB, 2, 0, 16 * MIB, GIB, 5 * GIB, 8 * GIB, FTH_DIRECT_BEGIN},
        {0, 16 * MIB, .2, 0, 16 * MIB, GIB, 5 * GIB, 8 * GIB, FTH_DIRECT_GO_ON},
        /* No slower than before. */
        {1, 64 * MIB, .2, 2, 0, GIB, GIB, 8 * GIB, FTH_DIRECT_GO_ON},
        {1, 64 * MIB, 2.2, 2, 0, MIB, GIB, 8 * GIB, FTH_DIRECT_GO_ON},
        {1, 64 * MIB, 2.6, 2, 0, GIB, GIB, 8 * GIB, FTH_DIRECT_GIVE_UP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fth_source_direct direct = {.mode = FTH_DIRECT_AUTO,
                                           .all_bytes = cases[i].all,
                                           .reads = cases[i].direct ? reads : NULL,
                                           .bytes = cases[i].bytes,
                                           .ns = (uint64_t)(cases[i].cost * (double)cases[i].bytes),
                                           .cached_cost = cases[i].cached_cost};
        enum fth_direct_verdict verdict =
            fth_source_judge(&direct, cases[i].from_disk, cases[i].left, cases[i].memory);
        if (verdict != cases[i].verdict)
            fail_msg("case %zu: %d", i, (int)verdict);
    }
}

static char *new_file(const char *path) {
    char *bytes = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (char)('a' + (i * 2654435761u >> 20) % 26);
    unlink(path);
    write_file(path, bytes, BYTES);
    return bytes;
}

static void same_bytes(void **state) {
    const char *path = temp_path("letters");
    char *bytes = new_file(path), *read = malloc(BYTES + 1);
    for (int mode = FTH_DIRECT_OFF; mode <= FTH_DIRECT_ON; mode++) {
        fth_source *source;
        fth_error err = {0};
        size_t got, n = 0, direct = 0;
        assert_int_equal(fth_source_open(fth_io_posix(), path, -1, &source, &err), FTH_OK);
        fth_source_set_direct(source, mode, BYTES);
        do {
            /* Without waiting where that can be, else with: as a reader's workers and its thread. */
            fth_source_set_now(source, 1);
            fth_status status = fth_source_read(source, read + n, BYTES + 1 - n < 130000 ? BYTES + 1 - n : 130000, &got, &err);
            fth_source_set_now(source, 0);
            if (status == FTH_E_INTERRUPTED)
                status = fth_source_read(source, read + n, BYTES + 1 - n < 130000 ? BYTES + 1 - n : 130000, &got, &err);
            assert_int_equal(status, FTH_OK);
            direct += source->direct.reads ? got : 0;
            n += got;
        } while (got);
        assert_int_equal(n, BYTES);
        assert_memory_equal(read, bytes, BYTES);
        if (mode == FTH_DIRECT_OFF)
            assert_int_equal(direct, 0);
        if (mode == FTH_DIRECT_ON)
            print_message("%zu of %zu bytes past the page cache\n", direct, BYTES);
        fth_source_close(source);
    }
    free(bytes);
    free(read);
}

/* What is wrong with the file is said as without; other tables of functions have no such reading. */
static void files_that_change(void **state) {
    const char *path = temp_path("letters");
    struct fth_io other = *fth_io_posix();
    for (int k = 0; k < 2; k++) {
        char *bytes = new_file(path), *read = malloc(BYTES);
        fth_source *source;
        fth_error err = {0};
        size_t got = 1, n = 0;
        fth_status status = FTH_OK;
        assert_int_equal(fth_source_open(k ? &other : fth_io_posix(), path, -1, &source, &err), FTH_OK);
        fth_source_set_direct(source, FTH_DIRECT_ON, BYTES);
        while (status == FTH_OK && got) {
            status = fth_source_read(source, read + n, BYTES - n < 100000 ? BYTES - n : 100000, &got, &err);
            if (status != FTH_OK)
                break;
            if (k)
                assert_null(source->direct.reads);
            assert_memory_equal(read + n, bytes + n, got);
            if (n < 100000 && n + got >= 100000)
                assert_int_equal(truncate(path, 15000000), 0);
            n += got;
        }
        assert_int_equal(status, FTH_E_DATA);
        assert_int_equal(n, 15000000);
        assert_non_null(strstr(err.message, "has become shorter while it was read: of 20000000 bytes none is left behind byte "
                                            "15000000"));
        fth_source_close(source);
        free(bytes);
        free(read);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(files_that_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
