/* kernels/cpu/reduce: every instruction set against scalar, scalar against its formulas. */
#include "kernel_test.h"

static void run_columns(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, lda, ldb, lds;
    float *a = call_in(c, m, n, -1, 1, &lda), *b = call_in(c, m, n, -1, 1, &ldb);
    float *s = call_in(c, m, 1, -1, 1, &lds);
    k->col_sum(m, n, a, lda, call_out(c, 1, n, NULL));
    k->col_dot(m, n, a, lda, b, ldb, call_out(c, 1, n, NULL));
    k->col_weighted_sum(m, n, s, lds, a, lda, call_out(c, 1, n, NULL));
    float *mean = call_out(c, m > 0, n, NULL), *m2 = call_out(c, m > 0, n, NULL);
    if (m > 0)
        k->col_moments(m, n, b, ldb, mean, m2);
}

static void run_col_sum(const struct fth_kernels *k, struct call *c) {
    size_t lda;
    float *a = call_in(c, c->m, c->n, -1, 1, &lda);
    k->col_sum(c->m, c->n, a, lda, call_out(c, 1, c->n, NULL));
}

static void run_rows(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, lda, ldb, ldo;
    float *a = call_in(c, m, n, -1, 1, &lda), *b = call_in(c, m, n, -1, 1, &ldb);
    float *w = call_in(c, 1, n, -1, 1, NULL), *out = call_out(c, m, 1, &ldo);
    k->row_dot(m, n, a, lda, w, 0.5f, out, ldo);
    out = call_out(c, m, 1, &ldo);
    k->row_dot_rows(m, n, a, lda, b, ldb, out, ldo);
    *call_out(c, 1, 1, NULL) = (float)k->sum_squares(n, w);
}

/* Of b's m rows every second one is picked twice. */
static void run_picked(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, lda, ldb, lds, ldda, lddb;
    float *a = call_in(c, m, n, -1, 1, &lda), *b = call_in(c, m, n, -1, 1, &ldb), *s = call_in(c, m, 1, -1, 1, &lds);
    uint32_t rows[1000];
    assert_true(m <= sizeof rows / sizeof *rows);
    for (uint32_t i = 0; i < m; i++)
        rows[i] = (uint32_t)m - 1 - (i & ~1u) % (uint32_t)m;
    k->picked_dots(m, n, a, lda, b, ldb, rows, call_out(c, 1, m, NULL));
    float *da = call_inout(c, m, n, -1, 1, &ldda), *db = call_inout(c, m, n, -1, 1, &lddb);
    k->picked_grads(m, n, s, lds, a, lda, b, ldb, rows, da, ldda, db, lddb);
}

static void run_scaled(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, lda, ldb, lds, ldo;
    float *a = call_in(c, m, n, -1, 1, &lda), *b = call_in(c, m, n, -1, 1, &ldb);
    float *s = call_in(c, m, 1, -1, 1, &lds), *w = call_in(c, 1, n, -1, 1, NULL);
    float *out = call_out(c, m, n, &ldo);
    k->outer(m, n, s, lds, w, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->scale_rows(m, n, s, lds, a, lda, b, ldb, out, ldo);
    out = call_out(c, m, n, &ldo);
    k->scale_rows(m, n, s, lds, a, lda, NULL, 0, out, ldo);
    float *in_place = call_inout(c, m, n, -1, 1, &ldo);
    k->scale_rows(m, n, s, lds, a, lda, in_place, ldo, in_place, ldo);
}

static void run_layer_norm(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, ldx, ldy, lddy, lddx;
    float *x = call_in(c, m, n, -3, 5, &ldx), *dy = call_in(c, m, n, -1, 1, &lddy);
    float *gamma = call_in(c, 1, n, 0.5f, 2, NULL), *beta = call_in(c, 1, n, -1, 1, NULL);
    float *y = call_out(c, m, n, &ldy), *mean = call_out(c, 1, m, NULL),
          *rstd = call_out(c, 1, m, NULL);
    k->layer_norm(m, n, x, ldx, gamma, beta, 0.01f, y, ldy, mean, rstd);
    float *dx = call_out(c, m, n, &lddx), *dgamma = call_out(c, 1, n, NULL);
    k->layer_norm_grad(m, n, x, ldx, gamma, mean, rstd, dy, lddy, dx, lddx, dgamma,
                       call_out(c, 1, n, NULL));
}

static void columns_agree(void **state) {
    check_shapes(run_columns, 2e-6f, 2);
    check_shape(run_columns, 1000, 70, 2e-6f, 100);
    check_shapes(run_col_sum, 0, 0); /* plain sums in row order: the same bits */
}

static void rows_agree(void **state) {
    check_shapes(run_rows, 2e-6f, 4);
    check_shape(run_rows, 3, 1000, 2e-6f, 30);
}

static void picked_rows_agree(void **state) { check_shapes(run_picked, 2e-6f, 4); }

static void scaled_rows_agree_to_the_bit(void **state) { check_shapes(run_scaled, 0, 0); }

static void layer_norm_agrees(void **state) { check_shapes(run_layer_norm, 1e-5f, 2); }

/* A row's result is its own: the same bits alone and among others. */
static void rows_do_not_see_their_neighbours(void **state) {
    const struct fth_kernels *tables[2];
    const char *names[2];
    size_t count = tables_under_test(tables, names);
    for (size_t k = 0; k < count; k++) {
        struct call c = {.state = 5};
        float *x = call_in(&c, 9, 77, -1, 1, NULL), *w = call_in(&c, 1, 77, -1, 1, NULL);
        float *all = call_out(&c, 9, 1, NULL), *one = call_out(&c, 1, 1, NULL);
        tables[k]->row_dot(9, 77, x, 77, w, 0.1f, all, 1);
        for (size_t i = 0; i < 9; i++) {
            tables[k]->row_dot(1, 77, x + i * 77, 77, w, 0.1f, one, 1);
            assert_int_equal(float_bits(*one), float_bits(all[i]));
        }
        call_free(&c);
    }
}

/* What does not vary has no deviations, however large it is and however many rows are added. */
static void moments_of_what_does_not_vary(void **state) {
    enum { M = 515, N = 37 };
    static float x[M * N], mean[N], m2[N];
    for (int i = 0; i < M * N; i++)
        x[i] = i % N % 3 == 0 ? 100003 : i % N % 3 == 1 ? 10000019 : -0.1f;
    for (int isa = 0; isa < FTH_ISA_COUNT; isa++) {
        const struct fth_kernels *k = fth_kernels_for((fth_isa)isa);
        if (!k)
            continue;
        k->col_moments(M, N, x, N, mean, m2);
        assert_memory_equal(mean, x, sizeof mean);
        for (int j = 0; j < N; j++)
            assert_true(m2[j] == 0);
    }
}

static void scalar_sums_follow_their_formulas(void **state) {
    enum { M = 7, N = 5 };
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    struct call c = {.state = 11};
    float *a = call_in(&c, M, N, -1, 1, NULL), *b = call_in(&c, M, N, -1, 1, NULL);
    float *s = call_in(&c, M, 1, -1, 1, NULL), *out = call_out(&c, M, N, NULL);
    float sum[N], dot[N], weighted[N], mean[N], m2[N], rows[M], pairs[M], picked[M], da[M * N] = {0}, db[M * N] = {0};
    static const uint32_t picks[M] = {2, 0, 6, 2, 2, 1, 5};
    k->col_sum(M, N, a, N, sum);
    k->col_dot(M, N, a, N, b, N, dot);
    k->col_weighted_sum(M, N, s, 1, a, N, weighted);
    k->col_moments(M, N, a, N, mean, m2);
    k->row_dot(M, N, a, N, b, 0.5f, rows, 1);
    k->row_dot_rows(M, N, a, N, b, N, pairs, 1);
    k->picked_dots(M, N, a, N, b, N, picks, picked);
    k->picked_grads(M, N, s, 1, a, N, b, N, picks, da, N, db, N);
    k->scale_rows(M, N, s, 1, a, N, b, N, out, N);
    double squares = 0, want_da[M * N] = {0}, want_db[M * N] = {0};
    for (int j = 0; j < N; j++) {
        double want[3] = {0, 0, 0}, deviation = 0;
        for (int i = 0; i < M; i++) {
            want[0] += a[i * N + j];
            want[1] += (double)a[i * N + j] * b[i * N + j];
            want[2] += (double)a[i * N + j] * s[i];
            squares += (double)a[i * N + j] * a[i * N + j];
            assert_near(out[i * N + j], (double)s[i] * a[i * N + j] + b[i * N + j], 1e-6);
        }
        for (int i = 0; i < M; i++)
            deviation += pow(a[i * N + j] - want[0] / M, 2);
        assert_near(sum[j], want[0], 1e-6);
        assert_near(dot[j], want[1], 1e-6);
        assert_near(weighted[j], want[2], 1e-6);
        assert_near(mean[j], want[0] / M, 1e-6);
        assert_near(m2[j], deviation, 1e-6);
    }
    for (int i = 0; i < M; i++) {
        double by_b0 = 0.5, by_b = 0, by_pick = 0;
        for (int j = 0; j < N; j++) {
            by_pick += (double)a[i * N + j] * b[picks[i] * N + (uint32_t)j];
            want_da[i * N + j] = (double)s[i] * b[picks[i] * N + (uint32_t)j];
            want_db[picks[i] * N + (uint32_t)j] += (double)s[i] * a[i * N + j];
            by_b0 += (double)a[i * N + j] * b[j];
            by_b += (double)a[i * N + j] * b[i * N + j];
        }
        assert_near(rows[i], by_b0, 1e-6);
        assert_near(pairs[i], by_b, 1e-6);
        assert_near(picked[i], by_pick, 1e-6);
    }
    for (int i = 0; i < M * N; i++) {
        assert_near(da[i], want_da[i], 1e-6);
        assert_near(db[i], want_db[i], 1e-6);
    }
    assert_near(k->sum_squares(M * N, a), squares, 1e-12);
    k->outer(M, N, s, 1, b, out, N);
    for (int i = 0; i < M * N; i++)
        assert_near(out[i], (double)s[i / N] * b[i % N], 1e-6);
    call_free(&c);
}

enum { LN_M = 3, LN_N = 5 };

/* sum of dy y for y = layer norm of x, in double. */
static double norm_total(const double *x, const double *gamma, const double *beta, const double *dy,
                         double *y) {
    double total = 0;
    for (int i = 0; i < LN_M; i++) {
        double mean = 0, var = 0;
        for (int j = 0; j < LN_N; j++)
            mean += x[i * LN_N + j] / LN_N;
        for (int j = 0; j < LN_N; j++)
            var += pow(x[i * LN_N + j] - mean, 2) / LN_N;
        for (int j = 0; j < LN_N; j++) {
            y[i * LN_N + j] = (x[i * LN_N + j] - mean) / sqrt(var + 0.01) * gamma[j] + beta[j];
            total += dy[i * LN_N + j] * y[i * LN_N + j];
        }
    }
    return total;
}

static void scalar_layer_norm_follows_its_formula(void **state) {
    enum { M = LN_M, N = LN_N };
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    struct call c = {.state = 3};
    float *in[4] = {call_in(&c, M, N, -2, 3, NULL), call_in(&c, 1, N, 0.5f, 2, NULL),
                    call_in(&c, 1, N, -1, 1, NULL), call_in(&c, M, N, -1, 1, NULL)};
    double exact[4][M * N], want[M * N], ignored[M * N];
    for (int p = 0; p < 4; p++)
        for (int i = 0; i < (p % 3 ? N : M * N); i++)
            exact[p][i] = in[p][i];
    float y[M * N], dx[M * N], mean[M], rstd[M], dgamma[N], dbeta[N], *got[3] = {dx, dgamma, dbeta};
    k->layer_norm(M, N, in[0], N, in[1], in[2], 0.01f, y, N, mean, rstd);
    k->layer_norm_grad(M, N, in[0], N, in[1], mean, rstd, in[3], N, dx, N, dgamma, dbeta);
    norm_total(exact[0], exact[1], exact[2], exact[3], want);
    for (int i = 0; i < M * N; i++)
        assert_near(y[i], want[i], 2e-6);
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < (p ? N : M * N); i++) {
            double kept = exact[p][i], h = 1e-5;
            exact[p][i] = kept + h;
            double up = norm_total(exact[0], exact[1], exact[2], exact[3], ignored);
            exact[p][i] = kept - h;
            double down = norm_total(exact[0], exact[1], exact[2], exact[3], ignored);
            exact[p][i] = kept;
            assert_near(got[p][i], (up - down) / (2 * h), 1e-5);
        }
    call_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_agree),
        cmocka_unit_test(rows_agree),
        cmocka_unit_test(picked_rows_agree),
        cmocka_unit_test(scaled_rows_agree_to_the_bit),
        cmocka_unit_test(layer_norm_agrees),
        cmocka_unit_test(rows_do_not_see_their_neighbours),
        cmocka_unit_test(moments_of_what_does_not_vary),
        cmocka_unit_test(scalar_sums_follow_their_formulas),
        cmocka_unit_test(scalar_layer_norm_follows_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
