/* Separators in text by AVX-512: 64 bytes a step become a 64-bit mask, each 16 bits of which
 * squeeze a vector of offsets. See kernels.def. */
#include "kernels/cpu/simd_avx512.h"

/* Writes the places of the ones of `mask`, counted from `base`. Whole vectors are stored (squeezing
 * straight to memory is slow on some CPUs): up to 16 offsets past the last one are scribbled on. */
static FTH_INLINE size_t write_ones(uint64_t mask, uint32_t base, uint32_t *offsets) {
    vi places = vi_add(vi_set(base), vi_lanes());
    size_t count = 0;
    for (int k = 0; k < 4 && mask >> (16 * k); k++) {
        __mmask16 part = (__mmask16)(mask >> (16 * k));
        _mm512_storeu_si512(offsets + count, _mm512_maskz_compress_epi32(part, places));
        count += (size_t)_mm_popcnt_u32(part);
        places = vi_add(places, vi_set(16));
    }
    return count;
}

static FTH_INLINE uint64_t member(__m512i bytes, __m512i a, __m512i b, __m512i c) {
    return _mm512_cmpeq_epi8_mask(bytes, a) | _mm512_cmpeq_epi8_mask(bytes, b) |
           _mm512_cmpeq_epi8_mask(bytes, c);
}

/* The first n - i bits, at most 64. */
static FTH_INLINE uint64_t inside(size_t n, size_t i) {
    return n - i < 64 ? ((uint64_t)1 << (n - i)) - 1 : UINT64_MAX;
}

size_t FTH_K(scan)(const char *text, size_t n, const char set[3], uint32_t *offsets) {
    __m512i a = _mm512_set1_epi8(set[0]), b = _mm512_set1_epi8(set[1]),
            c = _mm512_set1_epi8(set[2]);
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64) {
        uint64_t mask = member(_mm512_loadu_si512(text + i), a, b, c) & inside(n, i);
        count += write_ones(mask, (uint32_t)i, offsets + count);
    }
    return count;
}

size_t FTH_K(split)(const char *text, size_t n, char c, uint32_t base, uint32_t *ends) {
    __m512i wanted = _mm512_set1_epi8(c);
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64) {
        uint64_t mask = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(text + i), wanted) & inside(n, i);
        count += write_ones(mask, base + (uint32_t)i, ends + count);
    }
    return count;
}

void FTH_K(begins)(size_t n, const uint32_t *ends, uint32_t gap, uint32_t *begins) {
    vi more = vi_set((int)gap);
    for (size_t k = 0; k < n; k += VW)
        _mm512_storeu_si512(begins + k + 1, vi_add(_mm512_loadu_si512(ends + k), more));
}

size_t FTH_K(count_byte)(const char *text, size_t n, char c) {
    __m512i wanted = _mm512_set1_epi8(c);
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64)
        count += (size_t)_mm_popcnt_u64(
            _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(text + i), wanted) & inside(n, i));
    return count;
}

size_t FTH_K(tail)(const char *text, size_t n, char c, size_t keep) {
    __m512i wanted = _mm512_set1_epi8(c);
    for (size_t seen = 0; n > 0;) {
        size_t first = n > 64 ? n - 64 : 0;
        uint64_t mask = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(text + first), wanted) & inside(n, first);
        size_t here = (size_t)_mm_popcnt_u64(mask);
        if (seen + here >= keep) {
            for (size_t skip = seen + here - keep; skip > 0; skip--)
                mask &= mask - 1;
            return first + (size_t)__builtin_ctzll(mask) + 1;
        }
        seen += here;
        n = first;
    }
    return 0;
}
