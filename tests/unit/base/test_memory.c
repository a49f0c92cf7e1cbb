/* base/memory: alignment, zeroing, overflow, arenas, padding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"

static void blocks_are_aligned_and_zeroed(void **state) {
    for (size_t n = 0; n < 300; n += 7) {
        unsigned char *block = fth_alloc(n, 1);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(block[i], 0);
        memset(block, 0xff, n);
        fth_free(block);
    }
    fth_free(NULL);
}

static void large_blocks_begin_with_a_huge_page(void **state) {
    static const size_t page = (size_t)2 << 20;
    const size_t sizes[] = {page / 2, page - page / 16, page - 1, page, page + 5, 4 * page - 300000, 4 * page + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int again = 0; again < 2; again++) { /* in memory that was written to, if the heap gives it again */
            unsigned char *block = fth_alloc(sizes[i], 1);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % (sizes[i] > page / 2 ? page : 64), 0);
            for (size_t k = 0; k < sizes[i]; k++)
                if (block[k])
                    fail_msg("byte %zu of %zu is %d", k, sizes[i], block[k]);
            memset(block, 0xff, sizes[i]);
            fth_free(block);
        }
}

static void sizes_that_overflow_are_refused(void **state) {
    size_t product = 5;
    assert_null(fth_alloc(SIZE_MAX / 2, 3));
    assert_null(fth_alloc(SIZE_MAX - 8, 1));
    assert_null(fth_region_alloc(SIZE_MAX - 8));
    assert_false(fth_mul_size(SIZE_MAX, 2, &product));
    assert_true(fth_mul_size(SIZE_MAX / 2, 2, &product));
    assert_true(product == SIZE_MAX - 1);
    fth_arena *arena = fth_arena_create(0);
    assert_null(fth_arena_alloc(arena, SIZE_MAX / 4, 5));
    assert_null(fth_arena_alloc(arena, SIZE_MAX - 20, 1));
    fth_arena_destroy(arena);
}

static void regions_are_zero_and_lazy(void **state) {
    size_t sizes[] = {1, 4096, (2u << 20) - 1, (2u << 20) + 5};
    for (size_t i = 0; i < 4; i++) {
        unsigned char *region = fth_region_alloc(sizes[i]);
        assert_non_null(region);
        assert_int_equal(region[0] | region[sizes[i] - 1], 0);
        region[0] = region[sizes[i] - 1] = 1;
        if (sizes[i] > 2u << 20)
            assert_int_equal((uintptr_t)region % (2u << 20), 0);
        fth_region_free(region, sizes[i]);
    }
    /* Far more than the machine has: only address space, as nothing is touched but two bytes. */
    size_t huge = (size_t)1 << 38;
    unsigned char *region = fth_region_alloc(huge);
    assert_non_null(region);
    region[huge - 1] = region[huge / 2] = 7;
    fth_region_free(region, huge);
    fth_region_free(NULL, 10);
}

static void arena_blocks_do_not_overlap(void **state) {
    fth_arena *arena = fth_arena_create(1024);
    unsigned char *blocks[200];
    size_t sizes[200];
    for (size_t i = 0; i < 200; i++) {
        sizes[i] = i % 10 == 9 ? 5000 + i : 1 + i * 3;
        blocks[i] = fth_arena_alloc(arena, sizes[i], 1);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(blocks[i][j], 0);
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(blocks[i][j], (unsigned char)(i + 1));
    assert_string_equal(fth_arena_strdup(arena, "abc"), "abc");
    assert_string_equal(fth_arena_printf(arena, "%s-%d", "x", 12), "x-12");
    fth_arena_destroy(arena);
    fth_arena_destroy(NULL);
}

/* A chunk is filled to its last byte, and no further: the next block lies in another one. */
static void arena_chunks_end(void **state) {
    fth_arena *arena = fth_arena_create(1024);
    char *first = fth_arena_alloc(arena, 16, 1), *last = first;
    for (int i = 1; i < 1024 / 16; i++)
        last = fth_arena_alloc(arena, 16, 1);
    assert_ptr_equal(last, first + 1024 - 16);
    assert_ptr_not_equal(fth_arena_alloc(arena, 16, 1), first + 1024);
    fth_arena_destroy(arena);
}

static void rows_are_an_odd_number_of_lines(void **state) {
    for (uint32_t columns = 1; columns < 200; columns++) {
        if (columns == 1) {
            assert_int_equal(fth_padded_columns(columns), 1);
            continue;
        }
        uint32_t padded = fth_padded_columns(columns);
        assert_true(padded >= columns && padded < columns + 32);
        assert_int_equal(padded % 32, 16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_zeroed),
        cmocka_unit_test(large_blocks_begin_with_a_huge_page),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(regions_are_zero_and_lazy),
        cmocka_unit_test(arena_blocks_do_not_overlap),
        cmocka_unit_test(arena_chunks_end),
        cmocka_unit_test(rows_are_an_odd_number_of_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
