/* Elementwise kernels by AVX2: elementwise_simd.h and activation_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/elementwise_simd.h"
#include "kernels/cpu/activation_simd.h"
