/* Small text tools: a growing string, number parsing that says no, nearest name. */
#ifndef FTH_BASE_TEXT_H
#define FTH_BASE_TEXT_H

#include <locale.h>
#include <stddef.h>
#include <stdint.h>

/* A growing NUL-terminated string; zero-initialise; `failed` is set (and text kept) when memory is out. */
struct fth_text {
    char *data; /* NULL while empty */
    size_t length, capacity;
    int failed;
};
void fth_text_append(struct fth_text *text, const char *bytes, size_t length);
void fth_text_printf(struct fth_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fth_text_free(struct fth_text *text);
const char *fth_text_get(const struct fth_text *text); /* "" when empty; borrowed until next append */

/* Whole-string parses: 1 on success; 0 (out untouched) on empty, spaces, trailing bytes, overflow.
 * Decimal only, a leading + is taken. f64: digits, point and exponent, rounded to the nearest double; nan,
 * inf, hexadecimal and texts over FTH_NUMBER_MAX bytes are refused. Locale-independent. */
#define FTH_NUMBER_MAX 400
int fth_parse_i64(const char *bytes, size_t length, int64_t *out);
int fth_parse_u64(const char *bytes, size_t length, uint64_t *out);
int fth_parse_f64(const char *bytes, size_t length, double *out);

/* The name of names[0..n) with the smallest edit distance to `word`, or NULL when none is near (more
 * than a third of the letters differ). Upper and lower case count as equal. */
const char *fth_nearest(const char *word, const char *const *names, size_t n);

/* The locale "C", whatever that of the program is; 0 where there was no memory for it. */
locale_t fth_c_locale(void);

/* "%.*g" with a decimal point, whatever the locale of the program that called the library. At most 17 digits. */
void fth_format_f64(char out[32], int digits, double value);

/* "12.3 GB" (powers of 1000), for people. */
void fth_format_bytes(char out[32], double bytes);
/* In decimal, no byte 0 behind it; its length. */
#define FTH_WHOLE_TEXT 20
uint32_t fth_format_i64(char out[FTH_WHOLE_TEXT], int64_t number);

/* A value for an error message: backslashes and bytes outside printable ASCII as \xNN; "..." at the end
 * when not all of it fits in out_size - 1 bytes. */
void fth_text_quote(char *out, size_t out_size, const char *bytes, size_t length);

/* Appends "a, b, c": names for an error message, control bytes as \xNN, "..." in the place of what is more than some 400
 * bytes. */
void fth_text_names(struct fth_text *text, const char *const *names, size_t n);

#endif
