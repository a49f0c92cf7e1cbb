/* feature/: side tables, and columns made from others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "blocks.h"
#include "feature/date.h"
#include "feature/program.h"
#include "programs.h"

static fth_side_table *make_table(const char *const (*pairs)[2], size_t n) {
    fth_side_table *table = NULL;
    int differs;
    assert_int_equal(fth_side_table_create(&table, NULL), FTH_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(fth_side_table_add(table, pairs[i][0], (uint32_t)strlen(pairs[i][0]), pairs[i][1],
                                            (uint32_t)strlen(pairs[i][1]), &differs, NULL),
                         FTH_OK);
        assert_false(differs);
    }
    return table;
}

static void side_tables(void **state) {
    fth_side_table *table = NULL;
    int differs;
    char key[32], value[32];
    const char *found;
    uint32_t length;
    assert_int_equal(fth_side_table_create(&table, NULL), FTH_OK);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5000; i++) { /* over several growths, then all a second time */
            uint32_t n = (uint32_t)sprintf(key, "key%d", i), m = (uint32_t)sprintf(value, "%d", i * 7);
            assert_int_equal(fth_side_table_add(table, key, n, value, m, &differs, NULL), FTH_OK);
            assert_false(differs);
        }
    for (int i = 0; i < 5000; i++) {
        uint32_t n = (uint32_t)sprintf(key, "key%d", i);
        sprintf(value, "%d", i * 7);
        assert_int_equal(fth_side_table_find(table, key, n, &found, &length), 1);
        assert_int_equal(length, strlen(value));
        assert_memory_equal(found, value, length);
        assert_int_equal(fth_side_table_find(table, key, n - 1, &found, &length), i >= 10);
    }
    assert_int_equal(fth_side_table_add(table, "key7", 4, "other", 5, &differs, NULL), FTH_OK);
    assert_true(differs);
    assert_int_equal(fth_side_table_find(table, "key7", 4, &found, &length), 1);
    assert_memory_equal(found, "49", 2);
    assert_int_equal(fth_side_table_find(table, "", 0, &found, &length), 0);
    fth_side_table_destroy(table);
}

static void a_keys_values_are_collected(void **state) {
    static const struct {
        const char *key, *value, *all;
    } lines[] = {{"a", "x", "x"},       {"a", "y", "x::y"},  {"a", "x", "x::y"},         {"b", "", ""},
                 {"b", "z", "z"},       {"b", "", "z"},      {"a", "y:z", "x::y::y:z"},  {"a", "z", "x::y::y:z::z"},
                 {"b", "x", "z::x"},    {"c", "z", "z"},     {"b", "::", "z::x::::"}};
    fth_side_table *table = NULL;
    const char *found;
    char key[8], value[8];
    uint32_t length;
    assert_int_equal(fth_side_table_create(&table, NULL), FTH_OK);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(fth_side_table_collect(table, lines[i].key, 1, lines[i].value, (uint32_t)strlen(lines[i].value),
                                                "::", NULL), FTH_OK);
        assert_int_equal(fth_side_table_find(table, lines[i].key, 1, &found, &length), 1);
        assert_int_equal(length, strlen(lines[i].all));
        assert_memory_equal(found, lines[i].all, length);
    }
    for (int i = 0; i < 3000; i++) { /* over growths of slots and text, keys in turns */
        uint32_t n = (uint32_t)sprintf(key, "k%d", i % 300), m = (uint32_t)sprintf(value, "%d", i);
        assert_int_equal(fth_side_table_collect(table, key, n, value, m, ";", NULL), FTH_OK);
    }
    assert_int_equal(fth_side_table_size(table), 303);
    assert_int_equal(fth_side_table_find(table, "k7", 2, &found, &length), 1);
    assert_int_equal(length, 43);
    assert_memory_equal(found, "7;307;607;907;1207;1507;1807;2107;2407;2707", 43);
    fth_side_table_destroy(table);
}

static uint64_t key_of(const char *table, const char *text) {
    uint64_t salt = fth_hash_bytes(table, strlen(table), 0);
    return *text ? fth_hash_bytes(text, strlen(text), salt) : fth_hash_mix(salt ^ 0x9d1c5f0b6a3e8247ull);
}

static void derived_columns(void **state) {
    static const char *const pairs[][2] = {{"a", "x"}, {"b", "long name"}, {"c", ""}};
    static const char *const columns[] = {"label", "item", "hist", "time"};
    static const char *const item[] = {"item"}, *const hist[] = {"hist"}, *const when[] = {"time"};
    static const char *const both[] = {"category", "hour"}, *const lists[] = {"hist_category"};
    static const char *const singles[] = {"category", "hour", "both"}, *const number[] = {"hour"};
    struct fth_derived_config derived[] = {
        {.as = FTH_DERIVE_JOIN, .several = "", .name = "category", .from = {item, 1}},
        {.as = FTH_DERIVE_JOIN, .several = "", .name = "hist_category", .from = {hist, 1}, .separator = ";"},
        {.as = FTH_DERIVE_DATE, .name = "hour", .from = {when, 1}, .format = "iso", .part = FTH_DATE_HOUR},
        {.as = FTH_DERIVE_CROSS, .name = "both", .from = {both, 2}},
    };
    struct fth_categorical_config categorical[] = {
        {.columns = {singles, 3}},
        {.columns = {lists, 1}, .separator = ";", .table = "category", .max_length = 10, .group = "g"},
        {.columns = {hist, 1}, .separator = ";", .max_length = 10, .group = "g"},
    };
    struct fth_numeric_config numeric = {.columns = {number, 1}, .missing_value = -1};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"},
                                .embedding = {.dim = 1}};
    config.features.derived = derived;
    config.features.n_derived = 4;
    config.features.categorical = categorical;
    config.features.n_categorical = 3;
    config.features.numeric = &numeric;
    config.features.n_numeric = 1;
    fth_side_table *table = make_table(pairs, 3);
    fth_feature_program *program = NULL;
    fth_feature_pass *pass = NULL;
    struct fth_batch *batch = NULL;
    fth_error err = {0};
    assert_int_equal(fth_feature_create(&config, columns, 4, &program, &err), FTH_OK);
    assert_int_equal(fth_feature_pass_create(program, NULL, 0, &pass, &err), FTH_E_ARGUMENT);
    assert_int_equal(fth_feature_set_side_table(program, 0, table, &err), FTH_OK);
    assert_int_equal(fth_feature_set_side_table(program, 1, table, &err), FTH_OK);
    assert_int_equal(fth_feature_pass_create(program, NULL, 0, &pass, &err), FTH_OK);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    assert_int_equal(fth_batch_create(transform.schema, 1, &batch, &err), FTH_OK);
    struct fth_block *block = test_block_cells("1,a,a;b;q;c;a,2024-01-01 07:30\n"
                                               "0,q,q,2024-01-01\n"
                                               "0,a,a,yesterday\n"
                                               "1,b,,\n",
                                               ',');
    assert_int_equal(transform.examples(transform.ctx, block, batch, &err), FTH_OK);
    assert_int_equal(batch->n, 3);
    assert_int_equal(block->n_bad, 1);
    assert_string_equal(block->first_bad.message,
                        "hand.csv:3:7: column 'time': 'yesterday' is not a date of the format iso");
    assert_true(batch->fields[0].keys[0] == key_of("category", "x"));
    assert_true(batch->fields[0].keys[1] == key_of("category", ""));
    assert_true(batch->fields[0].keys[2] == key_of("category", "long name"));
    assert_true(batch->fields[1].keys[0] == key_of("hour", "7"));
    assert_true(batch->fields[1].keys[1] == key_of("hour", "0"));
    assert_true(batch->fields[1].keys[2] == key_of("hour", ""));
    assert_true(batch->fields[2].keys[0] == key_of("both", "x\x1f" "7"));
    assert_true(batch->fields[2].keys[1] == key_of("both", ""));
    assert_true(batch->fields[2].keys[2] == key_of("both", ""));
    assert_float_equal(batch->dense[0], 7, 0);
    assert_float_equal(batch->dense[2 * (size_t)batch->dense_ld], -1, 0);
    /* Lists of one group are as long as each other: one element without a category is still one. */
    const uint32_t *offsets = batch->groups[0].offsets;
    static const uint32_t wanted[] = {0, 5, 6, 6};
    assert_memory_equal(offsets, wanted, sizeof wanted);
    static const char *const categories[] = {"x", "long name", "", "", "x", ""};
    for (int i = 0; i < 6; i++)
        assert_true(batch->fields[3].keys[i] == key_of("category", categories[i]));
    assert_true(batch->fields[4].keys[5] == key_of("hist", "q"));
    fth_block_destroy(block);
    fth_batch_destroy(batch);
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
    fth_side_table_destroy(table);
}

/* Characters wherever they stand, all of them: what is left is a text like any other, also for a column made of it;
 * nothing left, or a text of features.missing before or behind, is missing. Bytes of longer characters stay. */
static void replaced_characters(void **state) {
    static const char *const columns[] = {"label", "tags", "price"}, *const tags[] = {"tags"}, *const price[] = {"price"};
    static const char *const tag[] = {"tag"}, *const both[] = {"tag", "cost"}, *const cost[] = {"cost"};
    static const char *const dollars[] = {"dollars"};
    static const char *const pair[] = {"pair"}, *const missing[] = {"?", "[none]"};
    struct fth_derived_config derived[] = {
        {.as = FTH_DERIVE_REPLACE, .name = "tag", .from = {tags, 1}, .characters = "[]'", .by = ""},
        {.as = FTH_DERIVE_REPLACE, .name = "dollars", .from = {price, 1}, .characters = "$,", .by = ""},
        {.as = FTH_DERIVE_REPLACE, .name = "cost", .from = {dollars, 1}, .characters = ":;", .by = "."},
        {.as = FTH_DERIVE_CROSS, .name = "pair", .from = {both, 2}},
    };
    struct fth_categorical_config categorical[] = {
        {.columns = {tag, 1}, .separator = ", ", .max_length = 10},
        {.columns = {pair, 1}},
    };
    struct fth_numeric_config numeric = {.columns = {cost, 1}, .missing_value = -1};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}};
    config.features.derived = derived;
    config.features.n_derived = 4;
    config.features.categorical = categorical;
    config.features.n_categorical = 2;
    config.features.numeric = &numeric;
    config.features.n_numeric = 1;
    config.features.missing = (struct fth_strings){missing, 2};
    struct test_program t;
    test_program_create(&t, &config, columns, 3, 0);
    struct fth_block *block = test_block_cells("1\t['a', 'b c', '']\t$1,234:50\n"
                                               "0\t[]\t$,\n"
                                               "0\t[none]\t[?]\n"
                                               "1\t[\xe2\x82\xac]]a[\t-$,5\n"
                                               "0\t[?]\t?\n"
                                               "1\t\t12\n",
                                               '\t');
    test_program_run(&t, block);
    assert_int_equal(t.batch->n, 5);
    assert_string_equal(block->first_bad.message, "hand.csv:3:1: column 'cost': '[?]' is not a number");
    static const uint32_t offsets[] = {0, 3, 3, 4, 4, 4};
    assert_memory_equal(t.batch->groups[0].offsets, offsets, sizeof offsets);
    static const char *const values[] = {"a", "b c", "", "\xe2\x82\xac" "a"};
    for (int i = 0; i < 4; i++)
        assert_true(t.batch->fields[0].keys[i] == key_of("tag", values[i]));
    static const char *const pairs[] = {"a, b c, \x1f" "1234.50", "", "\xe2\x82\xac" "a\x1f" "-5", "", ""};
    static const float costs[] = {1234.5f, -1, -5, -1, 12};
    for (int i = 0; i < 5; i++) {
        assert_true(t.batch->fields[1].keys[i] == key_of("pair", pairs[i]));
        assert_float_equal(t.batch->dense[i * (size_t)t.batch->dense_ld], costs[i], 0);
    }
    test_program_drop(&t);
}

/* What only an example's weight is made of is not asked of files to predict, however it is made. */
static void not_made_to_predict(void **state) {
    static const char *const columns[] = {"item"}, *const item[] = {"item"}, *const when[] = {"time"};
    static const char *const of[] = {"day", "item"}, *const last[] = {"both"};
    struct fth_derived_config derived[] = {
        {.as = FTH_DERIVE_DATE, .name = "day", .from = {when, 1}, .format = "iso", .part = FTH_DATE_DAY},
        {.as = FTH_DERIVE_CROSS, .name = "both", .from = {of, 2}},
        {.as = FTH_DERIVE_JOIN, .several = "", .name = "weight", .from = {last, 1}},
    };
    struct fth_categorical_config categorical = {.columns = {item, 1}};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label", .weight = "weight"},
                                .embedding = {.dim = 1}};
    config.features.derived = derived;
    config.features.n_derived = 3;
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    fth_feature_program *program = NULL;
    fth_error err = {0};
    if (fth_feature_create_unlabelled(&config, columns, 1, &program, &err) != FTH_OK)
        fail_msg("%s", err.message);
    for (uint32_t k = 0; k < 3; k++)
        assert_false(fth_feature_makes(program, k));
    fth_feature_destroy(program);
}

/* A text that is no date: its line is refused, or it is missing, or all of its list are. */
static void what_is_no_date(void **state) {
    static const char *const columns[] = {"label", "time", "times"}, *const names[] = {"hour", "hours"};
    static const struct {
        int policy;
        const char *line, *keys[4]; /* of the cell, then of the list; "-": the line is refused */
        uint32_t bad;
    } cases[] = {
        {FTH_BAD_VALUE_STOP, "1,x,2024-01-01\n", {"-"}, 0},
        {FTH_BAD_VALUE_STOP, "1,,x\n", {"-"}, 0},
        {FTH_BAD_VALUE_SKIP, "1,x,2024-01-01 02:00;x;2024-01-01 04:00\n", {"", "2", "", "4"}, 2},
        {FTH_BAD_VALUE_SKIP, "1,2024-01-01 07:30,x\n", {"7", ""}, 1},
        {FTH_BAD_VALUE_MISSING, "1,x,2024-01-01 02:00;;2024-01-01 04:00\n", {"", "2", "", "4"}, 1},
        {FTH_BAD_VALUE_MISSING, "1,2024-01-01 07:30,2024-01-01 02:00;x;2024-01-01 04:00\n", {"7", "", "", ""}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fth_derived_config derived[2];
        struct fth_categorical_config categorical[2];
        for (int k = 0; k < 2; k++) {
            derived[k] = (struct fth_derived_config){.as = FTH_DERIVE_DATE, .name = names[k], .from = {columns + 1 + k, 1},
                                                     .separator = k ? ";" : "", .format = "iso", .part = FTH_DATE_HOUR,
                                                     .on_bad_value = cases[i].policy};
            categorical[k] = (struct fth_categorical_config){.columns = {names + k, 1}, .separator = k ? ";" : "",
                                                             .table = "hour", .max_length = 10};
        }
        struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}};
        config.features.derived = derived;
        config.features.n_derived = 2;
        config.features.categorical = categorical;
        config.features.n_categorical = 2;
        struct test_program t;
        test_program_create(&t, &config, columns, 3, 0);
        struct fth_block *block = test_block_cells(cases[i].line, ',');
        test_program_run(&t, block);
        int refused = cases[i].keys[0][0] == '-';
        assert_int_equal(t.batch->n, !refused);
        assert_int_equal(block->n_bad, refused);
        assert_int_equal(block->n_bad_values, cases[i].bad);
        for (uint32_t k = 0; !refused && k < 4 && cases[i].keys[k]; k++) {
            assert_true(t.batch->groups[0].total >= k);
            const uint64_t *keys = k ? t.batch->fields[1].keys + k - 1 : t.batch->fields[0].keys;
            assert_true(*keys == key_of("hour", cases[i].keys[k]));
        }
        test_program_drop(&t);
    }
}

/* A joined column that groups examples, too, is there as text for that. */
static void joined_column_as_query(void **state) {
    static const char *const pairs[][2] = {{"a", "x"}, {"b", "y"}};
    static const char *const columns[] = {"label", "item"}, *const item[] = {"item"}, *const shop[] = {"shop"};
    struct fth_derived_config derived = {.as = FTH_DERIVE_JOIN, .several = "", .name = "shop", .from = {item, 1}};
    struct fth_categorical_config categorical = {.columns = {shop, 1}};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label", .query = "shop"},
                                .embedding = {.dim = 1}};
    config.features.derived = &derived;
    config.features.n_derived = 1;
    config.features.categorical = &categorical;
    config.features.n_categorical = 1;
    fth_side_table *table = make_table(pairs, 2);
    struct test_program t;
    test_program_create(&t, &config, columns, 2, 0);
    assert_int_equal(fth_feature_set_side_table(t.program, 0, table, NULL), FTH_OK);
    test_program_run(&t, test_block_cells("1,b\n0,a\n", ','));
    assert_true(t.batch->query[0] == fth_hash_bytes("y", 1, 0) && t.batch->query[1] == fth_hash_bytes("x", 1, 0));
    assert_true(t.batch->fields[0].keys[0] == key_of("shop", "y") && t.batch->fields[0].keys[1] == key_of("shop", "x"));
    test_program_drop(&t);
    fth_side_table_destroy(table);
}

/* ---- joins made by the fields that hash them ---- */

static uint32_t draw(uint64_t *draws, uint32_t below) {
    uint32_t out[4];
    fth_random_draw(11, 0, (*draws)++, 0, out);
    return (uint32_t)((uint64_t)out[0] * below >> 32);
}

enum { JOINED_LINES = 200 };

/* Lines of a label, an item and a history: known, unknown, empty and missing ones. */
static struct fth_block *random_histories(uint64_t *draws, const char *separator) {
    static const char *const texts[] = {"a", "b", "", "?", "q", "key7", "key77", "key777", ";", "|", "\xff"};
    static char text[JOINED_LINES * 2000];
    struct fth_cell cells[3 * JOINED_LINES];
    uint32_t at = 0;
    for (uint32_t i = 0; i < JOINED_LINES; i++)
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t start = at, n = c < 2 ? 1 : draw(draws, 3) ? draw(draws, 9) : draw(draws, 150);
            for (uint32_t k = 0; k < n; k++)
                at += (uint32_t)sprintf(text + at, "%s%s", k ? separator : "",
                                        c ? texts[draw(draws, sizeof texts / sizeof *texts)] : "1");
            cells[3 * i + c] = (struct fth_cell){start, at - start};
            text[at++] = '\n';
        }
    return test_block_raw(text, at, cells, JOINED_LINES, 3);
}

static void joined_keys_are_those_of_texts(void **state) {
    static const char *const pairs[][2] = {{"a", "x"},    {"b", "a long category"}, {"q", ""}, {"?", "never"},
                                           {"key7", "?"}, {"key777", "x"}};
    static const char *const columns[] = {"label", "item", "history"}, *const missing[] = {"?", ";"};
    static const char *const item[] = {"item"}, *const history[] = {"history"}, *const kind[] = {"kind"};
    static const char *const kinds[] = {"kinds"}, *const separators[] = {";", "||", "|"};
    fth_side_table *table = make_table(pairs, sizeof pairs / sizeof *pairs);
    uint64_t draws = 0;
    int fused_joins = 0;
    for (int round = 0; round < 60; round++) {
        const char *separator = separators[draw(&draws, 3)];
        struct fth_derived_config derived[] = {
            {.as = FTH_DERIVE_JOIN, .several = "", .name = "kind", .from = {item, 1}},
            {.as = FTH_DERIVE_JOIN, .several = "", .name = "kinds", .from = {history, 1}, .separator = separator},
        };
        int64_t most = (int64_t[]){1, 5, 70, 1000}[draw(&draws, 4)], last = draw(&draws, 2);
        const char *group = draw(&draws, 2) ? "g" : "";
        struct fth_categorical_config categorical[] = {
            {.columns = {kind, 1}, .buckets = draw(&draws, 2) ? 100 : 0},
            {.columns = {kinds, 1}, .separator = draw(&draws, 6) ? separator : "q", .table = "kind", .max_length = most,
             .keep_last = (int)last, .group = group},
            {.columns = {history, 1}, .separator = draw(&draws, 4) ? separator : ".", .max_length = most,
             .keep_last = (int)last, .group = group},
        };
        struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}};
        config.features.derived = derived;
        config.features.n_derived = 2;
        config.features.categorical = categorical;
        config.features.n_categorical = 3;
        config.features.missing = (struct fth_strings){missing, draw(&draws, 3)};
        struct test_program ran[2];
        uint64_t same_draws = draws;
        for (int plain = 0; plain < 2; plain++) {
            draws = same_draws;
            test_program_create(&ran[plain], &config, columns, 3, plain);
            for (uint32_t k = 0; k < 2; k++)
                assert_int_equal(fth_feature_set_side_table(ran[plain].program, k, table, NULL), FTH_OK);
            char *told = NULL;
            assert_int_equal(fth_feature_describe(ran[plain].program, &told, NULL), FTH_OK);
            for (const char *p = told; (p = strstr(p, "fused: join+hash")) != NULL; p++)
                fused_joins += plain ? 1000 : 1;
            free(told);
            test_program_run(&ran[plain], random_histories(&draws, separator));
        }
        test_programs_same(&ran[0], &ran[1]);
        test_program_drop(&ran[0]);
        test_program_drop(&ran[1]);
    }
    assert_in_range(fused_joins, 70, 120); /* lists with one-byte separators, and all single ones */
    fth_side_table_destroy(table);
}

/* Items with numbers: good ones, bad ones, missing ones, sums that are too large. */
static struct fth_block *random_items(uint64_t *draws, const char *separator, int hostile) {
    static const char *const texts[] = {"a", "b", "c", "", "q", "?", "none", "huge", "minus", "word", "long", "tie"};
    static char text[JOINED_LINES * 6000];
    struct fth_cell cells[3 * JOINED_LINES];
    uint32_t at = 0;
    for (uint32_t i = 0; i < JOINED_LINES; i++)
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t start = at, n = c < 2 ? 1 : draw(draws, 3) ? draw(draws, 9) : draw(draws, 700);
            for (uint32_t k = 0; k < n; k++)
                at += (uint32_t)sprintf(text + at, "%s%s", k ? separator : "",
                                        c ? texts[draw(draws, hostile ? 12 : 7)] : "1");
            cells[3 * i + c] = (struct fth_cell){start, at - start};
            text[at++] = '\n';
        }
    return test_block_raw(text, at, cells, JOINED_LINES, 3);
}

/* A program over the lines, its boundaries and vocabularies learned from them or taken from `learned`. */
static void run_learned(struct test_program *t, struct fth_config *config, const fth_side_table *table, int plain,
                        struct fth_block *block, const fth_feature_program *learned) {
    static const char *const columns[] = {"label", "item", "history"}, *const texts[] = {"1.5", "?", "3e38"};
    const size_t lengths[] = {3, 1, 4};
    uint32_t twice;
    json_t *state = NULL;
    double none = 0;
    test_program_create(t, config, columns, 3, plain);
    int before = plain || learned; /* tables may come first or last */
    for (uint32_t k = 0; k < 2 && before; k++)
        assert_int_equal(fth_feature_set_side_table(t->program, k, table, NULL), FTH_OK);
    for (uint32_t v = 0; fth_feature_vocabulary_file(t->program, v) && !learned; v++)
        if (*fth_feature_vocabulary_file(t->program, v))
            assert_int_equal(fth_feature_set_vocabulary(t->program, v, texts, lengths, 3, &twice, NULL), FTH_OK);
    for (uint32_t k = 0; k < 2 && !before; k++)
        assert_int_equal(fth_feature_set_side_table(t->program, k, table, NULL), FTH_OK);
    if (learned) {
        assert_int_equal(fth_feature_state_save(learned, NULL, 0, &state, NULL), FTH_OK);
        assert_int_equal(fth_feature_state_load(t->program, state, &none, 0, NULL), FTH_OK);
        json_decref(state);
    } else {
        assert_int_equal(fth_feature_learn_block(t->program, block, NULL, block->n_lines, NULL), FTH_OK);
        assert_int_equal(fth_feature_learn_finish(t->program, NULL), FTH_OK);
    }
    test_program_run(t, block);
}

static void joined_numbers_are_those_of_texts(void **state) {
    static const char *const pairs[][2] = {{"a", "1.5"}, {"b", "-0"}, {"c", "0.1e-40"}, {"q", ""}, {"?", "8"},
                                           {"none", "?"}, {"huge", "3e38"}, {"minus", "-3.4e38"}, {"word", "dear"},
                                           {"long", "1e99"}, {"tie", "16777217.00000000000000000000000001"}};
    static const char *const missing[] = {"?", "1.5"};
    static const char *const item[] = {"item"}, *const history[] = {"history"}, *const price[] = {"price"};
    static const char *const prices[] = {"prices"}, *const separators[] = {";", ";", "||", "|"};
    fth_side_table *table = make_table(pairs, sizeof pairs / sizeof *pairs);
    uint64_t draws = 1000000, bad_lines = 0, bad_values = 0, lines = 0;
    int fused_joins = 0, in_steps = 0;
    for (int round = 0; round < 120; round++) {
        const char *separator = separators[draw(&draws, 4)];
        int hostile = (int)draw(&draws, 2);
        struct fth_derived_config derived[] = {
            {.as = FTH_DERIVE_JOIN, .several = "", .name = "price", .from = {item, 1}},
            {.as = FTH_DERIVE_JOIN, .several = "", .name = "prices", .from = {history, 1}, .separator = separator},
        };
        struct fth_numeric_config numeric[4] = {
            {.columns = {price, 1}, .log1p = (int)draw(&draws, 2), .missing_indicator = 1, .missing_value = -3,
             .quantiles = 3 * draw(&draws, 2)},
        };
        for (int k = 1; k < 4; k++)
            numeric[k] = (struct fth_numeric_config){
                .columns = {prices, 1}, .name = k == 1 ? "x" : k == 2 ? "y" : "z", .missing_indicator = 1,
                .separator = k < 3 || draw(&draws, 3) ? separator : "q", .reduce = (int)draw(&draws, 5),
                .on_bad_value = k == 1 ? (int)draw(&draws, 3) : 1 + (int)draw(&draws, 2),
                .max_length = (int64_t[]){0, 1, 70, 400}[draw(&draws, 4)], .keep_last = (int)draw(&draws, 2)};
        struct fth_categorical_config categorical[] = {
            {.columns = {price, 1}, .vocabulary_size = draw(&draws, 2) ? 4 : 0, .oov_buckets = draw(&draws, 3)},
            {.columns = {prices, 1}, .separator = separator, .max_length = 50, .keep_last = (int)draw(&draws, 2),
             .table = "words", .vocabulary_size = 3, .oov_buckets = draw(&draws, 3)},
        };
        if (draw(&draws, 2))
            categorical[1].vocabulary_size = 0, categorical[1].vocabulary_file = "words.txt";
        if (!categorical[0].vocabulary_size)
            categorical[0].oov_buckets = 0;
        struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}};
        config.features.derived = derived;
        config.features.numeric = numeric + (hostile && draw(&draws, 2)); /* bad prices of items refuse many lines */
        config.features.categorical = categorical;
        config.features.n_derived = config.features.n_categorical = 2;
        config.features.n_numeric = numeric == config.features.numeric ? 4 : 3;
        config.features.missing = (struct fth_strings){missing, draw(&draws, 3)};
        config.features.learn_lines = (int64_t[]){0, 50, 1000}[draw(&draws, 3)];
        struct test_program ran[3];
        uint64_t same_draws = draws;
        for (int k = 0; k < 3; k++) { /* fused, in steps, fused with what the first learned */
            draws = same_draws;
            run_learned(&ran[k], &config, table, k == 1, random_items(&draws, separator, hostile),
                        k == 2 ? ran[0].program : NULL);
            char *told = NULL;
            assert_int_equal(fth_feature_describe(ran[k].program, &told, NULL), FTH_OK);
            for (const char *p = told; (p = strstr(p, "join+number")) != NULL; p++)
                ++*(k == 1 ? &in_steps : &fused_joins);
            free(told);
        }
        test_programs_same(&ran[0], &ran[1]);
        test_programs_same(&ran[0], &ran[2]);
        bad_lines += ran[0].block->n_bad;
        bad_values += ran[0].block->n_bad_values;
        lines += ran[0].batch->n;
        for (int k = 0; k < 3; k++)
            test_program_drop(&ran[k]);
    }
    assert_int_equal(in_steps, 0);
    assert_in_range(fused_joins, 200, 400);
    assert_true(bad_lines > 1000 && bad_values > 1000 && lines > 10000);
    fth_side_table_destroy(table);
}

static int warnings;
static void count_warning(void *ctx, int level, const char *line) {
    assert_int_equal(level, FTH_LOG_WARN);
    assert_string_equal(line, "column 'kinds': none of the first 1000 values of 'history' is a key ('id') of kinds.csv");
    warnings++;
}

/* A side file that has nothing to do with the data is told of, once, whether the join is fused or not. */
static void unknown_keys(void **state) {
    static const char *const some[][2] = {{"nobody", "x"}}, *const known[][2] = {{"item7", "x"}};
    static const char *const columns[] = {"label", "history"};
    static const char *const history[] = {"history"}, *const kinds[] = {"kinds"};
    static const char *const key[] = {"id"};
    struct fth_derived_config derived = {.as = FTH_DERIVE_JOIN, .several = "", .name = "kinds", .from = {history, 1},
                                         .separator = ";", .file = "kinds.csv", .key = {key, 1}};
    struct fth_categorical_config categorical = {.columns = {kinds, 1}, .separator = ";", .max_length = 10};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}};
    config.features.derived = &derived;
    config.features.categorical = &categorical;
    config.features.n_derived = config.features.n_categorical = 1;
    for (int round = 0; round < 4; round++) {
        fth_side_table *table = make_table(round < 2 ? some : known, 1);
        struct test_program t;
        char text[500 * 24], *at = text;
        for (int i = 0; i < 500; i++)
            at += sprintf(at, "1,item%d;item%d;\n", i, i + 1);
        warnings = 0;
        fth_log_set(count_warning, NULL);
        test_program_create(&t, &config, columns, 2, round % 2);
        assert_int_equal(fth_feature_set_side_table(t.program, 0, table, NULL), FTH_OK);
        test_program_run(&t, test_block_cells(text, ','));
        struct fth_transform transform = fth_feature_pass_transform(t.pass);
        assert_int_equal(transform.examples(transform.ctx, t.block, t.batch, NULL), FTH_OK);
        fth_log_set(NULL, NULL);
        assert_int_equal(warnings, round < 2);
        test_program_drop(&t);
        fth_side_table_destroy(table);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(side_tables),
        cmocka_unit_test(a_keys_values_are_collected),
        cmocka_unit_test(derived_columns),
        cmocka_unit_test(replaced_characters),
        cmocka_unit_test(what_is_no_date),
        cmocka_unit_test(joined_column_as_query),
        cmocka_unit_test(not_made_to_predict),
        cmocka_unit_test(joined_keys_are_those_of_texts),
        cmocka_unit_test(joined_numbers_are_those_of_texts),
        cmocka_unit_test(unknown_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
