/* Optimizer steps by AVX-512: optimize_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/optimize_simd.h"
