/* Counter-based random numbers: see base/random.h. Pure functions.
 *
 * The normal draws use polynomials of our own and not libm, whose log, sin and cos differ in the last
 * bit from CPU to CPU: with +, *, / and sqrt alone (IEEE 754, never contracted: -ffp-contract=off) the
 * same seed gives the same bits everywhere. */
#include "base/random.h"

#include <math.h>
#include <string.h>

#include <Random123/philox.h>

void fth_random_draw(uint64_t seed, uint32_t stream, uint64_t a, uint64_t b, uint32_t out[4]) {
    uint64_t mixed = fth_random_key(seed, stream);
    philox4x32_key_t key = {{(uint32_t)mixed, (uint32_t)(mixed >> 32)}};
    philox4x32_ctr_t counter = {{(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)}};
    philox4x32_ctr_t drawn = philox4x32(counter, key);
    memcpy(out, drawn.v, sizeof drawn.v);
}

void fth_random_uniform(uint64_t seed, uint32_t stream, uint64_t a, uint32_t n, float low, float high,
                        float *out) {
    float below_high = nextafterf(high, low);
    for (uint64_t i = 0; i < n; i += 4) {
        uint32_t bits[4];
        fth_random_draw(seed, stream, a, i / 4, bits);
        for (uint32_t j = 0; j < 4 && i + j < n; j++) {
            float value = low + (high - low) * fth_random_unit(bits[j]);
            /* The sum may round up to `high`, which is outside the interval. */
            out[i + j] = value < high ? value : below_high;
        }
    }
}

/* Natural logarithm of x in [2^-24, 1], to about 1e-13: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), and
 * log m = 2 artanh((m - 1) / (m + 1)) by its series. */
static double unit_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1022;
    bits = (bits & 0xfffffffffffffull) | (1022ull << 52);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), s2 = s * s;
    static const double terms[] = {1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1};
    double series = 0;
    for (int k = 0; k < 8; k++)
        series = series * s2 + terms[k];
    return 2 * s * series + exponent * 0.69314718055994531;
}

/* Cosine and sine of a fraction of a turn in [0, 1), to about 1e-13: Taylor series within an eighth of a
 * turn of the nearest quarter. */
static void turn_cos_sin(double turn, double *cosine, double *sine) {
    int quarter = (int)(turn * 4 + 0.5);
    double x = (turn * 4 - quarter) * 1.5707963267948966, x2 = x * x;
    static const double c_terms[] = {1.0 / (14 * 13), 1.0 / (12 * 11), 1.0 / (10 * 9), 1.0 / (8 * 7),
                                     1.0 / (6 * 5),   1.0 / (4 * 3),   1.0 / 2};
    static const double s_terms[] = {1.0 / (14 * 15), 1.0 / (12 * 13), 1.0 / (10 * 11), 1.0 / (8 * 9),
                                     1.0 / (6 * 7),   1.0 / (4 * 5),   1.0 / (2 * 3)};
    double c = 1, s = 1;
    for (int k = 0; k < 7; k++) {
        c = 1 - x2 * c_terms[k] * c;
        s = 1 - x2 * s_terms[k] * s;
    }
    s *= x;
    switch (quarter & 3) {
    case 0: *cosine = c, *sine = s; break;
    case 1: *cosine = -s, *sine = c; break;
    case 2: *cosine = -c, *sine = -s; break;
    default: *cosine = s, *sine = -c; break;
    }
}

/* Box-Muller: of a draw's four numbers, (0, 1) give elements 0 and 1, (2, 3) give elements 2 and 3. */
void fth_random_normal(uint64_t seed, uint32_t stream, uint64_t a, uint32_t n, float mean,
                       float deviation, float *out) {
    for (uint64_t i = 0; i < n; i += 4) {
        uint32_t bits[4];
        fth_random_draw(seed, stream, a, i / 4, bits);
        for (uint32_t j = 0; j < 4 && i + j < n; j += 2) {
            double radius = sqrt(-2 * unit_log((double)((bits[j] >> 8) + 1) * 0x1p-24));
            double normal[2];
            turn_cos_sin((double)bits[j + 1] * 0x1p-32, &normal[0], &normal[1]);
            for (uint32_t k = 0; k < 2 && i + j + k < n; k++)
                out[i + j + k] = (float)(mean + deviation * (radius * normal[k]));
        }
    }
}
