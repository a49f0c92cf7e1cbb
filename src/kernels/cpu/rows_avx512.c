/* Embedding rows by AVX-512: rows_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/rows_simd.h"
