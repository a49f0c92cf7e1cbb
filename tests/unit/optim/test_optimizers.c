/* optim/optimizers: the list, the arguments of a step, and which kernel meets which slot. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "optim/optim.h"

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
    const char *const *names = fth_optimizer_names();
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
    fth_optimizer_args(fth_optimizer_find("adamw"), &config, &warm, 2, 1, &args);
    assert_true(args.lr == 0.25f);
    assert_true(args.grad_scale == 1);
    assert_true(args.weight_decay == 0.01f && args.l2 == 0.125f && args.l1 == 0);
    assert_true(args.correction1 == (float)(1 - 0.9 * 0.9));
    assert_true(args.correction2 == (float)(1 - 0.99 * 0.99));
    fth_optimizer_args(fth_optimizer_find("adam"), &config, &warm, 9, 0, &args);
    assert_true(args.lr == 0.5f && args.weight_decay == 0 && args.l2 == 0);
    fth_optimizer_args(fth_optimizer_find("ftrl"), &config, &warm, 9, 0, &args);
    assert_true(args.l1 == 0.25f && args.l2 == 0.125f && args.lr_power == -0.5f && args.beta == 1);
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

static double sum_squares(size_t n, const float *x) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sum;
}
static void direction(size_t n, const float *w, float *m, float *v, const float *g,
                      const struct fth_opt_args *args, float *r) {
    memcpy(r, g, n * sizeof *r);
}
static void axpy(size_t n, float factor, const float *r, float *w) {
    for (size_t i = 0; i < n; i++)
        w[i] += factor * r[i];
}

static void lamb_scales_by_the_norms(void **state) {
    struct fth_kernels kernels = {
        .sum_squares = sum_squares, .opt_lamb_direction = direction, .axpy = axpy};
    const struct fth_optimizer *lamb = fth_optimizer_find("lamb");
    assert_true(lamb->whole_parameter && !lamb->sparse);
    float w[] = {6, 8}, g[] = {3, 4}, m[2], v[2], scratch[2];
    float *slots[] = {m, v};
    struct fth_opt_args args = {.lr = 0.5f};
    lamb->apply(&kernels, 2, w, slots, g, &args, scratch); /* ratio 10 / 5 */
    assert_true(w[0] == 3 && w[1] == 4);
    float zero[] = {0, 0};
    lamb->apply(&kernels, 2, zero, slots, g, &args, scratch); /* no norm: as Adam */
    assert_true(zero[0] == -1.5f && zero[1] == -2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_the_list_agree),
        cmocka_unit_test(only_accumulators_start_above_zero),
        cmocka_unit_test(arguments_of_a_step),
        cmocka_unit_test(each_meets_its_kernel_and_slots),
        cmocka_unit_test(lamb_scales_by_the_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
