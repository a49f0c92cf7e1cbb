/* An attention unit's first layer by AVX2: attention_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/attention_simd.h"
