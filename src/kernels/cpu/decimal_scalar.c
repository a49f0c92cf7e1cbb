/* Short decimal texts to floats, plain: the reference of decimal_avx2.c and decimal_avx512.c. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/decimal.h"

static inline uint8_t decimal(uint64_t word, uint32_t length, float *out) {
    static const float powers_of_ten[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f};
    struct fth_decimal decimal;
    uint8_t other = fth_decimal_parse(word, length, &decimal) != 0;
    float value = (float)(int32_t)decimal.digits / powers_of_ten[decimal.places];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits |= decimal.sign;
    memcpy(out, &bits, sizeof bits);
    return other;
}

void fth_k_decimals_scalar(size_t n, const uint64_t *words, const uint32_t *lengths, float *out,
                           uint8_t *other) {
    for (size_t i = 0; i < n; i++)
        other[i] = decimal(words[i], lengths[i], &out[i]) & (lengths[i] != 0);
}

int fth_k_decimal_list_scalar(size_t n, const char *text, const uint32_t *begins, const uint32_t *ends, float *out,
                               uint8_t *other) {
    int any = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t word;
        memcpy(&word, text + begins[i], sizeof word);
        any |= other[i] = decimal(word, ends[i] - begins[i], &out[i]);
    }
    return any;
}

void fth_k_list_sums_scalar(size_t n, const uint32_t *lengths, const float *x, double *sums) {
    for (size_t i = 0; i < n; i++) {
        sums[i] = 0;
        for (const float *end = x + lengths[i]; x < end; x++)
            sums[i] += (double)*x;
    }
}

void fth_k_or_absent_scalar(size_t n, const uint32_t *lengths, float absent, float *x) {
    uint32_t bits, instead;
    memcpy(&instead, &absent, sizeof instead);
    for (size_t i = 0; i < n; i++) {
        uint32_t present = 0 - (uint32_t)(lengths[i] != 0);
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits & present) | (instead & ~present);
        memcpy(&x[i], &bits, sizeof bits);
    }
}

void fth_k_look_up_whole_scalar(size_t n, const float *table, uint32_t size, float *x, uint8_t *other) {
    const float last = (float)(size - 1);
    for (size_t i = 0; i < n; i++) {
        float magnitude = fabsf(x[i]);
        int32_t whole = (int32_t)(magnitude < last ? magnitude : last); /* fminf would be a call */
        other[i] = (float)whole != magnitude;
        x[i] = other[i] ? x[i] : copysignf(table[whole], x[i]);
    }
}
