/* Self-attention by AVX-512: self_attention_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/self_attention_simd.h"
