/* Embedding rows for any vector width: rows_avx2.c and rows_avx512.c include it. See kernels.def.
 *
 * Rows lie at random places, so what counts is how many cache misses are under way at once: each
 * row is asked for ROWS_AHEAD rows before it is read (4 ahead is worse than none, 16 to 32 are
 * best). */
#ifndef FTH_KERNELS_CPU_ROWS_SIMD_H
#define FTH_KERNELS_CPU_ROWS_SIMD_H

#include <math.h>

#include "base/random.h"

enum { ROWS_AHEAD = 16, LINE_FLOATS = 16, PREFETCH_FLOATS = 4 * LINE_FLOATS };

/* A row's first lines; of longer rows the hardware fetches the rest once it sees the run. How many depends on d alone: a
 * branch on where the row's lines begin would be foreseen half of the time. */
static FTH_INLINE void prefetch_row(const float *row, size_t d) {
    size_t n = d < PREFETCH_FLOATS ? d : PREFETCH_FLOATS;
    for (size_t j = 0; j < n; j += LINE_FLOATS)
        _mm_prefetch((const char *)(row + j), _MM_HINT_T0);
    _mm_prefetch((const char *)(row + n - 1), _MM_HINT_T0);
}

static FTH_INLINE void copy_row(size_t d, vt t, const float *row, float *out) {
    size_t c = 0;
    for (; c + VW <= d; c += VW)
        v_store(out + c, v_load(row + c));
    if (c < d)
        v_store_part(out + c, t, v_load_part(row + c, t));
}

/* d is a constant for the usual widths. */
static FTH_INLINE void gather_rows(size_t m, const uint32_t *rows, const float *base, size_t stride,
                                   size_t d, float *out, size_t ldo) {
    vt t = v_tail(d % VW);
    size_t i = 0;
    for (; i + ROWS_AHEAD < m; i++, out += ldo) {
        prefetch_row(base + (size_t)rows[i + ROWS_AHEAD] * stride, d);
        copy_row(d, t, base + (size_t)rows[i] * stride, out);
    }
    for (; i < m; i++, out += ldo)
        copy_row(d, t, base + (size_t)rows[i] * stride, out);
}

void FTH_K(gather)(size_t m, const uint32_t *rows, const float *base, size_t stride, size_t d,
                   float *out, size_t ldo) {
    switch (d) {
    case 8: gather_rows(m, rows, base, stride, 8, out, ldo); break;
    case 16: gather_rows(m, rows, base, stride, 16, out, ldo); break;
    case 32: gather_rows(m, rows, base, stride, 32, out, ldo); break;
    case 64: gather_rows(m, rows, base, stride, 64, out, ldo); break;
    default: gather_rows(m, rows, base, stride, d, out, ldo); break;
    }
}

/* The larger; NaN when either is. */
static FTH_INLINE vf v_larger(vf a, vf b) { return v_select(v_nan(a), a, v_max(a, b)); }

/* One segment over `vectors` (a constant, at most 4) vectors of columns: positions begin .. end of
 * rows and values; rows up to `last` may be prefetched (by the first columns' pass only). at: NULL, or the maxima's
 * places, counted from `zero`. */
static FTH_INLINE void pool_block(int part, vt t, int vectors, size_t begin, size_t end, size_t last,
                                  const uint32_t *rows, const float *values, const float *base,
                                  size_t stride, size_t prefetch, float divisor, float *out,
                                  uint32_t zero, uint32_t *at) {
    vf pooled[4] = {v_zero(), v_zero(), v_zero(), v_zero()}, place[4];
    for (int c = 0; c < vectors; c++)
        place[c] = vi_as_floats(vi_set(zero + (uint32_t)begin)); /* moved, never calculated with */
    for (size_t p = begin; p < end; p++) {
        if (prefetch && p + ROWS_AHEAD < last)
            prefetch_row(base + (size_t)rows[p + ROWS_AHEAD] * stride, prefetch);
        const float *row = base + (size_t)rows[p] * stride;
        vf value = values ? v_set(values[p]) : v_zero(), here = vi_as_floats(vi_set(zero + (uint32_t)p));
        for (int c = 0; c < vectors; c++) {
            vf v = v_get(row + c * VW, part, t);
            if (values)
                v = v_mul(v, value);
            if (at && p > begin)
                place[c] = v_select(v_gt(v, pooled[c]), here, place[c]);
            if (at)
                pooled[c] = p == begin ? v : v_larger(pooled[c], v);
            else
                pooled[c] = v_add(pooled[c], v);
        }
    }
    vf by = v_set(divisor);
    for (int c = 0; c < vectors; c++) {
        v_put(out + c * VW, part, t, divisor != 1.0f ? v_div(pooled[c], by) : pooled[c]);
        if (at)
            v_put((float *)(void *)at + c * VW, part, t, place[c]);
    }
}

static FTH_INLINE void pool_segment(size_t begin, size_t end, size_t last, const uint32_t *rows,
                                    const float *values, const float *base, size_t stride, size_t d,
                                    float divisor, float *out, uint32_t zero, uint32_t *at) {
    size_t c = 0;
    for (; c + 4 * VW <= d; c += 4 * VW)
        pool_block(0, v_tail(0), 4, begin, end, last, rows, values, base + c, stride, c ? 0 : d,
                   divisor, out + c, zero, at ? at + c : NULL);
    for (; c + 2 * VW <= d; c += 2 * VW)
        pool_block(0, v_tail(0), 2, begin, end, last, rows, values, base + c, stride, c ? 0 : d,
                   divisor, out + c, zero, at ? at + c : NULL);
    for (; c + VW <= d; c += VW)
        pool_block(0, v_tail(0), 1, begin, end, last, rows, values, base + c, stride, c ? 0 : d,
                   divisor, out + c, zero, at ? at + c : NULL);
    if (c < d)
        pool_block(1, v_tail(d - c), 1, begin, end, last, rows, values, base + c, stride,
                   c ? 0 : d, divisor, out + c, zero, at ? at + c : NULL);
}

void FTH_K(gather_pool)(size_t m, const uint32_t *offsets, const uint32_t *rows,
                        const float *values, const float *base, size_t stride, size_t d,
                        fth_pooling pooling, float *out, size_t ldo, uint32_t *at) {
    size_t last = m ? offsets[m] - offsets[0] : 0;
    for (size_t i = 0; i < m; i++, out += ldo) {
        size_t begin = offsets[i] - offsets[0], end = offsets[i + 1] - offsets[0];
        float divisor = pooling == FTH_POOL_MEAN && end > begin ? (float)(end - begin) : 1.0f;
        if (pooling == FTH_POOL_MAX)
            pool_segment(begin, end, last, rows, values, base, stride, d, 1.0f, out, offsets[0], at + i * d);
        else if (d == 16)
            pool_segment(begin, end, last, rows, values, base, stride, 16, divisor, out, 0, NULL);
        else
            pool_segment(begin, end, last, rows, values, base, stride, d, divisor, out, 0, NULL);
    }
}

void FTH_K(pick)(size_t d, const uint32_t *at, uint32_t position, const float *x, float *out) {
    vi here = vi_set(position);
    for (size_t j = 0; j < d; j += VW) {
        int part = d - j < VW;
        vt t = v_tail(part ? d - j : 0);
        vf places = v_get((const float *)(const void *)at + j, part, t);
        v_put(out + j, part, t, v_select(vi_equal(v_as_ints(places), here), v_get(x + j, part, t), v_zero()));
    }
}

/* Examples summed together, so that a field's pointers are read once for all of them. */
enum { TOGETHER = VW == 16 ? 4 : 2, SUM_FLOATS = 32 };

/* `vectors` (at most SUM_FLOATS / VW) vectors of columns of `together` examples from example i on. */
static FTH_INLINE void gather_sum_block(int part, vt t, int vectors, int together, size_t i, size_t n,
                                        const uint32_t *const *rows, const float *const *base,
                                        size_t stride, size_t at, const float *from, size_t ldf,
                                        float *out, size_t ldo) {
    vf sum[4][4];
    for (int e = 0; e < together; e++)
        for (int c = 0; c < vectors; c++)
            sum[e][c] = from ? v_get(from + (i + e) * ldf + at + c * VW, part, t) : v_zero();
    for (size_t f = 0; f < n; f++) {
        const float *table = base[f] + at;
        const uint32_t *number = rows[f] + i;
        for (int e = 0; e < together; e++) {
            const float *row = table + (size_t)number[e] * stride;
            for (int c = 0; c < vectors; c++)
                sum[e][c] = v_add(sum[e][c], v_get(row + c * VW, part, t));
        }
    }
    for (int e = 0; e < together; e++)
        for (int c = 0; c < vectors; c++)
            v_put(out + (i + e) * ldo + at + c * VW, part, t, sum[e][c]);
}

static FTH_INLINE void gather_sum_examples(int together, size_t i, size_t n,
                                           const uint32_t *const *rows, const float *const *base,
                                           size_t stride, size_t d, const float *from, size_t ldf,
                                           float *out, size_t ldo) {
    size_t c = 0;
    for (; c + SUM_FLOATS <= d; c += SUM_FLOATS)
        gather_sum_block(0, v_tail(0), SUM_FLOATS / VW, together, i, n, rows, base, stride, c, from,
                         ldf, out, ldo);
    for (; c < d; c += VW)
        gather_sum_block(1, v_tail(d - c < VW ? d - c : VW), 1, together, i, n, rows, base, stride,
                         c, from, ldf, out, ldo);
}

void FTH_K(gather_sum)(size_t m, size_t n, const uint32_t *const *rows, const float *const *base,
                       size_t stride, size_t d, const float *from, size_t ldf, float *out,
                       size_t ldo) {
    size_t i = 0;
    for (; i + TOGETHER <= m; i += TOGETHER) {
        for (size_t e = i + ROWS_AHEAD; e < i + ROWS_AHEAD + TOGETHER && e < m; e++)
            for (size_t c = 0; c < d; c += LINE_FLOATS)
                __builtin_prefetch(out + e * ldo + c, 1);
        gather_sum_examples(TOGETHER, i, n, rows, base, stride, d, from, ldf, out, ldo);
    }
    for (; i < m; i++)
        gather_sum_examples(1, i, n, rows, base, stride, d, from, ldf, out, ldo);
}

static FTH_INLINE void sum_lists_block(int part, vt t, int vectors, size_t m, const uint32_t *begin,
                                       const uint32_t *list, const float *base, size_t stride,
                                       float *out, size_t ldo) {
    for (size_t u = 0; u < m; u++) {
        vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
        const uint32_t *end = list + begin[u + 1];
        for (const uint32_t *at = list + begin[u]; at < end; at++) {
            const float *row = base + (size_t)*at * stride;
            for (int c = 0; c < vectors; c++)
                sum[c] = v_add(sum[c], v_get(row + c * VW, part, t));
        }
        for (int c = 0; c < vectors; c++)
            v_put(out + u * ldo + c * VW, part, t, sum[c]);
    }
}

void FTH_K(sum_lists)(size_t m, const uint32_t *begin, const uint32_t *list, const float *base,
                      size_t stride, size_t d, float *out, size_t ldo) {
    size_t c = 0;
    for (; c + 4 * VW <= d; c += 4 * VW)
        sum_lists_block(0, v_tail(0), 4, m, begin, list, base + c, stride, out + c, ldo);
    for (; c + 2 * VW <= d; c += 2 * VW)
        sum_lists_block(0, v_tail(0), 2, m, begin, list, base + c, stride, out + c, ldo);
    for (; c < d; c += VW)
        sum_lists_block(1, v_tail(d - c < VW ? d - c : VW), 1, m, begin, list, base + c, stride,
                        out + c, ldo);
}

static FTH_INLINE void sum_rows_block(int part, vt t, int vectors, size_t n,
                                      const float *const *src, size_t at, const float *scale,
                                      float *out) {
    vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    for (size_t i = 0; i < n; i++) {
        if (at == 0 && i + ROWS_AHEAD < n)
            _mm_prefetch((const char *)src[i + ROWS_AHEAD], _MM_HINT_T0);
        vf factor = scale ? v_set(scale[i]) : v_zero();
        for (int c = 0; c < vectors; c++) {
            vf v = v_get(src[i] + at + c * VW, part, t);
            sum[c] = v_add(sum[c], scale ? v_mul(factor, v) : v);
        }
    }
    for (int c = 0; c < vectors; c++)
        v_put(out + at + c * VW, part, t, sum[c]);
}

void FTH_K(sum_rows)(size_t n, const float *const *src, const float *scale, size_t d, float *out) {
    size_t c = 0;
    for (; c + 4 * VW <= d; c += 4 * VW)
        sum_rows_block(0, v_tail(0), 4, n, src, c, scale, out);
    for (; c + VW <= d; c += VW)
        sum_rows_block(0, v_tail(0), 1, n, src, c, scale, out);
    if (c < d)
        sum_rows_block(1, v_tail(d - c), 1, n, src, c, scale, out);
}

/* Sums of one number: vectors of one element cost more. */
static FTH_INLINE void add_numbers(size_t m, const uint32_t *begin, const uint32_t *rows, const uint32_t *once,
                                   const float *scale, const float *x, size_t ld, float *sums, size_t stride) {
    for (size_t i = 0; i < m; i++) {
        float v = scale ? scale[i] * x[i * ld] : x[i * ld];
        int alone = once && (!scale || scale[i] == 1);
        for (size_t t = begin[i]; t < begin[i + 1]; t++) {
            float *sum = sums + rows[t] * stride;
            *sum = alone && once[rows[t]] == 1 ? v : *sum + v;
        }
    }
}

static FTH_INLINE void add_to_rows_block(int part, vt t, int vectors, size_t m, const uint32_t *begin,
                                         const uint32_t *rows, const uint32_t *once, const float *scale,
                                         const float *x, size_t ld, float *sums, size_t stride) {
    for (size_t i = 0; i < m; i++) {
        if (i + ROWS_AHEAD < m)
            _mm_prefetch((const char *)(x + (i + ROWS_AHEAD) * ld), _MM_HINT_T0);
        vf v[4], factor = v_set(scale ? scale[i] : 0);
        for (int c = 0; c < vectors; c++) {
            v[c] = v_get(x + i * ld + c * VW, part, t);
            v[c] = scale ? v_mul(factor, v[c]) : v[c];
        }
        const uint32_t *at = rows + begin[i], *end = rows + begin[i + 1];
        if (once && (!scale || scale[i] == 1)) {
            for (; at < end; at++) {
                float *sum = sums + *at * stride;
                int set = once[*at] == 1;
                for (int c = 0; c < vectors; c++)
                    v_put(sum + c * VW, part, t, set ? v[c] : v_add(v_get(sum + c * VW, part, t), v[c]));
            }
            continue;
        }
        for (; at < end; at++) {
            float *sum = sums + *at * stride;
            for (int c = 0; c < vectors; c++)
                v_put(sum + c * VW, part, t, v_add(v_get(sum + c * VW, part, t), v[c]));
        }
    }
}

void FTH_K(add_to_rows)(size_t m, const uint32_t *begin, const uint32_t *rows, const uint32_t *once,
                        const float *scale, const float *x, size_t ld, size_t d, float *sums, size_t stride) {
    size_t c = 0;
    if (d == 1) {
        add_numbers(m, begin, rows, once, scale, x, ld, sums, stride);
        return;
    }
    for (; c + 4 * VW <= d; c += 4 * VW)
        add_to_rows_block(0, v_tail(0), 4, m, begin, rows, once, scale, x + c, ld, sums + c, stride);
    for (; c + 2 * VW <= d; c += 2 * VW)
        add_to_rows_block(0, v_tail(0), 2, m, begin, rows, once, scale, x + c, ld, sums + c, stride);
    for (; c + VW <= d; c += VW)
        add_to_rows_block(0, v_tail(0), 1, m, begin, rows, once, scale, x + c, ld, sums + c, stride);
    if (c < d)
        add_to_rows_block(1, v_tail(d - c), 1, m, begin, rows, once, scale, x + c, ld, sums + c, stride);
}

void FTH_K(draw_uniform)(uint64_t seed, uint32_t stream, uint64_t a, size_t n, float low, float high,
                         float *out) {
    uint64_t key = fth_random_key(seed, stream);
    vf first = v_set(low), range = v_set(high - low), last = v_set(nextafterf(high, low));
    for (size_t i = 0; i < n; i += VW) {
        vi words = vi_philox_words(key, a, (uint32_t)(i / 4));
        vf unit = v_mul(vi_to_floats(vi_shr(words, 8)), v_set(0x1p-24f));
        v_put(out + i, i + VW > n, v_tail(n - i < VW ? n - i : VW), v_min(v_add(first, v_mul(range, unit)), last));
    }
}

#endif
