/* Decimal text to float. Three ways, each exact: digits and powers of ten that floats hold without
 * rounding (one rounding by one operation), the same in doubles where the result cannot sit on a tie
 * between two floats, and strtof on a bounded copy of the significant digits for the rest. */
#include "base/number.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* More digits than any tie between two neighbouring floats has (113), so that what follows matters
 * only by being zero or not. */
#define KEPT_DIGITS 160

static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* What the scan found: value = digits * 10^exponent. */
struct scan {
    int negative;
    uint64_t mantissa;     /* of all digits, when at most 19 are significant */
    uint64_t significant;  /* digits from the first one that is not zero */
    int64_t exponent;
    const char *first, *end; /* the digits and the point */
};

static inline int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

static int scan_number(const char *bytes, size_t length, struct scan *s) {
    const char *p = bytes, *end = bytes + length;
    int digits = 0, point = 0;
    memset(s, 0, sizeof *s);
    if (p < end && (*p == '-' || *p == '+'))
        s->negative = *p++ == '-';
    s->first = p;
    for (; p < end; p++) {
        if (is_digit(*p)) {
            digits = 1;
            s->exponent -= point;
            if (s->significant || *p != '0') {
                s->significant++;
                if (s->significant <= 19)
                    s->mantissa = s->mantissa * 10 + (uint64_t)(*p - '0');
            }
        } else if (*p == '.' && !point) {
            point = 1;
        } else {
            break;
        }
    }
    s->end = p;
    if (!digits)
        return 0;
    if (p < end) {
        if (*p != 'e' && *p != 'E')
            return 0;
        p++;
        int minus = 0;
        if (p < end && (*p == '-' || *p == '+'))
            minus = *p++ == '-';
        if (p == end)
            return 0;
        int64_t e = 0;
        for (; p < end; p++) {
            if (!is_digit(*p))
                return 0;
            /* Past this no number of digits in memory brings the value back into range. */
            if (e < (int64_t)1 << 50)
                e = e * 10 + (*p - '0');
        }
        s->exponent += minus ? -e : e;
    }
    return 1;
}

/* The general way: the significant digits, shortened, with their exponent, to the C library. */
static enum fth_number parse_long(const struct scan *s, float *out) {
    char copy[KEPT_DIGITS + 48];
    size_t n = 0;
    uint64_t seen = 0;
    int64_t exponent = s->exponent;
    int rest = 0;
    for (const char *p = s->first; p < s->end; p++) {
        if (*p == '.' || (seen == 0 && *p == '0'))
            continue;
        seen++;
        if (n < KEPT_DIGITS) {
            copy[n++] = *p;
        } else {
            exponent++;
            rest |= *p != '0';
        }
    }
    if (rest) {
        copy[n++] = '1';
        exponent--;
    }
    /* Past these bounds the value is infinite or zero whatever the digits are. */
    if (exponent > 1000)
        exponent = 1000;
    if (exponent < -1000)
        exponent = -1000;
    snprintf(copy + n, sizeof copy - n, "e%d", (int)exponent);
    locale_t locale = fth_c_locale();
    float value = locale ? strtof_l(copy, NULL, locale) : strtof(copy, NULL);
    if (isinf(value))
        return FTH_NUMBER_TOO_LARGE;
    *out = s->negative ? -value : value;
    return FTH_NUMBER_OK;
}

enum fth_number fth_number_parse(const char *bytes, size_t length, float *out) {
    struct scan s;
    if (length <= 7 && length > 0) { /* short integers: most cells */
        uint32_t v = 0;
        size_t i = bytes[0] == '-' && length > 1;
        for (; i < length && is_digit(bytes[i]); i++)
            v = v * 10 + (uint32_t)(bytes[i] - '0');
        if (i == length) {
            *out = bytes[0] == '-' ? -(float)v : (float)v;
            return FTH_NUMBER_OK;
        }
    }
    if (!scan_number(bytes, length, &s))
        return FTH_NUMBER_MALFORMED;
    if (s.significant == 0) {
        *out = s.negative ? -0.0f : 0.0f;
        return FTH_NUMBER_OK;
    }
    if (s.significant <= 19 && s.mantissa < (uint64_t)1 << 53 && s.exponent >= -22 &&
        s.exponent <= 22) {
        double d = (double)s.mantissa;
        d = s.exponent < 0 ? d / powers_of_ten[-s.exponent] : d * powers_of_ten[s.exponent];
        /* d is the nearest double. Rounding it again to float is right unless it looks like a tie
         * between two floats (the 29 dropped bits are 100..0) or the float is not a normal one. */
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        if ((bits & 0x1fffffff) != 0x10000000 && d >= 0x1p-125 && d < 0x1p127) {
            *out = s.negative ? -(float)d : (float)d;
            return FTH_NUMBER_OK;
        }
    }
    return parse_long(&s, out);
}
