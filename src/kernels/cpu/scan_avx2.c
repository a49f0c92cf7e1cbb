/* Separators in text by AVX2: 64 bytes a step become a 64-bit mask, whose ones are written out. See
 * kernels.def. */
#include "kernels/cpu/simd_avx2.h"

static FTH_INLINE uint64_t equal_64(const char *text, __m256i c) {
    __m256i low = _mm256_loadu_si256((const __m256i *)text);
    __m256i high = _mm256_loadu_si256((const __m256i *)(text + 32));
    uint32_t first = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, c));
    uint32_t second = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, c));
    return first | (uint64_t)second << 32;
}

static FTH_INLINE uint64_t member_64(const char *text, __m256i a, __m256i b, __m256i c) {
    __m256i low = _mm256_loadu_si256((const __m256i *)text);
    __m256i high = _mm256_loadu_si256((const __m256i *)(text + 32));
    low = _mm256_or_si256(_mm256_or_si256(_mm256_cmpeq_epi8(low, a), _mm256_cmpeq_epi8(low, b)),
                          _mm256_cmpeq_epi8(low, c));
    high = _mm256_or_si256(_mm256_or_si256(_mm256_cmpeq_epi8(high, a), _mm256_cmpeq_epi8(high, b)),
                           _mm256_cmpeq_epi8(high, c));
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                     << 32;
}

/* The place of the lowest one; compilers clear the result before, for CPUs that are long gone. */
static FTH_INLINE uint64_t lowest(uint64_t mask) {
    uint64_t place;
    __asm__("tzcnt %1, %0" : "=r"(place) : "r"(mask) : "cc");
    return place;
}

/* Writes the places of n ones of `mask`, counted from `base`; those that are not there are any. */
static FTH_INLINE uint64_t write_some(const size_t n, uint64_t mask, uint32_t base, uint32_t *offsets) {
#pragma GCC unroll 8
    for (size_t j = 0; j < n; j++) {
        offsets[j] = base + (uint32_t)lowest(mask);
        mask = _blsr_u64(mask);
    }
    return mask;
}

/* Of all ones: eight, then four at a time. Past the last one it scribbles over at most seven more, which costs less than
 * deciding each. */
static FTH_INLINE size_t write_ones(uint64_t mask, uint32_t base, uint32_t *offsets) {
    size_t count = (size_t)_mm_popcnt_u64(mask);
    mask = write_some(8, mask, base, offsets);
    for (size_t k = 8; k < count; k += 4)
        mask = write_some(4, mask, base, offsets + k);
    return count;
}

/* The first n - i bits, at most 64. */
static FTH_INLINE uint64_t inside(size_t n, size_t i) {
    return n - i < 64 ? ((uint64_t)1 << (n - i)) - 1 : UINT64_MAX;
}

size_t fth_k_scan_avx2(const char *text, size_t n, const char set[3], uint32_t *offsets) {
    __m256i a = _mm256_set1_epi8(set[0]), b = _mm256_set1_epi8(set[1]),
            c = _mm256_set1_epi8(set[2]);
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64)
        count += write_ones(member_64(text + i, a, b, c) & inside(n, i), (uint32_t)i, offsets + count);
    return count;
}

size_t fth_k_split_avx2(const char *text, size_t n, char c, uint32_t base, uint32_t *ends) {
    __m256i wanted = _mm256_set1_epi8(c);
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64)
        count += write_ones(equal_64(text + i, wanted) & inside(n, i), base + (uint32_t)i, ends + count);
    return count;
}

void fth_k_begins_avx2(size_t n, const uint32_t *ends, uint32_t gap, uint32_t *begins) {
    vi more = vi_set((int)gap);
    for (size_t k = 0; k < n; k += VW)
        _mm256_storeu_si256((__m256i *)(void *)(begins + k + 1),
                            vi_add(_mm256_loadu_si256((const __m256i *)(const void *)(ends + k)), more));
}

size_t fth_k_count_byte_avx2(const char *text, size_t n, char c) {
    __m256i wanted = _mm256_set1_epi8(c);
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64)
        count += (size_t)_mm_popcnt_u64(equal_64(text + i, wanted) & inside(n, i));
    return count;
}

size_t fth_k_tail_avx2(const char *text, size_t n, char c, size_t keep) {
    __m256i wanted = _mm256_set1_epi8(c);
    for (size_t seen = 0; n > 0;) {
        size_t first = n > 64 ? n - 64 : 0;
        uint64_t mask = equal_64(text + first, wanted) & inside(n, first);
        size_t here = (size_t)_mm_popcnt_u64(mask);
        if (seen + here >= keep) {
            for (size_t skip = seen + here - keep; skip > 0; skip--)
                mask = _blsr_u64(mask);
            return first + lowest(mask) + 1;
        }
        seen += here;
        n = first;
    }
    return 0;
}
