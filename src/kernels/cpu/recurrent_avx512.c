/* A time step of recurrent layers by AVX-512: recurrent_simd.h at this width. */
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/recurrent_simd.h"
