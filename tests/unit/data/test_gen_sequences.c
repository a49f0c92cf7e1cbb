/* data/gen_sequence: presets whose lists belong together, and histories whose order decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fathom/gen.h"

struct bytes {
    char *data;
    size_t n;
};

static fth_status collect(void *ctx, const void *data, size_t n, fth_error *err) {
    (void)err;
    struct bytes *bytes = ctx;
    bytes->data = realloc(bytes->data, bytes->n + n + 1);
    assert_non_null(bytes->data);
    memcpy(bytes->data + bytes->n, data, n);
    bytes->n += n;
    bytes->data[bytes->n] = 0;
    return FTH_OK;
}

static fth_gen_options o;

static void generate(const char *preset, uint64_t examples, struct bytes *data, struct bytes *truth) {
    fth_error err = {0};
    *data = *truth = (struct bytes){0};
    fth_gen_sink data_sink = {collect, data}, truth_sink = {collect, truth};
    assert_true(fth_gen_preset(preset, &o));
    o.examples = examples;
    assert_int_equal(fth_gen_run(&o, &data_sink, &truth_sink, NULL, &err), FTH_OK);
}

static size_t split(char *text, char separator, char **cells, size_t max) {
    size_t n = *text != 0;
    cells[0] = text;
    for (char *p = text; *p; p++)
        if (*p == separator) {
            *p = 0;
            assert_true(n < max);
            cells[n++] = p + 1;
        }
    return n;
}

enum { COLUMNS = 39, LONGEST = 400 };

static size_t column(char *const *names, const char *name) {
    for (size_t i = 0; i < COLUMNS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fail_msg("no column %s", name);
    return 0;
}

/* Lists of a line are of one length; what follows from an item is the same wherever the item stands. */
static void check_line(char *const *names, char **cells, size_t *length) {
    static const char *const of_item[][2] = {{"category_1_id", "category_1_id_list"},
                                             {"shop_id", "shop_id_list"},
                                             {"brand_id", "brand_id_list"},
                                             {"shop_geohash_6", "shop_geohash6_list"}};
    static char *items[LONGEST], *values[LONGEST];
    size_t n = split(cells[column(names, "item_id_list")], ';', items, LONGEST);
    *length += n;
    for (size_t c = 0; c < COLUMNS; c++) {
        if (!strstr(names[c], "_list") || strcmp(names[c], "item_id_list") == 0)
            continue;
        assert_int_equal(split(cells[c], ';', values, LONGEST), n);
        for (size_t i = 0; i < sizeof of_item / sizeof *of_item; i++)
            for (size_t t = 0; t < n && strcmp(names[c], of_item[i][1]) == 0; t++)
                if (strcmp(items[t], cells[column(names, "item_id")]) == 0)
                    assert_string_equal(values[t], cells[column(names, of_item[i][0])]);
        for (size_t t = 0; t < n && strcmp(names[c], "price_list") == 0; t++) {
            char *point = strchr(values[t], '.');
            assert_true(point && strlen(point) == 3 && strtod(values[t], NULL) < 100);
        }
        for (size_t t = 0; t < n && strcmp(names[c], "time_type_list") == 0; t++)
            assert_non_null(strstr("breakfast lunch tea dinner night", values[t]));
        for (size_t t = 0; t < n && strcmp(names[c], "hours_list") == 0; t++)
            assert_true(strtol(values[t], NULL, 10) < 24);
    }
}

static void lists_belong_together(void **state) {
    (void)state;
    const char *presets[] = {"elm", "elm-long"};
    double means[2];
    for (int p = 0; p < 2; p++) {
        struct bytes data, truth;
        char *names[COLUMNS], *cells[COLUMNS];
        size_t length = 0, lines = 0;
        generate(presets[p], p ? 400 : 3000, &data, &truth);
        char *end = strchr(data.data, '\n');
        *end = 0;
        assert_int_equal(split(data.data, ',', names, COLUMNS), COLUMNS);
        for (char *line = end + 1; *line; line = end + 1, lines++) {
            end = strchr(line, '\n');
            *end = 0;
            assert_int_equal(split(line, ',', cells, COLUMNS), COLUMNS);
            check_line(names, cells, &length);
        }
        assert_int_equal(lines, o.examples);
        means[p] = (double)length / (double)lines;
        free(data.data);
        free(truth.data);
    }
    assert_true(means[0] > 24 && means[0] < 26 && means[1] > 180 && means[1] < 220);
}

/* A time an entry, ascending, and a pause that ends a session every fifth entry or so; the rest is as without. */
static void times_come_in_sessions(void **state) {
    (void)state;
    struct bytes data, truth, plain, plain_truth;
    size_t entries = 0, sessions = 0;
    generate("sequence", 2000, &plain, &plain_truth);
    generate("sessions", 2000, &data, &truth);
    char *end = strchr(data.data, '\n'), *other = plain.data;
    assert_int_equal(strncmp(data.data, "label,user,item,category,hist_item,hist_category,hist_time\n", 59), 0);
    for (char *line = end + 1; *line; line = end + 1) {
        char *cells[7], *items[128], *times[128];
        other = strchr(other, '\n') + 1;
        end = strchr(line, '\n');
        *end = 0;
        char *last = strrchr(line, ',');
        assert_int_equal(strncmp(line, other, (size_t)(last - line)), 0);
        assert_int_equal(other[last - line], '\n');
        assert_int_equal(split(line, ',', cells, 7), 7);
        size_t n = split(cells[4], ';', items, 128);
        assert_int_equal(split(cells[6], ';', times, 128), n);
        for (size_t t = 1; t < n; t++) {
            long apart = strtol(times[t], NULL, 10) - strtol(times[t - 1], NULL, 10);
            assert_true((apart >= 20 && apart < 600) || (apart >= 3600 && apart < 3600 + 172800));
            sessions += apart >= 1800;
            entries++;
        }
    }
    assert_true(entries > 20000);
    assert_true((double)sessions > 0.18 * (double)entries && (double)sessions < 0.22 * (double)entries);
    free(plain.data);
    free(plain_truth.data);
    free(data.data);
    free(truth.data);
}

/* The truth prefers targets of what came last to those of what came first, and these to those of neither. */
static void order_decides(void **state) {
    (void)state;
    struct bytes data, truth;
    double sums[3] = {0}, counts[3] = {0};
    generate("interest", 20000, &data, &truth);
    char *p = truth.data, *end = strchr(data.data, '\n');
    for (char *line = end + 1; *line; line = end + 1) {
        char *cells[6], *categories[64];
        end = strchr(line, '\n');
        *end = 0;
        assert_int_equal(split(line, ',', cells, 6), 6);
        size_t n = split(cells[5], ';', categories, 64), where = 0;
        for (size_t t = 0; t < n; t++)
            if (strcmp(categories[t], cells[3]) == 0)
                where = t + 3 >= n ? 2 : t + 8 < n ? 1 : 3;
        double probability = strtod(p, &p);
        if (where < 3) {
            sums[where] += probability;
            counts[where]++;
        }
    }
    double nowhere = sums[0] / counts[0], early = sums[1] / counts[1], late = sums[2] / counts[2];
    assert_true(counts[1] > 500 && counts[2] > 500);
    assert_true(late > early + 0.2 && early > nowhere + 0.1);
    free(data.data);
    free(truth.data);
}

static void refuse(const char *message) {
    struct bytes data = {0};
    fth_gen_sink sink = {collect, &data};
    fth_error err = {0};
    assert_int_equal(fth_gen_run(&o, &sink, NULL, NULL, &err), FTH_E_ARGUMENT);
    assert_string_equal(err.message, message);
    assert_int_equal(data.n, 0);
}

static void wrong_sequences_are_refused(void **state) {
    (void)state;
    fth_gen_preset("elm", &o);
    o.examples = 10;
    const fth_gen_options right = o;
    o.sequence.interests = 9;
    refuse("generator: sequence.interests: must be 0 to 8");
    o = right;
    o.sequence.n_attributes = 17;
    refuse("generator: sequence.attributes: must be at most 16");
    o = right;
    o.sequence.attributes[0].values = 0;
    refuse("generator: sequence attribute 1: must be of 1 to 2^32 values, 2^31 where they are numbers");
    o = right;
    o.sequence.attributes[8].decimals = 7;
    refuse("generator: sequence attribute 9: must be written with -1 (as text) to 6 decimals");
    o = right;
    o.sequence.attributes[11].values = 6;
    refuse("generator: sequence attribute 12: must be of a word a value, 16 at most");
    o = right;
    strcpy(o.sequence.attributes[11].words, "a  b c d e");
    refuse("generator: sequence attribute 12: must be of words of 1 to 15 bytes between single spaces");
    o = right;
    memset(o.sequence.attributes[11].words, 'a', 64);
    refuse("generator: sequence attribute 12: must be of words of 63 bytes in all");
    o = right;
    strcpy(o.sequence.attributes[0].list, "item_id");
    refuse("generator: two columns are named 'item_id'");
    o = right;
    strcpy(o.sequence.names[3], "");
    refuse("generator: a column's name: must be 1 to 31 letters, digits, '_', '.' or '-'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_belong_together),
        cmocka_unit_test(times_come_in_sessions),
        cmocka_unit_test(order_decides),
        cmocka_unit_test(wrong_sequences_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
