/* Interactions of vectors by AVX2: interact_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/interact_simd.h"
