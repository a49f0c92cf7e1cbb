/* Optimizer steps by AVX2: optimize_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/optimize_simd.h"
