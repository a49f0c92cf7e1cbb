/* Ragged rows by AVX-512: segment_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/segment_simd.h"
