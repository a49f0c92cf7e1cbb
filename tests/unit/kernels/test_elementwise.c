/* kernels/cpu/elementwise: every instruction set against scalar, scalar against its formulas. */
#include <float.h>

#include "kernel_test.h"

#include "base/random.h"
#include "kernels/cpu/cpu_kernels.h"

static fth_act act;

static void run_bias_act(const struct fth_kernels *k, struct call *c) {
    size_t ldx, ldy;
    float *x = call_in(c, c->m, c->n, -6, 6, &ldx), *bias = call_in(c, 1, c->n, -1, 1, NULL);
    float *y = call_out(c, c->m, c->n, &ldy);
    k->bias_act(c->m, c->n, x, ldx, c->pad ? bias : NULL, act, y, ldy);
    float *z = call_inout(c, c->m, c->n, -20, 20, &ldy);
    k->bias_act(c->m, c->n, z, ldy, bias, act, z, ldy);
}

static void run_act_grad(const struct fth_kernels *k, struct call *c) {
    size_t lds, lddy, lddx;
    float *saved =
        call_in(c, c->m, c->n, act == FTH_ACT_GELU ? -6 : -1, act == FTH_ACT_GELU ? 6 : 1, &lds);
    if (act == FTH_ACT_RELU) /* what ReLU saves: half of it zeros */
        fth_kernels_for(FTH_ISA_SCALAR)->bias_act(c->m, c->n, saved, lds, NULL, act, saved, lds);
    float *dy = call_in(c, c->m, c->n, -2, 2, &lddy), *dx = call_out(c, c->m, c->n, &lddx);
    k->act_grad(act, c->m, c->n, saved, lds, dy, lddy, dx, lddx);
    dy = call_inout(c, c->m, c->n, -2, 2, &lddy);
    k->act_grad(act, c->m, c->n, saved, lds, dy, lddy, dy, lddy);
}

static void activations_agree(void **state) {
    static const float tolerance[FTH_ACT_COUNT] = {0, 0, 2e-6f, 2e-6f, 2e-6f};
    for (act = 0; act < FTH_ACT_COUNT; act++)
        check_shapes(run_bias_act, tolerance[act], 2e-38f);
}

static void activation_gradients_agree(void **state) {
    for (act = 0; act < FTH_ACT_COUNT; act++)
        check_shapes(run_act_grad, act == FTH_ACT_GELU ? 2e-6f : 0, 0.1f);
}

/* Every size of number: 2e-6 of libm down to where results stop being normal numbers. */
static void activations_agree_over_the_whole_range(void **state) {
    const struct fth_kernels *tables[2], *scalar = fth_kernels_for(FTH_ISA_SCALAR);
    const char *names[2];
    size_t count = tables_under_test(tables, names);
    enum { N = 4096 };
    float *x = malloc(3 * N * sizeof(float)), *got = x + N, *want = x + 2 * N;
    assert_non_null(x);
    for (size_t k = 0; k < count; k++)
        for (int f = FTH_ACT_SIGMOID; f < FTH_ACT_COUNT; f++)
            for (uint32_t part = 0; part < 64; part++) {
                for (uint32_t i = 0; i < N; i++) {
                    uint32_t bits = (part << 26) + i * (1u << 14) + part * 37;
                    memcpy(x + i, &bits, sizeof bits);
                    if (part % 8 == 0) /* and densely where the action is */
                        x[i] = ((float)i - N / 2) * 0.01f * (float)(part / 8 + 1);
                }
                tables[k]->bias_act(1, N, x, N, NULL, (fth_act)f, got, N);
                scalar->bias_act(1, N, x, N, NULL, (fth_act)f, want, N);
                for (size_t i = 0; i < N; i++)
                    if (!numbers_agree(got[i], want[i], 2e-6f, 2e-38f) &&
                        !(f == FTH_ACT_SIGMOID && got[i] == 0 && want[i] < FLT_MIN))
                        fail_msg("%s, activation %d of %.9g: %.9g, want %.9g", names[k], f, x[i],
                                 got[i], want[i]);
            }
    free(x);
}

static void special_numbers_pass(void **state) {
    const struct fth_kernels *tables[3];
    const char *names[3];
    size_t count = tables_under_test(tables, names);
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    for (size_t k = 0; k < count; k++) {
        float x[7] = {NAN, INFINITY, -INFINITY, 200, -200, 1e30f, -1e30f}, y[7];
        tables[k]->bias_act(1, 7, x, 7, NULL, FTH_ACT_RELU, y, 7);
        assert_true(isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 200 && y[4] == 0);
        tables[k]->bias_act(1, 7, x, 7, NULL, FTH_ACT_SIGMOID, y, 7);
        assert_true(isnan(y[0]) && y[1] == 1 && y[2] == 0 && y[3] == 1 && y[4] < 1e-37f &&
                    y[4] >= 0);
        assert_true(y[5] == 1 && y[6] == 0);
        tables[k]->bias_act(1, 7, x, 7, NULL, FTH_ACT_TANH, y, 7);
        assert_true(isnan(y[0]) && y[1] == 1 && y[2] == -1 && y[3] == 1 && y[4] == -1 &&
                    y[6] == -1);
        tables[k]->bias_act(1, 7, x, 7, NULL, FTH_ACT_GELU, y, 7);
        assert_true(isnan(y[0]) && y[1] == INFINITY && y[3] == 200 && y[4] == 0 && y[5] == 1e30f);
        float saved[7] = {NAN, INFINITY, 0, 1, -0.0f, 1, 0}, dy[7] = {3, 4, 5, NAN, NAN, INFINITY, INFINITY};
        tables[k]->act_grad(FTH_ACT_RELU, 1, 7, saved, 7, dy, 7, y, 7);
        assert_true(y[0] == 3 && y[1] == 4 && y[2] == 0 && isnan(y[3]) && y[4] == 0 && y[5] == INFINITY && y[6] == 0);
    }
}

/* The scalar activations against doubles, their gradients against differences of them. */
static double act_exact(fth_act kind, double x) {
    switch (kind) {
    case FTH_ACT_RELU: return x > 0 ? x : 0;
    case FTH_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case FTH_ACT_TANH: return (exp(2 * x) - 1) / (exp(2 * x) + 1);
    case FTH_ACT_GELU: return x * (1 + erf(x / sqrt(2))) / 2;
    default: return x;
    }
}

static void scalar_activations_follow_their_formulas(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    for (fth_act kind = 0; kind < FTH_ACT_COUNT; kind++)
        for (float x = -8.03f; x < 8; x += 0.1f) {
            float bias = 0.25f, y, dx, dy = 3;
            k->bias_act(1, 1, &x, 1, &bias, kind, &y, 1);
            assert_near(y, act_exact(kind, (double)(x + bias)), 1e-6);
            float saved = kind == FTH_ACT_GELU ? x + bias : y;
            k->act_grad(kind, 1, 1, &saved, 1, &dy, 1, &dx, 1);
            double h = 1e-5, at = x + bias;
            double slope = (act_exact(kind, at + h) - act_exact(kind, at - h)) / (2 * h);
            assert_near(dx, 3 * slope, 1e-5);
        }
}

static void run_arithmetic(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, lda, ldb, ldc, ldo;
    float *a = call_in(c, m, n, -2, 2, &lda), *b = call_in(c, m, n, -2, 2, &ldb);
    float *d = call_in(c, m, n, -2, 2, &ldc), *out = call_out(c, m, n, &ldo);
    k->copy(m, n, a, lda, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->add(m, n, a, lda, b, ldb, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->sub(m, n, a, lda, b, ldb, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->mul(m, n, a, lda, b, ldb, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->mul_add(m, n, a, lda, b, ldb, d, ldc, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->scale(m, n, a, lda, 0.7f, out, ldo);
    out = call_out(c, n, m, &ldo);
    k->transpose(m, n, a, lda, out, ldo);
    float *in_place = call_inout(c, m, n, -2, 2, &ldo);
    k->add(m, n, in_place, ldo, b, ldb, in_place, ldo);
    k->sub(m, n, b, ldb, in_place, ldo, in_place, ldo);
    k->mul(m, n, in_place, ldo, in_place, ldo, in_place, ldo);
    k->mul_add(m, n, a, lda, b, ldb, in_place, ldo, in_place, ldo);
    k->scale(m, n, in_place, ldo, -1.1f, in_place, ldo);
    k->copy(m, n, in_place, ldo, in_place, ldo);
}

static void run_crosses(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, lda, ldb, ldc, lds, ldo, ldda, lddb;
    float *a = call_in(c, m, n, -2, 2, &lda), *b = call_in(c, m, n, -2, 2, &ldb);
    float *d = call_in(c, m, n, -2, 2, &ldc), *sum = call_in(c, m, n, -2, 2, &lds);
    float *bias = call_in(c, 1, n, -2, 2, NULL);
    for (int with = 0; with < 2; with++) {
        float *out = call_out(c, m, n, &ldo), *da = call_out(c, m, n, &ldda), *db = call_out(c, m, n, &lddb);
        k->cross(m, n, a, lda, b, ldb, with ? bias : NULL, d, ldc, out, ldo);
        k->cross_grad(m, n, d, ldc, a, lda, b, ldb, with ? bias : NULL, with ? NULL : sum, lds, with, da, ldda,
                      db, lddb);
    }
    float *in_place = call_inout(c, m, n, -2, 2, &ldo), *db = call_out(c, m, n, &lddb);
    k->cross(m, n, a, lda, b, ldb, bias, in_place, ldo, in_place, ldo);
    k->cross_grad(m, n, a, lda, b, ldb, a, lda, bias, in_place, ldo, 1, in_place, ldo, db, lddb);
}

static void run_columns(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, ldx, ldy, ldo;
    float *x = call_in(c, m, n, -2, 2, &ldx), *y = call_in(c, m, n, -2, 2, &ldy);
    float *p = call_in(c, 1, n, -2, 2, NULL), *q = call_in(c, 1, n, -2, 2, NULL);
    float *r = call_in(c, 1, n, -2, 2, NULL), *out = call_out(c, m, n, &ldo);
    k->affine_cols(m, n, x, ldx, p, q, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->affine2_cols(m, n, x, ldx, y, ldy, p, q, r, out, ldo);
    float *z = call_inout(c, m, n, -2, 2, &ldo);
    k->affine_cols(m, n, z, ldo, q, p, z, ldo);
    out = call_out(c, m, n, &ldo);
    k->standardise_cols(m, n, x, ldx, p, q, out, ldo);
    z = call_inout(c, m, n, -2, 2, &ldo);
    k->standardise_cols(m, n, z, ldo, q, p, z, ldo);
}

static void arithmetic_agrees_to_the_bit(void **state) {
    check_shapes(run_arithmetic, 0, 0);
    check_shapes(run_columns, 0, 0);
    check_shapes(run_crosses, 0, 0);
}

static void scalar_arithmetic_follows_its_formulas(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    float a[2] = {3, -5}, b[2] = {0.5f, 4}, c[2] = {10, 20}, out[2];
    k->copy(1, 2, a, 2, out, 2);
    assert_true(out[0] == 3 && out[1] == -5);
    k->transpose(2, 1, a, 1, out, 2);
    assert_true(out[0] == 3 && out[1] == -5);
    k->transpose(1, 2, a, 2, out, 1);
    assert_true(out[0] == 3 && out[1] == -5);
    k->add(1, 2, a, 2, b, 2, out, 2);
    assert_true(out[0] == 3.5f && out[1] == -1);
    k->sub(1, 2, a, 2, b, 2, out, 2);
    assert_true(out[0] == 2.5f && out[1] == -9);
    k->mul(1, 2, a, 2, b, 2, out, 2);
    assert_true(out[0] == 1.5f && out[1] == -20);
    k->mul_add(1, 2, a, 2, b, 2, c, 2, out, 2);
    assert_true(out[0] == 11.5f && out[1] == 0);
    float one[2] = {1, 1}, da[2], db[2];
    k->cross(1, 2, a, 2, b, 2, one, c, 2, out, 2);
    assert_true(out[0] == 14.5f && out[1] == -5);
    k->cross_grad(1, 2, a, 2, b, 2, c, 2, NULL, NULL, 0, 0, da, 2, db, 2);
    assert_true(da[0] == 30 && da[1] == -100 && db[0] == 1.5f && db[1] == -20);
    k->cross_grad(1, 2, a, 2, b, 2, c, 2, one, b, 2, 1, da, 2, db, 2);
    assert_true(da[0] == 36.5f && da[1] == -106 && db[0] == 1.5f && db[1] == -20);
    k->scale(1, 2, a, 2, 2, out, 2);
    assert_true(out[0] == 6 && out[1] == -10);
    k->affine_cols(1, 2, a, 2, b, c, out, 2);
    assert_true(out[0] == 11.5f && out[1] == 0);
    k->standardise_cols(1, 2, a, 2, b, c, out, 2);
    assert_true(out[0] == -3.5f && out[1] == -100);
    k->affine2_cols(1, 2, a, 2, c, 2, b, a, c, out, 2);
    assert_true(out[0] == 1.5f + 30 + 10 && out[1] == -20 - 100 + 20);
}

static void run_prelu(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, ldx, lddy, ldo;
    float *x = call_in(c, m, n, -2, 2, &ldx), *dy = call_in(c, m, n, -2, 2, &lddy);
    for (size_t i = 0; n && i < m; i++) /* 0 is on the slope's side */
        x[i * ldx + i % n] = i % 2 ? -0.0f : 0.0f;
    float *alpha = call_in(c, 1, n, -1, 1, NULL), *out = call_out(c, m, n, &ldo);
    k->prelu(m, n, x, ldx, alpha, out, ldo);
    float *dx = call_out(c, m, n, &ldo);
    k->prelu_grad(m, n, x, ldx, alpha, dy, lddy, dx, ldo, call_out(c, 1, n, NULL));
}

static void run_dice(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, ldx, ldxn, lddy, ldo, lddxn;
    float *x = call_in(c, m, n, -2, 2, &ldx), *xn = call_in(c, m, n, -4, 4, &ldxn);
    float *dy = call_in(c, m, n, -2, 2, &lddy), *alpha = call_in(c, 1, n, -1, 1, NULL);
    float *out = call_out(c, m, n, &ldo);
    k->dice_gate(m, n, x, ldx, xn, ldxn, alpha, out, ldo);
    float *dx = call_out(c, m, n, &ldo), *dxn = call_out(c, m, n, &lddxn);
    k->dice_gate_grad(m, n, x, ldx, xn, ldxn, alpha, dy, lddy, dx, ldo, dxn, lddxn,
                      call_out(c, 1, n, NULL));
}

static void run_dice_whole(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, ldx, lddy, ldo;
    float *x = call_in(c, m, n, -2, 2, &ldx), *dy = call_in(c, m, n, -2, 2, &lddy), *row[6];
    for (int i = 0; i < 6; i++) /* scale, shift, slope, and batch norm's factors */
        row[i] = call_in(c, 1, n, -2, 2, NULL);
    float *y = call_out(c, m, n, &ldo);
    k->dice(m, n, x, ldx, row[0], row[1], row[2], y, ldo);
    float *dx = call_out(c, m, n, &ldo), *sum = call_out(c, 1, n, NULL);
    float *dot = call_out(c, 1, n, NULL), *dalpha = call_out(c, 1, n, NULL);
    size_t ldz;
    float *z = call_out(c, m, n, &ldz);
    k->dice_grad(m, n, x, ldx, row[0], row[1], row[2], dy, lddy, row[3], row[4], row[5], dx, ldo);
    k->dice_sums(m, n, x, ldx, row[0], row[1], row[2], dy, lddy, sum, dot, dalpha,
                 z, ldz);
}

/* The same bits as the kernels that they stand for, on every instruction set. */
static void whole_dice_is_its_parts(void **state) {
    enum { M = 7, N = 37 };
    static float x[M * N], dy[M * N], row[6][N], xn[M * N], part[M * N], dx[M * N], dxn[M * N];
    static float y[M * N], whole[M * N], sums[6][N];
    for (int i = 0; i < M * N; i++)
        x[i] = (float)(i * 37 % 101) / 17 - 3, dy[i] = (float)(i * 53 % 97) / 50 - 1;
    for (int i = 0; i < 6 * N; i++)
        row[i / N][i % N] = (float)(i * 29 % 89) / 40 - 1;
    for (int isa = 0; isa < FTH_ISA_COUNT; isa++) {
        const struct fth_kernels *k = fth_kernels_for((fth_isa)isa);
        if (!k)
            continue;
        k->standardise_cols(M, N, x, N, row[0], row[1], xn, N);
        k->dice_gate(M, N, x, N, xn, N, row[2], part, N);
        k->dice(M, N, x, N, row[0], row[1], row[2], y, N);
        assert_memory_equal(y, part, sizeof y);
        k->dice_gate_grad(M, N, x, N, xn, N, row[2], dy, N, dx, N, dxn, N, sums[2]);
        k->col_sum(M, N, dxn, N, sums[0]);
        k->col_dot(M, N, dxn, N, xn, N, sums[1]);
        k->dice_sums(M, N, x, N, row[0], row[1], row[2], dy, N, sums[3], sums[4], sums[5], whole,
                     N);
        assert_memory_equal(whole, y, sizeof y);
        assert_memory_equal(sums[0], sums[3], 3 * sizeof sums[0]);
        k->affine2_cols(M, N, dxn, N, xn, N, row[3], row[4], row[5], part, N);
        k->add(M, N, dx, N, part, N, part, N);
        k->dice_grad(M, N, x, N, row[0], row[1], row[2], dy, N, row[3], row[4], row[5], whole, N);
        assert_memory_equal(whole, part, sizeof whole);
    }
}

static void gates_agree(void **state) {
    check_shapes(run_prelu, 0, 0);
    check_shapes(run_dice, 2e-6f, 1);
    check_shapes(run_dice_whole, 1e-5f, 1);
}

/* Sum over i, j of dy y, in double, as a function of one input: what gradients are differences of.
 */
static double dice_total(const double *x, const double *xn, const double *alpha, const double *dy) {
    double total = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) {
            double p = 1 / (1 + exp(-xn[2 * i + j]));
            total += dy[2 * i + j] * (p * x[2 * i + j] + (1 - p) * alpha[j] * x[2 * i + j]);
        }
    return total;
}

static double prelu_total(const double *x, const double *unused, const double *alpha,
                          const double *dy) {
    double total = 0;
    for (int i = 0; i < 6; i++)
        total += dy[i] * (x[i] > 0 ? x[i] : alpha[i % 2] * x[i]);
    return total;
}

static double difference(double (*total)(const double *, const double *, const double *,
                                         const double *),
                         double *x, double *xn, double *alpha, double *dy, double *which) {
    double kept = *which, h = 1e-5;
    *which = kept + h;
    double up = total(x, xn, alpha, dy);
    *which = kept - h;
    double down = total(x, xn, alpha, dy);
    *which = kept;
    return (up - down) / (2 * h);
}

static void scalar_gates_follow_their_formulas(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    float x[6] = {0.5f, -1, 2, -0.25f, -3, 1}, xn[6] = {1, -2, 0.5f, 0.1f, -1, 3},
          alpha[2] = {0.2f, -0.4f};
    float dy[6] = {1, 2, -1, 0.5f, 3, -2}, y[6], dx[6], dxn[6], dalpha[2];
    double X[6], XN[6], A[2] = {0.2f, -0.4f}, DY[6], total = 0;
    for (int i = 0; i < 6; i++)
        X[i] = x[i], XN[i] = xn[i], DY[i] = dy[i];
    k->dice_gate(3, 2, x, 2, xn, 2, alpha, y, 2);
    for (int i = 0; i < 6; i++)
        total += DY[i] * y[i];
    assert_near(total, dice_total(X, XN, A, DY), 1e-6);
    k->dice_gate_grad(3, 2, x, 2, xn, 2, alpha, dy, 2, dx, 2, dxn, 2, dalpha);
    for (int i = 0; i < 6; i++) {
        assert_near(dx[i], difference(dice_total, X, XN, A, DY, &X[i]), 1e-5);
        assert_near(dxn[i], difference(dice_total, X, XN, A, DY, &XN[i]), 1e-5);
    }
    for (int j = 0; j < 2; j++)
        assert_near(dalpha[j], difference(dice_total, X, XN, A, DY, &A[j]), 1e-5);
    k->prelu(3, 2, x, 2, alpha, y, 2);
    for (int i = 0; i < 6; i++)
        assert_near(y[i], X[i] > 0 ? X[i] : A[i % 2] * X[i], 1e-6);
    k->prelu_grad(3, 2, x, 2, alpha, dy, 2, dx, 2, dalpha);
    for (int i = 0; i < 6; i++)
        assert_near(dx[i], difference(prelu_total, X, XN, A, DY, &X[i]), 1e-5);
    for (int j = 0; j < 2; j++)
        assert_near(dalpha[j], difference(prelu_total, X, XN, A, DY, &A[j]), 1e-5);
}

static float keep;

static void run_dropout(const struct fth_kernels *k, struct call *c) {
    size_t ldx, ldy;
    float *x = call_in(c, c->m, c->n, -2, 2, &ldx), *y = call_out(c, c->m, c->n, &ldy);
    k->dropout(c->m, c->n, x, ldx, 0x123456789abcdefull + c->n, 0xffffffff0ull + c->m, 70001,
               0xfffffffe, keep, y, ldy);
}

static void dropout_agrees_to_the_bit(void **state) {
    static const float shares[] = {0, 0.3f, 0.5f, 1};
    for (size_t i = 0; i < 4; i++) {
        keep = shares[i];
        check_shapes(run_dropout, 0, 0);
    }
}

static void dropout_keeps_the_share_it_is_told(void **state) {
    enum { M = 50, N = 200 };
    static float x[M * N], y[M * N], z[M * N];
    for (size_t i = 0; i < M * N; i++)
        x[i] = 1;
    const struct fth_kernels *k = fth_kernels_get();
    k->dropout(M, N, x, N, 7, 3, 1, 0, 0.8f, y, N);
    size_t kept = 0, same = 0;
    for (size_t i = 0; i < M * N; i++) {
        assert_true(y[i] == 0 || y[i] == 1 / 0.8f);
        kept += y[i] != 0;
    }
    assert_in_range(kept, 7800, 8200); /* 5 deviations around 8000 */
    /* A unit's draw depends on its place in the batch, not on the tile it comes in. */
    k->dropout(M - 20, N - 70, x, N, 7, 3, 1, 20, 0.8f, z, N);
    for (size_t i = 0; i < M - 20; i++)
        assert_memory_equal(z + i * N, y + (i + 20) * N, (N - 70) * sizeof(float));
    k->dropout(M, N, x, N, 7, 4, 1, 0, 0.8f, z, N); /* another step */
    for (size_t i = 0; i < M * N; i++)
        same += (y[i] != 0) == (z[i] != 0);
    assert_in_range(same, 6500, 7100); /* 0.8^2 + 0.2^2 = 0.68 of them */
    uint32_t words[4];
    fth_random_draw(7, FTH_RANDOM_DROPOUT, 3, fth_dropout_counter(1, 49, 70), words);
    assert_int_equal(y[49 * N + 70] != 0, fth_random_unit(words[fth_dropout_word(70)]) < 0.8f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_agree),
        cmocka_unit_test(activation_gradients_agree),
        cmocka_unit_test(activations_agree_over_the_whole_range),
        cmocka_unit_test(special_numbers_pass),
        cmocka_unit_test(scalar_activations_follow_their_formulas),
        cmocka_unit_test(arithmetic_agrees_to_the_bit),
        cmocka_unit_test(scalar_arithmetic_follows_its_formulas),
        cmocka_unit_test(gates_agree),
        cmocka_unit_test(whole_dice_is_its_parts),
        cmocka_unit_test(scalar_gates_follow_their_formulas),
        cmocka_unit_test(dropout_agrees_to_the_bit),
        cmocka_unit_test(dropout_keeps_the_share_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
