/* kernels/cpu/segment: every instruction set against scalar, scalar against its formulas. */
#include "kernel_test.h"

/* m segments of lengths 0 .. 4; their first offset is not 0. */
static void segments(struct call *c, uint32_t *offsets) {
    offsets[0] = 100;
    for (size_t i = 0; i < c->m; i++)
        offsets[i + 1] = offsets[i] + (call_bits(c) >> 8) % 5;
}

static void run_expand(const struct fth_kernels *k, struct call *c) {
    uint32_t offsets[16];
    size_t ldx, ldo;
    segments(c, offsets);
    float *x = call_in(c, c->m, c->n, -1, 1, &ldx);
    float *out = call_out(c, offsets[c->m] - offsets[0], c->n, &ldo);
    k->segment_expand(c->m, offsets, c->n, x, ldx, out, ldo);
}

static void run_sum(const struct fth_kernels *k, struct call *c) {
    uint32_t offsets[16];
    size_t m = c->m, n = c->n, ldx, ldw, ldo, lddo, lddx, lddw;
    segments(c, offsets);
    size_t rows = offsets[m] - offsets[0];
    float *x = call_in(c, rows, n, -1, 1, &ldx), *w = call_in(c, rows, 1, -1, 1, &ldw);
    float *dout = call_in(c, m, n, -1, 1, &lddo), *out = call_out(c, m, n, &ldo);
    k->segment_sum(m, offsets, n, x, ldx, w, ldw, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->segment_sum(m, offsets, n, x, ldx, NULL, 0, out, ldo);
    float *dx = call_out(c, rows, n, &lddx), *dw = call_out(c, rows, 1, &lddw);
    k->segment_sum_grad(m, offsets, n, x, ldx, w, ldw, dout, lddo, dx, lddx, dw, lddw);
    dx = call_out(c, rows, n, &lddx);
    k->segment_sum_grad(m, offsets, n, x, ldx, NULL, 0, dout, lddo, dx, lddx, NULL, 0);
    dw = call_out(c, rows, 1, &lddw);
    k->segment_sum_grad(m, offsets, n, x, ldx, w, ldw, dout, lddo, NULL, 0, dw, lddw);
}

static void run_softmax(const struct fth_kernels *k, struct call *c) {
    uint32_t offsets[16];
    size_t m = c->m, n = c->n, ldx, ldy, lddy, lddx;
    segments(c, offsets);
    size_t rows = offsets[m] - offsets[0];
    float *x = call_in(c, rows, n, -9, 9, &ldx), *y = call_out(c, rows, n, &ldy);
    k->segment_softmax(m, offsets, n, x, ldx, y, ldy);
    float *dy = call_in(c, rows, n, -1, 1, &lddy), *dx = call_out(c, rows, n, &lddx);
    k->segment_softmax_grad(m, offsets, n, x, ldx, dy, lddy, dx, lddx);
}

/* Long and short ones, and numbers that a careless exponential would lose. */
static void softmax_sums_to_one(void **state) {
    const uint32_t offsets[6] = {3, 4, 4, 41, 57, 60};
    float x[57], y[57], want[57];
    for (int i = 0; i < 57; i++)
        x[i] = (float)(i * 37 % 23) * (i < 40 ? 1.0f : 20.0f) - (i < 20 ? 200 : 0);
    fth_kernels_for(FTH_ISA_SCALAR)->segment_softmax(5, offsets, 1, x, 1, want, 1);
    for (int isa = 0; isa < FTH_ISA_COUNT; isa++) {
        const struct fth_kernels *k = fth_kernels_for((fth_isa)isa);
        if (!k)
            continue;
        k->segment_softmax(5, offsets, 1, x, 1, y, 1);
        for (int i = 0; i < 5; i++) {
            double sum = 0, exact = 0;
            for (uint32_t t = offsets[i] - 3; t < offsets[i + 1] - 3; t++)
                exact += exp(x[t] - x[offsets[i] - 3]);
            for (uint32_t t = offsets[i] - 3; t < offsets[i + 1] - 3; t++) {
                sum += y[t];
                assert_near(y[t], exp(x[t] - x[offsets[i] - 3]) / exact, 1e-6);
                assert_near(y[t], want[t], 1e-6);
            }
            assert_true(offsets[i] == offsets[i + 1] || fabs(sum - 1) < 1e-6);
        }
    }
}

static void segments_agree(void **state) {
    check_shapes(run_expand, 0, 0);
    check_shapes(run_sum, 2e-6f, 3);
    check_shapes(run_softmax, 4e-6f, 30); /* x stands for y in the gradient */
}

static void scalar_segments_follow_their_formulas(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    uint32_t offsets[4] = {5, 7, 7, 8}; /* lengths 2, 0, 1 */
    float x[6] = {1, 2, 3, 4, 5, 6}, w[3] = {10, 100, -1}, out[6], dx[6], dw[3];
    float each[6] = {1, -1, 2, -2, 3, -3}, dout[6] = {1, 2, 9, 9, 3, 4};
    k->segment_expand(3, offsets, 2, each, 2, out, 2);
    assert_memory_equal(out, ((float[6]){1, -1, 1, -1, 3, -3}), sizeof out);
    k->segment_sum(3, offsets, 2, x, 2, NULL, 0, out, 2);
    assert_memory_equal(out, ((float[6]){4, 6, 0, 0, 5, 6}), sizeof out);
    k->segment_sum(3, offsets, 2, x, 2, w, 1, out, 2);
    assert_memory_equal(out, ((float[6]){310, 420, 0, 0, -5, -6}), sizeof out);
    k->segment_sum_grad(3, offsets, 2, x, 2, w, 1, dout, 2, dx, 2, dw, 1);
    /* The sum is linear in x and in w, so differences with steps of 1 are its gradients exactly. */
    for (int p = 0; p < 9; p++) {
        float *which = p < 6 ? x + p : w + (p - 6), up = 0, kept = *which;
        *which = kept + 1;
        k->segment_sum(3, offsets, 2, x, 2, w, 1, out, 2);
        for (int i = 0; i < 6; i++)
            up += dout[i] * out[i];
        *which = kept;
        k->segment_sum(3, offsets, 2, x, 2, w, 1, out, 2);
        for (int i = 0; i < 6; i++)
            up -= dout[i] * out[i];
        assert_near(p < 6 ? dx[p] : dw[p - 6], up, 1e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_agree),
        cmocka_unit_test(softmax_sums_to_one),
        cmocka_unit_test(scalar_segments_follow_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
