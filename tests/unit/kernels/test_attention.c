/* kernels/cpu/attention: every instruction set against scalar, scalar against a worked example, and the weighted
 * sum's gradient added to the keys' with the bits of two kernels, an infinite query. */
#include "kernel_test.h"

#define MOST_EXAMPLES 9
#define MOST_POSITIONS 45

struct buffers {
    uint32_t offsets[MOST_EXAMPLES + 1];
    struct fth_attention a;
    struct fth_attention_grad g;
};

/* m examples of 0 .. 12 positions, every fourth up to MOST_POSITIONS, so in several chunks; their first offset is not 0.
 * d goes through whole vectors and tails. */
static void inputs(struct call *c, struct buffers *b, fth_act act) {
    b->offsets[0] = 100;
    for (size_t i = 0; i < c->m; i++)
        b->offsets[i + 1] = b->offsets[i] + (call_bits(c) >> 8) % (i % 4 == 1 ? MOST_POSITIONS + 1 : 13);
    size_t d = 1 + (c->m * 7 + c->n * 5) % 40, rows = b->offsets[c->m] - 100;
    b->a = (struct fth_attention){.m = c->m, .d = d, .n = c->n, .offsets = b->offsets, .act = act};
    b->a.k = call_in(c, rows, d, -1, 1, &b->a.ldk);
    b->a.q = call_in(c, c->m, d, -1, 1, &b->a.ldq);
    b->a.r = call_in(c, c->m, c->n, -1, 1, &b->a.ldr);
    b->a.w = call_in(c, 2 * d, c->n, -1, 1, &b->a.ldw);
}

static void run_layer(const struct fth_kernels *k, struct call *c, fth_act act) {
    struct buffers b;
    size_t ldy;
    inputs(c, &b, act);
    float *y = call_out(c, b.offsets[c->m] - 100, c->n, &ldy);
    float *scratch = malloc((fth_attention_scratch(b.a.d, c->n) + 1) * sizeof *scratch);
    assert_non_null(scratch);
    k->attention_layer(&b.a, y, ldy, scratch);
    free(scratch);
}

static void run_grad(const struct fth_kernels *k, struct call *c, fth_act act, int with_sum) {
    struct buffers b;
    struct fth_attention_grad *g = &b.g;
    *g = (struct fth_attention_grad){0};
    inputs(c, &b, act);
    size_t rows = b.offsets[c->m] - 100, d = b.a.d;
    g->wt = call_in(c, c->n, 2 * d, -1, 1, &g->ldwt);
    g->y = call_in(c, rows, c->n, 0, 1, &g->ldy);
    g->dy = call_in(c, rows, c->n, -1, 1, &g->lddy);
    if (with_sum) {
        g->weight = call_in(c, rows, 1, -1, 1, &g->ld_weight);
        g->dout = call_in(c, c->m, d, -1, 1, &g->lddo);
    }
    g->dk = call_out(c, rows, d, &g->lddk);
    g->dq = call_out(c, c->m, d, &g->lddq);
    g->dr = call_out(c, c->m, c->n, &g->lddr);
    g->dw = call_out(c, 1, 2 * d * c->n, NULL);
    size_t floats = fth_attention_grad_scratch(d, c->n, MOST_POSITIONS);
    float *scratch = malloc((floats + 1) * sizeof *scratch);
    assert_non_null(scratch);
    k->attention_layer_grad(&b.a, g, scratch);
    free(scratch);
}

/* Columns of the second layer: other tails than the first's. */
static size_t second_columns(const struct call *c) {
    return 1 + (c->m * 11 + c->n * 3) % 50;
}

static void run_unit(const struct fth_kernels *k, struct call *c, fth_act act) {
    struct buffers b;
    inputs(c, &b, act);
    size_t rows = b.offsets[c->m] - 100, n2 = second_columns(c), ldy;
    struct fth_attention_unit u = {.n = n2, .bias = 0.25f};
    u.w = call_in(c, c->n, n2, -1, 1, &u.ldw);
    u.b = call_in(c, 1, n2, -1, 1, NULL);
    u.v = call_in(c, 1, n2, -1, 1, NULL);
    float *y = call_out(c, rows, c->n, &ldy);
    u.h = call_out(c, rows, n2, &u.ldh);
    u.weight = call_out(c, rows, 1, &u.ld_weight);
    u.out = call_out(c, c->m, b.a.d, &u.ldo);
    size_t floats = fth_attention_unit_scratch(b.a.d, c->n, n2);
    float *scratch = malloc((floats + 1) * sizeof *scratch);
    assert_non_null(scratch);
    k->attention_unit(&b.a, y, ldy, &u, scratch);
    free(scratch);
}

static void run_unit_grad(const struct fth_kernels *k, struct call *c, fth_act act) {
    struct buffers b;
    struct fth_attention_grad *g = &b.g;
    *g = (struct fth_attention_grad){0};
    inputs(c, &b, act);
    size_t rows = b.offsets[c->m] - 100, d = b.a.d, n2 = second_columns(c);
    struct fth_attention_unit_grad u = {.n = n2};
    g->wt = call_in(c, c->n, 2 * d, -1, 1, &g->ldwt);
    g->y = call_in(c, rows, c->n, -1, 1, &g->ldy);
    g->weight = call_in(c, rows, 1, -1, 1, &g->ld_weight);
    g->dout = call_in(c, c->m, d, -1, 1, &g->lddo);
    u.wt = call_in(c, n2, c->n, -1, 1, &u.ldwt);
    u.h = call_in(c, rows, n2, -1, 1, &u.ldh);
    u.v = call_in(c, 1, n2, -1, 1, NULL);
    g->dk = call_out(c, rows, d, &g->lddk);
    g->dq = call_out(c, c->m, d, &g->lddq);
    g->dr = call_out(c, c->m, c->n, &g->lddr);
    g->dw = call_out(c, 1, 2 * d * c->n, NULL);
    u.dw = call_out(c, 1, c->n * n2, NULL);
    u.db = call_out(c, 1, n2, NULL);
    u.dv = call_out(c, 1, n2, NULL);
    u.dbias = call_out(c, 1, 1, NULL);
    size_t floats = fth_attention_unit_grad_scratch(d, c->n, n2, MOST_POSITIONS);
    float *scratch = malloc((floats + 1) * sizeof *scratch);
    assert_non_null(scratch);
    k->attention_unit_grad(&b.a, g, &u, scratch);
    free(scratch);
}

static void unit_sigmoid(const struct fth_kernels *k, struct call *c) {
    run_unit(k, c, FTH_ACT_SIGMOID);
}
static void unit_relu(const struct fth_kernels *k, struct call *c) {
    run_unit(k, c, FTH_ACT_RELU);
}
static void unit_grad_sigmoid(const struct fth_kernels *k, struct call *c) {
    run_unit_grad(k, c, FTH_ACT_SIGMOID);
}
static void unit_grad_relu(const struct fth_kernels *k, struct call *c) {
    run_unit_grad(k, c, FTH_ACT_RELU);
}
static void unit_grad_tanh(const struct fth_kernels *k, struct call *c) {
    run_unit_grad(k, c, FTH_ACT_TANH);
}
static void unit_grad_plain(const struct fth_kernels *k, struct call *c) {
    run_unit_grad(k, c, FTH_ACT_NONE);
}

static void layer_sigmoid(const struct fth_kernels *k, struct call *c) {
    run_layer(k, c, FTH_ACT_SIGMOID);
}
static void layer_plain(const struct fth_kernels *k, struct call *c) {
    run_layer(k, c, FTH_ACT_NONE);
}
static void grad_sigmoid(const struct fth_kernels *k, struct call *c) {
    run_grad(k, c, FTH_ACT_SIGMOID, 1);
}
static void grad_plain(const struct fth_kernels *k, struct call *c) {
    run_grad(k, c, FTH_ACT_NONE, 0);
}

static void units_agree(void **state) {
    check_shapes(unit_sigmoid, 2e-6f, 30);
    check_shapes(unit_relu, 2e-6f, 300);
    check_shapes(unit_grad_sigmoid, 2e-6f, 300);
    check_shapes(unit_grad_relu, 2e-6f, 1000);
    check_shapes(unit_grad_tanh, 2e-6f, 1000);
    check_shapes(unit_grad_plain, 2e-6f, 1000);
}

static void layers_agree(void **state) {
    check_shapes(layer_sigmoid, 2e-6f, 3);
    check_shapes(layer_plain, 2e-6f, 10);
    check_shapes(grad_sigmoid, 2e-6f, 30);
    check_shapes(grad_plain, 2e-6f, 30);
}

/* One example of two positions, two columns in, one out: y = k (w0 + q w1) + r. */
static void scalar_layer_follows_its_formula(void **state) {
    const struct fth_kernels *kernels = fth_kernels_for(FTH_ISA_SCALAR);
    uint32_t offsets[2] = {7, 9};
    float k[4] = {1, 2, 3, 4}, q[2] = {10, -1}, r[1] = {5}, w[4] = {1, 2, 0.5f, 3}, y[2], scratch[64];
    struct fth_attention a = {.m = 1, .d = 2, .n = 1, .offsets = offsets, .act = FTH_ACT_RELU, .k = k,
                              .q = q, .r = r, .ldk = 2, .ldq = 2, .ldr = 1, .w = w, .ldw = 1};
    kernels->attention_layer(&a, y, 1, scratch);
    assert_memory_equal(y, ((float[2]){1 * 6 + 2 * -1 + 5, 3 * 6 + 4 * -1 + 5}), sizeof y);
    float dy[2] = {2, -1}, weight[2] = {3, 4}, dout[2] = {100, 1000}, dk[4], dq[2], dr[1], dw[4];
    struct fth_attention_grad g = {.wt = w, .ldwt = 4, .y = y, .dy = dy, .weight = weight, .dout = dout,
                                   .ldy = 1, .lddy = 1, .ld_weight = 1, .lddo = 2, .dk = dk, .dq = dq,
                                   .dr = dr, .lddk = 2, .lddq = 2, .lddr = 1, .dw = dw};
    kernels->attention_layer_grad(&a, &g, scratch);
    assert_memory_equal(dk, ((float[4]){312, 2998, 394, 4001}), sizeof dk);
    /* sum of dy k: -1 and 0 */
    assert_memory_equal(dw, ((float[4]){-1, 0, -10, 0}), sizeof dw);
    assert_memory_equal(dq, ((float[2]){-0.5f, 0}), sizeof dq);
    assert_memory_equal(dr, ((float[1]){1}), sizeof dr);
}

/* With weight and dout: what outer and add make of the gradient without them. */
static void weighted_sums_are_added_to_the_bit(void **state) {
    enum { D = 37, N = 21, ROWS = 12 };
    static float k[ROWS * D], q[D], w[2 * D * N], wt[N * 2 * D], dy[ROWS * N], weight[ROWS], dout[D];
    static float want[ROWS * D], got[ROWS * D], outer[ROWS * D], dq[D], dr[N], dw[2 * D * N];
    static float scratch[3 * N * 48 + ROWS * 32]; /* fth_attention_grad_scratch(D, N, ROWS) */
    uint32_t offsets[2] = {0, ROWS};
    struct call numbers = {.state = 5};
    for (int i = 0; i < 2 * D * N; i++)
        w[i] = call_number(&numbers, -1, 1), wt[i] = call_number(&numbers, -1, 1);
    for (int i = 0; i < ROWS * D; i++)
        k[i] = call_number(&numbers, -1, 1);
    for (int i = 0; i < ROWS * N; i++)
        dy[i] = call_number(&numbers, -1, 1);
    for (int i = 0; i < D; i++)
        q[i] = call_number(&numbers, -1, 1), dout[i] = call_number(&numbers, -1, 1);
    for (int i = 0; i < ROWS; i++)
        weight[i] = call_number(&numbers, -1, 1);
    struct fth_attention a = {.m = 1, .d = D, .n = N, .offsets = offsets, .k = k, .q = q, .ldk = D,
                              .ldq = D, .w = w, .ldw = N};
    struct fth_attention_grad g = {.wt = wt, .ldwt = 2 * D, .y = dy, .dy = dy, .ldy = N, .lddy = N,
                                   .ld_weight = 1, .lddo = D, .dk = want, .dq = dq, .dr = dr,
                                   .lddk = D, .lddq = D, .lddr = N, .dw = dw};
    for (int isa = 0; isa < FTH_ISA_COUNT; isa++) {
        const struct fth_kernels *kernels = fth_kernels_for((fth_isa)isa);
        if (!kernels)
            continue;
        g.dout = NULL;
        g.dk = want;
        kernels->attention_layer_grad(&a, &g, scratch);
        kernels->outer(ROWS, D, weight, 1, dout, outer, D);
        kernels->add(ROWS, D, outer, D, want, D, want, D);
        g.weight = weight;
        g.dout = dout;
        g.dk = got;
        kernels->attention_layer_grad(&a, &g, scratch);
        assert_memory_equal(got, want, sizeof got);
    }
}

/* Three rows of weights, which share a vector with a fourth that is not there: an infinite query makes no NaN of it. */
static void an_infinite_query_stays_infinite(void **state) {
    enum { D = 2, N = 3 };
    float k[D] = {1, 1}, q[D] = {-INFINITY, 1}, w[2 * D * N], wt[N * 2 * D], dy[N] = {1, 2, 3};
    float dk[D], dq[D], dr[N], dw[2 * D * N], scratch[3 * N * 16 + 16];
    uint32_t offsets[2] = {0, 1};
    for (int i = 0; i < 2 * D * N; i++)
        w[i] = wt[i] = 1;
    struct fth_attention a = {.m = 1, .d = D, .n = N, .offsets = offsets, .k = k, .q = q, .ldk = D, .ldq = D,
                              .w = w, .ldw = N};
    struct fth_attention_grad g = {.wt = wt, .ldwt = 2 * D, .y = dy, .dy = dy, .ldy = N, .lddy = N, .dk = dk, .dq = dq,
                                   .dr = dr, .lddk = D, .lddq = D, .lddr = N, .dw = dw};
    for (int isa = 0; isa < FTH_ISA_COUNT; isa++) {
        const struct fth_kernels *kernels = fth_kernels_for((fth_isa)isa);
        if (!kernels)
            continue;
        kernels->attention_layer_grad(&a, &g, scratch);
        assert_true(dk[0] == -INFINITY);
        assert_true(dk[1] == 12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_agree),
        cmocka_unit_test(units_agree),
        cmocka_unit_test(scalar_layer_follows_its_formula),
        cmocka_unit_test(weighted_sums_are_added_to_the_bit),
        cmocka_unit_test(an_infinite_query_stays_infinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
