/* The functions of the scalar reference that libm does not have. */
#ifndef FTH_KERNELS_CPU_SCALAR_MATH_H
#define FTH_KERNELS_CPU_SCALAR_MATH_H

#include <math.h>

/* 1 / (1 + exp(-x)) without overflow and without losing a small result. */
static inline float fth_scalar_sigmoid(float x) {
    float e = expf(-fabsf(x));
    float s = 1.0f / (1.0f + e);
    return x < 0.0f ? e * s : s;
}

/* The normal distribution function by erfc, so that the far negative side keeps its digits; in double,
 * since there a rounding of the argument is multiplied by its square. */
static inline float fth_scalar_normal_cdf(float x) {
    return (float)(0.5 * erfc(x * -0.70710678118654752));
}

static inline float fth_scalar_normal_pdf(float x) {
    return (float)(0.39894228040143268 * exp(-0.5 * x * x));
}

#endif
