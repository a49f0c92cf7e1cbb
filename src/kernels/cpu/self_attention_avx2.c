/* Self-attention by AVX2: self_attention_simd.h at this width. */
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/self_attention_simd.h"
