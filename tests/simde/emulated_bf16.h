/* The intrinsics of gemm_bf16_avx512bf16.c and gemm_bf16_amx.c as plain code, for machines without
 * AVX512-BF16 or AMX: types and functions under the names of immintrin.h, which must not be included. Only
 * tests include it. What the two instructions that multiply do is taken from Intel's manual; subnormal
 * numbers are not taken as 0 here. */
#ifndef FTH_TEST_EMULATED_BF16_H
#define FTH_TEST_EMULATED_BF16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    float f[16];
} __m512;
typedef struct {
    uint32_t w[16];
} __m512i;
typedef __m512i __m512bh;
typedef uint16_t __mmask16;

static inline uint16_t emulated_round(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline float emulated_low(uint32_t word) {
    float x;
    memcpy(&x, &(uint32_t){word << 16}, 4);
    return x;
}
static inline float emulated_high(uint32_t word) {
    return emulated_low(word >> 16);
}

static inline __m512 _mm512_setzero_ps(void) {
    return (__m512){{0}};
}
static inline __m512i _mm512_set1_epi32(int x) {
    __m512i out;
    for (int i = 0; i < 16; i++)
        out.w[i] = (uint32_t)x;
    return out;
}
static inline __m512 _mm512_loadu_ps(const void *from) {
    __m512 out;
    memcpy(&out, from, 64);
    return out;
}
static inline __m512i _mm512_loadu_si512(const void *from) {
    __m512i out;
    memcpy(&out, from, 64);
    return out;
}
static inline void _mm512_storeu_si512(void *to, __m512i x) {
    memcpy(to, &x, 64);
}
static inline __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const float *from) {
    __m512 out = {{0}};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            out.f[i] = from[i];
    return out;
}
/* Not less or equal, or unordered: the one that is asked for. */
#define _CMP_NLE_UQ 0x16
static inline __mmask16 _mm512_cmp_ps_mask(__m512 x, __m512 y, int predicate) {
    uint32_t mask = 0;
    for (int i = 0; i < 16; i++)
        mask |= (uint32_t)!(x.f[i] <= y.f[i]) << i;
    return predicate == _CMP_NLE_UQ ? (__mmask16)mask : 0;
}
static inline void _mm512_storeu_ps(void *to, __m512 x) {
    memcpy(to, &x, 64);
}
static inline void _mm512_mask_storeu_ps(float *to, __mmask16 mask, __m512 x) {
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            to[i] = x.f[i];
}
static inline void _mm512_mask_storeu_epi32(uint32_t *to, __mmask16 mask, __m512i x) {
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            to[i] = x.w[i];
}
static inline __m512 _mm512_add_ps(__m512 x, __m512 y) {
    for (int i = 0; i < 16; i++)
        x.f[i] += y.f[i];
    return x;
}
/* Where they do not compare, y. */
static inline __m512 _mm512_max_ps(__m512 x, __m512 y) {
    for (int i = 0; i < 16; i++)
        y.f[i] = x.f[i] > y.f[i] ? x.f[i] : y.f[i];
    return y;
}
static inline __m512 _mm512_sub_ps(__m512 x, __m512 y) {
    for (int i = 0; i < 16; i++)
        x.f[i] -= y.f[i];
    return x;
}
/* Lower half of lanes from y, upper half from x. */
static inline __m512bh _mm512_cvtne2ps_pbh(__m512 x, __m512 y) {
    uint16_t halves[32];
    for (int i = 0; i < 16; i++)
        halves[i] = emulated_round(y.f[i]), halves[16 + i] = emulated_round(x.f[i]);
    return _mm512_loadu_si512(halves);
}
static inline __m512i _mm512_permutexvar_epi16(__m512i order, __m512i x) {
    uint16_t from[32], at[32], to[32];
    memcpy(from, &x, 64);
    memcpy(at, &order, 64);
    for (int i = 0; i < 32; i++)
        to[i] = from[at[i] % 32];
    return _mm512_loadu_si512(to);
}
/* Four lanes of 128 bits: two of x and two of y, two bits of `order` each. */
static inline __m512i _mm512_shuffle_i64x2(__m512i x, __m512i y, int order) {
    __m512i out;
    for (int i = 0; i < 4; i++)
        memcpy(out.w + 4 * i, (i < 2 ? x : y).w + 4 * (order >> 2 * i & 3), 16);
    return out;
}
/* The even and odd halves, and the lower and upper 16, as floats. */
static inline __m512 emulated_pick(__m512i x, int first, int step) {
    uint16_t halves[32];
    __m512 out;
    memcpy(halves, &x, 64);
    for (int i = 0; i < 16; i++)
        out.f[i] = emulated_low(halves[first + step * i]);
    return out;
}
static inline __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh x, __m512bh y) {
    for (int i = 0; i < 16; i++) {
        sum.f[i] = fmaf(emulated_high(x.w[i]), emulated_high(y.w[i]), sum.f[i]);
        sum.f[i] = fmaf(emulated_low(x.w[i]), emulated_low(y.w[i]), sum.f[i]);
    }
    return sum;
}

/* ---- tiles, all of 16 rows of 64 bytes ---- */
static _Thread_local uint32_t emulated_tiles[8][16][16];
static _Thread_local int emulated_configured;

static inline void _tile_loadconfig(const void *config) {
    const uint8_t *bytes = config;
    emulated_configured = bytes[0] == 1 && bytes[16] == 64 && bytes[48] == 16 && bytes[48 + 7] == 16;
}
static inline void _tile_release(void) {
    emulated_configured = 0;
    memset(emulated_tiles, 0xff, sizeof emulated_tiles);
}
static inline void _tile_zero(int tile) {
    memset(emulated_tiles[tile], emulated_configured ? 0 : 0xff, sizeof emulated_tiles[tile]);
}
static inline void _tile_loadd(int tile, const void *from, long stride) {
    for (int r = 0; r < 16; r++)
        memcpy(emulated_tiles[tile][r], (const char *)from + r * stride, 64);
}
static inline void _tile_stream_loadd(int tile, const void *from, long stride) {
    _tile_loadd(tile, from, stride);
}
static inline void _tile_stored(int tile, void *to, long stride) {
    for (int r = 0; r < 16; r++)
        memcpy((char *)to + r * stride, emulated_tiles[tile][r], 64);
}
static inline void _tile_dpbf16ps(int to, int x, int y) {
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float even = 0, odd = 0, sum;
            for (int k = 0; k < 16; k++) {
                uint32_t a = emulated_tiles[x][m][k], b = emulated_tiles[y][k][n];
                even = fmaf(emulated_low(a), emulated_low(b), even);
                odd = fmaf(emulated_high(a), emulated_high(b), odd);
            }
            memcpy(&sum, &emulated_tiles[to][m][n], 4);
            sum += even + odd;
            memcpy(&emulated_tiles[to][m][n], &sum, 4);
        }
}

#endif
