/* batch_softmax over several tasks and blocks, against its formula in double: rows that do not count, weights, a last block
 * that is not full. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gradcheck.h"

enum { MOST = 600, K = 5 };

static double u[MOST][K], v[MOST][K], c[MOST], r[MOST], loss[MOST], du[MOST][K], dv[MOST][K];

static void expect(uint32_t n, uint32_t mean_over) {
    memset(du, 0, sizeof du);
    memset(dv, 0, sizeof dv);
    for (uint32_t i = 0; i < n; i++) {
        double score[MOST], sum = 0, scale = r[i] / mean_over;
        for (uint32_t j = 0; j < n; j++) {
            score[j] = -c[j];
            for (int k = 0; k < K; k++)
                score[j] += u[i][k] * v[j][k];
            sum += exp(score[j]);
        }
        loss[i] = r[i] * (log(sum) - score[i]);
        for (uint32_t j = 0; j < n; j++)
            for (int k = 0; k < K; k++) {
                double p = exp(score[j]) / sum - (i == j);
                du[i][k] += scale * p * v[j][k];
                dv[j][k] += scale * p * u[i][k];
            }
    }
}

static float number(uint32_t i, uint32_t salt) {
    return (float)((i * 7919 + salt * 104729 + i * i * 31) % 2003) / 1000 - 1;
}

static void compare(struct interpret *it, fth_id value, const double *want, uint32_t n, uint32_t columns, double scale,
                    double tolerance) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < columns; k++) {
            double got = *interpret_at(it, value, i, k), is = want[i * columns + k];
            if (fabs(got - is) > tolerance * (scale + fabs(is)))
                fail_msg("%u examples: value %d (%u, %u) is %g, not %g", n, (int)value, i, k, got, is);
        }
}

/* mean_over: more than n in the short batch that ends an epoch. */
static void check(uint32_t n, uint32_t mean_over, float reach, int counted, double tolerance) {
    struct gradcheck made = {.group = -1}, *g = &made;
    fth_id in[5], out[3], grad[6], v_gradient;
    CHECK_OK(g, fth_graph_create(0, &g->graph, &g->err));
    for (int i = 0; i < 3; i++)
        in[i] = gradcheck_input(g, -1, i < 2 ? K : 1);
    if (!counted)
        in[2] = FTH_NONE;
    CHECK_OK(g, fth_graph_input(g->graph, FTH_ROLE_LABEL, &in[3], &g->err));
    CHECK_OK(g, fth_graph_input(g->graph, FTH_ROLE_WEIGHT, &in[4], &g->err));
    CHECK_OK(g, fth_graph_node(g->graph, &fth_op_batch_softmax, "s", in, 5, NULL, 0, out, &g->err));
    memcpy(grad, in, sizeof in);
    grad[5] = out[1];
    CHECK_OK(g, fth_graph_node(g->graph, &fth_op_batch_softmax_grad, "g", grad, 6, NULL, 0, &v_gradient, &g->err));
    struct interpret_options options = {.examples = n, .tile = 64, .weights = 1, .mean_over = mean_over};
    struct interpret *it = interpret_create(g->graph, &options);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < K; k++) {
            u[i][k] = *interpret_row_at(it, 0, i, k) = reach * number(i, k);
            v[i][k] = *interpret_row_at(it, 1, i, k) = number(i, k + 9);
        }
        *interpret_row_at(it, 2, i, 0) = 3 * number(i, 77);
        c[i] = counted ? *interpret_row_at(it, 2, i, 0) : 0;
        float label = *interpret_at(it, in[3], i, 0) = i % 4 == 1 || n < 3;
        float weight = *interpret_at(it, in[4], i, 0) = i % 5 ? 1 : 0.5f;
        r[i] = label * weight;
    }
    interpret_refresh(it);
    interpret_run(it, FTH_FORWARD);
    expect(n, mean_over);
    compare(it, out[0], loss, n, 1, 1, tolerance);
    compare(it, out[2], du[0], n, K, 1.0 / mean_over, tolerance);
    compare(it, v_gradient, dv[0], n, K, reach / mean_over, tolerance);
    interpret_destroy(it);
    fth_graph_destroy(g->graph);
}

static void test_formula(void **state) {
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 255, 256, 257, 600};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int counted = 0; counted < 2; counted++)
            check(sizes[i], sizes[i], 1, counted, 3e-6);
    check(65, 256, 1, 1, 3e-6);
}

/* Scores so far apart that the largest of a later block makes all before it vanish. */
static void test_far_apart(void **state) {
    check(600, 600, 60, 1, 1e-4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_far_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
