/* kernels/cpu/optimize: every instruction set against scalar, scalar against its formulas. */
#include "kernel_test.h"

static struct fth_opt_args args = {.lr = 0.05f,
                                   .schedule = 1,
                                   .grad_scale = 0.7f,
                                   .l1 = 0.1f,
                                   .l2 = 0.03f,
                                   .weight_decay = 0.02f,
                                   .momentum = 0.9f,
                                   .eps = 1e-6f,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.99f,
                                   .correction1 = 0.271f,
                                   .correction2 = 0.0297f,
                                   .lr_power = -0.5f,
                                   .beta = 1};

static void run_first(const struct fth_kernels *k, struct call *c) {
    size_t n = c->n;
    float *g = call_in(c, 1, n, -1, 1, NULL), *w = call_inout(c, 1, n, -1, 1, NULL);
    k->opt_sgd(n, w, g, &args);
    k->opt_momentum(n, w, call_inout(c, 1, n, -1, 1, NULL), g, &args);
    k->opt_adagrad(n, w, call_inout(c, 1, n, 0, 2, NULL), g, &args);
    k->opt_ftrl(n, w, call_inout(c, 1, n, -1, 1, NULL), call_inout(c, 1, n, 0, 1, NULL), g, &args);
    k->axpy(n, -0.3f, g, w);
}

static void run_adaptive(const struct fth_kernels *k, struct call *c) {
    size_t n = c->n;
    float *g = call_in(c, 1, n, -1, 1, NULL), *w = call_inout(c, 1, n, -1, 1, NULL);
    float *m = call_inout(c, 1, n, -1, 1, NULL), *v = call_inout(c, 1, n, 0, 1, NULL);
    k->opt_adam(n, w, m, v, g, &args);
    k->opt_lamb_direction(n, w, m, v, g, &args, call_out(c, 1, n, NULL));
}

static void run_rowwise(const struct fth_kernels *k, struct call *c) {
    float *g = call_in(c, 1, c->n, -1, 1, NULL), *w = call_inout(c, 1, c->n, -1, 1, NULL);
    k->opt_rowwise_adagrad(c->n, w, call_inout(c, 1, 1, 0, 1, NULL), g, &args);
}

static void optimizers_agree_to_the_bit(void **state) {
    check_shapes(run_first, 0, 0);
    check_shapes(run_adaptive, 0, 0);
    check_shapes(run_rowwise, 2e-6f, 0.1f);
    args.lr_power = -0.7f; /* FTRL by a power that is no square root */
    check_shapes(run_first, 0, 0);
    args.lr_power = -0.5f;
    args.schedule = 0.3f;
    check_shapes(run_first, 0, 0);
    args.schedule = 1;
}

static void scalar_optimizers_follow_their_formulas(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    const struct fth_opt_args *a = &args;
    for (float g = -1; g < 1; g += 0.23f) {
        float w = 0.4f, s = 0.3f, v = 0.2f, r;
        double W = w, S = s, V = v, G = (double)g * a->grad_scale, D = G + (double)a->l2 * W;
        k->opt_sgd(1, &w, &g, a);
        assert_near(w, W - a->lr * D, 1e-6);
        w = 0.4f;
        k->opt_momentum(1, &w, &s, &g, a);
        assert_near(s, a->momentum * S + D, 1e-6);
        assert_near(w, W - a->lr * (a->momentum * S + D), 1e-6);
        w = 0.4f, s = 0.3f;
        k->opt_adagrad(1, &w, &s, &g, a);
        assert_near(s, S + D * D, 1e-6);
        assert_near(w, W - a->lr * D / (sqrt(S + D * D) + a->eps), 1e-6);
        w = 0.4f, s = 0.3f;
        k->opt_adam(1, &w, &s, &v, &g, a);
        double M1 = a->beta1 * S + (1 - (double)a->beta1) * D,
               V1 = a->beta2 * V + (1 - (double)a->beta2) * D * D;
        assert_near(s, M1, 1e-6);
        assert_near(v, V1, 1e-6);
        assert_near(w,
                    W - a->lr * a->weight_decay * W -
                        a->lr * (M1 / a->correction1) / (sqrt(V1 / a->correction2) + a->eps),
                    1e-6);
        w = 0.4f, s = 0.3f, v = 0.2f;
        k->opt_lamb_direction(1, &w, &s, &v, &g, a, &r);
        assert_near(
            r, M1 / a->correction1 / (sqrt(V1 / a->correction2) + a->eps) + a->weight_decay * W,
            2e-6);
        w = 0.4f;
        k->axpy(1, 3, &g, &w);
        assert_near(w, W + 3 * (double)g, 1e-6);
    }
}

/* McMahan et al. 2013, algorithm 1, written down from the paper: sigma, z, n, then w from z and n.
 */
static void scalar_ftrl_follows_the_paper(void **state) {
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    float w = 0, z = 0, n = 0;
    double W = 0, Z = 0, N = 0;
    int zeros = 0;
    for (int step = 0; step < 20; step++) {
        float g = 0.5f * cosf((float)step);
        double G = (double)g * args.grad_scale;
        double sigma = (sqrt(N + G * G) - sqrt(N)) / args.lr;
        Z += G - sigma * W;
        N += G * G;
        W = fabs(Z) <= args.l1
                ? 0
                : -(Z - (Z > 0 ? args.l1 : -args.l1)) / ((args.beta + sqrt(N)) / args.lr + args.l2);
        k->opt_ftrl(1, &w, &z, &n, &g, &args);
        assert_near(w, W, 1e-5);
        assert_near(z, Z, 1e-5);
        assert_near(n, N, 1e-5);
        zeros += w == 0;
    }
    assert_in_range(zeros, 1, 19); /* both branches were taken */
}

/* Without penalties a step is the schedule's share of the paper's, whatever the factors before were: w moves with the
 * gradient only. */
/* With squares so small that they are 0, and nothing beside them. */
static void ftrl_without_squares_is_finite(void **state) {
    const struct fth_kernels *tables[FTH_ISA_COUNT];
    const char *names[FTH_ISA_COUNT];
    size_t count = tables_under_test(tables, names);
    tables[count++] = fth_kernels_for(FTH_ISA_SCALAR);
    for (size_t k = 0; k < count; k++) {
        struct fth_opt_args plain = {.lr = 0.1f, .grad_scale = 1, .schedule = 1, .lr_power = -0.5f};
        float w[3] = {0}, z[3] = {0}, n[3] = {0}, g[3] = {1e-30f, 0, 0.5f};
        tables[k]->opt_ftrl(3, w, z, n, g, &plain);
        assert_true(w[0] == 0 && z[0] == 1e-30f && w[1] == 0 && w[2] < 0 && isfinite(w[2]));
    }
}

static void ftrl_steps_follow_the_schedule(void **state) {
    static const float factors[] = {0, 0.5f, 1, 1, 0.25f, 0.01f, 0, 0, 1};
    const struct fth_kernels *k = fth_kernels_for(FTH_ISA_SCALAR);
    struct fth_opt_args plain = args;
    plain.l1 = plain.l2 = 0;
    float w = 0, z = 0, n = 0;
    double W = 0, N = 0;
    for (size_t step = 0; step < 5 * sizeof factors / sizeof *factors; step++) {
        float g = step % 3 == 2 ? 0 : 0.5f + cosf((float)step);
        double G = (double)g * plain.grad_scale;
        plain.schedule = factors[step % (sizeof factors / sizeof *factors)];
        N += G * G;
        W -= (double)plain.schedule * plain.lr / (plain.beta + sqrt(N)) * G;
        k->opt_ftrl(1, &w, &z, &n, &g, &plain);
        assert_near(w, W, 1e-5);
        assert_near(n, N, 1e-5 * (1 + N));
    }
    assert_true(fabs(W) > 0.01);
}

static void scalar_rowwise_adagrad_follows_its_formula(void **state) {
    float w[3] = {1, 2, 3}, g[3] = {0.5f, -1, 2}, s = 0.25f;
    double mean = 0;
    for (int i = 0; i < 3; i++)
        mean += pow(g[i] * (double)args.grad_scale + (double)args.l2 * w[i], 2) / 3;
    fth_kernels_for(FTH_ISA_SCALAR)->opt_rowwise_adagrad(3, w, &s, g, &args);
    assert_near(s, 0.25 + mean, 1e-6);
    for (int i = 0; i < 3; i++) {
        double d = g[i] * (double)args.grad_scale + (double)args.l2 * (i + 1);
        assert_near(w[i], i + 1 - args.lr * d / (sqrt(0.25 + mean) + args.eps), 1e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_agree_to_the_bit),
        cmocka_unit_test(scalar_optimizers_follow_their_formulas),
        cmocka_unit_test(scalar_ftrl_follows_the_paper),
        cmocka_unit_test(ftrl_without_squares_is_finite),
        cmocka_unit_test(ftrl_steps_follow_the_schedule),
        cmocka_unit_test(scalar_rowwise_adagrad_follows_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
