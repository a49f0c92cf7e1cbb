/* Binary cross-entropy by AVX-512: loss_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/loss_simd.h"
