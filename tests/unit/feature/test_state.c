/* feature/: what is learned from data: quantile boundaries, running statistics, their saved form. */
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
#include "feature/program.h"

#define STRINGS(...) \
    {(const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)}

#define LINES 1000
#define BATCH 96

static const char *const columns[] = {"label", "a", "b"};

static struct fth_numeric_config numeric[2] = {
    {.columns = STRINGS("a"), .standardise = FTH_STANDARDISE_RUNNING, .missing_value = -3,
     .missing_indicator = 1, .quantiles = 4},
    {.columns = STRINGS("b"), .standardise = FTH_STANDARDISE_RUNNING, .log1p = 1}};

static void make_config(struct fth_config *config) {
    memset(config, 0, sizeof *config);
    config->data.format = FTH_FORMAT_CSV;
    config->data.label = "label";
    config->embedding.dim = 8;
    config->features.learn_lines = 700;
    config->features.numeric = numeric;
    config->features.n_numeric = 2;
}

static double value_a(int i) { return 1000.0 + (i * 7919 % 1009) * 0.25; }
static int value_b(int i) { return i * 31 % 257 - 20; }
static int missing_a(int i) { return i % 11 == 5; }

/* Lines [from, to) as text. */
static char *lines(int from, int to) {
    char *text = malloc((size_t)(to - from) * 40 + 1), *p = text;
    *p = 0;
    for (int i = from; i < to; i++) {
        p += sprintf(p, "%d,", i & 1);
        if (!missing_a(i))
            p += sprintf(p, "%.2f", value_a(i));
        p += sprintf(p, ",%d\n", value_b(i));
    }
    return text;
}

static fth_feature_program *make_program(const struct fth_config *config, int learn) {
    fth_feature_program *program = NULL;
    fth_error err = {0};
    if (fth_feature_create(config, columns, 3, &program, &err) != FTH_OK)
        fail_msg("%s", err.message);
    for (int at = 0; learn && fth_feature_learn_wanted(program) > 0; at += 130) {
        char *text = lines(at, at + 130);
        struct fth_block *block = test_block_cells(text, ',');
        assert_int_equal(fth_feature_learn_block(program, block, NULL, block->n_lines, &err), FTH_OK);
        fth_block_destroy(block);
        free(text);
    }
    if (learn)
        assert_int_equal(fth_feature_learn_finish(program, &err), FTH_OK);
    return program;
}

/* The lines [from, LINES) through `pass`, read in blocks of `cut` lines, batched by BATCH: dense floats to
 * out, keys to keys, and the state after every batch to states. */
static void train(fth_feature_pass *pass, int from, int cut, int do_train, float *out, uint64_t *keys,
                  double *states) {
    fth_error err = {0};
    struct fth_transform t = fth_feature_pass_transform(pass);
    struct fth_batch *part, *batch;
    assert_int_equal(fth_batch_create(t.schema, 1, &part, &err), FTH_OK);
    assert_int_equal(fth_batch_create(t.schema, BATCH, &batch, &err), FTH_OK);
    int row = 0;
    for (int at = from; at < LINES; at += cut) {
        int end = at + cut < LINES ? at + cut : LINES;
        char *text = lines(at, end);
        struct fth_block *block = test_block_cells(text, ',');
        assert_int_equal(t.examples(t.ctx, block, part, &err), FTH_OK);
        assert_int_equal(block->n_bad, 0);
        for (uint32_t i = 0; i < part->n; i++) {
            assert_int_equal(fth_batch_append(batch, part, &(uint32_t){i}, 1, &err), FTH_OK);
            if (batch->n < BATCH && at + (int)i + 1 < LINES)
                continue;
            assert_int_equal(t.finish(t.ctx, batch, do_train, &err), FTH_OK);
            for (uint32_t r = 0; r < batch->n; r++, row++) {
                memcpy(out + 3 * row, batch->dense + (size_t)r * batch->dense_ld, 3 * sizeof *out);
                keys[row] = batch->fields[0].keys[r];
            }
            if (states) {
                assert_int_equal(batch->after.n_feature_state, 6);
                memcpy(states, batch->after.feature_state, 6 * sizeof *states);
                states += 6;
            }
            fth_batch_clear(batch);
        }
        fth_block_destroy(block);
        free(text);
    }
    fth_batch_destroy(batch);
    fth_batch_destroy(part);
}

static fth_feature_pass *make_pass(const fth_feature_program *program, const double *state) {
    fth_feature_pass *pass = NULL;
    fth_error err = {0};
    assert_int_equal(
        fth_feature_pass_create(program, state, fth_feature_state_size(program), &pass, &err), FTH_OK);
    return pass;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void quantiles_are_exact(void **state) {
    struct fth_config config;
    make_config(&config);
    fth_feature_program *program = make_program(&config, 0);
    fth_feature_pass *pass = NULL;
    fth_error err = {0};
    assert_int_equal(fth_feature_learn_wanted(program), 700);
    assert_int_equal(fth_feature_pass_create(program, NULL, 0, &pass, &err), FTH_E_ARGUMENT);
    fth_feature_destroy(program);
    program = make_program(&config, 1);
    assert_int_equal(fth_feature_learn_wanted(program), 0);
    double sample[700];
    size_t n = 0;
    for (int i = 0; i < 700; i++)
        if (!missing_a(i))
            sample[n++] = value_a(i);
    qsort(sample, n, sizeof *sample, compare);
    json_t *json = NULL;
    assert_int_equal(fth_feature_state_save(program, NULL, 0, &json, &err), FTH_OK);
    json_t *list = json_object_get(json_object_get(json, "boundaries"), "a");
    assert_int_equal(json_array_size(list), 3);
    for (size_t q = 1; q < 4; q++)
        assert_true(json_real_value(json_array_get(list, q - 1)) == sample[q * n / 4]);
    json_decref(json);
    /* And they are what buckets are counted by. */
    static float out[3 * LINES];
    static uint64_t keys[LINES];
    pass = make_pass(program, NULL);
    train(pass, 0, 100, 1, out, keys, NULL);
    uint64_t salt = fth_hash_bytes("a_bucket", 8, 0);
    for (int i = 0; i < LINES; i++) {
        uint64_t bucket = 0;
        for (size_t q = 1; q < 4; q++)
            bucket += sample[q * n / 4] <= value_a(i);
        if (!missing_a(i))
            assert_int_equal(keys[i], fth_hash_mix(salt ^ fth_hash_mix(bucket)));
    }
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
}

/* Of four parts; a number that fills more than one is alone in its interval, the least is no boundary. */
static void boundaries_of(const char *lines, size_t n, const double *wanted) {
    struct fth_config config;
    make_config(&config);
    fth_feature_program *program = make_program(&config, 0);
    fth_error err = {0};
    struct fth_block *block = test_block_cells(lines, ',');
    assert_int_equal(fth_feature_learn_block(program, block, NULL, block->n_lines, &err), FTH_OK);
    assert_int_equal(fth_feature_learn_wanted(program), 700 - block->n_lines);
    assert_int_equal(fth_feature_learn_finish(program, &err), FTH_OK);
    json_t *json = NULL;
    assert_int_equal(fth_feature_state_save(program, NULL, 0, &json, &err), FTH_OK);
    json_t *list = json_object_get(json_object_get(json, "boundaries"), "a");
    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        assert_true(json_real_value(json_array_get(list, i)) == wanted[i]);
    json_decref(json);
    fth_block_destroy(block);
    fth_feature_destroy(program);
}

static void equal_quantiles(void **state) {
    boundaries_of("1,5,0\n1,5,0\n1,5,0\n1,5,0\n1,5,0\n1,9,0\n1,5,0\n1,x,0\n1,,0\n", 1, (double[]){9});
    boundaries_of("1,5,0\n1,5,0\n1,5,0\n1,5,0\n", 0, NULL);
    boundaries_of("1,-1,0\n1,0,0\n1,0,0\n1,0,0\n1,0,0\n1,0,0\n1,2,0\n1,3,0\n", 2, (double[]){0, 2});
    boundaries_of("1,0,0\n1,0,0\n1,0,0\n1,1,0\n1,1,0\n1,1,0\n1,1,0\n1,8,0\n", 2, (double[]){1, 8});
    boundaries_of("1,1,0\n1,2,0\n1,3,0\n1,4,0\n1,5,0\n1,6,0\n1,7,0\n1,8,0\n", 3, (double[]){3, 5, 7});
}

/* Plainly: mean and deviation of all present values up to the end of the batch, in long double. */
static void running_statistics_match_a_plain_reference(void **state) {
    struct fth_config config;
    make_config(&config);
    fth_feature_program *program = make_program(&config, 1);
    fth_feature_pass *pass = make_pass(program, NULL);
    static float out[3 * LINES];
    static uint64_t keys[LINES];
    double states[6 * (LINES / BATCH + 1)];
    train(pass, 0, 77, 1, out, keys, states);
    for (int start = 0; start < LINES; start += BATCH) {
        int end = start + BATCH < LINES ? start + BATCH : LINES;
        long double n = 0, sum = 0, square = 0, sum_b = 0, square_b = 0;
        for (int i = 0; i < end; i++) {
            long double b = copysignf(log1pf(fabsf((float)value_b(i))), (float)value_b(i));
            n += !missing_a(i);
            sum += missing_a(i) ? 0 : value_a(i);
            sum_b += b;
        }
        for (int i = 0; i < end; i++) {
            long double b = copysignf(log1pf(fabsf((float)value_b(i))), (float)value_b(i));
            square += missing_a(i) ? 0 : powl(value_a(i) - sum / n, 2);
            square_b += powl(b - sum_b / end, 2);
        }
        const double *s = states + 6 * (start / BATCH);
        assert_true(s[0] == (double)n && s[3] == end);
        assert_true(fabsl(s[1] - sum / n) < 1e-9L && fabsl(s[4] - sum_b / end) < 1e-12L);
        assert_true(fabsl(s[2] - square) < 1e-9L * square);
        assert_true(fabsl(s[5] - square_b) < 1e-11L * square_b);
        for (int i = start; i < end; i++) {
            long double b = copysignf(log1pf(fabsf((float)value_b(i))), (float)value_b(i));
            long double a = (value_a(i) - sum / n) / sqrtl(square / n);
            b = (b - sum_b / end) / sqrtl(square_b / end);
            if (missing_a(i))
                assert_true(out[3 * i] == -3 && out[3 * i + 1] == 1);
            else
                assert_true(fabsl(out[3 * i] - a) < 1e-6L && out[3 * i + 1] == 0);
            assert_true(fabsl(out[3 * i + 2] - b) < 1e-6L);
        }
    }
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
}

static void cuts_of_blocks_do_not_matter(void **state) {
    struct fth_config config;
    make_config(&config);
    fth_feature_program *program = make_program(&config, 1);
    static float out[2][3 * LINES];
    static uint64_t keys[2][LINES];
    double states[2][6 * (LINES / BATCH + 1)];
    const int cuts[] = {1, 7, 500, LINES};
    for (int c = 0; c < 4; c++) {
        int k = c > 0;
        fth_feature_pass *pass = make_pass(program, NULL);
        memset(out[k], 0, sizeof out[k]);
        train(pass, 0, cuts[c], 1, out[k], keys[k], states[k]);
        fth_feature_pass_destroy(pass);
        assert_memory_equal(out[0], out[k], sizeof out[0]);
        assert_memory_equal(keys[0], keys[k], sizeof keys[0]);
        assert_memory_equal(states[0], states[k], sizeof states[0]);
    }
    fth_feature_destroy(program);
}

static void evaluation_leaves_the_state_alone(void **state) {
    struct fth_config config;
    make_config(&config);
    fth_feature_program *program = make_program(&config, 1);
    const double given[6] = {10, 1100, 10 * 2500.0, 0, 0, 0};
    fth_feature_pass *pass = make_pass(program, given);
    static float out[2][3 * LINES];
    static uint64_t keys[LINES];
    train(pass, 0, 100, 0, out[0], keys, NULL);
    train(pass, 0, 100, 0, out[1], keys, NULL);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    for (int i = 0; i < LINES; i++) {
        if (!missing_a(i))
            assert_true(out[0][3 * i] == (float)((value_a(i) - 1100) / 50));
        assert_true(out[0][3 * i + 2] ==
                    copysignf(log1pf(fabsf((float)value_b(i))), (float)value_b(i)));
    }
    fth_error err = {0};
    assert_int_equal(fth_feature_pass_set_state(pass, given, 5, &err), FTH_E_ARGUMENT);
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);
}

/* Saved as text in the middle, loaded into a fresh program: the rest comes out in the same bits. */
static void saved_state_goes_on_with_the_same_bits(void **state) {
    struct fth_config config;
    make_config(&config);
    fth_error err = {0};
    fth_feature_program *program = make_program(&config, 1);
    fth_feature_pass *pass = make_pass(program, NULL);
    static float whole[3 * LINES], rest[3 * LINES];
    static uint64_t keys[LINES], rest_keys[LINES];
    double states[6 * (LINES / BATCH + 1)], restored[6];
    train(pass, 0, 50, 1, whole, keys, states);
    json_t *json = NULL;
    assert_int_equal(fth_feature_state_save(program, states + 6 * 3, 6, &json, &err), FTH_OK);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    fth_feature_pass_destroy(pass);
    fth_feature_destroy(program);

    program = make_program(&config, 0);
    json = json_loads(text, 0, NULL);
    free(text);
    assert_int_equal(fth_feature_state_load(program, json, restored, 6, &err), FTH_OK);
    assert_memory_equal(restored, states + 6 * 3, sizeof restored);
    assert_int_equal(fth_feature_learn_wanted(program), 0);
    pass = make_pass(program, restored);
    int from = 4 * BATCH;
    train(pass, from, 33, 1, rest, rest_keys, states);
    assert_memory_equal(rest, whole + 3 * from, (size_t)(LINES - from) * 3 * sizeof(float));
    assert_memory_equal(rest_keys, keys + from, (size_t)(LINES - from) * sizeof(uint64_t));
    fth_feature_pass_destroy(pass);

    /* Damaged or foreign states are refused and change nothing. */
    const char *wrong[] = {
        "{}", "[]", "{\"boundaries\": {}, \"running\": {}}",
        "{\"boundaries\": {\"b\": [1]}, \"running\": {\"a\": [1, 2, 3], \"b\": [1, 2, 3]}}",
        "{\"boundaries\": {\"a\": [2, 1]}, \"running\": {\"a\": [1, 2, 3], \"b\": [1, 2, 3]}}",
        "{\"boundaries\": {\"a\": [\"x\"]}, \"running\": {\"a\": [1, 2, 3], \"b\": [1, 2, 3]}}",
        "{\"boundaries\": {\"a\": [1]}, \"running\": {\"a\": [1, 2], \"b\": [1, 2, 3]}}",
        "{\"boundaries\": {\"a\": [1]}, \"running\": {\"a\": [-1, 2, 3], \"b\": [1, 2, 3]}}",
        "{\"boundaries\": {\"a\": [1e300]}, \"running\": {\"a\": [1, 2, 3], \"b\": [1, 2, 3]}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *bad = json_loads(wrong[i], 0, NULL), *after = NULL;
        double untouched[6] = {9, 9, 9, 9, 9, 9};
        err.message[0] = 0;
        assert_int_equal(fth_feature_state_load(program, bad, untouched, 6, &err), FTH_E_CHECKPOINT);
        assert_memory_equal(err.message, "feature state: ", 15);
        assert_true(untouched[0] == 9 && untouched[5] == 9);
        assert_int_equal(fth_feature_state_save(program, restored, 6, &after, &err), FTH_OK);
        assert_true(json_equal(after, json));
        json_decref(after);
        json_decref(bad);
    }
    json_decref(json);
    fth_feature_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_exact),
        cmocka_unit_test(equal_quantiles),
        cmocka_unit_test(running_statistics_match_a_plain_reference),
        cmocka_unit_test(cuts_of_blocks_do_not_matter),
        cmocka_unit_test(evaluation_leaves_the_state_alone),
        cmocka_unit_test(saved_state_goes_on_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
