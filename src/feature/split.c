/* Counting a list's elements, and finding its end part: see split.h. */
#include "feature/split.h"

uint32_t fth_split_count(const char *text, uint32_t length, const struct fth_separator *separator) {
    if (separator->length == 1)
        return (uint32_t)fth_kernels_get()->count_byte(text, length, separator->bytes[0]) + 1;
    const char *p = text, *end = text + length;
    uint32_t n = 1;
    while ((p = memmem(p, (size_t)(end - p), separator->bytes, separator->length)) != NULL) {
        p += separator->length;
        n++;
    }
    return n;
}

/* Separators of several bytes may overlap ("aa" in "aaa"): they are what a search from the front finds. */
static uint32_t tail_of_words(const char *text, uint32_t length,
                              const struct fth_separator *separator, uint32_t keep) {
    uint32_t skip = fth_split_count(text, length, separator);
    const char *p = text, *end = text + length;
    for (skip = skip > keep ? skip - keep : 0; skip > 0; skip--)
        p = (const char *)memmem(p, (size_t)(end - p), separator->bytes, separator->length) +
            separator->length;
    return (uint32_t)(p - text);
}

uint32_t fth_split_tail(const char *text, uint32_t length, const struct fth_separator *separator,
                        uint32_t keep) {
    if (separator->length > 1)
        return tail_of_words(text, length, separator, keep);
    return (uint32_t)fth_kernels_get()->tail(text, length, separator->bytes[0], keep);
}
