/* Short decimal texts by AVX2: decimal_simd.h. */
#include "kernels/cpu/simd_avx2.h"

#include "kernels/cpu/decimal_simd.h"
