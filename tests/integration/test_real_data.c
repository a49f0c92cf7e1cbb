/* Real files, read in place: Open Bandit logs and Census Income have no malformed line. Skipped
 * where they are absent ($FATHOM_DATA, or ../shared/data beside the source folder). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/inspect.h"
#include "data_support.h"

static struct fth_data_stats *scan_file(const struct fth_data_config *config, const char *name,
                                        fth_data_set **set) {
    char path[512];
    const char *found = shared_data(name), *item = path;
    struct fth_strings none = {NULL, 0};
    struct fth_data_stats *stats = NULL;
    fth_error err = {0};
    if (!found)
        fail_msg("%s is missing, though other files are there", name);
    snprintf(path, sizeof path, "%s", found);
    struct fth_data_set_options options = {.part = FTH_PART_FILES, .files = {&item, 1}};
    if (fth_data_set_create(config, &options, set, &err) != FTH_OK ||
        fth_data_scan(*set, &none, &stats, &err) != FTH_OK)
        fail_msg("%s", err.message);
    if (stats->bad)
        fail_msg("%s", stats->messages[0]);
    return stats;
}

static void open_bandit(void **state) {
    static const struct {
        const char *name;
        uint32_t columns;
        uint64_t lines;
    } files[] = {
        {"obd/random/men/men.csv", 44, 10000},        {"obd/random/women/women.csv", 56, 10000},
        {"obd/bts/men/men.csv", 44, 10000},           {"obd/bts/women/women.csv", 56, 10000},
        {"obd/random/men/item_context.csv", 6, 34},   {"obd/bts/men/item_context.csv", 6, 34},
        {"obd/random/women/item_context.csv", 6, 46}, {"obd/bts/women/item_context.csv", 6, 46},
        {"obd/random/all/item_context.csv", 6, 80},   {"obd/bts/all/item_context.csv", 6, 80},
    };
    struct fth_data_config config = csv_config(NULL, 0, NULL, 0);
    config.header = 1;
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        fth_data_set *set;
        struct fth_data_stats *stats = scan_file(&config, files[f].name, &set);
        assert_int_equal(stats->n_columns, files[f].columns);
        assert_int_equal(stats->lines, files[f].lines);
        assert_string_equal(stats->columns[0].name, "");
        assert_int_equal(stats->columns[0].numbers, files[f].lines);
        for (uint32_t c = 0; c < stats->n_columns; c++)
            assert_int_equal(stats->columns[c].missing, 0);
        fth_data_stats_destroy(stats);
        fth_data_set_destroy(set);
    }
}

static void census_income(void **state) {
    static const char *const columns[] = {
        "age",          "workclass",    "fnlwgt",         "education",      "education-num",
        "marital",      "occupation",   "relationship",   "race",           "sex",
        "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"};
    struct fth_data_config config = csv_config(NULL, 0, columns, 15);
    fth_data_set *set;
    config.strip = 1;
    config.comment = "|";
    struct fth_data_stats *stats = scan_file(&config, "adult/adult.data", &set);
    assert_int_equal(stats->lines, 32561);
    assert_int_equal((int)(stats->columns[14].distinct + 0.5), 2);
    assert_int_equal((int)(stats->columns[13].distinct + 0.5), 42);
    assert_true(stats->columns[10].max == 99999);
    fth_data_stats_destroy(stats);
    fth_data_set_destroy(set);
    stats = scan_file(&config, "adult/adult.test", &set);
    assert_int_equal(stats->lines, 16281);
    fth_data_stats_destroy(stats);
    fth_data_set_destroy(set);
}

int main(void) {
    if (!shared_data("obd/random/men/men.csv") || !shared_data("adult/adult.data")) {
        printf("skipped: no real data; set FATHOM_DATA to the folder that has adult/ and obd/\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_bandit),
        cmocka_unit_test(census_income),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
