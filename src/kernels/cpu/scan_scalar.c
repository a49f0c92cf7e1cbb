/* Separators in text, plain: the reference of scan_avx2.c and scan_avx512.c. See kernels.def. */
#include "kernels/cpu/cpu_kernels.h"

size_t fth_k_scan_scalar(const char *text, size_t n, const char set[3], uint32_t *offsets) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] == set[0] || text[i] == set[1] || text[i] == set[2])
            offsets[count++] = (uint32_t)i;
    return count;
}

size_t fth_k_split_scalar(const char *text, size_t n, char c, uint32_t base, uint32_t *ends) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] == c)
            ends[count++] = base + (uint32_t)i;
    return count;
}

void fth_k_begins_scalar(size_t n, const uint32_t *ends, uint32_t gap, uint32_t *begins) {
    for (size_t k = 0; k < n; k++)
        begins[k + 1] = ends[k] + gap;
}

size_t fth_k_count_byte_scalar(const char *text, size_t n, char c) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += text[i] == c;
    return count;
}

size_t fth_k_tail_scalar(const char *text, size_t n, char c, size_t keep) {
    for (; n > 0; n--)
        if (text[n - 1] == c && --keep == 0)
            return n;
    return 0;
}
