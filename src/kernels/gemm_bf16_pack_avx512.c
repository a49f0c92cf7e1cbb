/* Rounding fp32 matrices to bf16 into the layouts of gemm_bf16.c. Plain loops: the file's flags let
 * the compiler vectorise them; they run only where the CPU has AVX512-BF16. Two bf16 neighbours
 * along k are handled as one 32-bit word, the first in its low half. Threads: pure functions. */
#include "kernels/gemm_private.h"

#define SIDE 16u /* words of a block that is turned at a time */

/* fth_bf16_from_float without its memcpy and narrow types, which hinder vectorising. */
static inline uint32_t rounded(uint32_t bits) {
    uint32_t nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    uint32_t quiet = bits | 0x400000u;
    return (bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest;
}

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline uint32_t pair(float low, float high) {
    return rounded(bits_of(low)) >> 16 | (rounded(bits_of(high)) & 0xffff0000u);
}

void fth_bf16_pack_plain(uint32_t rows, uint32_t k, uint32_t k_padded, const float *x, size_t ldx,
                         uint16_t *out, size_t ldo) {
    for (uint32_t i = 0; i < rows; i++) {
        const float *restrict from = x + i * ldx;
        uint16_t *restrict to = out + i * ldo;
        for (uint32_t p = 0; p < k; p++)
            to[p] = (uint16_t)(rounded(bits_of(from[p])) >> 16);
        for (uint32_t p = k; p < k_padded; p++)
            to[p] = 0;
    }
}

/* words[j] = (x[p][j], x[p + 1][j]), zero where p is not below k. */
static void pair_rows(uint32_t p, uint32_t k, uint32_t n, const float *x, size_t ldx,
                      uint32_t *restrict words) {
    const float *restrict first = x + p * ldx;
    if (p + 1 < k) {
        const float *restrict second = first + ldx;
        for (uint32_t j = 0; j < n; j++)
            words[j] = pair(first[j], second[j]);
    } else if (p < k) {
        for (uint32_t j = 0; j < n; j++)
            words[j] = pair(first[j], 0.0f);
    } else {
        memset(words, 0, n * sizeof *words);
    }
}

void fth_bf16_pack_pairs(uint32_t k, uint32_t k_padded, uint32_t n, const float *x, size_t ldx,
                         uint32_t *out) {
    for (uint32_t p = 0; p < k_padded; p += 2)
        pair_rows(p, k, n, x, ldx, out + (size_t)p / 2 * n);
}

void fth_bf16_pack_transposed(uint32_t rows, uint32_t k, uint32_t k_padded, const float *x,
                              size_t ldx, uint32_t *out, size_t ldo) {
    uint32_t words[SIDE][SIDE];
    for (uint32_t q0 = 0; q0 < k_padded / 2; q0 += SIDE) {
        uint32_t qs = k_padded / 2 - q0 < SIDE ? k_padded / 2 - q0 : SIDE;
        for (uint32_t i0 = 0; i0 < rows; i0 += SIDE) {
            uint32_t is = rows - i0 < SIDE ? rows - i0 : SIDE;
            for (uint32_t q = 0; q < qs; q++)
                pair_rows(2 * (q0 + q), k, is, x + i0, ldx, words[q]);
            for (uint32_t i = 0; i < is; i++)
                for (uint32_t q = 0; q < qs; q++)
                    out[(i0 + i) * ldo + q0 + q] = words[q][i];
        }
    }
}

void fth_bf16_pack_pairs_transposed(uint32_t k, uint32_t k_padded, uint32_t n, const float *x,
                                    size_t ldx, uint32_t *out) {
    uint32_t words[SIDE][SIDE];
    for (uint32_t j0 = 0; j0 < n; j0 += SIDE) {
        uint32_t js = n - j0 < SIDE ? n - j0 : SIDE;
        for (uint32_t q0 = 0; q0 < k_padded / 2; q0 += SIDE) {
            uint32_t qs = k_padded / 2 - q0 < SIDE ? k_padded / 2 - q0 : SIDE;
            for (uint32_t j = 0; j < js; j++)
                for (uint32_t q = 0; q < qs; q++) {
                    const float *from = x + (j0 + j) * ldx + 2 * (q0 + q);
                    words[j][q] = pair(from[0], 2 * (q0 + q) + 1 < k ? from[1] : 0.0f);
                }
            for (uint32_t q = 0; q < qs; q++)
                for (uint32_t j = 0; j < js; j++)
                    out[(size_t)(q0 + q) * n + j0 + j] = words[j][q];
        }
    }
}
