/* Vectors of 8 floats by AVX2 and FMA: the names that the *_simd.h templates are written in; see
 * simd_avx512.h for what each means. */
#ifndef FTH_KERNELS_CPU_SIMD_AVX2_H
#define FTH_KERNELS_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/cpu_kernels.h"

#define FTH_K(name) fth_k_##name##_avx2
#define FTH_INLINE inline __attribute__((always_inline))

enum { VW = 8 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;
typedef __m256i vt;

static FTH_INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
static FTH_INLINE void v_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
static FTH_INLINE vt v_tail(size_t n) {
    static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(lanes + 8 - n));
}
static FTH_INLINE vf v_load_part(const float *p, vt t) { return _mm256_maskload_ps(p, t); }
/* The first n floats, fewer than all, in pieces: AMD's masked stores take some twenty cycles. */
static FTH_INLINE void v_store_first(float *p, uint32_t n, vf v) {
    __m128 piece = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(p, piece);
        piece = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, piece);
        piece = _mm_movehl_ps(piece, piece);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, piece);
}
static FTH_INLINE void v_store_part(float *p, vt t, vf v) {
    uint32_t n = (uint32_t)__builtin_popcount((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(t)));
    if (n == VW)
        v_store(p, v);
    else
        v_store_first(p, n, v);
}
static FTH_INLINE vf v_keep_part(vt t, vf v) { return _mm256_and_ps(_mm256_castsi256_ps(t), v); }

static FTH_INLINE vf v_set(float x) { return _mm256_set1_ps(x); }
static FTH_INLINE vf v_zero(void) { return _mm256_setzero_ps(); }
static FTH_INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static FTH_INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static FTH_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static FTH_INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static FTH_INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static FTH_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static FTH_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static FTH_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static FTH_INLINE vf v_fma_into(vf sum, vf a, vf b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    return sum;
}
static FTH_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
static FTH_INLINE vf v_fms(vf a, vf b, vf c) { return _mm256_fmsub_ps(a, b, c); }
static FTH_INLINE vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT); }

static FTH_INLINE vm v_gt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
static FTH_INLINE vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static FTH_INLINE vm v_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
static FTH_INLINE vm v_nan(vf a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
static FTH_INLINE vm v_not_zero(vf a) { return _mm256_cmp_ps(a, v_zero(), _CMP_NEQ_UQ); }
static FTH_INLINE uint32_t v_bits(vm m) { return (uint32_t)_mm256_movemask_ps(m); }
static FTH_INLINE uint32_t v_count(vm m) { return (uint32_t)__builtin_popcount(v_bits(m)); }
static FTH_INLINE vf v_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }

static FTH_INLINE vf vi_as_floats(vi a) { return _mm256_castsi256_ps(a); }
static FTH_INLINE vi v_as_ints(vf a) { return _mm256_castps_si256(a); }
static FTH_INLINE vm vi_equal(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
static FTH_INLINE vi vi_set(uint32_t x) { return _mm256_set1_epi32((int)x); }
static FTH_INLINE vi vi_load(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static FTH_INLINE vi vi_lanes(void) { return _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0); }
static FTH_INLINE vi vi_quads(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { /* a, b, c, d, a, b, .. */
    return _mm256_broadcastsi128_si256(_mm_set_epi32((int)d, (int)c, (int)b, (int)a));
}
static FTH_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
static FTH_INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
static FTH_INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
static FTH_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static FTH_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
static FTH_INLINE vi vi_shl(vi a, int n) { return _mm256_slli_epi32(a, n); }
static FTH_INLINE vi vi_shr(vi a, int n) { return _mm256_srli_epi32(a, n); }
static FTH_INLINE vi vi_half(vi a) { return _mm256_srai_epi32(a, 1); }
static FTH_INLINE vi v_to_ints(vf a) { return _mm256_cvtps_epi32(a); }
static FTH_INLINE vf vi_to_floats(vi a) { return _mm256_cvtepi32_ps(a); }
static FTH_INLINE vi vi_mul_even(vi a, vi b) { return _mm256_mul_epu32(a, b); }
static FTH_INLINE vi vi_odd_to_even(vi a) { return _mm256_srli_epi64(a, 32); }
static FTH_INLINE vi vi_even_to_odd(vi a) { return _mm256_slli_epi64(a, 32); }
static FTH_INLINE vi vi_swap_pairs(vi a) { return _mm256_shuffle_epi32(a, 0x4e); } /* 2, 3, 0, 1, .. */
static FTH_INLINE vi vi_even_odd(vi even, vi odd) { return _mm256_blend_epi32(even, odd, 0xaa); }
static FTH_INLINE vf v_permute(vi lanes, vf v) { return _mm256_permutevar8x32_ps(v, lanes); }
static FTH_INLINE vm v_of_bits(uint32_t bits) {
    vi bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return vi_equal(vi_and(vi_set(bits), bit), bit);
}

static FTH_INLINE float v_sum(vf v) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
}

static FTH_INLINE float v_largest(vf v) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_shuffle_ps(half, half, 1)));
}

static FTH_INLINE vf v_group(int pack, const float *p) {
    double two;
    if (pack == 4)
        return _mm256_set_m128(_mm_loadu_ps(p), _mm_loadu_ps(p));
    memcpy(&two, p, sizeof two);
    return _mm256_castpd_ps(_mm256_set1_pd(two));
}
static FTH_INLINE vf v_add_groups(int pack, vf v) {
    v = v_add(v, _mm256_permute_ps(v, 0xb1));
    if (pack == 2)
        return v_permute(vi_shl(vi_lanes(), 1), v); /* lanes modulo 8 */
    v = v_add(v, _mm256_permute_ps(v, 0x4e));
    return v_permute(vi_shl(vi_lanes(), 2), v);
}

typedef __m256d vd;
static FTH_INLINE vd vd_zero(void) { return _mm256_setzero_pd(); }
static FTH_INLINE vd vd_add(vd a, vd b) { return _mm256_add_pd(a, b); }
static FTH_INLINE vd vd_square_low(vd sum, vf v) {
    vd x = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    return _mm256_fmadd_pd(x, x, sum);
}
static FTH_INLINE vd vd_square_high(vd sum, vf v) {
    vd x = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    return _mm256_fmadd_pd(x, x, sum);
}
static FTH_INLINE double vd_sum(vd v) {
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

static FTH_INLINE void v_turn(vf r[VW]) {
    vf t[VW];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}

/* For each mask the places of its bits, four bits each, in order: a table, as instructions that pick bits are slow on
 * Zen 2. */
#define V_BIT(mask, i) ((mask) >> (i) & 1u)
#define V_PUT(mask, i, others) (V_BIT(mask, i) * (i) | (others) << 4 * V_BIT(mask, i))
#define V_HIGH(mask) V_PUT(mask, 4u, V_PUT(mask, 5u, V_PUT(mask, 6u, V_PUT(mask, 7u, 0u))))
#define V_PLACES(mask) V_PUT(mask, 0u, V_PUT(mask, 1u, V_PUT(mask, 2u, V_PUT(mask, 3u, V_HIGH(mask)))))
#define V_FOUR(m) V_PLACES(m), V_PLACES((m) + 1u), V_PLACES((m) + 2u), V_PLACES((m) + 3u)
#define V_SIXTEEN(m) V_FOUR(m), V_FOUR((m) + 4u), V_FOUR((m) + 8u), V_FOUR((m) + 12u)
#define V_SIXTY_FOUR(m) V_SIXTEEN(m), V_SIXTEEN((m) + 16u), V_SIXTEEN((m) + 32u), V_SIXTEEN((m) + 48u)
static const uint32_t v_places[256] = {V_SIXTY_FOUR(0u), V_SIXTY_FOUR(64u), V_SIXTY_FOUR(128u), V_SIXTY_FOUR(192u)};
#undef V_BIT
#undef V_PUT
#undef V_HIGH
#undef V_PLACES
#undef V_FOUR
#undef V_SIXTEEN
#undef V_SIXTY_FOUR

/* Of a mask the places of its bits, in order; those behind them are any. */
static FTH_INLINE vi vi_places(uint32_t mask) {
    vi places = _mm256_srlv_epi32(vi_set(v_places[mask]), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    return vi_and(places, vi_set(7));
}

static FTH_INLINE uint32_t v_pack(vf x, uint32_t first, float *values, uint32_t *places) {
    uint32_t there = v_bits(v_not_zero(x));
    vi lanes = vi_places(there);
    v_store(values, v_permute(lanes, x));
    _mm256_storeu_si256((__m256i *)(void *)places, vi_add(lanes, vi_set(first)));
    return (uint32_t)__builtin_popcount(there);
}

#endif
