/* feature/: OP+OSRP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "blocks.h"
#include "feature/program_private.h"

static uint64_t key_of(uint64_t number) { return fth_number_key(5, number); }

static void signs_of_bins(void **state) {
    /* bin 3: + + -; bin 1: + -; bin 9: - */
    uint64_t items[] = {7, 2, 6, 18, 7, 3};
    assert_int_equal(fth_feature_osrp_reduce(5, items, 6), 2);
    assert_true(items[0] == key_of(7) && items[1] == key_of(18));
    assert_int_equal(fth_feature_osrp_reduce(5, items, 0), 0);
}

/* The keys of a line of columns a, b and the list l, of which the features are `of`. */
static uint32_t keys_of_columns(const char *const *of, int64_t bins, const char *cells, uint64_t *out) {
    static const char *const columns[] = {"label", "a", "b", "l"};
    struct fth_categorical_config categorical = {.columns = {of, 3}, .name = "all", .bins = bins,
                                                 .separator = ";", .max_length = 2};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"},
                                .embedding = {.dim = 1}};
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    fth_feature_program *program = NULL;
    fth_feature_pass *pass = NULL;
    struct fth_batch *batch = NULL;
    char line[1024];
    snprintf(line, sizeof line, "0,x,y,z\n1,%s\n0,x,y,z\n", cells);
    assert_int_equal(fth_feature_create(&config, columns, 4, &program, NULL), FTH_OK);
    assert_int_equal(fth_feature_pass_create(program, NULL, 0, &pass, NULL), FTH_OK);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    assert_int_equal(transform.schema->n_fields, 1);
    uint32_t n_fields;
    assert_string_equal(fth_feature_fields(program, &n_fields)[0].name, "all");
    assert_int_equal(n_fields, 1);
    assert_int_equal(fth_batch_create(transform.schema, 1, &batch, NULL), FTH_OK);
    struct fth_block *block = test_block_cells(line, ',');
    assert_int_equal(transform.examples(transform.ctx, block, batch, NULL), FTH_OK);
    const uint32_t *offsets = batch->groups[0].offsets;
    uint32_t n = offsets[2] - offsets[1];
    memcpy(out, batch->fields[0].keys + offsets[1], n * sizeof *out);
    assert_int_equal(offsets[3] - offsets[2], offsets[1]);
    assert_memory_equal(batch->fields[0].keys, batch->fields[0].keys + offsets[2], offsets[1] * sizeof *out);
    fth_block_destroy(block);
    fth_batch_destroy(batch);
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
    return n;
}

static uint32_t keys_of(int64_t bins, const char *cells, uint64_t *out) {
    return keys_of_columns((const char *const[]){"a", "b", "l"}, bins, cells, out);
}

/* A column's texts are the same features wherever the configuration lists it. */
static void in_any_order(void **state) {
    static const char *const of[] = {"l", "a", "b"};
    uint64_t keys[8], other[8];
    assert_int_equal(keys_of(1 << 30, "p,q,r;s", keys), 4);
    assert_int_equal(keys_of_columns(of, 1 << 30, "p,q,r;s", other), 4);
    assert_memory_equal(keys, other, 4 * sizeof *keys);
}

/* A line with texts in more bins than models have room for is malformed. */
static void too_many_bins(void **state) {
    static const char *const columns[] = {"label", "a", "b"}, *const of[] = {"a", "b"};
    struct fth_categorical_config categorical = {.columns = {of, 2}, .name = "all", .bins = 1 << 20, .separator = ""};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}};
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    fth_feature_program *program = NULL;
    fth_feature_pass *pass = NULL;
    struct fth_batch *batch = NULL;
    assert_int_equal(fth_feature_create(&config, columns, 3, &program, NULL), FTH_OK);
    assert_int_equal(program->groups[0].max, 2); /* a text a column */
    program->groups[0].max = 1;
    assert_int_equal(fth_feature_pass_create(program, NULL, 0, &pass, NULL), FTH_OK);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    assert_int_equal(fth_batch_create(transform.schema, 1, &batch, NULL), FTH_OK);
    struct fth_block *block = test_block_cells("0,x,\n1,p,q\n0,,y\n", ',');
    assert_int_equal(transform.examples(transform.ctx, block, batch, NULL), FTH_OK);
    assert_int_equal(batch->n, 2);
    assert_int_equal(batch->groups[0].offsets[2], 2);
    assert_int_equal(block->n_bad, 1);
    assert_non_null(strstr(block->first_bad.message, "'all' have texts in 2 bins; a line may have them in 1"));
    fth_block_destroy(block);
    fth_batch_destroy(batch);
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
}

static void lines(void **state) {
    uint64_t x[64], y[64];
    /* Bins enough for all: a feature each; max_length does not cut, missing ones are none. */
    assert_int_equal(keys_of(1000000000, "p,q,1;2;3;4;5", x), 7);
    assert_int_equal(keys_of(1000000000, "p,,1;;3", x), 3);
    assert_int_equal(keys_of(1000000000, ",,", x), 0);
    /* A set: the order within a list does not matter, the column does. */
    assert_int_equal(keys_of(1000000000, "p,q,1;2", x), 4);
    assert_int_equal(keys_of(1000000000, "p,q,2;1", y), 4);
    assert_memory_equal(x, y, 4 * sizeof *x);
    assert_int_equal(keys_of(1000000000, "q,p,2;1", y), 4);
    assert_true(memcmp(x, y, 4 * sizeof *x) != 0);
    /* One bin: one feature or, when the signs cancel, none. */
    assert_true(keys_of(1, "p,q,1;2;3", x) == 1);
    assert_true(keys_of(1, "p,q,1;2", x) <= 1);
}

/* Over many texts: every bin is met about as often, both signs about half the time. */
static void spread(void **state) {
    enum { BINS = 16, TEXTS = 4000 };
    uint64_t salt = fth_hash_bytes("all", 3, 0), key;
    int count[2 * BINS] = {0};
    char cells[64];
    for (int i = 0; i < TEXTS; i++) {
        snprintf(cells, sizeof cells, "t%d,,", i);
        assert_int_equal(keys_of(BINS, cells, &key), 1);
        int found = -1;
        for (int k = 0; k < 2 * BINS; k++)
            if (fth_number_key(salt, (uint64_t)k) == key)
                found = k;
        assert_true(found >= 0);
        count[found]++;
    }
    double chi = 0, expected = (double)TEXTS / (2 * BINS);
    for (int k = 0; k < 2 * BINS; k++)
        chi += (count[k] - expected) * (count[k] - expected) / expected;
    assert_true(chi < 65); /* 31 degrees of freedom: once in 3,000 draws of chance; these are fixed */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_of_bins), cmocka_unit_test(in_any_order), cmocka_unit_test(too_many_bins),
        cmocka_unit_test(lines),
        cmocka_unit_test(spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
