/* feature/program: what each configured feature makes of cells. */
#include <math.h>

#include "core/criteo.h"
#include "kernels/text_key.h"
#include "program_test.h"

static void numbers_go_through_their_transforms(void **state) {
    struct fth_config config;
    struct fth_numeric_config numeric[3] = {
        {.columns = STRINGS("a"), .log1p = 1, .missing_indicator = 1, .missing_value = -7},
        {.columns = STRINGS("b"), .clip = 1, .clip_low = -1, .clip_high = 2.5},
        {.columns = STRINGS("c"), .clip = 1, .clip_low = 0, .clip_high = 100, .log1p = 1,
         .standardise = FTH_STANDARDISE_GIVEN, .mean = 2, .deviation = 0.5, .missing_value = 0.25}};
    base_config(&config);
    config.features.numeric = numeric;
    config.features.n_numeric = 3;
    config.features.missing = (struct fth_strings)STRINGS("?", "NULL");
    const char *columns[] = {"label", "a", "b", "c", "unused"};
    struct fixture f;
    open_program(&f, &config, columns, 5);
    open_pass(&f);
    const struct fth_schema *schema = f.transform.schema;
    assert_int_equal(schema->n_dense, 4);
    assert_string_equal(schema->dense_names[0], "a");
    assert_string_equal(schema->dense_names[1], "a_missing");
    assert_string_equal(schema->dense_names[3], "c");
    struct fth_block *block = test_block_cells("1,3,1.5,7,x\n"
                                               "0,-3,-9,500,x\n"
                                               "1,,99,,x\n"
                                               "0,?,0,NULL,x\n"
                                               "1,4095.5,0,-5,x\n"
                                               "1,-1e6,0,0,x\n",
                                               ',');
    run(&f, block);
    assert_int_equal(f.batch->n, 6);
    assert_int_equal(block->n_bad, 0);
    assert_true(dense(&f, 0, 0) == log1pf(3) && dense(&f, 0, 1) == 0);
    assert_true(dense(&f, 1, 0) == -log1pf(3));
    assert_true(dense(&f, 2, 0) == -7 && dense(&f, 2, 1) == 1);
    assert_true(dense(&f, 3, 0) == -7 && dense(&f, 3, 1) == 1);
    assert_true(dense(&f, 4, 0) == log1pf(4095.5f));
    assert_true(dense(&f, 5, 0) == -log1pf(1e6f));
    assert_true(dense(&f, 0, 2) == 1.5f && dense(&f, 1, 2) == -1 && dense(&f, 2, 2) == 2.5f);
    assert_true(dense(&f, 0, 3) == (float)(((double)log1pf(7) - 2) / 0.5));
    assert_true(dense(&f, 1, 3) == (float)(((double)log1pf(100) - 2) / 0.5));
    assert_true(dense(&f, 2, 3) == 0.25f && dense(&f, 3, 3) == 0.25f);
    assert_true(dense(&f, 4, 3) == -4.0f);
    const float labels[] = {1, 0, 1, 0, 1, 1};
    assert_memory_equal(f.batch->label, labels, sizeof labels);
    assert_int_equal(f.batch->example_number[5], 5);
    fth_block_destroy(block);
    close_fixture(&f);
}

static void buckets_are_keys(void **state) {
    struct fth_config config;
    struct fth_numeric_config numeric[2] = {
        {.columns = STRINGS("a"), .boundaries = {(const double[]){0.7, 10, 20}, 3}, .log1p = 1},
        {.columns = STRINGS("b"), .boundaries = {(const double[]){0}, 1}, .bucket_only = 1,
         .table = "shared", .dim = 4}};
    base_config(&config);
    config.features.numeric = numeric;
    config.features.n_numeric = 2;
    const char *columns[] = {"label", "a", "b"};
    struct fixture f;
    open_program(&f, &config, columns, 3);
    open_pass(&f);
    assert_int_equal(f.transform.schema->n_dense, 1);
    assert_int_equal(f.transform.schema->n_fields, 2);
    uint32_t n;
    const struct fth_field_info *info = fth_feature_fields(f.program, &n);
    assert_int_equal(n, 2);
    assert_string_equal(info[0].name, "a_bucket");
    assert_string_equal(info[0].table, "a_bucket");
    assert_int_equal(info[0].dim, 8);
    assert_string_equal(info[1].table, "shared");
    assert_int_equal(info[1].dim, 4);
    struct fth_block *block =
        test_block_cells("1,0.7,-1\n1,0.69999,0\n1,9.999,1\n1,10,\n1,20.5,0\n1,,0\n", ',');
    run(&f, block);
    const uint64_t *a = f.batch->fields[0].keys, *b = f.batch->fields[1].keys;
    uint64_t bucket[4];
    for (uint64_t i = 0; i < 4; i++)
        bucket[i] = fth_hash_mix(salt_of("a_bucket") ^ fth_hash_mix(i));
    assert_int_equal(a[0], bucket[1]); /* 0.7 in the text is not below the boundary 0.7 */
    assert_int_equal(a[1], bucket[0]);
    assert_int_equal(a[2], bucket[1]);
    assert_int_equal(a[3], bucket[2]);
    assert_int_equal(a[4], bucket[3]);
    for (uint64_t i = 0; i < 4; i++)
        assert_true(a[5] != bucket[i]);
    assert_true(b[0] != b[1] && b[1] == b[2] && b[1] == b[4] && b[3] != b[0] && b[3] != b[1]);
    assert_true(b[0] == fth_hash_mix(salt_of("shared") ^ fth_hash_mix(0)));
    fth_block_destroy(block);
    close_fixture(&f);
}

static void texts_become_keys_of_their_table(void **state) {
    struct fth_config config;
    struct fth_categorical_config categorical[3] = {
        {.columns = STRINGS("u", "v"), .ffm_field = -1},
        {.columns = STRINGS("w"), .table = "u", .ffm_field = -1},
        {.columns = STRINGS("x"), .buckets = 5, .min_count = 3, .ffm_field = -1}};
    base_config(&config);
    config.features.categorical = categorical;
    config.features.n_categorical = 3;
    config.features.missing = (struct fth_strings)STRINGS("?");
    const char *columns[] = {"u", "v", "w", "x", "label"};
    struct fixture f;
    open_program(&f, &config, columns, 5);
    open_pass(&f);
    struct fth_block *block =
        test_block_cells("red,red,red,red,1\n,?,?,,0\nblue,,red,\xff\x80z,1\n", ',');
    run(&f, block);
    struct fth_keys *k = f.batch->fields;
    assert_int_equal(k[0].group, FTH_NO_GROUP);
    assert_int_equal(k[0].keys[0], key_of("u", "red"));
    assert_int_equal(k[1].keys[0], key_of("v", "red"));
    assert_int_equal(k[2].keys[0], k[0].keys[0]);
    assert_true(k[0].keys[0] != k[1].keys[0]);
    assert_int_equal(k[2].keys[1], k[0].keys[1]); /* missing: one key per table */
    assert_true(k[1].keys[1] == k[1].keys[2] && k[1].keys[1] != k[0].keys[1]);
    assert_null(k[3].keys); /* buckets' numbers stand for keys */
    assert_int_equal(k[3].numbers[0], key_of("x", "red") % 5);
    assert_int_equal(k[3].numbers[1], FTH_NUMBER_MISSING);
    assert_true(fth_key_at(&k[3], 0) == fth_hash_mix(salt_of("x") ^ fth_hash_mix(key_of("x", "red") % 5)));
    assert_true(fth_key_at(&k[3], 1) == fth_hash_mix(salt_of("x") ^ 0x9d1c5f0b6a3e8247ull));
    const struct fth_schema *schema = f.batch->schema;
    assert_int_equal(schema->field_buckets[0], 0);
    assert_int_equal(schema->field_buckets[3], 5);
    uint32_t n;
    const struct fth_field_info *info = fth_feature_fields(f.program, &n);
    assert_int_equal(n, 4);
    assert_int_equal(info[3].min_count, 3);
    assert_true(info[3].missing == fth_key_at(&k[3], 1));
    assert_string_equal(info[2].table, "u");
    assert_string_equal(info[2].column, "w");
    fth_block_destroy(block);
    close_fixture(&f);
}

static void lists_keep_positions(void **state) {
    struct fth_config config;
    struct fth_categorical_config categorical[4] = {
        {.columns = STRINGS("item"), .ffm_field = -1},
        {.columns = STRINGS("hist"), .table = "item", .separator = "|", .sequence = 1,
         .group = "h", .max_length = 3, .keep_last = 1, .ffm_field = -1},
        {.columns = STRINGS("kind"), .separator = "|", .sequence = 1, .group = "h",
         .max_length = 3, .keep_last = 1, .ffm_field = -1},
        {.columns = STRINGS("tags"), .separator = "; ", .max_length = 2, .pooling = 2,
         .ffm_field = -1}};
    base_config(&config);
    config.features.categorical = categorical;
    config.features.n_categorical = 4;
    const char *columns[] = {"label", "item", "hist", "kind", "tags"};
    struct fixture f;
    open_program(&f, &config, columns, 5);
    open_pass(&f);
    assert_int_equal(f.transform.schema->n_groups, 2);
    assert_int_equal(f.transform.schema->group_max[0], 3);
    assert_int_equal(f.transform.schema->group_max[1], 2);
    assert_int_equal(f.transform.schema->field_group[1], 0);
    assert_int_equal(f.transform.schema->field_group[2], 0);
    assert_int_equal(f.transform.schema->field_group[3], 1);
    struct fth_block *block = test_block_cells("1,a,b|a,x|y,t1; t2; t3\n"
                                               "0,a,,,t\n"
                                               "1,a,1|2|3|4|5,p|q|r|s|t,\n"
                                               "1,a,1||3,p||r,a;b\n",
                                               ',');
    run(&f, block);
    const uint32_t history[] = {0, 2, 2, 5, 8}, tags[] = {0, 2, 3, 3, 4};
    assert_memory_equal(f.batch->groups[0].offsets, history, sizeof history);
    assert_memory_equal(f.batch->groups[1].offsets, tags, sizeof tags);
    assert_int_equal(f.batch->groups[0].total, 8);
    const uint64_t *hist = f.batch->fields[1].keys, *kind = f.batch->fields[2].keys;
    assert_int_equal(hist[0], key_of("item", "b"));
    assert_int_equal(hist[1], f.batch->fields[0].keys[0]);
    assert_int_equal(hist[2], key_of("item", "3")); /* the last three of five */
    assert_int_equal(hist[4], key_of("item", "5"));
    assert_int_equal(kind[2], key_of("kind", "r"));
    assert_int_equal(hist[6], fth_hash_mix(salt_of("item") ^ 0x9d1c5f0b6a3e8247ull));
    assert_int_equal(f.batch->fields[3].keys[1], key_of("tags", "t2")); /* the first two of three */
    assert_int_equal(f.batch->fields[3].keys[3], key_of("tags", "a;b"));
    fth_block_destroy(block);

    /* Unequal lists of one group: the line is refused, the others stay whole. */
    block = test_block_cells("1,a,b|a,x|y,t\n1,a,b|a,x,t; u\n0,c,d,e,\n", ',');
    run(&f, block);
    assert_int_equal(f.batch->n, 2);
    assert_int_equal(block->n_bad, 1);
    assert_string_equal(block->first_bad.message,
                        "hand.csv:2:9: column 'kind' has 1 elements where 'hist' has 2; lists of one "
                        "group ('h') must be equally long");
    assert_int_equal(f.batch->groups[0].offsets[2], 3);
    assert_int_equal(f.batch->groups[0].total, 3);
    assert_int_equal(f.batch->groups[1].total, 1);
    assert_int_equal(f.batch->fields[1].keys[2], key_of("item", "d"));
    assert_int_equal(f.batch->fields[3].keys[0], key_of("tags", "t"));
    fth_block_destroy(block);

    /* Beside a list of one element an empty cell is one, missing; beside a longer one it is none. */
    block = test_block_cells("1,a,b,,\n0,a,,x,\n1,a,,,\n1,a,b,x,\n1,a,b|c,,\n", ',');
    run(&f, block);
    const uint32_t ones[] = {0, 1, 2, 2, 3};
    assert_int_equal(f.batch->n, 4);
    assert_int_equal(block->n_bad, 1);
    assert_memory_equal(f.batch->groups[0].offsets, ones, sizeof ones);
    hist = f.batch->fields[1].keys;
    kind = f.batch->fields[2].keys;
    assert_int_equal(hist[0], key_of("item", "b"));
    assert_int_equal(kind[0], fth_hash_mix(salt_of("kind") ^ 0x9d1c5f0b6a3e8247ull));
    assert_int_equal(hist[1], fth_hash_mix(salt_of("item") ^ 0x9d1c5f0b6a3e8247ull));
    assert_int_equal(kind[1], key_of("kind", "x"));
    assert_int_equal(hist[2], key_of("item", "b"));
    assert_int_equal(kind[2], key_of("kind", "x"));
    fth_block_destroy(block);
    close_fixture(&f);
}

/* More lines than one chunk, some of them bad, twice over with the same batch. */
static void many_lines(void **state) {
    struct fth_config config;
    struct fth_numeric_config numeric = {.columns = STRINGS("n")};
    struct fth_categorical_config categorical = {
        .columns = STRINGS("l"), .separator = "|", .max_length = 100, .ffm_field = -1};
    base_config(&config);
    config.features.numeric = &numeric;
    config.features.n_numeric = 1;
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    const char *columns[] = {"label", "n", "l"};
    struct fixture f;
    open_program(&f, &config, columns, 3);
    open_pass(&f);
    char *text = malloc(1 << 20), *p = text;
    for (int i = 0; i < 3000; i++) {
        p += sprintf(p, "%d,%s%d,", i % 2, i % 7 == 3 ? "bad" : "", i);
        for (int t = 0; t < i % 5; t++)
            p += sprintf(p, "%s%d", t ? "|" : "", i + t);
        p += sprintf(p, "\n");
    }
    for (int pass = 0; pass < 2; pass++) {
        struct fth_block *block = test_block_cells(text, ',');
        run(&f, block);
        uint32_t row = 0, position = 0;
        for (uint32_t i = 0; i < 3000; i++) {
            if (i % 7 == 3)
                continue;
            assert_true(dense(&f, row, 0) == (float)i);
            assert_true(f.batch->label[row] == (float)(i % 2));
            assert_int_equal(f.batch->example_number[row], i);
            assert_int_equal(f.batch->groups[0].offsets[row], position);
            for (uint32_t t = 0; t < i % 5; t++) {
                char token[16];
                sprintf(token, "%u", i + t);
                assert_int_equal(f.batch->fields[0].keys[position++], key_of("l", token));
            }
            row++;
        }
        assert_int_equal(f.batch->n, row);
        assert_int_equal(f.batch->groups[0].total, position);
        assert_int_equal(block->n_bad, 3000 - row);
        assert_string_equal(block->first_bad.message, "hand.csv:4:3: column 'n': 'bad3' is not a number");
        fth_block_destroy(block);
    }
    free(text);
    close_fixture(&f);
}

static void criteo_names(void **state) {
    const char *const *names = fth_criteo_columns;
    assert_string_equal(names[0], "label");
    assert_string_equal(names[13], "I13");
    assert_string_equal(names[14], "C1");
    assert_string_equal(names[39], "C26");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_go_through_their_transforms),
        cmocka_unit_test(buckets_are_keys),
        cmocka_unit_test(texts_become_keys_of_their_table),
        cmocka_unit_test(lists_keep_positions),
        cmocka_unit_test(many_lines),
        cmocka_unit_test(criteo_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
