/* optim/optimizers: the list, the arguments of a step, and which kernel meets which slot. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "optim/optim.h"
#include "optimizer_names.h"

static const struct fth_optimizer_config config = {.lr = 0.5,
                                                   .eps = 1e-8,
                                                   .beta1 = 0.9,
                                                   .beta2 = 0.99,
                                                   .momentum = 0.8,
                                                   .weight_decay = 0.01,
                                                   .l1 = 0.25,
                                                   .l2 = 0.125,
                                                   .initial_accumulator = 0.1,
                                                   .lr_power = -0.5,
                                                   .beta = 1};
static const struct fth_schedule_config warm = {.kind = FTH_SCHEDULE_CONSTANT, .warmup_steps = 4};

static void names_and_the_list_agree(void **state) {
    const char *const *names = optimizer_names;
    size_t n = 0;
    for (; names[n]; n++) {
        const struct fth_optimizer *optimizer = fth_optimizer_find(names[n]);
        assert_non_null(optimizer);
        assert_string_equal(optimizer->name, names[n]);
        assert_non_null(optimizer->apply);
        assert_true(optimizer->dense || optimizer->sparse);
        assert_true(optimizer->n_slots <= FTH_MAX_SLOTS);
        for (uint32_t i = 0; i < optimizer->n_slots; i++) {
            size_t length = strlen(names[n]);
            assert_memory_equal(optimizer->slot_names[i], names[n], length);
            assert_int_equal(optimizer->slot_names[i][length], '.');
        }
    }
    assert_int_equal(n, 8);
    assert_null(fth_optimizer_find("Adam"));
    assert_null(fth_optimizer_find(""));
}

/* The schema's choices are the list, and it knows who starts with an accumulator. */
static void configurations_name_them(void **state) {
    static const char text[] = "model: {name: lr}\nfeatures: {numeric: [{columns: I1}]}\n";
    for (const char *const *name = optimizer_names; *name; name++)
        for (int sparse = 0; sparse < 2; sparse++)
            for (int accumulator = 0; accumulator < 2; accumulator++) {
                const struct fth_optimizer *optimizer = fth_optimizer_find(*name);
                char set[2][64];
                const char *const overrides[] = {set[0], set[1]};
                const char *of = sparse ? "sparse" : "dense";
                snprintf(set[0], sizeof set[0], "optimizer.%s.name=%s", of, *name);
                snprintf(set[1], sizeof set[1], "optimizer.%s.initial_accumulator=1", of);
                int starts = optimizer->initial(&config, 0) > 0 || optimizer->initial(&config, 1) > 0;
                int fits = (sparse ? optimizer->sparse : optimizer->dense) && (!accumulator || starts);
                struct fth_config *made = NULL;
                fth_status status = fth_config_parse("f.yaml", text, sizeof text - 1, overrides,
                                                     accumulator ? 2 : 1, &made, NULL);
                assert_int_equal(status, fits ? FTH_OK : FTH_E_CONFIG);
                fth_config_free(made);
            }
}

static void only_accumulators_start_above_zero(void **state) {
    const char *with[] = {"adagrad", "rowwise_adagrad"};
    for (int i = 0; i < 2; i++)
        assert_true(fth_optimizer_find(with[i])->initial(&config, 0) == 0.1f);
    assert_true(fth_optimizer_find("ftrl")->initial(&config, 0) == 0);
    assert_true(fth_optimizer_find("ftrl")->initial(&config, 1) == 0.1f);
    assert_true(fth_optimizer_find("adam")->initial(&config, 1) == 0);
}

static void arguments_of_a_step(void **state) {
    struct fth_opt_args args;
    fth_optimizer_args(fth_optimizer_find("adamw"), &config, &warm, 2, 64, 1, &args);
    assert_true(args.lr == 0.25f);
    assert_true(args.grad_scale == 1);
    assert_true(args.weight_decay == 0.01f && args.l2 == 0.125f && args.l1 == 0);
    assert_true(args.correction1 == (float)(1 - (double)0.9f * 0.9f));
    assert_true(args.correction2 == (float)(1 - (double)0.99f * 0.99f));
    /* After one step the corrected average is the gradient itself. */
    fth_optimizer_args(fth_optimizer_find("adam"), &config, &warm, 1, 64, 1, &args);
    assert_true(args.correction1 == 1 - args.beta1 && args.correction2 == 1 - args.beta2);
    fth_optimizer_args(fth_optimizer_find("adam"), &config, &warm, 9, 64, 0, &args);
    assert_true(args.lr == 0.5f && args.grad_scale == 1 && args.weight_decay == 0 && args.l2 == 0);
    static const char *const decoupled[] = {"adamw", "lamb"};
    for (int i = 0; i < 2; i++) { /* biases and the like do not decay */
        fth_optimizer_args(fth_optimizer_find(decoupled[i]), &config, &warm, 9, 64, 0, &args);
        assert_true(args.weight_decay == 0 && args.l2 == 0);
    }
    fth_optimizer_args(fth_optimizer_find("ftrl"), &config, &warm, 9, 64, 0, &args);
    assert_true(args.l1 == 0.25f && args.l2 == 0.125f && args.lr_power == -0.5f && args.beta == 1);
    assert_true(args.grad_scale == 64);
    fth_optimizer_args(fth_optimizer_find("ftrl"), &config, &warm, 1, 64, 0, &args);
    assert_true(args.lr == 0.5f && args.schedule == 0.25f);
}

/* z is what the first weights follow from: without a gradient they stay, whatever the settings. */
static void first_weights_count(void **state) {
    const struct fth_optimizer *ftrl = fth_optimizer_find("ftrl");
    assert_null(fth_optimizer_find("adagrad")->begin);
    for (int powers = 0; powers < 2; powers++) {
        struct fth_optimizer_config c = config;
        c.lr_power = powers ? -0.25 : -0.5;
        float w[] = {0.5f, -0.01f, 0, 1e-4f}, z[4], n[4], g[4] = {0}, *slots[] = {z, n};
        const float first[] = {0.5f, -0.01f, 0, 1e-4f};
        struct fth_opt_args args;
        fth_optimizer_args(ftrl, &c, &warm, 9, 64, 1, &args);
        for (int i = 0; i < 4; i++)
            n[i] = ftrl->initial(&c, 1);
        ftrl->begin(&c, 4, w, slots);
        assert_true(z[0] < -(float)c.l1 && z[1] > (float)c.l1 && z[2] == 0);
        ftrl->apply(fth_kernels_get(), 4, w, slots, g, &args, NULL);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(w[i] - first[i]) <= 1e-6f * fabsf(first[i]) + 1e-7f);
    }
}

/* ---- kernels that write down what they were given ---- */
static struct {
    const char *kernel;
    const float *w, *a, *b, *g;
} seen;
static void sgd(size_t n, float *w, const float *g, const struct fth_opt_args *args) {
    seen.kernel = "sgd", seen.w = w, seen.g = g;
}
#define ONE(name)                                                                                  \
    static void name(size_t n, float *w, float *s, const float *g,                                 \
                     const struct fth_opt_args *args) {                                            \
        seen.kernel = #name, seen.w = w, seen.a = s, seen.g = g;                                   \
    }
#define TWO(name)                                                                                  \
    static void name(size_t n, float *w, float *a, float *b, const float *g,                       \
                     const struct fth_opt_args *args) {                                            \
        seen.kernel = #name, seen.w = w, seen.a = a, seen.b = b, seen.g = g;                       \
    }
ONE(momentum)
ONE(adagrad)
ONE(rowwise_adagrad)
TWO(adam)
TWO(ftrl)

static void each_meets_its_kernel_and_slots(void **state) {
    struct fth_kernels kernels = {.opt_sgd = sgd,
                                  .opt_momentum = momentum,
                                  .opt_adagrad = adagrad,
                                  .opt_rowwise_adagrad = rowwise_adagrad,
                                  .opt_adam = adam,
                                  .opt_ftrl = ftrl};
    const char *names[][2] = {{"sgd", "sgd"},         {"momentum", "momentum"},
                              {"adagrad", "adagrad"}, {"rowwise_adagrad", "rowwise_adagrad"},
                              {"adam", "adam"},       {"adamw", "adam"},
                              {"ftrl", "ftrl"}};
    float w[4], a[4], b[4], g[4];
    float *slots[] = {a, b};
    struct fth_opt_args args = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct fth_optimizer *optimizer = fth_optimizer_find(names[i][0]);
        memset(&seen, 0, sizeof seen);
        optimizer->apply(&kernels, 4, w, slots, g, &args, NULL);
        assert_string_equal(seen.kernel, names[i][1]);
        assert_ptr_equal(seen.w, w);
        assert_ptr_equal(seen.g, g);
        assert_ptr_equal(seen.a, optimizer->n_slots > 0 ? a : NULL);
        assert_ptr_equal(seen.b, optimizer->n_slots > 1 ? b : NULL);
    }
}

static void direction(size_t n, const float *w, float *m, float *v, const float *g,
                      const struct fth_opt_args *args, float *r) {
    memcpy(r, g, n * sizeof *r);
}
static void lamb_scales_by_the_norms(void **state) {
    struct fth_kernels kernels = {.opt_lamb_direction = direction};
    const struct fth_optimizer *lamb = fth_optimizer_find("lamb");
    assert_true(lamb->whole_parameter && !lamb->sparse);
    float w[] = {6, 8}, g[] = {3, 4}, m[2], v[2], r[2];
    struct fth_opt_args args = {.lr = 0.5f};
    lamb->apply(&kernels, 2, w, (float *[]){m, v}, g, &args, r);
    assert_true(w[0] == 6 && w[1] == 8 && r[0] == 3 && r[1] == 4);
    assert_true(fth_optimizer_norm_factor(0.5f, 100, 25) == -1);
    /* No norm: as Adam. */
    assert_true(fth_optimizer_norm_factor(0.5f, 0, 25) == -0.5f);
    assert_true(fth_optimizer_norm_factor(0.5f, 100, 0) == -0.5f);
}

/* ---- the arithmetic, against the papers' and PyTorch's formulas in double ---- */
enum { N = 11, STEPS = 5, EXAMPLES = 3 };

/* One weight's step; s and t are its slots. */
static double formula(const char *name, double w, double g, double *s, double *t, int step) {
    double warmth = step < 4 ? step / 4.0 : 1, lr = config.lr * warmth; /* warm */
    int coupled = strcmp(name, "ftrl") != 0;
    g += coupled ? config.l2 * w : 0;
    if (strcmp(name, "sgd") == 0)
        return w - lr * g;
    if (strcmp(name, "momentum") == 0)
        return w - lr * (*s = config.momentum * *s + g);
    if (strcmp(name, "adagrad") == 0) {
        *s += g * g;
        return w - lr * g / (sqrt(*s) + config.eps);
    }
    if (strcmp(name, "ftrl") == 0) {
        g *= EXAMPLES;
        double sigma = (pow(*t + g * g, -config.lr_power) - pow(*t, -config.lr_power)) / config.lr;
        *s += warmth * g - sigma * w;
        *t += g * g;
        if (fabs(*s) <= config.l1)
            return 0;
        return -(*s - copysign(config.l1, *s)) /
               ((config.beta + pow(*t, -config.lr_power)) / config.lr + config.l2);
    }
    /* adam, adamw */
    if (strcmp(name, "adamw") == 0)
        w -= lr * config.weight_decay * w;
    *s = config.beta1 * *s + (1 - config.beta1) * g;
    *t = config.beta2 * *t + (1 - config.beta2) * g * g;
    double m = *s / (1 - pow(config.beta1, step)), v = *t / (1 - pow(config.beta2, step));
    return w - lr * m / (sqrt(v) + config.eps);
}

static void follows_the_formulas(void **state) {
    const char *names[] = {"sgd", "momentum", "adagrad", "adam", "adamw", "ftrl"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const struct fth_optimizer *optimizer = fth_optimizer_find(names[k]);
        float w[N], a[N], b[N], g[N], *slots[] = {a, b};
        double w2[N], a2[N], b2[N];
        for (int i = 0; i < N; i++) {
            w2[i] = w[i] = 0.3f * (float)(i - 5);
            a2[i] = a[i] = optimizer->initial(&config, 0);
            b2[i] = b[i] = optimizer->initial(&config, 1);
        }
        for (int step = 1; step <= STEPS; step++) {
            struct fth_opt_args args;
            fth_optimizer_args(optimizer, &config, &warm, (uint64_t)step, EXAMPLES, 1, &args);
            for (int i = 0; i < N; i++)
                g[i] = 0.5f * (float)sin(i * 1.7 + step);
            optimizer->apply(fth_kernels_get(), N, w, slots, g, &args, NULL);
            for (int i = 0; i < N; i++) {
                w2[i] = formula(names[k], w2[i], g[i], &a2[i], &b2[i], step);
                if (fabs(w[i] - w2[i]) > 2e-5 * (0.1 + fabs(w2[i])))
                    fail_msg("%s step %d weight %d: %.9g, not %.9g", names[k], step, i, w[i],
                             w2[i]);
            }
        }
    }
}

static void one_sum_a_row(void **state) {
    float w[3] = {1, 2, 3}, s = 1, g[3] = {1, 2, 1}, *slots[] = {&s, NULL};
    struct fth_opt_args args = {.lr = 1, .grad_scale = 2};
    fth_optimizer_find("rowwise_adagrad")->apply(fth_kernels_get(), 3, w, slots, g, &args, NULL);
    assert_true(fabsf(s - 9) < 1e-6f); /* 1 + (4 + 16 + 4) / 3 */
    assert_true(fabsf(w[0] - (1 - 2 / 3.0f)) < 1e-6f && fabsf(w[1] - (2 - 4 / 3.0f)) < 1e-6f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_the_list_agree),
        cmocka_unit_test(configurations_name_them),
        cmocka_unit_test(only_accumulators_start_above_zero), cmocka_unit_test(first_weights_count),
        cmocka_unit_test(arguments_of_a_step),
        cmocka_unit_test(each_meets_its_kernel_and_slots),
        cmocka_unit_test(lamb_scales_by_the_norms),
        cmocka_unit_test(follows_the_formulas),
        cmocka_unit_test(one_sum_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
