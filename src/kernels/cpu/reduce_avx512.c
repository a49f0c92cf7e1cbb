/* Sums and products by row and column by AVX-512: reduce_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/reduce_simd.h"
