/* kernels/cpu/loss: every instruction set against scalar, scalar against its formula. */
#include "kernel_test.h"

static float reach;

static void run_bce(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, ldz, lddz;
    float *z = call_in(c, m, 1, -reach, reach, &ldz), *y = call_in(c, 1, m, 0, 1, NULL);
    float *weights = call_in(c, 1, m, 0, 2, NULL);
    for (size_t i = 0; i < m; i++)
        y[i] = y[i] < 0.5f ? 0.0f : 1.0f;
    float *loss = call_out(c, 1, m, NULL), *dz = call_out(c, m, 1, &lddz);
    k->bce(m, z, ldz, y, weights, 0.1f, 0.25f, loss, dz, lddz);
    loss = call_out(c, 1, m, NULL);
    dz = call_out(c, m, 1, &lddz);
    k->bce(m, z, ldz, y, NULL, 0, 1, loss, dz, lddz);
}

static void bce_agrees(void **state) {
    static const float reaches[] = {1, 10, 100, 1000};
    for (size_t r = 0; r < 4; r++)
        for (size_t m = 0; m < 70; m++) {
            reach = reaches[r];
            check_shape(run_bce, m, 1, 2e-6f, 0.1f);
        }
}

static void bce_is_stable(void **state) {
    const struct fth_kernels *tables[3];
    const char *names[3];
    size_t count = tables_under_test(tables, names);
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    for (size_t k = 0; k < count; k++) {
        float z[6] = {200, -200, 1e30f, -1e30f, NAN, -30}, y[6] = {1, 0, 0, 1, 1, 0}, loss[6],
              dz[6];
        tables[k]->bce(6, z, 1, y, NULL, 0, 1, loss, dz, 1);
        assert_true(loss[0] >= 0 && loss[0] < 1e-30f && loss[1] >= 0 && loss[1] < 1e-30f);
        assert_true(loss[2] == 1e30f && loss[3] == 1e30f && isnan(loss[4]));
        assert_true(dz[0] == 0 && dz[1] < 1e-30f && dz[2] == 1 && dz[3] == -1 && isnan(dz[4]));
        /* exp(-30) would be lost in 1 + exp(-30). */
        assert_true(fabs(loss[5] / exp(-30) - 1) < 1e-5 && fabs(dz[5] / exp(-30) - 1) < 1e-5);
    }
}

static double bce_exact(double z, double y, double smoothing) {
    double t = y * (1 - smoothing) + smoothing / 2, p = 1 / (1 + exp(-z));
    return -t * log(p) - (1 - t) * log(1 - p);
}

static void scalar_bce_follows_its_formula(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    for (float z = -10; z < 10; z += 0.37f)
        for (float y = 0; y <= 1; y++) {
            float w = 1.5f, loss, dz;
            k->bce(1, &z, 1, &y, &w, 0.2f, 0.5f, &loss, &dz, 1);
            assert_near(loss, 1.5 * bce_exact(z, y, 0.2f), 2e-6);
            double h = 1e-5;
            assert_near(
                dz, 1.5 * 0.5 * (bce_exact(z + h, y, 0.2f) - bce_exact(z - h, y, 0.2f)) / (2 * h),
                1e-5);
        }
}

/* Two blocks after another, as a running softmax has them; scores far apart and past the end of the batch. */
static void run_softmax_block(const struct fth_kernels *k, struct call *c) {
    size_t m = c->m, n = c->n, ldx;
    float *most = call_inout(c, 1, m, -3, 3, NULL), *sum = call_inout(c, 1, m, 0, 2, NULL);
    for (int block = 0; block < 2; block++) {
        float *x = call_inout(c, m, n, -reach, reach, &ldx), *shift = call_in(c, 1, n, -2, 2, NULL);
        float *factor = call_out(c, 1, m, NULL);
        if (n > 2)
            shift[n - 1] = 1e30f;
        k->softmax_block(m, n, x, ldx, shift, most, sum, factor);
    }
}

static void softmax_block_agrees(void **state) {
    static const float reaches[] = {1, 30};
    for (size_t r = 0; r < 2; r++)
        for (size_t n = 1; n < 70; n += n < 34 ? 1 : 7) {
            reach = reaches[r];
            check_shape(run_softmax_block, 3, n, 4e-6f, 1e-6f);
        }
}

static void scalar_softmax_block_follows_its_formula(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    float x[2][2] = {{1, 5}, {2, 1e4f}}, shift[2] = {0.5f, -1}, most = -1e30f, sum = 0, factor;
    k->softmax_block(1, 2, x[0], 2, shift, &most, &sum, &factor);
    assert_true(most == 6 && factor == 0 && x[0][1] == 1);
    assert_near(sum, 1 + exp(-5.5), 1e-6);
    shift[1] = 1e30f; /* takes no part */
    x[1][0] = 9;
    k->softmax_block(1, 2, x[1], 2, shift, &most, &sum, &factor);
    assert_true(most == 8.5f && x[1][0] == 1 && x[1][1] == 0);
    assert_near(factor, exp(-2.5), 1e-6);
    assert_near(sum, (1 + exp(-5.5)) * exp(-2.5) + 1, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bce_agrees),
        cmocka_unit_test(bce_is_stable),
        cmocka_unit_test(softmax_block_agrees),
        cmocka_unit_test(scalar_softmax_block_follows_its_formula),
        cmocka_unit_test(scalar_bce_follows_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
