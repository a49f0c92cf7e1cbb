/* feature/: quantiles learned from the first lines, from all of them, and from more than the sample holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/hash.h"
#include "blocks.h"
#include "feature/program_private.h"

enum { BLOCKS = 60, LINES = 500, BUCKETS = 10 };

/* Boundaries of the numbers 0 to 29999, in order, learned from at most `lines` lines, 0: all, with room for `room` numbers (0: as it is). */
static uint32_t learn(int64_t lines, uint64_t room, float *boundaries) {
    static const char *const columns[] = {"label", "x"}, *const x[] = {"x"};
    struct fth_numeric_config numeric = {.columns = {x, 1}, .quantiles = BUCKETS};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}};
    config.features.numeric = &numeric;
    config.features.n_numeric = 1;
    config.features.learn_lines = lines;
    fth_feature_program *program = NULL;
    assert_int_equal(fth_feature_create(&config, columns, 2, &program, NULL), FTH_OK);
    program->sample_room = room ? room : program->sample_room;
    for (uint32_t b = 0; b < BLOCKS && fth_feature_learn_wanted(program); b++) {
        static char text[LINES * 16];
        char *at = text;
        for (uint32_t i = 0; i < LINES; i++)
            at += sprintf(at, "1,%u\n", b * LINES + i);
        struct fth_block *block = test_block_cells(text, ',');
        assert_int_equal(fth_feature_learn_block(program, block, NULL, block->n_lines, NULL), FTH_OK);
        fth_block_destroy(block);
    }
    assert_int_equal(fth_feature_learn_finish(program, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_wanted(program), 0);
    const struct fth_feature_boundaries *learned = &program->numeric[0].boundaries;
    uint32_t n = learned->n;
    for (uint32_t k = 0; k < n; k++)
        boundaries[k] = learned->values[k];
    fth_feature_destroy(program);
    return n;
}

static void all_lines(void **state) {
    float few[BUCKETS], all[BUCKETS];
    assert_int_equal(learn(0, 0, all), BUCKETS - 1);
    for (uint32_t k = 0; k + 1 < BUCKETS; k++)
        assert_float_equal(all[k], (k + 1) * (BLOCKS * LINES / BUCKETS), 0);
    assert_int_equal(learn(BLOCKS * LINES, 0, few), BUCKETS - 1);
    assert_memory_equal(few, all, (BUCKETS - 1) * sizeof *all);
    assert_int_equal(learn(1000, 0, few), BUCKETS - 1);
    assert_true(few[8] < 1000);
}

/* A sample of 2000 of 30000 is off by 1.1 % of them at most, standard deviation at the median. */
static void samples(void **state) {
    float all[BUCKETS], again[BUCKETS];
    assert_int_equal(learn(0, 2000, all), BUCKETS - 1);
    uint32_t exact = 0;
    for (uint32_t k = 0; k + 1 < BUCKETS; k++) {
        float wanted = (float)((k + 1) * (BLOCKS * LINES / BUCKETS));
        assert_float_equal(all[k], wanted, 0.05 * BLOCKS * LINES);
        exact += all[k] == wanted;
    }
    assert_true(exact < 5);
    assert_int_equal(learn(0, 2000, again), BUCKETS - 1);
    assert_memory_equal(again, all, (BUCKETS - 1) * sizeof *all);
}

/* Quantiles are learned beside buckets that are given. */
static void beside_given_ones(void **state) {
    static const char *const columns[] = {"label", "x", "y"}, *const x[] = {"x"}, *const y[] = {"y"};
    static const double given[] = {1, 2};
    struct fth_numeric_config numeric[] = {{.columns = {x, 1}, .quantiles = 2},
                                           {.columns = {y, 1}, .boundaries = {given, 2}}};
    struct fth_config config = {.data = {.format = FTH_FORMAT_CSV, .label = "label"}, .embedding = {.dim = 1}};
    fth_feature_program *program = NULL;
    config.features.numeric = numeric;
    config.features.n_numeric = 2;
    config.features.learn_lines = 4;
    assert_int_equal(fth_feature_create(&config, columns, 3, &program, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_wanted(program), 4);
    struct fth_block *block = test_block_cells("1,5,1\n1,6,1\n1,7,1\n1,8,1\n", ',');
    assert_int_equal(fth_feature_learn_block(program, block, NULL, block->n_lines, NULL), FTH_OK);
    assert_int_equal(fth_feature_learn_finish(program, NULL), FTH_OK);
    assert_int_equal(program->numeric[0].boundaries.n, 1);
    assert_float_equal(program->numeric[0].boundaries.values[0], 7, 0);
    assert_int_equal(program->numeric[1].boundaries.n, 2);
    fth_block_destroy(block);
    fth_feature_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_lines), cmocka_unit_test(samples),
                                       cmocka_unit_test(beside_given_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
