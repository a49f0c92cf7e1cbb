/* feature/cells: the ways without branches give what the general functions give, for every kind of cell. */
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
#include "base/number.h"
#include "feature/program.h"

#define LINES 2000
#define COLUMNS 70

static uint64_t state_of_draws = 88172645463325252ull;

static uint32_t draw(uint32_t below) {
    state_of_draws ^= state_of_draws << 13;
    state_of_draws ^= state_of_draws >> 7;
    state_of_draws ^= state_of_draws << 17;
    return (uint32_t)(state_of_draws >> 20) % below;
}

/* Empty, short or long, of digits above all; some are no numbers. */
static size_t draw_number(char *out, int bad, int strange) {
    static const char any[] = "0123456789-+.exX \xb0:/";
    static const char *const odd[] = {"-0", "0", "-", "-1", "12345678", "-1234567", "-12345678",
                                      "99999999", "123456789", "1.5", "-.5", "+7", "0000001", "1e3"};
    size_t n = draw(10);
    if (strange && draw(4) == 0)
        return (size_t)sprintf(out, "%s", odd[draw(sizeof odd / sizeof *odd)]);
    for (size_t i = 0; i < n; i++)
        out[i] = any[draw(bad ? sizeof any - 1 : 10)];
    if (n > 1 && draw(4) == 0)
        out[0] = '-';
    return n;
}

static size_t draw_text(char *out) {
    size_t n = draw(3) ? 8 * draw(2) : draw(24);
    for (size_t i = 0; i < n; i++)
        out[i] = (char)('a' + draw(26));
    return n;
}

struct expected {
    float x[COLUMNS];
    int bad;
    uint64_t key;
};

/* Columns of numbers side by side are parsed together. */
static void check(int bad_numbers, int missing_texts, int log1p, uint32_t n_numbers) {
    static char names[COLUMNS][8];
    const char *columns[COLUMNS + 2] = {"label"};
    static const char *const missing[] = {"7", "aaaaaaaa"};
    static const char *const category[] = {"c"};
    struct fth_numeric_config numeric = {
        .columns = {columns + 1, n_numbers}, .missing_value = -3, .log1p = log1p};
    for (uint32_t c = 0; c < n_numbers; c++) {
        snprintf(names[c], sizeof names[c], "x%u", c);
        columns[c + 1] = names[c];
    }
    columns[n_numbers + 1] = "c";
    struct fth_categorical_config categorical = {.columns = {category, 1}};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"},
                                .embedding = {.dim = 1}};
    config.features.numeric = &numeric;
    config.features.categorical = &categorical;
    config.features.n_numeric = config.features.n_categorical = 1;
    config.features.missing = (struct fth_strings){missing, missing_texts ? 2 : 0};
    fth_feature_program *program = NULL;
    fth_feature_pass *pass = NULL;
    struct fth_batch *batch = NULL;
    assert_int_equal(fth_feature_create(&config, columns, n_numbers + 2, &program, NULL), FTH_OK);
    assert_int_equal(fth_feature_pass_create(program, NULL, 0, &pass, NULL), FTH_OK);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    assert_int_equal(fth_batch_create(transform.schema, 1, &batch, NULL), FTH_OK);
    static struct expected expected[LINES];
    uint64_t salt = fth_hash_bytes("c", 1, 0), none = fth_hash_mix(salt ^ 0x9d1c5f0b6a3e8247ull);
    char *text = malloc(LINES * (size_t)(64 + 16 * COLUMNS)), *at = text, cell[64];
    for (int i = 0; i < LINES; i++) {
        expected[i].bad = 0;
        at += sprintf(at, "1,");
        for (uint32_t c = 0; c < n_numbers; c++) {
            size_t n = draw_number(cell, bad_numbers && draw(n_numbers) == 0, draw(n_numbers) == 0);
            float x = -3;
            if (n > 0 && !(missing_texts && n == 1 && cell[0] == '7')) {
                expected[i].bad |= fth_number_parse(cell, n, &x) != FTH_NUMBER_OK;
                x = log1p ? copysignf(log1pf(fabsf(x)), x) : x;
            }
            expected[i].x[c] = x;
            at += sprintf(at, "%.*s,", (int)n, cell);
        }
        size_t n = missing_texts && draw(5) == 0 ? (size_t)sprintf(cell, "aaaaaaaa") : draw_text(cell);
        int absent = n == 0 || (missing_texts && n == 8 && memcmp(cell, "aaaaaaaa", 8) == 0);
        expected[i].key = absent ? none : fth_hash_bytes(cell, n, salt);
        at += sprintf(at, "%.*s\n", (int)n, cell);
    }
    struct fth_block *block = test_block_cells(text, ',');
    assert_int_equal(block->n_lines, LINES);
    assert_int_equal(transform.examples(transform.ctx, block, batch, NULL), FTH_OK);
    uint32_t row = 0;
    for (int i = 0; i < LINES; i++) {
        if (expected[i].bad)
            continue;
        assert_int_equal(batch->example_number[row], i);
        assert_memory_equal(&batch->dense[(size_t)row * batch->dense_ld], expected[i].x,
                            n_numbers * sizeof(float));
        assert_true(batch->fields[0].keys[row] == expected[i].key);
        row++;
    }
    assert_int_equal(batch->n, row);
    assert_int_equal(block->n_bad, LINES - row);
    assert_true(bad_numbers ? row < LINES : row > LINES / 2);
    free(text);
    fth_block_destroy(block);
    fth_batch_destroy(batch);
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
}

static void every_kind_of_cell(void **state) {
    static const uint32_t columns[] = {1, 2, 13, 64, COLUMNS};
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 5; k++)
            check(i & 1, i & 2, i >> 2 & 1, columns[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_of_cell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
