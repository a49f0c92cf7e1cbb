/* data/inspect: column statistics, sampling of blocks; and real files, when they are there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/inspect.h"
#include "data_support.h"

static struct fth_data_stats *scan(const struct fth_data_config *config, const char *text, size_t n,
                                   const struct fth_strings *missing, fth_data_set **set) {
    struct fth_data_set_options options = {
        .part = FTH_PART_FILES, .memory = text, .memory_bytes = n};
    struct fth_data_stats *stats = NULL;
    fth_error err = {0};
    if (fth_data_set_create(config, &options, set, &err) != FTH_OK ||
        fth_data_scan(*set, missing, &stats, &err) != FTH_OK)
        fail_msg("%s", err.message);
    return stats;
}

static void csv_statistics(void **state) {
    size_t capacity = 4 << 20, n = 0;
    char *text = malloc(capacity);
    n += (size_t)sprintf(text, "id,small,mixed\n");
    for (int i = 0; i < 60000; i++) {
        n += (size_t)sprintf(text + n, "%d,%s,%d\n", i,
                             i % 4 == 1   ? "?"
                             : i % 4 == 3 ? ""
                                          : "a",
                             i % 100 - 50);
        if (i % 5000 == 0)
            n += (size_t)sprintf(text + n, "short\n");
    }
    static const char *const question[] = {"?"};
    struct fth_strings missing = {question, 1};
    struct fth_data_config config = csv_config(NULL, 0, NULL, 0);
    fth_data_set *set;
    config.header = 1;
    struct fth_data_stats *stats = scan(&config, text, n, &missing, &set);
    assert_int_equal(stats->n_columns, 3);
    assert_int_equal(stats->lines, 60012);
    assert_int_equal(stats->bad, 12);
    assert_int_equal(stats->n_messages, FTH_DATA_MESSAGES);
    assert_string_equal(stats->messages[0], "memory:3:6: 1 cells; a line has 3");
    assert_string_equal(stats->messages[1], "memory:5004:6: 1 cells; a line has 3");
    assert_int_equal(stats->bytes, n - 15);
    const struct fth_column_stats *c = stats->columns;
    assert_string_equal(c[0].name, "id");
    assert_int_equal(c[0].cells, 60000);
    assert_true(fabs(c[0].distinct - 60000) < 1200);
    assert_int_equal(c[1].missing, 30000);
    assert_int_equal(c[1].numbers, 0);
    assert_true(fabs(c[1].distinct - 1) < 0.01);
    assert_int_equal(c[2].numbers, 60000);
    assert_true(c[2].min == -50 && c[2].max == 49);
    assert_true(fabs(c[2].mean + 0.5) < 1e-9);
    assert_true(fabs(c[2].distinct - 100) < 1);
    fth_data_stats_destroy(stats);
    fth_data_set_destroy(set);
    free(text);
}

/* Of these 10,000 the estimate alone is 10,022. */
static void never_more_than_there_are(void **state) {
    char *text = malloc(1 << 17);
    size_t n = (size_t)sprintf(text, "id\n");
    for (int i = 0; i < 10000; i++)
        n += (size_t)sprintf(text + n, "%d\n", i);
    struct fth_strings none = {NULL, 0};
    struct fth_data_config config = csv_config(NULL, 0, NULL, 0);
    fth_data_set *set;
    config.header = 1;
    struct fth_data_stats *stats = scan(&config, text, n, &none, &set);
    assert_true(stats->columns[0].distinct == 10000);
    fth_data_stats_destroy(stats);
    fth_data_set_destroy(set);
    free(text);
}

static void entry_statistics(void **state) {
    static const char text[] = "1 3:7:0.5 4:7:2\n0 3:8:2\nbad 1\n";
    struct fth_strings none = {NULL, 0};
    struct fth_data_config config = csv_config(NULL, 0, NULL, 0);
    fth_data_set *set;
    config.format = FTH_FORMAT_LIBFFM;
    struct fth_data_stats *stats = scan(&config, text, sizeof text - 1, &none, &set);
    assert_int_equal(stats->n_columns, 4);
    assert_int_equal(stats->bad, 1);
    const struct fth_column_stats *c = stats->columns;
    assert_string_equal(c[0].name, "label");
    assert_int_equal(c[0].cells, 2);
    assert_string_equal(c[1].name, "field");
    assert_true(c[1].min == 3 && c[1].max == 4 && c[1].cells == 3);
    assert_int_equal((int)(c[2].distinct + 0.5), 2);
    assert_true(c[3].max == 2 && fabs(c[3].mean - 1.5) < 1e-12);
    fth_data_stats_destroy(stats);
    fth_data_set_destroy(set);
}

static fth_status count_some(void *ctx, struct fth_block *block, int *more, fth_error *err) {
    uint64_t *lines = ctx;
    *lines += block->n_lines;
    *more = *lines < 10;
    return FTH_OK;
}

static void blocks_until_enough(void **state) {
    char text[400];
    size_t n = 0;
    uint64_t lines = 0;
    static const char *const names[] = {"x"};
    for (int i = 0; i < 100; i++)
        n += (size_t)sprintf(text + n, "%d\n", i % 10);
    struct fth_data_config config = csv_config(NULL, 0, names, 1);
    struct fth_data_set_options options = {
        .part = FTH_PART_FILES, .memory = text, .memory_bytes = n};
    fth_data_set *set;
    config.block_bytes = 6;
    assert_int_equal(fth_data_set_create(&config, &options, &set, NULL), FTH_OK);
    assert_int_equal(fth_data_each_block(set, -1, count_some, &lines, NULL), FTH_OK);
    assert_int_equal(lines, 12);
    fth_data_set_destroy(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_statistics),
        cmocka_unit_test(never_more_than_there_are),
        cmocka_unit_test(entry_statistics),
        cmocka_unit_test(blocks_until_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
