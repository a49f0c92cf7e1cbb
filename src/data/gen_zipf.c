/* Zipf's law for the generator. Pure functions. */
#include <math.h>

#include "data/gen_private.h"

/* log1p(x) / x and expm1(x) / x, also at 0. */
static double log1p_over(double x) {
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x * (0.5 - x * (1.0 / 3));
}
static double expm1_over(double x) {
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x * 0.5 * (1 + x * (1.0 / 3));
}

/* The integral of h(x) = x^-s, and its inverse. */
static double integral(double x, double s) {
    double log_x = log(x);
    return expm1_over((1 - s) * log_x) * log_x;
}
static double integral_inverse(double y, double s) {
    double t = y * (1 - s);
    return exp(log1p_over(t < -1 ? -1 : t) * y);
}

void fth_zipf_init(struct fth_zipf *zipf, uint64_t n, double exponent) {
    zipf->n = (double)n;
    zipf->exponent = exponent;
    zipf->h_first = integral(1.5, exponent) - 1;
    zipf->h_last = integral((double)n + 0.5, exponent);
    zipf->shortcut = 2 - integral_inverse(integral(2.5, exponent) - pow(2, -exponent), exponent);
}

uint64_t fth_zipf_draw(const struct fth_zipf *zipf, struct fth_gen_draws *draws) {
    double s = zipf->exponent;
    if (s == 0)
        return (uint64_t)(((unsigned __int128)fth_gen_draw(draws) * (uint64_t)zipf->n) >> 64);
    for (;;) {
        double u = zipf->h_last + fth_gen_unit(draws) * (zipf->h_first - zipf->h_last);
        double x = integral_inverse(u, s);
        double k = floor(x + 0.5);
        if (k < 1)
            k = 1;
        else if (k > zipf->n)
            k = zipf->n;
        if (k - x <= zipf->shortcut || u >= integral(k + 0.5, s) - exp(-s * log(k)))
            return (uint64_t)k - 1;
    }
}

/* The sum of x^-s over 1..k: the first terms one by one, the rest by the midpoint rule, whose error
 * there is below 1e-9 of the sum. */
static double harmonic(double k, double s) {
    double sum = 0, i = 1;
    for (; i <= k && i <= 2000; i++)
        sum += exp(-s * log(i));
    return i <= k ? sum + integral(k + 0.5, s) - integral(i - 0.5, s) : sum;
}

double fth_zipf_share(uint64_t n, double exponent, double k) {
    return harmonic(k, exponent) / harmonic((double)n, exponent);
}

double fth_zipf_solve(uint64_t n, double share_ids, double share_draws) {
    double k = round(share_ids * (double)n), low = 0, high = 5;
    if (k < 1)
        k = 1;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (fth_zipf_share(n, middle, k) < share_draws)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}
