/* Vectors of 16 floats by AVX-512 (F, BW, DQ, VL): the names that the *_simd.h templates are
 * written in. simd_avx2.h gives the same names for 8 floats.
 *
 * vf floats, vi 32-bit integers, vm a comparison's lanes, vt the first lanes of a vector (a tail).
 * Partial loads give 0 in the other lanes; partial loads and stores touch no byte outside the tail.
 */
#ifndef FTH_KERNELS_CPU_SIMD_AVX512_H
#define FTH_KERNELS_CPU_SIMD_AVX512_H

#ifdef FTH_SIMDE
#include "simde_avx512.h" /* tests: the same code emulated, see tests/simde */
#include "simde_kernels.h"
#define FTH_K(name) fth_k_##name##_simde
#else
#include <immintrin.h>
#define FTH_K(name) fth_k_##name##_avx512
#endif

#include <string.h>

#include "kernels/cpu/cpu_kernels.h"

#define FTH_INLINE inline __attribute__((always_inline))

enum { VW = 16 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __mmask16 vt;

static FTH_INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
static FTH_INLINE void v_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
/* The first n lanes, 0 <= n <= VW. */
static FTH_INLINE vt v_tail(size_t n) { return (__mmask16)((1u << n) - 1); }
static FTH_INLINE vf v_load_part(const float *p, vt t) { return _mm512_maskz_loadu_ps(t, p); }
static FTH_INLINE void v_store_part(float *p, vt t, vf v) { _mm512_mask_storeu_ps(p, t, v); }
static FTH_INLINE vf v_keep_part(vt t, vf v) { return _mm512_maskz_mov_ps(t, v); }

static FTH_INLINE vf v_set(float x) { return _mm512_set1_ps(x); }
static FTH_INLINE vf v_zero(void) { return _mm512_setzero_ps(); }
static FTH_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static FTH_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static FTH_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static FTH_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static FTH_INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
/* b where either is NaN */
static FTH_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static FTH_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static FTH_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a b + c */
/* The same where a sum is to stay in its register: GCC moves sums about in unrolled loops, and spills some by AVX2. */
static FTH_INLINE vf v_fma_into(vf sum, vf a, vf b) { return _mm512_fmadd_ps(a, b, sum); }
static FTH_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a b */
static FTH_INLINE vf v_fms(vf a, vf b, vf c) { return _mm512_fmsub_ps(a, b, c); }   /* a b - c */
static FTH_INLINE vf v_round(vf a) { return _mm512_roundscale_ps(a, 0); } /* to nearest even */

static FTH_INLINE vm v_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static FTH_INLINE vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static FTH_INLINE vm v_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static FTH_INLINE vm v_nan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
static FTH_INLINE vm v_not_zero(vf a) { return _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ); }
/* A mask as a number. By hand: GCC 12 may write its two bytes to the stack and read four there. */
static FTH_INLINE uint32_t v_bits(vm m) {
#ifdef FTH_SIMDE
    uint32_t bits = m;
#else
    uint32_t bits;
    __asm__("kmovw %1, %0" : "=r"(bits) : "k"(m));
#endif
    return bits;
}
/* How many lanes. */
static FTH_INLINE uint32_t v_count(vm m) { return (uint32_t)__builtin_popcount(v_bits(m)); }
static FTH_INLINE vf v_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }

static FTH_INLINE vf vi_as_floats(vi a) { return _mm512_castsi512_ps(a); }
static FTH_INLINE vi v_as_ints(vf a) { return _mm512_castps_si512(a); }
static FTH_INLINE vm vi_equal(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
static FTH_INLINE vi vi_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
static FTH_INLINE vi vi_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
static FTH_INLINE vi vi_lanes(void) { /* 0, 1, 2, .. */
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}
static FTH_INLINE vi vi_quads(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { /* a, b, c, d, a, b, .. */
    return _mm512_broadcast_i32x4(_mm_set_epi32((int)d, (int)c, (int)b, (int)a));
}
static FTH_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static FTH_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
static FTH_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
static FTH_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static FTH_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static FTH_INLINE vi vi_shl(vi a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
static FTH_INLINE vi vi_shr(vi a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
static FTH_INLINE vi vi_half(vi a) { return _mm512_srai_epi32(a, 1); } /* signed a >> 1 */
static FTH_INLINE vi v_to_ints(vf a) { return _mm512_cvtps_epi32(a); }
static FTH_INLINE vf vi_to_floats(vi a) { return _mm512_cvtepi32_ps(a); }
/* 64-bit products of the even lanes, and what moves odd lanes to even ones and back. */
static FTH_INLINE vi vi_mul_even(vi a, vi b) { return _mm512_mul_epu32(a, b); }
static FTH_INLINE vi vi_odd_to_even(vi a) { return _mm512_srli_epi64(a, 32); }
static FTH_INLINE vi vi_even_to_odd(vi a) { return _mm512_slli_epi64(a, 32); }
static FTH_INLINE vi vi_swap_pairs(vi a) { return _mm512_shuffle_epi32(a, _MM_PERM_BADC); } /* 2, 3, 0, 1, .. */
static FTH_INLINE vi vi_even_odd(vi even, vi odd) {
    return _mm512_mask_blend_epi32(0xaaaa, even, odd);
}
/* Lane i is lane lanes[i] of v, modulo VW. */
static FTH_INLINE vf v_permute(vi lanes, vf v) { return _mm512_permutexvar_ps(lanes, v); }
/* The other way round than v_bits. */
static FTH_INLINE vm v_of_bits(uint32_t bits) { return (vm)bits; }

/* The sum of a vector's lanes, always in the same order. */
static FTH_INLINE float v_sum(vf v) {
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v),
                                _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
    __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1)));
}

/* The largest of a vector's lanes. */
static FTH_INLINE float v_largest(vf v) {
    __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v),
                                _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
    __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_max_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1)));
}

/* p[0 .. pack) again and again; pack is 2 or 4. */
static FTH_INLINE vf v_group(int pack, const float *p) {
    double two;
    if (pack == 4)
        return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
    memcpy(&two, p, sizeof two);
    return _mm512_castpd_ps(_mm512_set1_pd(two));
}
/* In the first lanes the sums of `pack` lanes each. */
static FTH_INLINE vf v_add_groups(int pack, vf v) {
    v = v_add(v, vi_as_floats(_mm512_shuffle_epi32(v_as_ints(v), _MM_PERM_CDAB)));
    if (pack == 2)
        return v_permute(vi_shl(vi_lanes(), 1), v); /* lanes modulo 16 */
    v = v_add(v, vi_as_floats(vi_swap_pairs(v_as_ints(v))));
    return v_permute(vi_shl(vi_lanes(), 2), v);
}

/* Half a vector. */
typedef __m256 vh;
static FTH_INLINE vh vh_load(const float *p) { return _mm256_loadu_ps(p); }
static FTH_INLINE void vh_store(float *p, vh v) { _mm256_storeu_ps(p, v); }
static FTH_INLINE vh vh_of(vf a) { return _mm512_castps512_ps256(a); }

/* Sums of squares in double: vd holds VW / 2 of them. */
typedef __m512d vd;
static FTH_INLINE vd vd_zero(void) { return _mm512_setzero_pd(); }
static FTH_INLINE vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
static FTH_INLINE vd vd_square_low(vd sum, vf v) {
    vd x = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    return _mm512_fmadd_pd(x, x, sum);
}
static FTH_INLINE vd vd_square_high(vd sum, vf v) {
    vd x = _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
    return _mm512_fmadd_pd(x, x, sum);
}
static FTH_INLINE double vd_sum(vd v) {
    __m256d half = _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
    __m128d quarter = _mm_add_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1));
    return _mm_cvtsd_f64(_mm_add_sd(quarter, _mm_unpackhi_pd(quarter, quarter)));
}

static FTH_INLINE __m512d vd_of(vf x) { return _mm512_castps_pd(x); }
static FTH_INLINE vf vd_low(vf a, vf b) { return _mm512_castpd_ps(_mm512_unpacklo_pd(vd_of(a), vd_of(b))); }
static FTH_INLINE vf vd_high(vf a, vf b) { return _mm512_castpd_ps(_mm512_unpackhi_pd(vd_of(a), vd_of(b))); }

/* VW vectors, transposed. */
static FTH_INLINE void v_turn(vf r[VW]) {
    vf t[VW];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = vd_low(t[i], t[i + 2]);
        r[i + 1] = vd_high(t[i], t[i + 2]);
        r[i + 2] = vd_low(t[i + 1], t[i + 3]);
        r[i + 3] = vd_high(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* Elements that are no zeros (NaN counts), and their places, which go up by one from `first`, side by side; whole vectors
 * are written. Returns how many they are. */
static FTH_INLINE uint32_t v_pack(vf x, uint32_t first, float *values, uint32_t *places) {
    vm there = v_not_zero(x);
    v_store(values, _mm512_maskz_compress_ps(there, x));
    _mm512_storeu_si512(places, _mm512_maskz_compress_epi32(there, vi_add(vi_lanes(), vi_set(first))));
    return v_count(there);
}

#endif
