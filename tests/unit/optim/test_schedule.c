/* optim/schedule: factors at the steps where they are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "optim/optim.h"

#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static void constant_is_one(void **state) {
    struct fth_schedule_config schedule = {.kind = FTH_SCHEDULE_CONSTANT};
    CLOSE(fth_schedule_factor(&schedule, 1), 1);
    CLOSE(fth_schedule_factor(&schedule, 1000000), 1);
}

static void warmup_is_linear(void **state) {
    struct fth_schedule_config schedule = {.kind = FTH_SCHEDULE_CONSTANT, .warmup_steps = 4};
    double want[] = {0.25, 0.5, 0.75, 1, 1, 1};
    for (uint64_t step = 1; step <= 6; step++)
        CLOSE(fth_schedule_factor(&schedule, step), want[step - 1]);
}

static void polynomial_ends_at_its_end(void **state) {
    struct fth_schedule_config schedule = {.kind = FTH_SCHEDULE_POLYNOMIAL,
                                           .warmup_steps = 10,
                                           .total_steps = 110,
                                           .end_factor = 0.1,
                                           .power = 2};
    CLOSE(fth_schedule_factor(&schedule, 5), 0.5);
    CLOSE(fth_schedule_factor(&schedule, 10), 1);
    CLOSE(fth_schedule_factor(&schedule, 60), 0.1 + 0.9 * 0.25);
    CLOSE(fth_schedule_factor(&schedule, 105), 0.1 + 0.9 * 0.0025); /* its length is counted from the warmup's end */
    CLOSE(fth_schedule_factor(&schedule, 110), 0.1);
    CLOSE(fth_schedule_factor(&schedule, 5000), 0.1);
}

static void cosine_falls_along_half_a_wave(void **state) {
    struct fth_schedule_config schedule = {
        .kind = FTH_SCHEDULE_COSINE, .total_steps = 300, .end_factor = 0.2};
    CLOSE(fth_schedule_factor(&schedule, 100), 0.2 + 0.8 * 0.75);
    CLOSE(fth_schedule_factor(&schedule, 150), 0.2 + 0.8 * 0.5);
    CLOSE(fth_schedule_factor(&schedule, 300), 0.2);
    CLOSE(fth_schedule_factor(&schedule, 301), 0.2);
}

static void a_total_inside_the_warmup_ends_at_once(void **state) {
    struct fth_schedule_config schedule = {
        .kind = FTH_SCHEDULE_COSINE, .warmup_steps = 10, .total_steps = 5, .end_factor = 0.5};
    CLOSE(fth_schedule_factor(&schedule, 9), 0.9);
    CLOSE(fth_schedule_factor(&schedule, 10), 0.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_is_one),
        cmocka_unit_test(warmup_is_linear),
        cmocka_unit_test(polynomial_ends_at_its_end),
        cmocka_unit_test(cosine_falls_along_half_a_wave),
        cmocka_unit_test(a_total_inside_the_warmup_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
