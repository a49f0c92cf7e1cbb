/* Text tools: see base/text.h. Stateless apart from the growing string its owner holds; any thread. */
#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- growing string ---- */

static int text_reserve(struct fth_text *text, size_t more) {
    size_t need;
    if (text->failed)
        return 0;
    if (__builtin_add_overflow(text->length, more, &need) || need > SIZE_MAX / 2 - 1) {
        text->failed = 1;
        return 0;
    }
    if (need < text->capacity)
        return 1;
    size_t capacity = need + need / 2 + 64;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = 1;
        return 0;
    }
    text->data = data;
    text->capacity = capacity;
    return 1;
}

void fth_text_append(struct fth_text *text, const char *bytes, size_t length) {
    if (length == 0 || !text_reserve(text, length))
        return;
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = 0;
}

void fth_text_printf(struct fth_text *text, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        text->failed = 1;
    } else if (text_reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void fth_text_free(struct fth_text *text) {
    free(text->data);
    *text = (struct fth_text){0};
}

const char *fth_text_get(const struct fth_text *text) { return text->data ? text->data : ""; }

/* ---- numbers ---- */

static int is_digit(char c) { return c >= '0' && c <= '9'; }

int fth_parse_u64(const char *bytes, size_t length, uint64_t *out) {
    uint64_t value = 0;
    if (length && *bytes == '+')
        bytes++, length--;
    if (!length)
        return 0;
    for (size_t i = 0; i < length; i++) {
        if (!is_digit(bytes[i]) || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(bytes[i] - '0'), &value))
            return 0;
    }
    *out = value;
    return 1;
}

int fth_parse_i64(const char *bytes, size_t length, int64_t *out) {
    uint64_t magnitude;
    int negative = length > 0 && *bytes == '-';
    if (negative && length > 1 && bytes[1] == '+')
        return 0;
    if (!fth_parse_u64(bytes + negative, length - (size_t)negative, &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + (uint64_t)negative)
        return 0;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 1;
}

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

locale_t fth_c_locale(void) {
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale;
}

/* By the C library, for the numbers whose digits do not fit the exact short way. */
static int parse_long_f64(const char *bytes, size_t length, double *out) {
    char copy[FTH_NUMBER_MAX + 1];
    if (length > FTH_NUMBER_MAX)
        return 0;
    locale_t locale = fth_c_locale();
    if (!locale)
        return 0;
    memcpy(copy, bytes, length);
    copy[length] = 0;
    double value = strtod_l(copy, NULL, locale);
    if (!isfinite(value))
        return 0;
    *out = value;
    return 1;
}

int fth_parse_f64(const char *bytes, size_t length, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *at = bytes, *end = bytes + length;
    uint64_t digits = 0;  /* the mantissa, exact while n_significant <= 19 */
    int n_digits = 0, n_significant = 0;
    int64_t exponent = 0, fraction = 0;
    int negative = length > 0 && *at == '-';
    if (length > 0 && (*at == '-' || *at == '+'))
        at++;
    if (length > FTH_NUMBER_MAX)
        return 0;
    for (int point = 0; at < end && (is_digit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = 1;
            continue;
        }
        n_digits++;
        n_significant += digits != 0 || *at != '0';
        if (n_significant <= 19)
            digits = digits * 10 + (uint64_t)(*at - '0');
        fraction += point;
    }
    if (!n_digits)
        return 0;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        int minus = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+'))
            at++;
        if (at == end)
            return 0;
        for (; at < end && is_digit(*at); at++)
            exponent = exponent < 100000 ? exponent * 10 + (*at - '0') : exponent;
        exponent = minus ? -exponent : exponent;
    }
    if (at != end)
        return 0;
    exponent -= fraction;
    /* Both the mantissa and the power of ten are exact doubles: one rounding, so the nearest double
     * (Clinger, PLDI 1990). */
    if (n_significant <= 15 && exponent >= -22 && exponent <= 22) {
        double value = (double)digits;
        value = exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
        *out = negative ? -value : value;
        return 1;
    }
    return parse_long_f64(bytes, length, out);
}

void fth_format_f64(char out[32], int digits, double value) {
    locale_t before = uselocale(fth_c_locale()); /* no memory for one: nothing changes */
    snprintf(out, 32, "%.*g", digits, value);
    uselocale(before);
}

/* ---- names and messages ---- */

#define NEAREST_MAX 64

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

/* Edits between two words, swapped neighbours being one (optimal string alignment); letters that differ only
 * in case are equal. Both at most NEAREST_MAX long. */
static uint32_t edit_distance(const char *a, size_t n_a, const char *b, size_t n_b) {
    uint32_t rows[3][NEAREST_MAX + 1];
    uint32_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (uint32_t j = 0; j <= n_b; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= n_a; i++) {
        uint32_t *unused = before;
        before = above;
        above = row;
        row = unused;
        row[0] = i;
        for (uint32_t j = 1; j <= n_b; j++) {
            uint32_t best = above[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]) && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return row[n_b];
}

const char *fth_nearest(const char *word, const char *const *names, size_t n) {
    const char *best = NULL;
    uint32_t best_distance = UINT32_MAX;
    size_t length = strlen(word);
    if (length > NEAREST_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t name_length = strlen(names[i]);
        if (name_length > NEAREST_MAX)
            continue;
        uint32_t distance = edit_distance(word, length, names[i], name_length);
        size_t longer = length > name_length ? length : name_length;
        if (distance < best_distance && (size_t)distance * 3 <= longer) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

uint32_t fth_format_i64(char out[FTH_WHOLE_TEXT], int64_t number) {
    char backwards[FTH_WHOLE_TEXT];
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
    uint32_t n = 0;
    do
        backwards[n++] = (char)('0' + left % 10);
    while (left /= 10);
    if (number < 0)
        backwards[n++] = '-';
    for (uint32_t i = 0; i < n; i++)
        out[i] = backwards[n - 1 - i];
    return n;
}

void fth_format_bytes(char out[32], double bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    /* 999.95 would print as "1000.0". */
    while ((bytes >= 999.95 || bytes <= -999.95) && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1000;
        unit++;
    }
    snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

void fth_text_quote(char *out, size_t out_size, const char *bytes, size_t length) {
    static const char hex[] = "0123456789abcdef";
    size_t used = 0, dots_at = 0; /* dots_at: the last whole byte's end behind which "..." fits */
    if (out_size == 0)
        return;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        int plain = byte >= 0x20 && byte < 0x7f && byte != '\\';
        if (used + 3 < out_size)
            dots_at = used;
        if (used + (plain ? 1 : 4) >= out_size) {
            used = dots_at;
            for (int dots = 0; dots < 3 && used + 1 < out_size; dots++)
                out[used++] = '.';
            break;
        }
        if (plain) {
            out[used++] = (char)byte;
        } else {
            out[used++] = '\\';
            out[used++] = 'x';
            out[used++] = hex[byte >> 4];
            out[used++] = hex[byte & 15];
        }
    }
    out[used] = 0;
}

static int has_control_bytes(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return 1;
    return 0;
}

void fth_text_names(struct fth_text *text, const char *const *names, size_t n) {
    size_t begin = text->length, told = 0;
    for (; told < n && text->length - begin < 400 && !text->failed; told++) {
        char quoted[96];
        const char *name = names[told];
        if (has_control_bytes(name)) { /* such as the carriage returns of an old file that is one line */
            fth_text_quote(quoted, sizeof quoted, name, strlen(name));
            name = quoted;
        }
        fth_text_printf(text, "%s%s", told ? ", " : "", name);
    }
    if (told < n)
        fth_text_printf(text, ", ...");
}
