/* Sums and products by row and column by AVX2: reduce_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/reduce_simd.h"
