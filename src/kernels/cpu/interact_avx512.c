/* Interactions of vectors by AVX-512: interact_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/interact_simd.h"
