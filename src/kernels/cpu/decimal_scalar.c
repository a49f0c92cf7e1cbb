/* Short decimal texts to floats, plain: the reference of decimal_avx2.c and decimal_avx512.c. */
#include <string.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/decimal.h"

void fth_k_decimals_scalar(size_t n, const uint64_t *words, const uint32_t *lengths, float *out,
                           uint8_t *other) {
    static const double powers_of_ten[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};
    for (size_t i = 0; i < n; i++) {
        struct fth_decimal decimal;
        other[i] = fth_decimal_parse(words[i], lengths[i], &decimal) != 0;
        float value = (float)((double)(int32_t)decimal.digits / powers_of_ten[decimal.places]);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits |= decimal.sign;
        memcpy(&out[i], &bits, sizeof bits);
    }
}
