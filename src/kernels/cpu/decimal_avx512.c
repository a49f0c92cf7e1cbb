/* Short decimal texts in the AVX-512 table: decimal_simd.h, at half this width. */
#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/decimal_simd.h"
