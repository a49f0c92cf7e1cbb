/* FM's second order and DLRM's pairwise dots for any vector width: interact_avx2.c and
 * interact_avx512.c include it. See kernels.def.
 *
 * Pairwise dots are the product V V^T of one example's f x d vectors, lower triangle. V is
 * transposed to the stack once, so that a vector holds one coordinate of neighbouring b's and a row
 * of the result (a; b = 0 .. a-1, contiguous in the output) comes out of plain multiply-adds, with
 * no sum across lanes. Blocks are PAIR_ROWS a's by 16 b's, their sums in registers. */
#ifndef FTH_KERNELS_CPU_INTERACT_SIMD_H
#define FTH_KERNELS_CPU_INTERACT_SIMD_H

#include <string.h>

enum {
    PAIR_ROWS = VW == 16 ? 8 : 4, /* a's of a block */
    PAIR_VECTORS = 16 / VW, /* a block's 16 b's or 16 coordinates, in vectors */
    PAIR_FIELDS = 64,       /* more vectors than this take the long way */
    PAIR_DEPTH = 64,        /* coordinates transposed at a time */
    PAIR_FEW = 28,          /* vectors whose sums but the last's, and four more, fit in 32 registers */
};

/* FM over `vectors` (a constant, at most 4) vectors of coordinates: adds (sum v)^2 - sum v^2. */
static FTH_INLINE vf fm_block(int part, vt t, int vectors, size_t f, size_t d, const float *x,
                              vf total) {
    vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    vf squares[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    for (size_t a = 0; a < f; a++, x += d)
        for (int c = 0; c < vectors; c++) {
            vf v = v_get(x + c * VW, part, t);
            sum[c] = v_add(sum[c], v);
            squares[c] = v_fma(v, v, squares[c]);
        }
    for (int c = 0; c < vectors; c++)
        total = v_add(total, v_fms(sum[c], sum[c], squares[c]));
    return total;
}

/* One example; d is a constant for the usual widths. */
static FTH_INLINE float fm_one(size_t f, size_t d, const float *x) {
    vf total = v_zero();
    size_t c = 0;
    for (; c + 4 * VW <= d; c += 4 * VW)
        total = fm_block(0, v_tail(0), 4, f, d, x + c, total);
    for (; c + 2 * VW <= d; c += 2 * VW)
        total = fm_block(0, v_tail(0), 2, f, d, x + c, total);
    for (; c + VW <= d; c += VW)
        total = fm_block(0, v_tail(0), 1, f, d, x + c, total);
    if (c < d)
        total = fm_block(1, v_tail(d - c), 1, f, d, x + c, total);
    return 0.5f * v_sum(total);
}

void FTH_K(fm)(size_t m, size_t f, size_t d, const float *x, size_t ldx, float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++, x += ldx, out += ldo)
        switch (d) {
        case 8: *out = fm_one(f, 8, x); break;
        case 16: *out = fm_one(f, 16, x); break;
        case 32: *out = fm_one(f, 32, x); break;
        case 64: *out = fm_one(f, 64, x); break;
        default: *out = fm_one(f, d, x); break;
        }
}

static FTH_INLINE void fm_grad_block(int part, vt t, int vectors, size_t f, size_t d,
                                     const float *x, vf g, float *dx) {
    vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    for (size_t a = 0; a < f; a++)
        for (int c = 0; c < vectors; c++)
            sum[c] = v_add(sum[c], v_get(x + a * d + c * VW, part, t));
    for (size_t a = 0; a < f; a++)
        for (int c = 0; c < vectors; c++)
            v_put(dx + a * d + c * VW, part, t,
                  v_mul(g, v_sub(sum[c], v_get(x + a * d + c * VW, part, t))));
}

static FTH_INLINE void fm_grad_one(size_t f, size_t d, const float *x, float dout, float *dx) {
    vf g = v_set(dout);
    size_t c = 0;
    for (; c + 4 * VW <= d; c += 4 * VW)
        fm_grad_block(0, v_tail(0), 4, f, d, x + c, g, dx + c);
    for (; c + 2 * VW <= d; c += 2 * VW)
        fm_grad_block(0, v_tail(0), 2, f, d, x + c, g, dx + c);
    for (; c + VW <= d; c += VW)
        fm_grad_block(0, v_tail(0), 1, f, d, x + c, g, dx + c);
    if (c < d)
        fm_grad_block(1, v_tail(d - c), 1, f, d, x + c, g, dx + c);
}

void FTH_K(fm_grad)(size_t m, size_t f, size_t d, const float *x, size_t ldx, const float *dout,
                    size_t lddo, float *dx, size_t lddx) {
    for (size_t i = 0; i < m; i++, x += ldx, dout += lddo, dx += lddx)
        switch (d) {
        case 8: fm_grad_one(f, 8, x, *dout, dx); break;
        case 16: fm_grad_one(f, 16, x, *dout, dx); break;
        case 32: fm_grad_one(f, 32, x, *dout, dx); break;
        case 64: fm_grad_one(f, 64, x, *dout, dx); break;
        default: fm_grad_one(f, d, x, *dout, dx); break;
        }
}

/* 4 numbers of a row from x on, of which `left` are there; 0 for the others. */
static FTH_INLINE __m128 four(const float *x, size_t left) {
    static const int32_t lanes[8] = {-1, -1, -1, -1};
    if (left >= 4)
        return _mm_loadu_ps(x);
    return _mm_maskload_ps(x, _mm_loadu_si128((const __m128i *)(lanes + 4 - left)));
}

/* out[c][a] = x[a][c] for a < rows (of 8; the others become 0), c .. c+3 of which `left` are there.
 * A vector's halves are rows a and a + 4, so that 4 x 4 within the halves are turned. */
static FTH_INLINE void transpose_8x4(size_t rows, size_t left, size_t d, const float *x,
                                     float *out) {
    __m256 r[4], s[4];
    for (size_t k = 0; k < 4; k++) {
        __m128 low = k < rows ? four(x + k * d, left) : _mm_setzero_ps();
        __m128 high = k + 4 < rows ? four(x + (k + 4) * d, left) : _mm_setzero_ps();
        r[k] = _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
    }
    for (int k = 0; k < 4; k += 2) {
        s[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
        s[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
    }
    for (int k = 0; k < 2; k++) {
        _mm256_storeu_ps(out + 2 * k * PAIR_FIELDS, _mm256_shuffle_ps(s[k], s[k + 2], 0x44));
        _mm256_storeu_ps(out + (2 * k + 1) * PAIR_FIELDS, _mm256_shuffle_ps(s[k], s[k + 2], 0xee));
    }
}

/* out[c][a] = x[a][c] for a < f, c < depth; a's up to the next multiple of 16 become 0. `out` has
 * PAIR_FIELDS columns and room for depth rounded up to 4. */
static FTH_INLINE void transpose_fields(size_t f, size_t d, size_t depth, const float *x,
                                        float *out) {
    size_t a = 0;
    for (; a + 8 <= f; a += 8)
        for (size_t c = 0; c < depth; c += 4)
            transpose_8x4(8, depth - c, d, x + a * d + c, out + c * PAIR_FIELDS + a);
    for (; a < (f + 15) / 16 * 16; a += 8)
        for (size_t c = 0; c < depth; c += 4)
            transpose_8x4(a < f ? f - a : 0, depth - c, d, x + a * d + c, out + c * PAIR_FIELDS + a);
}

/* `rows` (a constant) rows from a on, columns b .. b+15 (those below the row's number) of V V^T over
 * `depth` coordinates from x on; `more`: added to what `out` has from the coordinates before. */
static FTH_INLINE void pair_block(size_t rows, size_t f, size_t d, size_t depth, const float *x,
                                  const float *columns, size_t a, size_t b, int more, float *out) {
    vf sum[PAIR_ROWS][PAIR_VECTORS];
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < PAIR_VECTORS; v++)
            sum[r][v] = v_zero();
    x += a * d;
    for (size_t c = 0; c < depth; c++) {
        vf column[PAIR_VECTORS];
        for (size_t v = 0; v < PAIR_VECTORS; v++)
            column[v] = v_load(columns + c * PAIR_FIELDS + b + v * VW);
        for (size_t r = 0; r < rows; r++)
            for (size_t v = 0; v < PAIR_VECTORS; v++)
                sum[r][v] = v_fma(v_set(x[r * d + c]), column[v], sum[r][v]);
    }
    const float *end = out + f * (f - 1) / 2;
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < PAIR_VECTORS && b + v * VW < a + r; v++) {
            float *to = out + (a + r) * (a + r - 1) / 2 + b + v * VW;
            size_t left = a + r - b - v * VW;
            vt t = v_tail(left < VW ? left : VW);
            if (more)
                v_store_part(to, t, v_add(sum[r][v], v_load_part(to, t)));
            else if ((size_t)(end - to) < VW)
                v_store_part(to, t, sum[r][v]);
            else
                v_store(to, sum[r][v]);
        }
}

/* Whole vectors are stored, past the end of a row into the next ones (partial stores are slow on
 * some CPUs): right, because what they spoil, at most the first 15 columns of a later row, is
 * written after them, rows going up and blocks of columns down. */
static FTH_INLINE void pairs_one(size_t f, size_t d, const float *x, float *columns, float *out) {
    for (size_t c = 0; c < d; c += PAIR_DEPTH) {
        size_t depth = d - c < PAIR_DEPTH ? d - c : PAIR_DEPTH;
        transpose_fields(f, d, depth, x + c, columns);
        for (size_t b = f > 1 ? (f - 2) / 16 * 16 + 16 : 0; b > 0; b -= 16) {
            size_t a = b - 15;
            for (; a + PAIR_ROWS <= f; a += PAIR_ROWS)
                pair_block(PAIR_ROWS, f, d, depth, x + c, columns, a, b - 16, c > 0, out);
            if (PAIR_ROWS > 4 && a + 4 <= f) {
                pair_block(4, f, d, depth, x + c, columns, a, b - 16, c > 0, out);
                a += 4;
            }
            switch (f - a) {
            case 3: pair_block(3, f, d, depth, x + c, columns, a, b - 16, c > 0, out); break;
            case 2: pair_block(2, f, d, depth, x + c, columns, a, b - 16, c > 0, out); break;
            case 1: pair_block(1, f, d, depth, x + c, columns, a, b - 16, c > 0, out); break;
            default: break;
            }
        }
    }
}

/* Any number of vectors: one dot after the other. */
static void pairs_long(size_t f, size_t d, const float *x, float *out) {
    vt t = v_tail(d % VW);
    for (size_t a = 1; a < f; a++)
        for (size_t b = 0; b < a; b++) {
            const float *u = x + a * d, *v = x + b * d;
            vf sum = v_zero();
            size_t c = 0;
            for (; c + VW <= d; c += VW)
                sum = v_fma(v_load(u + c), v_load(v + c), sum);
            if (c < d)
                sum = v_fma(v_load_part(u + c, t), v_load_part(v + c, t), sum);
            *out++ = v_sum(sum);
        }
}

void FTH_K(dot_interaction)(size_t m, size_t f, size_t d, const float *x, size_t ldx, float *out,
                            size_t ldo) {
    float columns[PAIR_DEPTH * PAIR_FIELDS] __attribute__((aligned(64)));
    for (size_t i = 0; i < m; i++, x += ldx, out += ldo) {
        if (f > PAIR_FIELDS || d == 0) {
            pairs_long(f, d, x, out);
            continue;
        }
        switch (d) {
        case 8: pairs_one(f, 8, x, columns, out); break;
        case 16: pairs_one(f, 16, x, columns, out); break;
        case 32: pairs_one(f, 32, x, columns, out); break;
        case 64: pairs_one(f, 64, x, columns, out); break;
        default: pairs_one(f, d, x, columns, out); break;
        }
    }
}

/* dx of PAIR_ROWS rows from a on (those below f) at `vectors` vectors of coordinates: sum over b of
 * dout(a, b) v_b. The dout's of the rows lie in as many rows of the triangle for b < a, side by side
 * for b behind them. */
static FTH_INLINE void pair_grad_block(int part, vt t, size_t vectors, size_t f, size_t d,
                                       const float *x, const float *dout, size_t a, float *dx) {
    vf sum[PAIR_ROWS][PAIR_VECTORS];
    const float *row[PAIR_ROWS];
    size_t rows = f - a < PAIR_ROWS ? f - a : PAIR_ROWS;
    for (size_t r = 0; r < PAIR_ROWS; r++) {
        size_t clamped = r < rows ? a + r : f - 1;
        row[r] = dout + clamped * (clamped - 1) / 2;
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] = v_zero();
    }
    for (size_t b = 0; b < a; b++)
        for (size_t v = 0; v < vectors; v++) {
            vf other = v_get(x + b * d + v * VW, part, t);
            for (size_t r = 0; r < PAIR_ROWS; r++)
                sum[r][v] = v_fma(v_set(row[r][b]), other, sum[r][v]);
        }
    float square[PAIR_ROWS][PAIR_ROWS] = {{0}}; /* the pairs within the block */
    for (size_t r = 1; r < rows; r++)
        for (size_t b = 0; b < r; b++)
            square[r][b] = square[b][r] = row[r][a + b];
    for (size_t b = 0; b < rows; b++)
        for (size_t v = 0; v < vectors; v++) {
            vf other = v_get(x + (a + b) * d + v * VW, part, t);
            for (size_t r = 0; r < PAIR_ROWS; r++)
                sum[r][v] = v_fma(v_set(square[r][b]), other, sum[r][v]);
        }
    /* Here all rows exist: b is beyond them. */
    for (size_t b = a + PAIR_ROWS; b < f; b++) {
        const float *side = dout + b * (b - 1) / 2 + a;
        for (size_t v = 0; v < vectors; v++) {
            vf other = v_get(x + b * d + v * VW, part, t);
            for (size_t r = 0; r < PAIR_ROWS; r++)
                sum[r][v] = v_fma(v_set(side[r]), other, sum[r][v]);
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < vectors; v++)
            v_put(dx + (a + r) * d + v * VW, part, t, sum[r][v]);
}

/* The same for up to PAIR_FEW vectors of one register each, pair by pair in the order of dout, each
 * for both of its rows: a row's sum over the later ones stays in a register, that over the earlier
 * ones is complete when its pairs have passed. */
static FTH_INLINE void pair_grad_few(size_t f, size_t d, const float *x, const float *dout,
                                     float *dx) {
    vf later[PAIR_FEW - 1];
    for (size_t b = 0; b < PAIR_FEW - 1; b++)
        later[b] = v_zero();
    for (size_t a = 1; a < f; dout += a, a++) {
        vf own = v_load(x + a * d), even = v_zero(), odd = v_zero();
#pragma GCC unroll 32
        for (size_t b = 0; b < PAIR_FEW - 1; b++) {
            if (b == a)
                break;
            vf g = v_set(dout[b]);
            later[b] = v_fma(g, own, later[b]);
            if (b % 2)
                odd = v_fma(g, v_load(x + b * d), odd);
            else
                even = v_fma(g, v_load(x + b * d), even);
        }
        v_store(dx + a * d, v_add(even, odd));
    }
    v_store(dx, later[0]);
#pragma GCC unroll 32
    for (size_t b = 1; b < PAIR_FEW - 1; b++) {
        if (b + 1 >= f)
            break;
        v_store(dx + b * d, v_add(v_load(dx + b * d), later[b]));
    }
}

static FTH_INLINE void pairs_grad_one(size_t f, size_t d, const float *x, const float *dout,
                                      float *dx) {
    if (VW == 16 && d == 16 && f > 0 && f <= PAIR_FEW) {
        pair_grad_few(f, d, x, dout, dx);
        return;
    }
    for (size_t a = 0; a < f; a += PAIR_ROWS) {
        size_t c = 0;
        for (; c + 16 <= d; c += 16)
            pair_grad_block(0, v_tail(0), PAIR_VECTORS, f, d, x + c, dout, a, dx + c);
        for (; c + VW <= d; c += VW)
            pair_grad_block(0, v_tail(0), 1, f, d, x + c, dout, a, dx + c);
        if (c < d)
            pair_grad_block(1, v_tail(d - c), 1, f, d, x + c, dout, a, dx + c);
    }
}

void FTH_K(dot_interaction_grad)(size_t m, size_t f, size_t d, const float *x, size_t ldx,
                                 const float *dout, size_t lddo, float *dx, size_t lddx) {
    for (size_t i = 0; i < m; i++, x += ldx, dout += lddo, dx += lddx)
        switch (d) {
        case 8: pairs_grad_one(f, 8, x, dout, dx); break;
        case 16: pairs_grad_one(f, 16, x, dout, dx); break;
        case 32: pairs_grad_one(f, 32, x, dout, dx); break;
        case 64: pairs_grad_one(f, 64, x, dout, dx); break;
        default: pairs_grad_one(f, d, x, dout, dx); break;
        }
}

#endif
