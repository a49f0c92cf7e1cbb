/* kernels/cpu/interact: every instruction set against scalar, scalar against its formulas. */
#include "kernel_test.h"

static size_t width;

static void run_fm(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, f = c->n, ldx, ldo, lddx;
    float *x = call_in(c, m, f * width, -1, 1, &ldx), *out = call_out(c, m, 1, &ldo);
    k->fm(m, f, width, x, ldx, out, ldo);
    float *dout = call_in(c, m, 1, -1, 1, &ldo), *dx = call_out(c, m, f * width, &lddx);
    k->fm_grad(m, f, width, x, ldx, dout, ldo, dx, lddx);
}

static void run_pairs(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, f = c->n, pairs = f ? f * (f - 1) / 2 : 0, ldx, ldo, lddx;
    float *x = call_in(c, m, f * width, -1, 1, &ldx), *out = call_out(c, m, pairs, &ldo);
    k->dot_interaction(m, f, width, x, ldx, out, ldo);
    float *dout = call_in(c, m, pairs, -1, 1, &ldo), *dx = call_out(c, m, f * width, &lddx);
    k->dot_interaction_grad(m, f, width, x, ldx, dout, ldo, dx, lddx);
}

static const size_t fields[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 18, 27, 28, 29, 40, 64, 65};
static const size_t widths[] = {1,  2,  3,  4,  7,  8,  9,  12, 15,  16,
                                17, 24, 31, 32, 40, 63, 64, 65, 100, 136};

static void check_interaction(kernel_case run, float floor) {
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            width = widths[w];
            /* None, one and two rows of each; numbers within 1: a sum's error grows with its terms. */
            check_shape(run, (f + w) % 3, fields[f], 3e-6f, floor * (float)(width + fields[f]));
        }
}

static void fm_agrees(void **state) { check_interaction(run_fm, 8); }

static void dot_interaction_agrees(void **state) { check_interaction(run_pairs, 0.5f); }

static double fm_exact(const double *v, int f, int d, double *unused) {
    double total = 0;
    for (int a = 0; a < f; a++)
        for (int b = 0; b < a; b++)
            for (int c = 0; c < d; c++)
                total += v[a * d + c] * v[b * d + c];
    return total;
}

/* sum of dout times the pairs; with dout NULL writes the pairs over `pairs` */
static double pairs_exact(const double *v, int f, int d, double *dout) {
    double total = 0;
    int at = 0;
    for (int a = 1; a < f; a++)
        for (int b = 0; b < a; b++, at++)
            for (int c = 0; c < d; c++)
                total += dout[at] * v[a * d + c] * v[b * d + c];
    return total;
}

static double difference(double (*total)(const double *, int, int, double *), double *v, int f,
                         int d, double *dout, int which) {
    double kept = v[which], h = 1e-4;
    v[which] = kept + h;
    double up = total(v, f, d, dout);
    v[which] = kept - h;
    double down = total(v, f, d, dout);
    v[which] = kept;
    return (up - down) / (2 * h);
}

static void scalar_interactions_follow_their_formulas(void **state) {
    enum { F = 6, D = 5, PAIRS = F * (F - 1) / 2 };
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    struct call c = {.state = 19};
    float *x = call_in(&c, F, D, -1, 1, NULL), *dout = call_in(&c, 1, PAIRS, -1, 1, NULL);
    float *pairs = call_out(&c, 1, PAIRS, NULL), *dx = call_out(&c, F, D, NULL), fm, two = 2;
    double v[F * D], g[PAIRS];
    for (int i = 0; i < F * D; i++)
        v[i] = x[i];
    k->fm(1, F, D, x, F * D, &fm, 1);
    assert_near(fm, fm_exact(v, F, D, NULL), 2e-6);
    k->fm_grad(1, F, D, x, F * D, &two, 1, dx, F * D);
    for (int i = 0; i < F * D; i++)
        assert_near(dx[i], 2 * difference(fm_exact, v, F, D, NULL, i), 1e-5);
    k->dot_interaction(1, F, D, x, F * D, pairs, PAIRS);
    for (int p = 0; p < PAIRS; p++) {
        memset(g, 0, sizeof g);
        g[p] = 1;
        assert_near(pairs[p], pairs_exact(v, F, D, g), 1e-6);
    }
    for (int p = 0; p < PAIRS; p++)
        g[p] = dout[p];
    k->dot_interaction_grad(1, F, D, x, F * D, dout, PAIRS, dx, F * D);
    for (int i = 0; i < F * D; i++)
        assert_near(dx[i], difference(pairs_exact, v, F, D, g, i), 1e-5);
    call_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fm_agrees),
        cmocka_unit_test(dot_interaction_agrees),
        cmocka_unit_test(scalar_interactions_follow_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
