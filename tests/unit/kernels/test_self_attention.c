/* kernels/cpu/self_attention: every instruction set against scalar, scalar against its formula and, for the
 * gradient, against finite differences. */
#include "kernel_test.h"

/* m segments, among them none, one and more positions than queries are taken at a time. */
static void segments(struct call *c, uint32_t *offsets) {
    static const uint32_t lengths[] = {3, 0, 1, 8, 2 * FTH_SELF_ATTENTION_QUERIES + 7, 0, 16, 33, 5};
    offsets[0] = 70;
    for (size_t i = 0; i < c->m; i++)
        offsets[i + 1] = offsets[i] + lengths[i % 9];
}

static void run_attention(const struct fth_kernels *k, struct call *c, size_t heads) {
    uint32_t offsets[16];
    size_t n = heads * c->n, ldx, ldy, lddy, lddx, most = 2 * FTH_SELF_ATTENTION_QUERIES + 7;
    segments(c, offsets);
    size_t rows = offsets[c->m] - offsets[0];
    float *x = call_in(c, rows, 3 * n, -1, 1, &ldx), *dy = call_in(c, rows, n, -1, 1, &lddy);
    float *scratch = malloc(fth_self_attention_grad_scratch(c->n, most) * sizeof(float));
    struct fth_self_attention a = {.m = c->m, .heads = heads, .d = c->n, .offsets = offsets,
                                   .scale = 0.5f, .q = x, .k = x + n, .v = x + 2 * n, .ldx = ldx};
    float *y = call_out(c, rows, n, &ldy);
    k->self_attention(&a, y, ldy, scratch);
    float *dx = call_out(c, rows, 3 * n, &lddx);
    k->self_attention_grad(&a, dy, lddy, dx, dx + n, dx + 2 * n, lddx, scratch);
    free(scratch);
}

static void run_one_head(const struct fth_kernels *k, struct call *c) {
    run_attention(k, c, 1);
}
static void run_three_heads(const struct fth_kernels *k, struct call *c) {
    run_attention(k, c, 3);
}

static void run_max(const struct fth_kernels *k, struct call *c) {
    uint32_t offsets[16];
    size_t ldx, ldy, lddy, lddx;
    segments(c, offsets);
    size_t rows = offsets[c->m] - offsets[0];
    float *x = call_in(c, rows, c->n, -1, 1, &ldx), *dy = call_in(c, c->m, c->n, -1, 1, &lddy);
    for (size_t t = 2; t < rows; t += 3) /* ties: the first of two equal ones */
        memcpy(x + t * ldx, x + (t - 1) * ldx, c->n * sizeof *x);
    float *y = call_out(c, c->m, c->n, &ldy);
    k->segment_max(c->m, offsets, c->n, x, ldx, y, ldy);
    float *dx = call_out(c, rows, c->n, &lddx);
    k->segment_max_grad(c->m, offsets, c->n, x, ldx, y, ldy, dy, lddy, dx, lddx);
}

static void instruction_sets_agree(void **state) {
    static const size_t columns[] = {1, 2, 3, 7, 8, 9, 16, 17, 33, 70};
    static const size_t rows[] = {0, 1, 2, 9};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < sizeof columns / sizeof *columns; j++) {
            check_shape(run_one_head, rows[i], columns[j], 5e-6f, 1);
            check_shape(run_max, rows[i], columns[j], 0, 0);
        }
    check_shape(run_three_heads, 9, 5, 5e-6f, 1);
    check_shape(run_three_heads, 9, 16, 5e-6f, 1);
}

/* Scores far apart: the weights are 1 and 0, nothing overflows. All of them far below 0: equal weights. */
static void large_scores(void **state) {
    const struct fth_kernels *tables[2];
    const char *names[2];
    size_t count = tables_under_test(tables, names);
    float x[9] = {1e3f, 1e3f, 5, 1e3f, -1e3f, 6, -1e3f, 0, 7}, y[3], scratch[200];
    uint32_t offsets[2] = {0, 3};
    struct fth_self_attention a = {.m = 1, .heads = 1, .d = 1, .offsets = offsets, .scale = 1,
                                   .q = x, .k = x + 1, .v = x + 2, .ldx = 3};
    float low[9] = {1e3f, -1, 5, 1e3f, -1, 6, 1e3f, -1, 7};
    struct fth_self_attention below = {.m = 1, .heads = 1, .d = 1, .offsets = offsets, .scale = 1,
                                       .q = low, .k = low + 1, .v = low + 2, .ldx = 3};
    for (size_t k = 0; k < count; k++) {
        tables[k]->self_attention(&a, y, 1, scratch);
        assert_true(y[0] == 5 && y[1] == 5 && y[2] == 6);
        tables[k]->self_attention(&below, y, 1, scratch);
        assert_true(fabsf(y[0] - 6) < 1e-5f && fabsf(y[1] - 6) < 1e-5f && fabsf(y[2] - 6) < 1e-5f);
    }
    fth_kernels_for(FTH_ISA_SCALAR)->self_attention(&a, y, 1, scratch);
    assert_true(y[0] == 5 && y[1] == 5 && y[2] == 6);
}

/* Two segments (3, 1 positions), two heads of 2 columns, in double. */
enum { ROWS = 4, COLUMNS = 4 };

static void formula(const float *x, double *y) {
    static const size_t first[ROWS] = {0, 0, 0, 3}, last[ROWS] = {3, 3, 3, 4};
    for (size_t t = 0; t < ROWS; t++)
        for (size_t h = 0; h < COLUMNS; h += 2) {
            double sum = 0, out[2] = {0};
            for (size_t j = first[t]; j < last[t]; j++) {
                const float *q = x + t * 3 * COLUMNS + h, *k = x + j * 3 * COLUMNS + COLUMNS + h;
                double e = exp(0.75 * ((double)q[0] * k[0] + (double)q[1] * k[1]));
                sum += e;
                for (int c = 0; c < 2; c++)
                    out[c] += e * x[j * 3 * COLUMNS + 2 * COLUMNS + h + (size_t)c];
            }
            for (size_t c = 0; c < 2; c++)
                y[t * COLUMNS + h + c] = out[c] / sum;
        }
}

static void scalar_follows_its_formula(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    float x[ROWS * 3 * COLUMNS], y[ROWS * COLUMNS], dy[ROWS * COLUMNS], dx[ROWS * 3 * COLUMNS];
    double want[ROWS * COLUMNS], other[ROWS * COLUMNS];
    float scratch[1024];
    uint32_t offsets[3] = {9, 12, 13};
    struct call c = {.state = 5};
    struct fth_self_attention a = {.m = 2, .heads = 2, .d = 2, .offsets = offsets, .scale = 0.75f,
                                   .q = x, .k = x + COLUMNS, .v = x + 2 * COLUMNS, .ldx = 3 * COLUMNS};
    for (size_t i = 0; i < ROWS * 3 * COLUMNS; i++)
        x[i] = call_number(&c, -2, 2);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        dy[i] = call_number(&c, -1, 1);
    formula(x, want);
    k->self_attention(&a, y, COLUMNS, scratch);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        assert_near(y[i], want[i], 1e-6);
    k->self_attention_grad(&a, dy, COLUMNS, dx, dx + COLUMNS, dx + 2 * COLUMNS, 3 * COLUMNS, scratch);
    for (size_t p = 0; p < ROWS * 3 * COLUMNS; p++) {
        float kept = x[p];
        double difference = 0;
        x[p] = kept + 0x1p-9f;
        formula(x, want);
        x[p] = kept - 0x1p-9f;
        formula(x, other);
        x[p] = kept;
        for (size_t i = 0; i < ROWS * COLUMNS; i++)
            difference += (double)dy[i] * (want[i] - other[i]);
        assert_near(dx[p], difference * 256, 1e-4);
    }
}

static void scalar_maximum(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    uint32_t offsets[4] = {5, 8, 8, 9}; /* lengths 3, 0, 1 */
    float x[8] = {-3, 1, -1, 4, -1, 2, -7, -8}, dy[6] = {10, 20, 30, 40, 50, 60}, y[6], dx[8];
    k->segment_max(3, offsets, 2, x, 2, y, 2);
    assert_memory_equal(y, ((float[6]){-1, 4, 0, 0, -7, -8}), sizeof y);
    k->segment_max_grad(3, offsets, 2, x, 2, y, 2, dy, 2, dx, 2);
    assert_memory_equal(dx, ((float[8]){0, 0, 10, 20, 0, 0, 50, 60}), sizeof dx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instruction_sets_agree),
        cmocka_unit_test(large_scores),
        cmocka_unit_test(scalar_follows_its_formula),
        cmocka_unit_test(scalar_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
