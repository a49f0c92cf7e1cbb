/* Binary cross-entropy by AVX2: loss_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/loss_simd.h"
