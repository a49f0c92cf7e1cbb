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

static void run_keys_grad(const struct fth_kernels *k, struct call *c) {
    uint32_t offsets[16];
    size_t m = c->m, n = c->n, lddx, ldk, ldq, ldw, lddo, lddk, lddq;
    segments(c, offsets);
    size_t rows = offsets[m] - offsets[0];
    float *dx = call_in(c, rows, 2 * n, -1, 1, &lddx), *keys = call_in(c, rows, n, -1, 1, &ldk);
    float *q = call_in(c, m, n, -1, 1, &ldq), *w = call_in(c, rows, 1, -1, 1, &ldw);
    float *dout = call_in(c, m, n, -1, 1, &lddo), *dk = call_out(c, rows, n, &lddk);
    float *dq = call_out(c, m, n, &lddq);
    k->segment_keys_grad(m, offsets, n, dx, lddx, keys, ldk, q, ldq, w, ldw, dout, lddo, dk, lddk, dq,
                         lddq);
}

/* The same bits as the kernels that it stands for, on every instruction set. */
static void keys_gradient_is_its_parts(void **state) {
    enum { M = 3, ROWS = 7, N = 37 };
    static const uint32_t offsets[M + 1] = {5, 9, 9, 12};
    static float dx[ROWS * 2 * N], keys[ROWS * N], q[M * N], w[ROWS], dout[M * N];
    static float a[ROWS * N], dw[ROWS], c[N], dk[ROWS * N], dq[M * N];
    for (int i = 0; i < ROWS * 2 * N; i++)
        dx[i] = (float)(i * 37 % 101) / 50 - 1, keys[i / 2] = (float)(i * 29 % 89) / 40 - 1;
    for (int i = 0; i < M * N; i++)
        q[i] = (float)(i * 53 % 97) / 50 - 1, dout[i] = (float)(i * 31 % 83) / 40 - 1;
    for (int i = 0; i < ROWS; i++)
        w[i] = (float)i / 3 - 1;
    for (int isa = 0; isa < FTH_ISA_COUNT; isa++) {
        const struct fth_kernels *k = fth_kernels_for((fth_isa)isa);
        if (!k)
            continue;
        k->segment_keys_grad(M, offsets, N, dx, 2 * N, keys, N, q, N, w, 1, dout, N, dk, N, dq, N);
        k->segment_sum_grad(M, offsets, N, keys, N, w, 1, dout, N, a, N, dw, 1);
        k->add(ROWS, N, a, N, dx, 2 * N, a, N);
        for (int i = 0; i < M; i++) {
            uint32_t at = offsets[i] - 5, rows = offsets[i + 1] - offsets[i];
            for (uint32_t t = at; t < at + rows; t++) {
                k->mul(1, N, dx + (2 * t + 1) * N, N, q + i * N, N, c, N);
                k->add(1, N, a + t * N, N, c, N, a + t * N, N);
            }
            k->col_dot(rows, N, dx + (2 * at + 1) * N, 2 * N, keys + at * N, N, c);
            assert_memory_equal(dq + i * N, c, sizeof c);
        }
        assert_memory_equal(dk, a, sizeof a);
    }
}

static void segments_agree(void **state) {
    check_shapes(run_expand, 0, 0);
    check_shapes(run_sum, 2e-6f, 3);
    check_shapes(run_keys_grad, 2e-6f, 3);
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
        cmocka_unit_test(keys_gradient_is_its_parts),
        cmocka_unit_test(scalar_segments_follow_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
