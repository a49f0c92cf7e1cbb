/* embedding/shard.c: what a row says of itself, in its last bytes or beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "embedding/shard.h"

#define ROWS 3
#define MOST ((UINT64_C(1) << 40) - 1)

/* Rows of 8 floats, whose last 24 bytes are the meta. */
struct small {
    _Alignas(64) float rows[ROWS * 8];
    struct fth_pack pack;
};

static void small_init(struct small *small) {
    *small = (struct small){.pack = {.stride = 8, .tail = 1, .rows = small->rows}};
}

static void check(const struct fth_pack *pack, uint32_t row, struct fth_row_meta expected) {
    struct fth_row_meta meta = fth_pack_get_meta(pack, row);
    assert_int_equal(meta.hash, expected.hash);
    assert_int_equal(meta.table, expected.table);
    assert_int_equal(meta.frequency, expected.frequency);
    assert_int_equal(meta.last_step, expected.last_step);
}

static void test_small_rows_count(void **state) {
    struct small small;
    small_init(&small);
    struct fth_row_meta meta = {
        .hash = UINT64_C(0xfedcba9876543210), .frequency = UINT32_MAX - 1, .last_step = 7, .table = 0xbeef};
    fth_pack_set_meta(&small.pack, 1, &meta);
    check(&small.pack, 1, meta);
    fth_pack_count(&small.pack, 1, 3, UINT32_MAX);
    meta.frequency += 3;
    meta.last_step = UINT32_MAX;
    check(&small.pack, 1, meta);
    fth_pack_count(&small.pack, 1, UINT32_MAX, UINT64_C(0x1234567890));
    meta.frequency += UINT32_MAX;
    meta.last_step = UINT64_C(0x1234567890);
    check(&small.pack, 1, meta);
}

/* Neither begins again at 0, nor reaches into the other or the table. */
static void test_small_rows_stay_at_the_most(void **state) {
    struct small small;
    small_init(&small);
    struct fth_row_meta meta = {.hash = 5, .frequency = MOST - 1, .last_step = MOST - 1, .table = 0xffff};
    fth_pack_set_meta(&small.pack, 0, &meta);
    check(&small.pack, 0, meta);
    meta.frequency = meta.last_step = MOST;
    fth_pack_count(&small.pack, 0, 1, MOST);
    check(&small.pack, 0, meta);
    fth_pack_count(&small.pack, 0, UINT32_MAX, MOST + 1);
    check(&small.pack, 0, meta);
    struct fth_row_meta beyond = {.hash = 6, .frequency = UINT64_MAX, .last_step = MOST + 1, .table = 2};
    fth_pack_set_meta(&small.pack, 2, &beyond);
    beyond.frequency = beyond.last_step = MOST;
    check(&small.pack, 2, beyond);
    check(&small.pack, 1, (struct fth_row_meta){0});
}

/* 64 bits beside the row: nothing is cut. */
static void test_metas_of_their_own(void **state) {
    struct fth_row_meta metas[ROWS] = {0};
    struct fth_pack pack = {.stride = 16, .metas = metas};
    struct fth_row_meta meta = {.hash = 5, .frequency = MOST, .last_step = MOST, .table = 3};
    fth_pack_set_meta(&pack, 1, &meta);
    fth_pack_count(&pack, 1, 2, MOST + 9);
    meta.frequency += 2;
    meta.last_step += 9;
    check(&pack, 1, meta);
}

/* Hashes that somebody has made alike in all bits that could name a group: they do not meet in one. */
static void test_crafted_hashes(void **state) {
    enum { GROUPS = 1024, KEYS = 4096 };
    struct fth_index_space space = {.n = 1};
    struct fth_index index;
    fth_error err;
    unsigned char taken[GROUPS] = {0};
    unsigned groups = 0, tags = 0, tag_seen[256] = {0};
    assert_int_equal(fth_index_create(&index, &space, 0, GROUPS, &err), FTH_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t hash = (fth_hash_mix(i) >> 40) << 40 | 0x155;
        uint32_t group = fth_index_group(&index, hash);
        uint8_t tag = fth_index_tag(fth_index_bits(&index, hash));
        assert_in_range(group, 0, GROUPS - 1);
        assert_true(tag & 0x80);
        groups += !taken[group];
        taken[group] = 1;
        tags += !tag_seen[tag]++;
    }
    assert_in_range(groups, 900, GROUPS);
    assert_in_range(tags, 100, 128);
    fth_index_destroy(&index);
    fth_index_space_free(&space);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_rows_count),
        cmocka_unit_test(test_small_rows_stay_at_the_most),
        cmocka_unit_test(test_metas_of_their_own),
        cmocka_unit_test(test_crafted_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
