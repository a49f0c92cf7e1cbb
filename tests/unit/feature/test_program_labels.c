/* feature/program: labels of one and of several tasks; lines of libsvm and libffm. */
#include "program_test.h"

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

/* A number that is the bound is above ">= 4" and not above "> 4". */
static void bounds_label(void **state) {
    static const float labels[][4] = {{0, 0, 1, 0}, {0, 1, 1, 1}};
    for (int or_equal = 0; or_equal < 2; or_equal++) {
        struct fth_config config;
        struct fth_categorical_config categorical = {.columns = STRINGS("c"), .ffm_field = -1};
        base_config(&config);
        config.data.label = "rating";
        config.data.positive = or_equal ? (struct fth_strings)STRINGS(">= 4") : (struct fth_strings)STRINGS("> 4");
        config.features.categorical = &categorical;
        config.features.n_categorical = 1;
        const char *columns[] = {"c", "rating"};
        struct fixture f;
        open_program(&f, &config, columns, 2);
        open_pass(&f);
        struct fth_block *block = test_block_cells("a,3.9\nb,4\nc,4.1\nd,4.0\n", ',');
        run(&f, block);
        assert_int_equal(f.batch->n, 4);
        assert_memory_equal(f.batch->label, labels[or_equal], sizeof labels[0]);
        fth_block_destroy(block);
        close_fixture(&f);
    }
}

/* Without the space it is a text like any other. */
static void texts_that_look_like_bounds(void **state) {
    static const float labels[] = {1, 1, 0};
    struct fth_config config;
    struct fth_categorical_config categorical = {.columns = STRINGS("c"), .ffm_field = -1};
    base_config(&config);
    config.data.positive = (struct fth_strings)STRINGS(">500", ">=500");
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    const char *columns[] = {"c", "label"};
    struct fixture f;
    open_program(&f, &config, columns, 2);
    open_pass(&f);
    struct fth_block *block = test_block_cells("a,>500\nb,>=500\nc,501\n", ',');
    run(&f, block);
    assert_int_equal(f.batch->n, 3);
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
    config.features.missing = (struct fth_strings)STRINGS("?", "0"); /* a label 0 is one all the same */
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
                         "texts that mean 1, or a bound (\">= 4\")"},
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positive_texts_label),
        cmocka_unit_test(bounds_label),
        cmocka_unit_test(texts_that_look_like_bounds),
        cmocka_unit_test(entries_of_libffm),
        cmocka_unit_test(entries_of_libsvm),
        cmocka_unit_test(tasks_have_labels_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
