/* Short decimal texts to numbers without branches: one to eight bytes of digits, perhaps with a minus in
 * front and a point among them, at the end a digit, as most numbers in lists are ("3.50", "12", "-0.25").
 *
 * digits / 10^places in float is what fth_number_parse gives: with a point there are at most seven digits, so both are
 * exact and the division rounds once; eight are rounded once when they become a float. Pure. The vector forms
 * (kernels.def: decimals) do the same to several texts at a time. */
#ifndef FTH_KERNELS_DECIMAL_H
#define FTH_KERNELS_DECIMAL_H

#include <stdint.h>

struct fth_decimal {
    uint32_t digits; /* as a whole number */
    uint32_t places; /* how many of them stand behind the point */
    uint32_t sign;   /* 0x80000000 behind a minus: the float's bit */
};

/* `word`: eight bytes from the text's first on, as they lie in memory. 0 when the text is such a number;
 * else *out means nothing. Length 0 is no number. */
static inline uint64_t fth_decimal_parse(uint64_t word, uint32_t length, struct fth_decimal *out) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t ones = 0x0101010101010101ull, high = 0x8080808080808080ull;
    uint32_t minus = (((uint32_t)(word & 0xff) ^ '-') - 1) >> 31;
    uint32_t shift = (0 - 8 * length) & 63;
    /* Digits become 0 to 9, the point 0x1e, a minus 0; the last byte goes to the top, zeros in front. */
    word ^= 0x30 * ones;
    word = (word & ~((uint64_t)0xff & (0 - (uint64_t)minus))) << shift;
    uint64_t x = word ^ 0x1e * ones;
    uint64_t point = ~(((x & ~high) + ~high) | x) & high; /* the high bits of bytes that are points */
    uint64_t bit = point >> 7, present = 0 - (uint64_t)(point != 0);
    uint64_t below = (bit - 1) & present; /* what stands in front of the point moves up into its place */
    uint64_t above = ~(below | (bit * 0xff)) | ~present;
    word = (word & above) | (word & below) << 8;
    uint64_t count = length - minus - (point != 0); /* of digits */
    uint64_t other = (((word + 0x76 * ones) | word) & high) | (point & (point - 1)) | point >> 63 |
                     ((count - 1) & ~(uint64_t)7) | ((uint64_t)(length - 1) & ~(uint64_t)7);
    out->places = (uint32_t)(__builtin_clzll(point | 1) >> 3) & (uint32_t)present;
    out->sign = minus << 31;
    /* Neighbours are added up: pairs, fours, all eight. */
    word = word * 10 + (word >> 8);
    word = ((word & 0x000000ff000000ff) * 0x000f424000000064 +
            (word >> 16 & 0x000000ff000000ff) * 0x0000271000000001) >> 32;
    out->digits = (uint32_t)word;
    return other;
#else
    *out = (struct fth_decimal){0};
    return 1;
#endif
}

#endif
