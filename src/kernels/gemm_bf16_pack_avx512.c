/* Rounding fp32 matrices to bf16 into the layouts of gemm_bf16.c. Plain loops: the file's flags let the
 * compiler vectorise them; they run only where the CPU has AVX512-BF16. Threads: pure functions. */
#include "kernels/gemm_private.h"

void fth_bf16_pack_plain(uint32_t rows, uint32_t k, uint32_t k_padded, const float *x, size_t ldx,
                         uint16_t *out, size_t ldo) {
    for (uint32_t i = 0; i < rows; i++) {
        const float *restrict from = x + i * ldx;
        uint16_t *restrict to = out + i * ldo;
        for (uint32_t p = 0; p < k; p++)
            to[p] = fth_bf16_from_float(from[p]);
        for (uint32_t p = k; p < k_padded; p++)
            to[p] = 0;
    }
}

void fth_bf16_pack_transposed(uint32_t rows, uint32_t k, uint32_t k_padded, const float *x, size_t ldx,
                              uint16_t *out, size_t ldo) {
    /* 32 source rows at a time: their lines stay in L1 while the columns go past. */
    for (uint32_t p0 = 0; p0 < k; p0 += 32) {
        uint32_t p1 = k - p0 < 32 ? k : p0 + 32;
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t p = p0; p < p1; p++)
                out[i * ldo + p] = fth_bf16_from_float(x[p * ldx + i]);
    }
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t p = k; p < k_padded; p++)
            out[i * ldo + p] = 0;
}

void fth_bf16_pack_pairs(uint32_t k, uint32_t k_padded, uint32_t n, const float *x, size_t ldx,
                         uint16_t *out) {
    for (uint32_t p = 0; p < k_padded; p += 2) {
        const float *restrict first = x + p * ldx;
        uint16_t *restrict to = out + (size_t)p * n;
        if (p + 1 < k) {
            const float *restrict second = first + ldx;
            for (uint32_t j = 0; j < n; j++) {
                to[2 * j] = fth_bf16_from_float(first[j]);
                to[2 * j + 1] = fth_bf16_from_float(second[j]);
            }
        } else {
            for (uint32_t j = 0; j < n; j++) {
                to[2 * j] = p < k ? fth_bf16_from_float(first[j]) : 0;
                to[2 * j + 1] = 0;
            }
        }
    }
}

void fth_bf16_pack_pairs_transposed(uint32_t k, uint32_t k_padded, uint32_t n, const float *x,
                                    size_t ldx, uint16_t *out) {
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t p = 0; p < k_padded; p++)
            out[(size_t)(p / 2) * 2 * n + 2 * j + p % 2] =
                p < k ? fth_bf16_from_float(x[j * ldx + p]) : 0;
}
