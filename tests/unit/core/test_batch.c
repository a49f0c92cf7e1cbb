/* core/batch: appending, growing and clearing keep every column right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/batch.h"
#include "base/memory.h"
#include "count_alloc.h"

/* Two dense columns; fields: one key, one key with values, two of one ragged group, and one of each kind with buckets. */
static const int32_t groups[] = {FTH_NO_GROUP, FTH_NO_GROUP, 0, 0, FTH_NO_GROUP, 0};
static const uint8_t weighted[] = {0, 1, 0, 1, 0, 1};
static const uint32_t buckets[] = {0, 0, 0, 0, 1 << 20, 1 << 20};
static const uint64_t salts[] = {0, 0, 0, 0, 7, 8};
static const uint32_t group_max[] = {5};
static const struct fth_schema schema = {
    .n_dense = 2, .n_fields = 6, .field_group = groups, .field_weighted = weighted, .n_groups = 1,
    .field_buckets = buckets, .field_salt = salts, .group_max = group_max, .has_weight = 1, .has_query = 1};
static const struct fth_schema bare = {0};

/* Writes example i of a batch whose columns are functions of the example's number. */
static void fill(struct fth_batch *batch, uint32_t n) {
    assert_int_equal(fth_batch_reserve(batch, n, NULL), FTH_OK);
    assert_int_equal(fth_batch_reserve_positions(batch, 0, n * 5, NULL), FTH_OK);
    for (uint32_t i = 0; i < n; i++) {
        batch->label[i] = (float)(i & 1);
        batch->weight[i] = (float)i + 0.5f;
        batch->query[i] = 1000 + i;
        batch->example_number[i] = 77 + i;
        batch->dense[i * batch->dense_ld] = (float)i;
        batch->dense[i * batch->dense_ld + 1] = -(float)i;
        batch->fields[0].keys[i] = i * 3;
        batch->fields[1].keys[i] = i * 5;
        batch->fields[1].values[i] = (float)i * 7;
        batch->fields[4].numbers[i] = i * 11;
        uint32_t start = batch->groups[0].offsets[i];
        for (uint32_t p = 0; p < i % 6; p++) {
            batch->fields[2].keys[start + p] = i * 100 + p;
            batch->fields[3].keys[start + p] = i * 200 + p;
            batch->fields[3].values[start + p] = (float)(i + p);
            batch->fields[5].numbers[start + p] = p ? i * 300 + p : FTH_NUMBER_MISSING;
            batch->fields[5].values[start + p] = (float)(i - p);
        }
        batch->groups[0].total = batch->groups[0].offsets[i + 1] = start + i % 6;
        batch->n++;
    }
}

static void check(const struct fth_batch *batch, uint32_t at, uint32_t i) {
    assert_true(batch->label[at] == (float)(i & 1) && batch->weight[at] == (float)i + 0.5f);
    assert_true(batch->query[at] == 1000 + i && batch->example_number[at] == 77 + i);
    assert_true(batch->dense[at * batch->dense_ld] == (float)i);
    assert_true(batch->dense[at * batch->dense_ld + 1] == -(float)i);
    for (uint32_t c = 2; c < batch->dense_ld; c++)
        assert_true(batch->dense[at * batch->dense_ld + c] == 0);
    assert_true(batch->fields[0].keys[at] == i * 3 && batch->fields[1].keys[at] == i * 5);
    assert_null(batch->fields[0].values);
    assert_true(batch->fields[1].values[at] == (float)i * 7);
    assert_null(batch->fields[4].keys);
    assert_true(fth_key_at(&batch->fields[4], at) == fth_number_key(7, i * 11));
    uint32_t start = batch->groups[0].offsets[at];
    assert_int_equal(batch->groups[0].offsets[at + 1] - start, i % 6);
    for (uint32_t p = 0; p < i % 6; p++) {
        assert_true(batch->fields[2].keys[start + p] == i * 100 + p);
        assert_true(batch->fields[3].keys[start + p] == i * 200 + p);
        assert_true(batch->fields[3].values[start + p] == (float)(i + p));
        assert_true(fth_key_at(&batch->fields[5], start + p) == (p ? fth_number_key(8, i * 300 + p) : fth_missing_key(8)));
        assert_true(batch->fields[5].values[start + p] == (float)(i - p));
    }
}

static void appended_examples_are_whole(void **state) {
    struct fth_batch *from, *to;
    assert_int_equal(fth_batch_create(&schema, 300, &from, NULL), FTH_OK);
    assert_int_equal(fth_batch_create(&schema, 0, &to, NULL), FTH_OK);
    fill(from, 300);
    /* Twice: the second round runs in the memory of the first. */
    for (int round = 0; round < 2; round++) {
        for (uint32_t k = 0; k < 300; k++)
            assert_int_equal(fth_batch_append(to, from, &(uint32_t){k * 7 % 300}, 1, NULL), FTH_OK);
        assert_int_equal(to->n, 300);
        assert_int_equal(to->groups[0].total, from->groups[0].total);
        for (uint32_t k = 0; k < 300; k++)
            check(to, k, k * 7 % 300);
        fth_batch_clear(to);
        assert_int_equal(to->n, 0);
        assert_int_equal(to->groups[0].total, 0);
        assert_int_equal(to->groups[0].offsets[0], 0);
    }
    assert_int_equal(fth_batch_append(to, from, &(uint32_t){300}, 1, NULL), FTH_E_ARGUMENT);
    assert_int_equal(to->n, 0);
    fth_batch_destroy(from);
    fth_batch_destroy(to);
}

static void growing_keeps_what_is_there(void **state) {
    struct fth_batch *batch;
    assert_int_equal(fth_batch_create(&schema, 10, &batch, NULL), FTH_OK);
    fill(batch, 10);
    assert_int_equal(fth_batch_reserve(batch, 5000, NULL), FTH_OK);
    assert_int_equal(fth_batch_reserve_positions(batch, 0, 70000, NULL), FTH_OK);
    assert_true(batch->capacity >= 5000);
    assert_true(batch->fields[0].capacity >= 5000 && batch->fields[2].capacity >= 70000);
    for (uint32_t i = 0; i < 10; i++)
        check(batch, i, i);
    float *label = batch->label;
    assert_int_equal(fth_batch_reserve(batch, 100, NULL), FTH_OK);
    assert_ptr_equal(label, batch->label);
    fth_batch_destroy(batch);
}

static void many_at_once(void **state) {
    struct fth_batch *from, *to;
    uint32_t index[120];
    assert_int_equal(fth_batch_create(&schema, 1, &from, NULL), FTH_OK);
    assert_int_equal(fth_batch_create(&schema, 1, &to, NULL), FTH_OK);
    fill(from, 40);
    for (uint32_t k = 0; k < 90; k++)
        index[k] = k * 17 % 40;
    for (uint32_t k = 90; k < 120; k++) /* a run */
        index[k] = k - 83;
    assert_int_equal(fth_batch_append(to, from, index, 0, NULL), FTH_OK);
    assert_int_equal(to->n, 0);
    assert_int_equal(fth_batch_append(to, from, index, 33, NULL), FTH_OK);
    assert_int_equal(fth_batch_append(to, from, index + 33, 57, NULL), FTH_OK);
    assert_int_equal(fth_batch_append(to, from, index + 90, 30, NULL), FTH_OK);
    assert_int_equal(to->n, 120);
    for (uint32_t k = 0; k < 120; k++)
        check(to, k, index[k]);
    assert_int_equal(to->groups[0].total, to->groups[0].offsets[120]);
    index[1] = 40;
    assert_int_equal(fth_batch_append(to, from, index, 2, NULL), FTH_E_ARGUMENT);
    assert_int_equal(to->n, 120);
    fth_batch_destroy(from);
    fth_batch_destroy(to);
}

/* Two groups: the fields of one always have values, the other's only in the last example. */
static const int32_t rare_groups[] = {0, 1, 0};
static const uint8_t rare_weighted[] = {0, 1, 1};
static const uint32_t rare_max[] = {3, 3};
static const struct fth_schema rare = {
    .n_fields = 3, .field_group = rare_groups, .field_weighted = rare_weighted, .n_groups = 2, .group_max = rare_max};

static struct fth_batch *rare_batch(uint32_t n) {
    struct fth_batch *batch;
    assert_int_equal(fth_batch_create(&rare, n, &batch, NULL), FTH_OK);
    for (uint32_t g = 0; g < 2; g++)
        assert_int_equal(fth_batch_reserve_positions(batch, g, 3 * n, NULL), FTH_OK);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t g = 0; g < 2; g++) {
            uint32_t start = batch->groups[g].offsets[i], count = g == 0 ? 3 : i + 1 == n ? 2 : 0;
            for (uint32_t f = 0; f < 3; f++)
                for (uint32_t p = 0; rare_groups[f] == (int32_t)g && p < count; p++) {
                    batch->fields[f].keys[start + p] = 1000 * f + 10 * i + p;
                    if (rare_weighted[f])
                        batch->fields[f].values[start + p] = (float)(i + p);
                }
            batch->groups[g].total = batch->groups[g].offsets[i + 1] = start + count;
        }
    batch->n = n;
    return batch;
}

static void check_rare(const struct fth_batch *batch, uint32_t at, const struct fth_batch *from, uint32_t i) {
    for (uint32_t f = 0; f < 3; f++) {
        const struct fth_ragged *to = &batch->groups[rare_groups[f]], *of = &from->groups[rare_groups[f]];
        uint32_t start = to->offsets[at], begin = of->offsets[i], count = of->offsets[i + 1] - begin;
        assert_int_equal(to->offsets[at + 1] - start, count);
        for (uint32_t p = 0; p < count; p++) {
            assert_true(batch->fields[f].keys[start + p] == from->fields[f].keys[begin + p]);
            assert_true(!rare_weighted[f] || batch->fields[f].values[start + p] == from->fields[f].values[begin + p]);
        }
    }
}

/* Lists that come late, where there is a block for those before, move nobody else's. */
static void late_lists_move_no_others(void **state) {
    struct fth_batch *from = rare_batch(300), *to;
    uint32_t index[300];
    for (uint32_t k = 0; k < 300; k++)
        index[k] = k;
    assert_int_equal(fth_batch_create(&rare, 600, &to, NULL), FTH_OK);
    assert_int_equal(fth_batch_append(to, from, index, 299, NULL), FTH_OK);
    assert_non_null(to->lists);
    const uint64_t *keys = to->fields[0].keys;
    const float *values = to->fields[2].values;
    assert_int_equal((uintptr_t)keys % 64 | (uintptr_t)values % 64, 0);
    assert_int_equal(to->fields[1].capacity, 0);
    assert_int_equal(fth_batch_append(to, from, index, 300, NULL), FTH_OK);
    assert_ptr_equal(to->fields[0].keys, keys);
    assert_ptr_equal(to->fields[2].values, values);
    for (uint32_t at = 0; at < 599; at++)
        check_rare(to, at, from, at % 299 + (at == 598 ? 299 : 0));
    fth_batch_destroy(from);
    fth_batch_destroy(to);
}

/* Whichever allocation fails, the batch is as it was, and can be appended to afterwards. */
static void without_memory_nothing_changes(void **state) {
    if (!count_alloc_works())
        skip();
    struct fth_batch *from = rare_batch(300);
    uint32_t index[300];
    for (uint32_t k = 0; k < 300; k++)
        index[k] = k;
    fth_status status = FTH_E_MEMORY;
    long failing = 0;
    while (status != FTH_OK) {
        struct fth_batch *to;
        fth_error err = {0};
        assert_int_equal(fth_batch_create(&rare, 1, &to, NULL), FTH_OK);
        assert_int_equal(fth_batch_append(to, from, index, 100, NULL), FTH_OK);
        count_alloc_start_failing(++failing);
        status = fth_batch_append(to, from, index, 300, &err);
        count_alloc_stop();
        if (status != FTH_OK) {
            assert_int_equal(status, FTH_E_MEMORY);
            assert_int_equal(to->n, 100);
            assert_int_equal(to->groups[0].total, 300);
            assert_int_equal(fth_batch_append(to, from, index, 300, NULL), FTH_OK);
        }
        for (uint32_t at = 0; at < 400; at++)
            check_rare(to, at, from, at < 100 ? at : at - 100);
        fth_batch_destroy(to);
    }
    assert_true(failing > 5); /* labels, numbers, offsets of two groups and the lists */
    fth_batch_destroy(from);
}

/* Lists that appending has put into one block go into arrays of their own, whole, and these grow. */
static void lists_move(void **state) {
    struct fth_batch *from, *to;
    uint32_t index[40], n = 0;
    assert_int_equal(fth_batch_create(&schema, 40, &from, NULL), FTH_OK);
    assert_int_equal(fth_batch_create(&schema, 1, &to, NULL), FTH_OK);
    fill(from, 40);
    for (uint32_t k = 0; k < 40; k++)
        index[k] = k;
    for (int round = 0; round < 6; round++) {
        uint32_t more = (uint32_t)to->fields[2].capacity + 1000;
        if (round % 3 == 1)
            assert_int_equal(fth_batch_reserve_positions(to, 0, more, NULL), FTH_OK);
        while (to->fields[2].capacity < more) {
            assert_int_equal(fth_batch_append(to, from, index, 40, NULL), FTH_OK);
            n += 40;
        }
        for (uint32_t at = 0; at < n; at++)
            check(to, at, at % 40);
    }
    assert_int_equal(to->n, n);
    fth_batch_destroy(from);
    fth_batch_destroy(to);
}

/* A batch that is filled in pieces makes room for its lists when it has seen a few examples, and not again; an empty one
 * is not expected to hold anything. */
static void room_for_lists_is_made_early(void **state) {
    struct fth_batch *from, *to;
    uint32_t index[300];
    size_t capacity = 0;
    assert_int_equal(fth_batch_create(&schema, 300, &from, NULL), FTH_OK);
    assert_int_equal(fth_batch_create(&schema, 6000, &to, NULL), FTH_OK);
    fill(from, 300);
    for (uint32_t k = 0; k < 300; k++)
        index[k] = k;
    assert_int_equal(fth_batch_append(to, from, index, 1, NULL), FTH_OK); /* without positions */
    assert_int_equal(to->fields[2].capacity, 0);
    assert_int_equal(fth_batch_append(to, from, index + 1, 5, NULL), FTH_OK);
    assert_true(to->fields[2].capacity >= 15 && to->fields[2].capacity <= 60);
    for (uint32_t n = 6; n < 6000; n += 6) {
        assert_int_equal(fth_batch_append(to, from, index + n % 300, 6, NULL), FTH_OK);
        assert_true(to->groups[0].total <= to->fields[2].capacity);
        if (n == 600)
            capacity = to->fields[2].capacity;
        assert_true(n < 600 || (to->fields[2].capacity == capacity && to->fields[3].capacity == capacity));
    }
    assert_true(to->n == 6000 && to->groups[0].total == 15000 && capacity < 20000);
    for (uint32_t k = 0; k < 6000; k++)
        check(to, k, k % 300);
    fth_batch_destroy(from);
    fth_batch_destroy(to);
}

static void blocks_grow(void **state) {
    struct fth_block *block;
    assert_int_equal(fth_block_create(&block, NULL), FTH_OK);
    assert_int_equal(fth_block_reserve_text(block, 3, NULL), FTH_OK);
    memcpy(block->text, "abc", 4);
    block->text_length = 3;
    assert_int_equal(fth_block_reserve_text(block, 100000, NULL), FTH_OK);
    assert_string_equal(block->text, "abc");
    assert_int_equal(fth_block_reserve_text(block, UINT32_MAX, NULL), FTH_E_LIMIT);
    assert_int_equal(fth_block_reserve_lines(block, 1, NULL), FTH_OK);
    block->line_start[0] = 1;
    block->line_end[0] = 2;
    block->line_number[0] = 3;
    block->example_number[0] = 4;
    block->entry_start[0] = 5;
    block->entry_start[1] = 6;
    block->labels[0].length = 7;
    assert_int_equal(fth_block_reserve_lines(block, 1000, NULL), FTH_OK);
    assert_int_equal(block->line_start[0], 1);
    assert_int_equal(block->line_end[0], 2);
    assert_int_equal(block->line_number[0], 3);
    assert_int_equal(block->example_number[0], 4);
    assert_int_equal(block->entry_start[0], 5);
    assert_int_equal(block->entry_start[1], 6);
    assert_int_equal(block->labels[0].length, 7);
    block->entry_start[1000] = 8;
    assert_int_equal(fth_block_reserve_cells(block, 2, NULL), FTH_OK);
    block->cells[1].length = 9;
    assert_int_equal(fth_block_reserve_cells(block, 3, NULL), FTH_OK);
    assert_int_equal(block->cells[1].length, 9);
    assert_int_equal(fth_block_reserve_entries(block, 1, NULL), FTH_OK);
    block->entries[0].index = 10;
    assert_int_equal(fth_block_reserve_entries(block, 5, NULL), FTH_OK);
    assert_int_equal(block->entries[0].index, 10);
    fth_block_destroy(block);
}

static void totals_that_overflow_are_refused(void **state) {
    struct fth_batch *from, *to;
    fth_error err = {0};
    assert_int_equal(fth_batch_create(&schema, 10, &from, NULL), FTH_OK);
    assert_int_equal(fth_batch_create(&schema, 10, &to, NULL), FTH_OK);
    fill(from, 10);
    to->groups[0].total = UINT32_MAX - 2;
    assert_int_equal(fth_batch_append(to, from, &(uint32_t){5}, 1, &err), FTH_E_LIMIT);
    assert_non_null(strstr(err.message, "positions"));
    fth_batch_destroy(from);
    fth_batch_destroy(to);
}

static void clear_keeps_the_feature_state(void **state) {
    struct fth_batch *batch;
    assert_int_equal(fth_batch_create(&bare, 1, &batch, NULL), FTH_OK);
    assert_null(batch->dense);
    assert_null(batch->weight);
    assert_null(batch->query);
    double *feature_state = fth_alloc(3, sizeof(double));
    batch->after = (struct fth_position){.epoch = 4, .feature_state = feature_state,
                                         .n_feature_state = 3};
    fth_batch_clear(batch);
    assert_ptr_equal(batch->after.feature_state, feature_state);
    assert_int_equal(batch->after.n_feature_state, 3);
    assert_int_equal(batch->after.epoch, 0);
    fth_batch_destroy(batch);
    fth_batch_destroy(NULL);
}

static void blocks_are_empty(void **state) {
    struct fth_block *block;
    assert_int_equal(fth_block_create(&block, NULL), FTH_OK);
    assert_null(block->text);
    assert_int_equal(block->n_lines, 0);
    block->text = fth_alloc(10, 1);
    block->cells = fth_alloc(10, sizeof *block->cells);
    fth_block_destroy(block);
    fth_block_destroy(NULL);
}

/* Of several tasks an example's labels and weights stay together. */
static void tasks_stay_together(void **state) {
    static const struct fth_schema several = {.has_weight = 1, .n_tasks = 3};
    struct fth_batch *from, *to;
    uint32_t index[] = {4, 1, 1, 0, 5, 6, 7};
    assert_int_equal(fth_batch_create(&several, 1, &from, NULL), FTH_OK);
    assert_int_equal(fth_batch_create(&several, 1, &to, NULL), FTH_OK);
    assert_int_equal(fth_batch_reserve(from, 8, NULL), FTH_OK);
    from->n = 8;
    for (uint32_t i = 0; i < 8 * 3; i++) {
        from->label[i] = (float)i;
        from->weight[i] = (float)i / 2;
    }
    assert_int_equal(fth_batch_append(to, from, index, 4, NULL), FTH_OK);
    assert_int_equal(fth_batch_append(to, from, index + 4, 3, NULL), FTH_OK); /* a run */
    assert_int_equal(fth_batch_append(to, from, &(uint32_t){2}, 1, NULL), FTH_OK);
    for (uint32_t k = 0; k < 8; k++)
        for (uint32_t t = 0; t < 3; t++) {
            uint32_t i = (k < 7 ? index[k] : 2) * 3 + t;
            assert_true(to->label[k * 3 + t] == (float)i && to->weight[k * 3 + t] == (float)i / 2);
        }
    fth_batch_destroy(from);
    fth_batch_destroy(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_examples_are_whole),
        cmocka_unit_test(growing_keeps_what_is_there),
        cmocka_unit_test(totals_that_overflow_are_refused),
        cmocka_unit_test(clear_keeps_the_feature_state),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(lists_move),
        cmocka_unit_test(late_lists_move_no_others),
        cmocka_unit_test(without_memory_nothing_changes),
        cmocka_unit_test(room_for_lists_is_made_early),
        cmocka_unit_test(tasks_stay_together),
        cmocka_unit_test(blocks_are_empty),
        cmocka_unit_test(blocks_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
