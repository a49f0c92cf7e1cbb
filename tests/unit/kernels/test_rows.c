/* kernels/cpu/rows: every instruction set against scalar, scalar against its formulas. */
#include "kernel_test.h"

enum { TABLE_ROWS = 50, LONGEST = 128 };

static void draw_rows(struct call *c, uint32_t *rows) {
    for (size_t i = 0; i < LONGEST; i++)
        rows[i] = (call_bits(c) >> 8) % TABLE_ROWS;
}

static void run_gather(const struct fth_kernels *k, struct call *c) {
    uint32_t rows[LONGEST];
    size_t stride, ldo, m = c->m * 9; /* beyond the prefetch distance as well */
    draw_rows(c, rows);
    float *table = call_in(c, TABLE_ROWS, c->n, -1, 1, &stride), *out = call_out(c, m, c->n, &ldo);
    k->gather(m, rows, table, stride, c->n, out, ldo);
}

static fth_pooling pooling;

static void run_pool(const struct fth_kernels *k, struct call *c) {
    uint32_t rows[LONGEST], offsets[16] = {1000};
    size_t stride, ldo;
    draw_rows(c, rows);
    for (size_t i = 0; i < c->m; i++)
        offsets[i + 1] = offsets[i] + (call_bits(c) >> 8) % 13;
    float *table = call_in(c, TABLE_ROWS, c->n, -1, 1, &stride),
          *values = call_in(c, 1, LONGEST, -2, 2, NULL);
    uint32_t *at = pooling == FTH_POOL_MAX ? (uint32_t *)(void *)call_out(c, 1, c->m * c->n, NULL) : NULL;
    float *out = call_out(c, c->m, c->n, &ldo);
    k->gather_pool(c->m, offsets, rows, values, table, stride, c->n, pooling, out, ldo, at);
    at = at ? (uint32_t *)(void *)call_out(c, 1, c->m * c->n, NULL) : NULL;
    out = call_out(c, c->m, c->n, &ldo);
    k->gather_pool(c->m, offsets, rows, NULL, table, stride, c->n, pooling, out, ldo, at);
}

static void run_pick(const struct fth_kernels *k, struct call *c) {
    uint32_t *at = malloc((c->n + 1) * sizeof *at);
    float *x = call_in(c, 1, c->n, -1, 1, NULL);
    for (size_t j = 0; j < c->n; j++)
        at[j] = 4000000000u + (call_bits(c) >> 8) % 3;
    k->pick(c->n, at, 4000000001u, x, call_out(c, 1, c->n, NULL));
    free(at);
}

static void run_gather_sum(const struct fth_kernels *k, struct call *c) {
    uint32_t numbers[3][LONGEST];
    const uint32_t *rows[3] = {numbers[0], numbers[1], numbers[2]};
    size_t stride, ldo;
    float *table = call_in(c, 3 * TABLE_ROWS, c->n, -1, 1, &stride);
    const float *base[3];
    for (size_t f = 0; f < 3; f++) {
        draw_rows(c, numbers[f]);
        base[f] = table + f * TABLE_ROWS * stride;
    }
    float *out = call_out(c, c->m, c->n, &ldo);
    k->gather_sum(c->m, 2, rows, base, stride, c->n, NULL, 0, out, ldo);
    k->gather_sum(c->m, 1, rows + 2, base + 2, stride, c->n, out, ldo, out, ldo);
}

static void run_sum_lists(const struct fth_kernels *k, struct call *c) {
    uint32_t rows[LONGEST], begin[16] = {3};
    size_t stride, ldo;
    draw_rows(c, rows);
    for (size_t i = 0; i < c->m; i++)
        begin[i + 1] = begin[i] + (call_bits(c) >> 8) % 9;
    float *table = call_in(c, TABLE_ROWS, c->n, -1, 1, &stride);
    float *out = call_out(c, c->m, c->n, &ldo);
    k->sum_lists(c->m, begin, rows, table, stride, c->n, out, ldo);
}

static void run_sum_rows(const struct fth_kernels *k, struct call *c) {
    size_t stride, n = c->m * 5;
    const float *src[LONGEST];
    uint32_t rows[LONGEST];
    if (n == 0)
        return;
    draw_rows(c, rows);
    float *table = call_in(c, TABLE_ROWS, c->n, -1, 1, &stride),
          *scale = call_in(c, 1, n, -2, 2, NULL);
    for (size_t i = 0; i < n; i++)
        src[i] = table + rows[i] * stride;
    k->sum_rows(n, src, scale, c->n, call_out(c, 1, c->n, NULL));
    k->sum_rows(n, src, NULL, c->n, call_out(c, 1, c->n, NULL));
}

/* Lists, and one row an x; rows of `once` are met once, or a sum is set twice, which is as good. */
static void run_add_to_rows(const struct fth_kernels *k, struct call *c) {
    uint32_t rows[LONGEST], once[TABLE_ROWS], begin[40] = {0};
    size_t ld, stride, m = c->m + 18; /* beyond the prefetch distance */
    draw_rows(c, rows);
    for (size_t i = 0; i < TABLE_ROWS; i++)
        once[i] = 1 + (call_bits(c) >> 8) % 2;
    for (size_t i = 0; i < m; i++)
        begin[i + 1] = begin[i] + (call_bits(c) >> 8) % 4;
    float *x = call_in(c, m, c->n, -1, 1, &ld), *scale = call_in(c, 1, m, -2, 2, NULL);
    for (size_t i = 0; i < m; i += 3)
        scale[i] = 1;
    float *sums = call_out(c, TABLE_ROWS, c->n, &stride);
    for (size_t i = 0; i < TABLE_ROWS; i++)
        memset(sums + i * stride, 0, c->n * sizeof *sums);
    k->add_to_rows(m, begin, rows, once, scale, x, ld, c->n, sums, stride);
    k->add_to_rows(m, begin, rows, NULL, scale, x, ld, c->n, sums, stride);
    k->add_to_rows(m, begin, rows, NULL, NULL, x, ld, c->n, sums, stride);
    k->add_to_rows(m / 2, begin, rows, once, NULL, x, ld, c->n, sums, stride);
}

static void run_draws(const struct fth_kernels *k, struct call *c) {
    uint64_t a = (uint64_t)call_bits(c) << 32 | call_bits(c);
    k->draw_uniform(c->m * 0x9e3779b97f4a7c15ull, 2, a, c->n, -0.25f, 0.5f, call_out(c, 1, c->n, NULL));
    /* Two neighbours: the sum rounds up to `high`, which is outside. */
    k->draw_uniform(c->m, 2, a, c->n, 1, nextafterf(1, 2), call_out(c, 1, c->n, NULL));
}

/* Sums run in the rows' order without fused multiply-adds: the same bits everywhere. */
static void rows_agree_to_the_bit(void **state) {
    check_shapes(run_gather, 0, 0);
    for (pooling = FTH_POOL_SUM; pooling <= FTH_POOL_MAX; pooling++)
        check_shapes(run_pool, 0, 0);
    check_shapes(run_pick, 0, 0);
    check_shapes(run_gather_sum, 0, 0);
    check_shapes(run_sum_lists, 0, 0);
    check_shapes(run_sum_rows, 0, 0);
    check_shapes(run_add_to_rows, 0, 0);
    check_shapes(run_draws, 0, 0);
}

static void scalar_rows_follow_their_formulas(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    float table[9] = {1, 2, -9, 3, 4, -9, 5, -6, -9}, out[6], values[3] = {2, -1, 0.5f};
    uint32_t rows[3] = {2, 0, 1}, offsets[4] = {7, 9, 9, 10};
    k->gather(3, rows, table, 3, 2, out, 2);
    assert_memory_equal(out, ((float[6]){5, -6, 1, 2, 3, 4}), sizeof out);
    k->gather_pool(3, offsets, rows, NULL, table, 3, 2, FTH_POOL_SUM, out, 2, NULL);
    assert_memory_equal(out, ((float[6]){6, -4, 0, 0, 3, 4}), sizeof out);
    k->gather_pool(3, offsets, rows, values, table, 3, 2, FTH_POOL_SUM, out, 2, NULL);
    assert_memory_equal(out, ((float[6]){9, -14, 0, 0, 1.5f, 2}), sizeof out);
    k->gather_pool(3, offsets, rows, values, table, 3, 2, FTH_POOL_MEAN, out, 2, NULL);
    assert_memory_equal(out, ((float[6]){4.5f, -7, 0, 0, 1.5f, 2}), sizeof out);
    uint32_t at[6];
    k->gather_pool(3, offsets, rows, NULL, table, 3, 2, FTH_POOL_MAX, out, 2, at);
    assert_memory_equal(out, ((float[6]){5, 2, 0, 0, 3, 4}), sizeof out);
    assert_memory_equal(at, ((uint32_t[6]){7, 8, 9, 9, 9, 9}), sizeof at);
    k->pick(4, at, 9, table, out);
    assert_memory_equal(out, ((float[4]){0, 0, -9, 3}), 4 * sizeof *out);
    k->sum_lists(2, (uint32_t[3]){0, 0, 2}, rows, table, 3, 2, out, 2);
    assert_memory_equal(out, ((float[4]){0, 0, 6, -4}), 4 * sizeof *out);
    const uint32_t *numbers[2] = {rows, rows + 1};
    const float *base[2] = {table, table};
    k->gather_sum(2, 2, numbers, base, 3, 2, NULL, 0, out, 3);
    assert_true(out[0] == 6 && out[1] == -4 && out[3] == 4 && out[4] == 6);
    k->gather_sum(2, 1, numbers, base, 3, 2, out, 3, out, 3);
    assert_true(out[0] == 11 && out[1] == -10 && out[3] == 5 && out[4] == 8);
    const float *src[2] = {table, table + 3};
    k->sum_rows(2, src, NULL, 2, out);
    assert_true(out[0] == 4 && out[1] == 6);
    k->sum_rows(2, src, values, 2, out);
    assert_true(out[0] == -1 && out[1] == 0);
    float sums[6] = {10, 20, 0, 0, 0, 0}, x[4] = {1, 2, -0.0f, 5}, scale[2] = {2, 1};
    uint32_t list[4] = {1, 0, 0, 2}, once[3] = {2, 3, 1};
    k->add_to_rows(2, (uint32_t[3]){0, 2, 4}, list, once, scale, x, 2, 2, sums, 2);
    assert_memory_equal(sums, ((float[6]){12, 29, 2, 4, -0.0f, 5}), sizeof sums);
    k->add_to_rows(1, (uint32_t[2]){2, 4}, list, NULL, NULL, x, 2, 2, sums, 2);
    assert_memory_equal(sums, ((float[6]){13, 31, 2, 4, 1, 7}), sizeof sums);
}

static void a_maximum_keeps_nan(void **state) {
    const struct fth_kernels *tables[3];
    const char *names[3];
    size_t count = tables_under_test(tables, names);
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    for (size_t k = 0; k < count; k++) {
        float table[6] = {NAN, 1, 2, NAN, 3, 4}, out[2];
        uint32_t at[2];
        uint32_t rows[3] = {0, 1, 2}, offsets[2] = {0, 3};
        tables[k]->gather_pool(1, offsets, rows, NULL, table, 2, 2, FTH_POOL_MAX, out, 2, at);
        assert_true(isnan(out[0]) && isnan(out[1]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_agree_to_the_bit),
        cmocka_unit_test(scalar_rows_follow_their_formulas),
        cmocka_unit_test(a_maximum_keeps_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
