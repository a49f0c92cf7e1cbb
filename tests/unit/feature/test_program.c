/* feature/program: what each configured feature makes of cells, what it refuses, in what words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "base/hash.h"
#include "blocks.h"
#include "core/criteo.h"
#include "feature/program.h"

#define STRINGS(...) \
    {(const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)}

struct fixture {
    fth_feature_program *program;
    fth_feature_pass *pass;
    struct fth_transform transform;
    struct fth_batch *batch;
    fth_error err;
};

static void base_config(struct fth_config *config) {
    memset(config, 0, sizeof *config);
    config->data.format = FTH_FORMAT_CSV;
    config->data.label = "label";
    config->embedding.dim = 8;
    config->features.learn_lines = 1000;
}

static void open_program(struct fixture *f, const struct fth_config *config,
                         const char *const *columns, size_t n) {
    memset(f, 0, sizeof *f);
    if (fth_feature_create(config, columns, n, &f->program, &f->err) != FTH_OK)
        fail_msg("%s", f->err.message);
}

static void open_pass(struct fixture *f) {
    assert_int_equal(fth_feature_pass_create(f->program, NULL, 0, &f->pass, &f->err), FTH_OK);
    f->transform = fth_feature_pass_transform(f->pass);
    assert_int_equal(fth_batch_create(f->transform.schema, 1, &f->batch, &f->err), FTH_OK);
}

static void close_fixture(struct fixture *f) {
    fth_batch_destroy(f->batch);
    fth_feature_pass_destroy(f->pass);
    fth_feature_destroy(f->program);
}

static void run(struct fixture *f, struct fth_block *block) {
    if (f->transform.examples(f->transform.ctx, block, f->batch, &f->err) != FTH_OK)
        fail_msg("%s", f->err.message);
}

static float dense(const struct fixture *f, uint32_t row, uint32_t column) {
    return f->batch->dense[(size_t)row * f->batch->dense_ld + column];
}

static uint64_t salt_of(const char *table) { return fth_hash_bytes(table, strlen(table), 0); }

static uint64_t key_of(const char *table, const char *text) {
    return fth_hash_bytes(text, strlen(text), salt_of(table));
}

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
    assert_int_equal(k[3].keys[0],
                     fth_hash_mix(salt_of("x") ^ fth_hash_mix(key_of("x", "red") % 5)));
    for (uint64_t i = 0; i < 5; i++)
        assert_true(k[3].keys[1] != fth_hash_mix(salt_of("x") ^ fth_hash_mix(i)));
    uint32_t n;
    const struct fth_field_info *info = fth_feature_fields(f.program, &n);
    assert_int_equal(n, 4);
    assert_int_equal(info[3].min_count, 3);
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
    close_fixture(&f);
}

static void bad_cells_are_refused_with_their_place(void **state) {
    struct fth_config config;
    struct fth_numeric_config numeric = {.columns = STRINGS("age", "pay")};
    struct fth_categorical_config categorical = {.columns = STRINGS("c"), .ffm_field = -1};
    base_config(&config);
    config.data.weight = "w";
    config.data.query = "c";
    config.features.numeric = &numeric;
    config.features.n_numeric = 1;
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    const char *columns[] = {"label", "age", "pay", "c", "w"};
    struct {
        const char *line, *message;
    } cases[] = {
        {"1,3x,2,c,1\n", "hand.csv:2:3: column 'age': '3x' is not a number"},
        {"1,3,inf,c,1\n", "hand.csv:2:5: column 'pay': 'inf' is not a number"},
        {"1,3,nan,c,1\n", "hand.csv:2:5: column 'pay': 'nan' is not a number"},
        {"1,3,0x1p3,c,1\n", "hand.csv:2:5: column 'pay': '0x1p3' is not a number"},
        {"1,3,-1e39,c,1\n", "hand.csv:2:5: column 'pay': '-1e39' is too large for a 32-bit float"},
        {"2,3,1,c,1\n", "hand.csv:2:1: column 'label': label '2' is neither 0 nor 1 (nor -1); "
                        "data.positive names texts that mean 1"},
        {"yes,3,1,c,1\n", "hand.csv:2:1: column 'label': 'yes' is not a number"},
        {",3,1,c,1\n", "hand.csv:2:1: column 'label': the label is missing"},
        {"1,3,1,c,-0.5\n", "hand.csv:2:9: column 'w': sample weight -0.5 is below 0"},
        {"1,3,1,c,\n", "hand.csv:2:9: column 'w': the sample weight is missing"},
    };
    struct fixture f;
    open_program(&f, &config, columns, 5);
    open_pass(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        strcpy(text, "0,1,2,c,0.5\n");
        strcat(text, cases[i].line);
        strcat(text, "-1,5,,d,2\n");
        struct fth_block *block = test_block_cells(text, ',');
        run(&f, block);
        assert_int_equal(block->n_bad, 1);
        assert_string_equal(block->first_bad.message, cases[i].message);
        assert_int_equal(block->first_bad.code, FTH_E_DATA);
        assert_int_equal(block->first_bad_line, 2);
        assert_int_equal(f.batch->n, 2);
        assert_int_equal(f.batch->example_number[1], 2);
        assert_true(dense(&f, 1, 0) == 5 && dense(&f, 1, 1) == 0);
        assert_true(f.batch->weight[0] == 0.5f && f.batch->weight[1] == 2);
        assert_true(f.batch->label[1] == 0);
        assert_int_equal(f.batch->fields[0].keys[1], key_of("c", "d"));
        assert_int_equal(f.batch->query[1], fth_hash_bytes("d", 1, 0));
        fth_block_destroy(block);
    }
    /* The earliest refusal of the block is the one reported, whether the reader's or this one's. */
    struct fth_block *block = test_block_cells("1,1,x,c,1\n1,x,1,c,1\n0,0,0,c,1\n", ',');
    block->n_bad = 1;
    block->first_bad_line = 2;
    block->first_bad.code = FTH_E_DATA;
    run(&f, block);
    assert_int_equal(block->n_bad, 3);
    assert_string_equal(block->first_bad.message, "hand.csv:1:5: column 'pay': 'x' is not a number");
    fth_block_destroy(block);
    block = test_block_cells("1,1,1,c,1\n1,x,1,c,1\n", ',');
    block->n_bad = block->first_bad_line = 1;
    block->first_bad.code = FTH_E_DATA;
    strcpy(block->first_bad.message, "the reader's");
    run(&f, block);
    assert_string_equal(block->first_bad.message, "the reader's");
    fth_block_destroy(block);
    /* All lines bad: an empty batch. */
    block = test_block_cells("x,1,1,c,1\n1,x,1,c,1\n", ',');
    run(&f, block);
    assert_int_equal(f.batch->n, 0);
    assert_int_equal(block->n_bad, 2);
    fth_block_destroy(block);
    close_fixture(&f);
}

static void positive_texts_label(void **state) {
    struct fth_config config;
    struct fth_categorical_config categorical = {.columns = STRINGS("c"), .ffm_field = -1};
    base_config(&config);
    config.data.label = "income";
    config.data.positive = (struct fth_strings)STRINGS(">50K", ">50K.");
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    const char *columns[] = {"c", "income"};
    struct fixture f;
    open_program(&f, &config, columns, 2);
    open_pass(&f);
    struct fth_block *block = test_block_cells("a,>50K\nb,<=50K\nc,>50K.\nd,1\n", ',');
    run(&f, block);
    const float labels[] = {1, 0, 1, 0};
    assert_memory_equal(f.batch->label, labels, sizeof labels);
    fth_block_destroy(block);
    close_fixture(&f);
}

static void entries_of_libffm(void **state) {
    struct fth_config config;
    struct fth_categorical_config categorical = {
        .columns = STRINGS("f0", "f1", "f2"), .max_length = 2, .keep_last = 1, .ffm_field = -1};
    base_config(&config);
    config.data.format = FTH_FORMAT_LIBFFM;
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    struct fixture f;
    open_program(&f, &config, NULL, 0);
    open_pass(&f);
    assert_int_equal(f.transform.schema->n_groups, 3);
    assert_int_equal(f.transform.schema->field_weighted[1], 1);
    struct fth_block *block = test_block_entries("1 0:5:0.5 2:7:1 0:6:2 0:9:4 2:7:3\n"
                                                 "-1\n"
                                                 "0 3:1:1\n"
                                                 "0 1:5:1\n");
    run(&f, block);
    assert_int_equal(block->n_bad, 1);
    assert_string_equal(block->first_bad.message,
                        "hand.csv:3:1: field 3 is not among the 3 configured ones, numbered from 0 in "
                        "their order (features.categorical: field chooses by number)");
    assert_int_equal(f.batch->n, 3);
    const uint32_t first[] = {0, 2, 2, 2}, second[] = {0, 0, 0, 1};
    assert_memory_equal(f.batch->groups[0].offsets, first, sizeof first);
    assert_memory_equal(f.batch->groups[2].offsets, first, sizeof first);
    assert_memory_equal(f.batch->groups[1].offsets, second, sizeof second);
    struct fth_keys *k = f.batch->fields;
    assert_int_equal(k[0].keys[0], fth_hash_mix(salt_of("f0") ^ fth_hash_mix(6)));
    assert_int_equal(k[0].keys[1], fth_hash_mix(salt_of("f0") ^ fth_hash_mix(9)));
    assert_true(k[0].values[0] == 2 && k[0].values[1] == 4);
    assert_true(k[2].values[0] == 1 && k[2].values[1] == 3);
    assert_int_equal(k[1].keys[0], fth_hash_mix(salt_of("f1") ^ fth_hash_mix(5)));
    assert_true(f.batch->label[0] == 1 && f.batch->label[1] == 0);
    fth_block_destroy(block);
    close_fixture(&f);

    /* Chosen by number, the first kept, other fields left out. */
    struct fth_categorical_config one = {.columns = STRINGS("x"), .max_length = 2, .ffm_field = 7};
    config.features.categorical = &one;
    open_program(&f, &config, NULL, 0);
    open_pass(&f);
    block = test_block_entries("1 7:1:1 3:2:1 7:3:1 7:4:1\n0 9:9:9\n");
    run(&f, block);
    assert_int_equal(block->n_bad, 0);
    assert_int_equal(f.batch->groups[0].total, 2);
    assert_int_equal(f.batch->fields[0].keys[1], fth_hash_mix(salt_of("x") ^ fth_hash_mix(3)));
    fth_block_destroy(block);
    close_fixture(&f);
}

static void entries_of_libsvm(void **state) {
    struct fth_config config;
    struct fth_categorical_config categorical = {.columns = STRINGS("all"), .ffm_field = -1};
    base_config(&config);
    config.data.format = FTH_FORMAT_LIBSVM;
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    struct fixture f;
    open_program(&f, &config, NULL, 0);
    open_pass(&f);
    struct fth_block *block = test_block_entries("1 1:0.5 3:2\n2 4:1\n0 18446744073709551615:1\n");
    run(&f, block);
    assert_int_equal(block->n_bad, 1);
    assert_int_equal(f.batch->n, 2);
    const uint32_t offsets[] = {0, 2, 3};
    assert_memory_equal(f.batch->groups[0].offsets, offsets, sizeof offsets);
    assert_int_equal(f.batch->fields[0].keys[2],
                     fth_hash_mix(salt_of("all") ^ fth_hash_mix(UINT64_MAX)));
    assert_true(f.batch->fields[0].values[0] == 0.5f);
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

static void refuse_config(const struct fth_config *config, const char *const *columns, size_t n,
                          const char *message) {
    fth_feature_program *program = NULL;
    fth_error err = {0};
    assert_int_equal(fth_feature_create(config, columns, n, &program, &err), FTH_E_CONFIG);
    assert_null(program);
    if (strcmp(err.message, message) != 0)
        fail_msg("got: %s\nexpected: %s", err.message, message);
}

static void wrong_configurations_are_refused(void **state) {
    const char *columns[] = {"label", "age", "hours", "job"};
    struct fth_config config;
    struct fth_numeric_config numeric = {.columns = STRINGS("agee")};
    struct fth_categorical_config categorical[2] = {
        {.columns = STRINGS("job"), .ffm_field = -1}, {.columns = STRINGS("age"), .ffm_field = -1}};
    base_config(&config);
    refuse_config(&config, columns, 4,
                  "features: at least one numeric or categorical column is needed");
    config.features.numeric = &numeric;
    config.features.n_numeric = 1;
    refuse_config(&config, columns, 4,
                  "features.numeric.0.columns: the data has no column 'agee'; did you mean 'age'?");
    numeric.columns = (struct fth_strings)STRINGS("zzzzzz");
    refuse_config(&config, columns, 4,
                  "features.numeric.0.columns: the data has no column 'zzzzzz'; it has: label, age, "
                  "hours, job");
    numeric.columns = (struct fth_strings)STRINGS("label");
    refuse_config(&config, columns, 4, "features.numeric: the label 'label' cannot be a feature");
    numeric.columns = (struct fth_strings)STRINGS("age", "age");
    refuse_config(&config, columns, 4,
                  "features.numeric.0: there are two numeric features named 'age'");
    numeric.columns = (struct fth_strings)STRINGS("age");
    numeric.bucket_only = 1;
    refuse_config(&config, columns, 4, "features.numeric.0: bucket_only needs boundaries or quantiles");
    numeric.boundaries = (struct fth_floats){(const double[]){1, 3, 2}, 3};
    refuse_config(&config, columns, 4,
                  "features.numeric.0.boundaries.2: 2: must be finite and above the one before it");
    config.features.n_numeric = 0;
    config.features.categorical = categorical;
    config.features.n_categorical = 2;
    categorical[0].table = "t";
    categorical[1].table = "t";
    categorical[1].dim = 16;
    refuse_config(&config, columns, 4,
                  "features.categorical.1: 'age' and 'job' share table 't' and must agree on dim (16, 8) "
                  "and min_count (0, 0)");
    categorical[1].dim = 0;
    categorical[1].sequence = 1;
    refuse_config(&config, columns, 4,
                  "features.categorical.1.sequence: needs a separator that splits 'age'");
    categorical[0].separator = categorical[1].separator = " ";
    categorical[0].group = categorical[1].group = "g";
    categorical[0].max_length = 5;
    refuse_config(&config, columns, 4,
                  "features.categorical.1: the features of group 'g' must agree on max_length and keep");
    categorical[1].max_length = 5;
    config.data.weight = "hour";
    refuse_config(&config, columns, 4,
                  "data.weight: the data has no column 'hour'; did you mean 'hours'?");
    const char *twice[] = {"label", "job", "job", "age"};
    config.data.weight = "";
    refuse_config(&config, twice, 4,
                  "features.categorical.0.columns: the data has two columns named 'job' (the 2. and the "
                  "3.); name each differently in the header or by data.csv.columns");
}

static void tasks_have_labels_of_their_own(void **state) {
    struct fth_config config;
    struct fth_numeric_config numeric = {.columns = STRINGS("a")};
    struct fth_task_config tasks[3] = {
        {.name = "click", .label = "c", .sample_weight = ""},
        {.name = "buy", .label = "b", .positive = STRINGS("yes", "y"), .sample_weight = "v"},
        {.name = "rated", .label = "b", .positive = STRINGS("no"), .sample_weight = ""}};
    base_config(&config);
    config.data.label = "";
    config.data.weight = "w";
    config.tasks = tasks;
    config.n_tasks = 3;
    config.features.numeric = &numeric;
    config.features.n_numeric = 1;
    config.features.missing = (struct fth_strings)STRINGS("?");
    const char *columns[] = {"c", "b", "a", "w", "v"};
    struct fixture f;
    open_program(&f, &config, columns, 5);
    open_pass(&f);
    assert_int_equal(f.transform.schema->n_tasks, 3);
    assert_int_equal(f.transform.schema->has_weight, 1);
    /* What was not observed has the weight 0, and its own sample weight is not looked at. */
    struct fth_block *block = test_block_cells("1,yes,5,2,0.5\n"
                                               "0,,6,1,\n"
                                               "?,no,7,3,4\n"
                                               "-1,maybe,8,0,2\n",
                                               ',');
    run(&f, block);
    assert_int_equal(block->n_bad, 0);
    assert_int_equal(f.batch->n, 4);
    static const float labels[] = {1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
    static const float weights[] = {2, 1, 2, 1, 0, 0, 0, 12, 3, 0, 0, 0};
    assert_memory_equal(f.batch->label, labels, sizeof labels);
    assert_memory_equal(f.batch->weight, weights, sizeof weights);
    fth_block_destroy(block);
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"2,no,5,1,1\n", "hand.csv:1:1: column 'c': label '2' is neither 0 nor 1 (nor -1); its positive names "
                         "texts that mean 1"},
        {"1,no,5,1,\n", "hand.csv:1:10: column 'v': the sample weight is missing"},
        {"1,no,5,-1,1\n", "hand.csv:1:8: column 'w': sample weight -1 is below 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        block = test_block_cells(cases[i].line, ',');
        run(&f, block);
        assert_int_equal(block->n_bad, 1);
        assert_string_equal(block->first_bad.message, cases[i].message);
        fth_block_destroy(block);
    }
    close_fixture(&f);
    tasks[2].label = "a";
    refuse_config(&config, columns, 5, "features.numeric: the label 'a' cannot be a feature");
    tasks[2].label = "bb";
    refuse_config(&config, columns, 5, "tasks.2.label: the data has no column 'bb'; it has: c, b, a, w, v");
    tasks[2].label = "b";
    tasks[1].sample_weight = "u";
    refuse_config(&config, columns, 5,
                  "tasks.1.sample_weight: the data has no column 'u'; it has: c, b, a, w, v");
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
        cmocka_unit_test(bad_cells_are_refused_with_their_place),
        cmocka_unit_test(positive_texts_label),
        cmocka_unit_test(entries_of_libffm),
        cmocka_unit_test(entries_of_libsvm),
        cmocka_unit_test(many_lines),
        cmocka_unit_test(wrong_configurations_are_refused),
        cmocka_unit_test(tasks_have_labels_of_their_own),
        cmocka_unit_test(criteo_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
