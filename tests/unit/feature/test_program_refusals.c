/* feature/program: what it refuses, lines and configurations, in what words. */
#include "program_test.h"

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
        {"1,3,nan,c,1\n", "hand.csv:2:5: column 'pay': 'nan' is not a number; features.missing names texts that "
                            "stand for a value that is not there"},
        {"1,3,0x1p3,c,1\n", "hand.csv:2:5: column 'pay': '0x1p3' is not a number"},
        {"1,3,-1e39,c,1\n", "hand.csv:2:5: column 'pay': '-1e39' is too large for a 32-bit float"},
        {"1, 3,1,c,1\n", "hand.csv:2:3: column 'age': ' 3' is not a number; data.csv.strip drops spaces around cells"},
        {"1 ,3,1,c,1\n", "hand.csv:2:1: column 'label': label '1 ' is neither 0 nor 1 (nor -1); "
                         "data.positive names texts that mean 1, or a bound (\">= 4\"); data.csv.strip drops spaces around cells"},
        {"2,3,1,c,1\n", "hand.csv:2:1: column 'label': label '2' is neither 0 nor 1 (nor -1); "
                        "data.positive names texts that mean 1, or a bound (\">= 4\")"},
        {"yes,3,1,c,1\n",
         "hand.csv:2:1: column 'label': label 'yes' is neither 0 nor 1 (nor -1); data.positive names texts that mean 1, or a bound (\">= 4\")"},
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
    numeric.columns = (struct fth_strings)STRINGS("age", "age_missing");
    numeric.missing_indicator = 1;
    refuse_config(&config, (const char *const[]){"label", "age", "age_missing"}, 3,
                  "features.numeric.0: there are two numeric features named 'age_missing'; missing_indicator makes "
                  "COLUMN_missing");
    numeric.missing_indicator = 0;
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
                  "3.); name each differently in the header (or in data.csv.columns, where there is none)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_cells_are_refused_with_their_place),
        cmocka_unit_test(wrong_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
