/* base/random: the published generator, independence of order, distributions, intervals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include <Random123/philox.h>

#include "base/random.h"

/* Known answers of Philox 4x32-10 (Random123's kat_vectors): guards against a changed library. */
static void philox_gives_the_published_numbers(void **state) {
    philox4x32_ctr_t c = {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
    philox4x32_key_t k = {{0xa4093822, 0x299f31d0}};
    philox4x32_ctr_t r = philox4x32(c, k);
    const uint32_t expected[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(r.v, expected, sizeof expected);
}

/* The draws themselves are part of what a seed means: a change of the key's mixing shows here. */
static void draws_are_pinned(void **state) {
    uint32_t out[4];
    const uint32_t expected[4] = {0x9ef65cc1, 0x7266750c, 0xc87608bc, 0x00ea6e96};
    fth_random_draw(42, FTH_RANDOM_ROW_INIT, 7, 9, out);
    assert_memory_equal(out, expected, sizeof expected);
}

static void every_argument_matters(void **state) {
    const uint64_t high = 1ull << 40;
    uint32_t base[4], other[6][4];
    fth_random_draw(1, 2, 3, 4, base);
    fth_random_draw(2, 2, 3, 4, other[0]);
    fth_random_draw(1, 3, 3, 4, other[1]);
    fth_random_draw(1, 2, 4, 4, other[2]);
    fth_random_draw(1, 2, 3, 5, other[3]);
    fth_random_draw(1, 2, 3 + high, 4, other[4]);
    fth_random_draw(1 + high, 2, 3, 4 + high, other[5]);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++)
            assert_int_not_equal(base[j], other[i][j]);
}

static void a_prefix_is_the_same_numbers(void **state) {
    float long_one[37], short_one[37];
    for (int normal = 0; normal < 2; normal++) {
        void (*fill)(uint64_t, uint32_t, uint64_t, uint32_t, float, float, float *) =
            normal ? fth_random_normal : fth_random_uniform;
        fill(5, 1, 6, 37, -1, 1, long_one);
        for (uint32_t n = 0; n < 37; n++) {
            for (int i = 0; i < 37; i++)
                short_one[i] = 99;
            fill(5, 1, 6, n, -1, 1, short_one);
            assert_memory_equal(short_one, long_one, n * sizeof(float));
            assert_true(short_one[n] == 99);
        }
    }
}

enum { N = 200000 };
static float values[N];

static void moments(double *mean, double *variance, double *fourth) {
    double m = 0, v = 0, f = 0;
    for (int i = 0; i < N; i++)
        m += values[i];
    m /= N;
    for (int i = 0; i < N; i++) {
        double d = values[i] - m;
        v += d * d;
        f += d * d * d * d;
    }
    *mean = m;
    *variance = v / N;
    *fourth = f / N / (*variance * *variance);
}

static void uniform_is_uniform_and_inside(void **state) {
    double mean, variance, fourth;
    fth_random_uniform(3, 1, 1, N, -2, 4, values);
    for (int i = 0; i < N; i++)
        assert_true(values[i] >= -2 && values[i] < 4);
    moments(&mean, &variance, &fourth);
    assert_true(fabs(mean - 1) < 0.02 && fabs(variance - 3) < 0.03 && fabs(fourth - 1.8) < 0.02);
    /* An interval of one float: rounding must not reach its end. */
    fth_random_uniform(3, 1, 1, N, 1, nextafterf(1, 2), values);
    for (int i = 0; i < N; i++)
        assert_true(values[i] == 1);
    assert_true(fth_random_unit(UINT32_MAX) < 1 && fth_random_unit(0) == 0);
}

static void normal_is_normal(void **state) {
    double mean, variance, fourth, neighbours = 0;
    fth_random_normal(4, 1, 1, N, 0.5f, 2, values);
    moments(&mean, &variance, &fourth);
    assert_true(fabs(mean - 0.5) < 0.03 && fabs(variance - 4) < 0.06 && fabs(fourth - 3) < 0.08);
    int beyond = 0;
    for (int i = 0; i < N; i++) {
        assert_true(isfinite(values[i]));
        beyond += fabs(values[i] - 0.5) > 2 * 1.959964;
        if (i)
            neighbours += (values[i] - 0.5) * (values[i - 1] - 0.5) / 4;
    }
    assert_true(abs(beyond - N / 20) < 500);
    assert_true(fabs(neighbours / N) < 0.01);
}

/* Against libm: the polynomials' error shows as less than a float's rounding. */
static void normal_agrees_with_libm(void **state) {
    fth_random_normal(8, 2, 3, 4000, 0, 1, values);
    for (uint32_t i = 0; i < 4000; i += 4) {
        uint32_t bits[4];
        fth_random_draw(8, 2, 3, i / 4, bits);
        for (uint32_t j = 0; j < 4; j += 2) {
            double radius = sqrt(-2 * log(((bits[j] >> 8) + 1) * 0x1p-24));
            double angle = 2 * acos(-1.0) * (bits[j + 1] * 0x1p-32);
            assert_true(fabs(values[i + j] - radius * cos(angle)) < 4e-7);
            assert_true(fabs(values[i + j + 1] - radius * sin(angle)) < 4e-7);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_numbers),
        cmocka_unit_test(draws_are_pinned),
        cmocka_unit_test(every_argument_matters),
        cmocka_unit_test(a_prefix_is_the_same_numbers),
        cmocka_unit_test(uniform_is_uniform_and_inside),
        cmocka_unit_test(normal_is_normal),
        cmocka_unit_test(normal_agrees_with_libm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
