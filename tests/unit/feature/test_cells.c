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
#include "feature/number.h"
#include "feature/program.h"

#define LINES 2000

static uint64_t state_of_draws = 88172645463325252ull;

static uint32_t draw(uint32_t below) {
    state_of_draws ^= state_of_draws << 13;
    state_of_draws ^= state_of_draws >> 7;
    state_of_draws ^= state_of_draws << 17;
    return (uint32_t)(state_of_draws >> 20) % below;
}

/* Empty, short or long, of digits above all; some are no numbers. */
static size_t draw_number(char *out, int bad) {
    static const char any[] = "0123456789-+.exX \xb0:/";
    static const char *const odd[] = {"-0", "0", "-", "-1", "12345678", "-1234567", "-12345678",
                                      "99999999", "123456789", "1.5", "-.5", "+7", "0000001", "1e3"};
    size_t n = draw(10);
    if (draw(4) == 0)
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
    float x;
    int bad;
    uint64_t key;
};

static void check(int bad_numbers, int missing_texts) {
    static const char *const columns[] = {"label", "x", "c"};
    static const char *const missing[] = {"7", "aaaaaaaa"};
    static const char *const number[] = {"x"}, *const category[] = {"c"};
    struct fth_numeric_config numeric = {.columns = {number, 1}, .missing_value = -3};
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
    assert_int_equal(fth_feature_create(&config, columns, 3, &program, NULL), FTH_OK);
    assert_int_equal(fth_feature_pass_create(program, NULL, 0, &pass, NULL), FTH_OK);
    struct fth_transform transform = fth_feature_pass_transform(pass);
    assert_int_equal(fth_batch_create(transform.schema, 1, &batch, NULL), FTH_OK);
    static struct expected expected[LINES];
    uint64_t salt = fth_hash_bytes("c", 1, 0), none = fth_hash_mix(salt ^ 0x9d1c5f0b6a3e8247ull);
    char *text = malloc(LINES * 64), *at = text, cell[64];
    for (int i = 0; i < LINES; i++) {
        size_t n = draw_number(cell, bad_numbers);
        expected[i] = (struct expected){.x = -3};
        int absent = n == 0 || (missing_texts && n == 1 && cell[0] == '7');
        if (!absent)
            expected[i].bad = fth_number_parse(cell, n, &expected[i].x) != FTH_NUMBER_OK;
        at += sprintf(at, "1,%.*s,", (int)n, cell);
        n = missing_texts && draw(5) == 0 ? (size_t)sprintf(cell, "aaaaaaaa") : draw_text(cell);
        absent = n == 0 || (missing_texts && n == 8 && memcmp(cell, "aaaaaaaa", 8) == 0);
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
        assert_memory_equal(&batch->dense[(size_t)row * batch->dense_ld], &expected[i].x, 4);
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
    for (int i = 0; i < 8; i++)
        check(i & 1, i & 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_of_cell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
