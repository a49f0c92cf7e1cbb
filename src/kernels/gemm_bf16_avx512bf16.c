/* The bf16 kernel for AVX512-BF16: a block of C in registers, words of A broadcast, rows of a panel of B
 * loaded whole. See gemm_bf16.h; runs only where fth_cpu says avx512_bf16. Threads: pure functions. */
#include "kernels/gemm_bf16.h"

#ifdef FTH_SIMDE
#include "emulated_bf16.h"
#define WORDS  /* one type there */
#define HALVES
#define FETCH(hint, place) ((void)(place))
#else
#include <immintrin.h>
#define WORDS (__m512i)
#define HALVES (__m512bh)
#define FETCH(hint, place) _mm_prefetch((const char *)(place), hint)
#endif

#define INLINE static inline __attribute__((always_inline))

/* Lanes of the first n columns. */
INLINE __mmask16 lanes(uint32_t n) {
    return n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
}

/* Two rows' bf16, one behind the other, as words: the first row's in the low halves. */
INLINE __m512i paired(__m512i rows) {
    static const uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8,  24, 9,  25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), rows);
}
INLINE __m512i interleaved(__m512 low, __m512 high) {
    return paired(WORDS _mm512_cvtne2ps_pbh(high, low));
}

#ifdef FTH_SIMDE
#define even_of(words) emulated_pick(words, 0, 2)
#define odd_of(words) emulated_pick(words, 1, 2)
#define lower_half(words) emulated_pick(words, 0, 1)
#define upper_half(words) emulated_pick(words, 16, 1)
#else
/* The halves of words as floats: all even, all odd, the first 16, the last 16. */
INLINE __m512 even_of(__m512i words) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
INLINE __m512 odd_of(__m512i words) {
    return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000u)));
}
INLINE __m512 lower_half(__m512i words) {
    return even_of(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(words)));
}
INLINE __m512 upper_half(__m512i words) {
    return even_of(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(words, 1)));
}
#endif

#define PACK_AHEAD 8u   /* rows, which lie apart */
#define BLOCKS_AHEAD 2u /* of 32 columns */

void fth_bf16_pack_pairs(const struct fth_bf16_pack *p) {
    for (uint32_t q = 0; q < p->depth / 2; q++) {
        const float *first = p->x + (size_t)2 * q * p->ldx, *second = first + p->ldx;
        uint32_t *out = p->out + q * p->ldo;
        for (uint32_t j = 0; j < p->width; j += 16) {
            uint32_t n = j < p->n ? p->n - j : 0;
            FETCH(_MM_HINT_T0, first + PACK_AHEAD * p->ldx + j);
            FETCH(_MM_HINT_T0, second + PACK_AHEAD * p->ldx + j);
            __m512 even = _mm512_maskz_loadu_ps(2 * q < p->k ? lanes(n) : 0, first + j);
            __m512 odd = _mm512_maskz_loadu_ps(2 * q + 1 < p->k ? lanes(n) : 0, second + j);
            for (uint32_t i = 0; i < p->parts; i++) {
                __m512i words = interleaved(even, odd);
                _mm512_storeu_si512(out + i * p->part + j, words);
                even = _mm512_sub_ps(even, even_of(words));
                odd = _mm512_sub_ps(odd, odd_of(words));
            }
        }
    }
}

void fth_bf16_pack_rows(const struct fth_bf16_pack *p) {
    for (uint32_t i = 0; i < p->n; i++) {
        const float *x = p->x + i * p->ldx;
        uint32_t *out = p->out + i * p->ldo;
        for (uint32_t k = 0; k < p->depth; k += 32, out += 16) {
            uint32_t left = k < p->k ? p->k - k : 0, words = (p->depth - k) / 2;
            __m512 lower = _mm512_maskz_loadu_ps(lanes(left), x + k);
            __m512 upper = _mm512_maskz_loadu_ps(lanes(left > 16 ? left - 16 : 0), x + k + 16);
            for (uint32_t part = 0; part < p->parts; part++) {
                __m512i both = WORDS _mm512_cvtne2ps_pbh(upper, lower);
                _mm512_mask_storeu_epi32(out + part * p->part, lanes(words), both);
                upper = _mm512_sub_ps(upper, upper_half(both));
                lower = _mm512_sub_ps(lower, lower_half(both));
            }
        }
    }
}

/* Row `row` of a block's half: those without a bit of `keep` as 0; with bias and ReLU, to which NaN stays NaN. */
INLINE __m512 read(const struct fth_bf16_block *b, uint32_t row, uint32_t half) {
    const float *from = b->x + row * b->ldx + 16 * half;
    __m512 x = b->keep ? _mm512_maskz_loadu_ps((__mmask16)(b->keep[row * b->ld_keep] >> 16 * half), from)
                       : _mm512_loadu_ps(from);
    if (b->bias)
        x = _mm512_add_ps(x, _mm512_loadu_ps(b->bias + 16 * half));
    return b->relu ? _mm512_max_ps(_mm512_setzero_ps(), x) : x;
}
INLINE uint32_t positive_of(__m512 first, __m512 second) {
    const __m512 zero = _mm512_setzero_ps(); /* NaN counts, as to ReLU's gradient */
    uint32_t upper = _mm512_cmp_ps_mask(second, zero, _CMP_NLE_UQ);
    return _mm512_cmp_ps_mask(first, zero, _CMP_NLE_UQ) | upper << 16;
}

/* Two rows of 32 columns: bf16 of 16 columns of both, the first row's first, become rows of 32 and words of pairs; the
 * second 16 columns' are `step` words behind. */
INLINE void store_part(uint32_t *by_rows, uint32_t *by_pairs, size_t step, const __m512i halves[2],
                       const __m512i pairs[2]) {
    if (by_rows) {
        _mm512_storeu_si512(by_rows, _mm512_shuffle_i64x2(halves[0], halves[1], 0x44));
        _mm512_storeu_si512(by_rows + 16, _mm512_shuffle_i64x2(halves[0], halves[1], 0xee));
    }
    if (by_pairs) {
        _mm512_storeu_si512(by_pairs, pairs[0]);
        _mm512_storeu_si512(by_pairs + step, pairs[1]);
    }
}
INLINE void store_rows(const struct fth_bf16_block *b, uint32_t q, __m512 x[2][2]) {
    uint32_t *by_rows = b->by_rows ? b->by_rows + (q / 8) * b->group + 2 * q % 16 * 16 : NULL;
    uint32_t *by_pairs = b->by_pairs ? b->by_pairs + q * 16 : NULL;
    size_t step = b->parts * FTH_TILES_WORDS;
    for (size_t at = 0; at < step; at += FTH_TILES_WORDS) {
        __m512i halves[2], pairs[2];
        for (int i = 0; i < 2; i++) {
            halves[i] = WORDS _mm512_cvtne2ps_pbh(x[1][i], x[0][i]);
            pairs[i] = paired(halves[i]);
            x[0][i] = _mm512_sub_ps(x[0][i], even_of(pairs[i]));
            x[1][i] = _mm512_sub_ps(x[1][i], odd_of(pairs[i]));
        }
        store_part(by_rows ? by_rows + at : NULL, by_pairs ? by_pairs + at : NULL, step, halves, pairs);
    }
}

/* Rows lie apart, and the blocks of a row are asked for in its direction: BLOCKS_AHEAD of them. What is stored far
 * away, in no cache, would be waited for, too: `ahead`. */
void fth_bf16_round_block(const struct fth_bf16_block *b, uint32_t first, uint32_t end) {
    const uint32_t lines = 2 * b->parts;
    __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (uint32_t half = 0; b->sums && half < 2; half++)
        sums[half] = _mm512_loadu_ps(b->sums + 16 * half);
    for (uint32_t q = first; q < end; q++) {
        const float *even = b->x + 2 * q * b->ldx, *odd = even + b->ldx;
        __m512 x[2][2] = {{read(b, 2 * q, 0), read(b, 2 * q, 1)}, {read(b, 2 * q + 1, 0), read(b, 2 * q + 1, 1)}};
        for (uint32_t row = 0; b->positive && row < 2; row++)
            b->positive[(2 * q + row) * b->ld_positive] = positive_of(x[row][0], x[row][1]);
        for (uint32_t half = 0; b->sums && half < 2; half++)
            sums[half] = _mm512_add_ps(_mm512_add_ps(sums[half], x[0][half]), x[1][half]);
        for (uint32_t half = 0; half < 2; half++) {
            FETCH(_MM_HINT_T0, even + BLOCKS_AHEAD * 32 + half * 16);
            FETCH(_MM_HINT_T0, odd + BLOCKS_AHEAD * 32 + half * 16);
        }
        for (uint32_t line = q * lines; b->ahead && line < (q + 1) * lines; line++)
            __builtin_prefetch(b->ahead + line * FTH_TILES_LINE, 1);
        store_rows(b, q, x);
    }
    for (uint32_t half = 0; b->sums && half < 2; half++)
        _mm512_storeu_ps(b->sums + 16 * half, sums[half]);
}

#define MAX_ROWS 8
#define MAX_VECTORS 5
#define LINES 4u

/* Which parts are multiplied: of bf16x6 all of these, of bf16x3 the last three, of bf16 the last one. */
enum { TERMS = 6 };
static const struct {
    uint8_t a, b;
} order[TERMS] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};

INLINE uint32_t terms(const struct fth_bf16_panel *p) {
    return p->parts * (p->parts + 1) / 2;
}

/* The lines that the block of that number fetches, one a pair: a column of lines of as many rows. */
INLINE const uint32_t *next_of(const struct fth_bf16_panel *p, uint32_t block, size_t *ld) {
    size_t row = (size_t)(block / LINES) * (p->depth / 2) * (size_t)terms(p);
    if (row >= p->next_rows)
        return p->b; /* in cache */
    *ld = p->ld_next;
    return p->next + row * p->ld_next + block % LINES * 16;
}

/* R rows by V vectors of C, which the compiler keeps in registers: both are constants where it is called. */
INLINE void block(int R, int V, const struct fth_bf16_panel *p, uint32_t row) {
    const int most = V == 4 ? 6 : V == 5 ? 4 : 8;
    __m512 sum[MAX_ROWS][MAX_VECTORS];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++)
            sum[r][v] = _mm512_setzero_ps();
    size_t ld_next = 0;
    const uint32_t *next = next_of(p, row / (uint32_t)most, &ld_next);
    for (uint32_t term = TERMS - terms(p); term < TERMS; term++) {
        const uint32_t *a = p->a + row * p->a_row + order[term].a * p->a_part;
        const uint32_t *b = p->b + order[term].b * p->b_part;
        for (uint32_t q = 0; q < p->depth / 2; q++, a += p->a_pair, b += p->ldb, next += ld_next) {
            FETCH(_MM_HINT_T1, next);
            __m512bh columns[MAX_VECTORS];
            for (int v = 0; v < V; v++)
                columns[v] = HALVES _mm512_loadu_si512(b + 16 * v);
            for (int r = 0; r < R; r++) {
                __m512bh words = HALVES _mm512_set1_epi32((int)a[r * p->a_row]);
                for (int v = 0; v < V; v++)
                    sum[r][v] = _mm512_dpbf16_ps(sum[r][v], words, columns[v]);
            }
        }
    }
    __mmask16 last = lanes(p->columns - 16 * (uint32_t)(V - 1));
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            float *c = p->c + (row + (uint32_t)r) * p->ldc + 16 * v;
            __mmask16 mask = v == V - 1 ? last : (__mmask16)0xffff;
            if (p->add)
                sum[r][v] = _mm512_add_ps(sum[r][v], _mm512_maskz_loadu_ps(mask, c));
            _mm512_mask_storeu_ps(c, mask, sum[r][v]);
        }
}

/* One function for each size of block. As many rows as registers hold, which for few columns would be
 * more; eight keep the pipeline full. */
#define BLOCK(R, V) \
    static void block_##R##_##V(const struct fth_bf16_panel *p, uint32_t row) { block(R, V, p, row); }
#define BLOCKS(V) BLOCK(1, V) BLOCK(2, V) BLOCK(3, V) BLOCK(4, V)
#define MORE(V) BLOCK(5, V) BLOCK(6, V)
#define MOST(V) BLOCK(7, V) BLOCK(8, V)
BLOCKS(1) BLOCKS(2) BLOCKS(3) BLOCKS(4) BLOCKS(5)
MORE(1) MORE(2) MORE(3) MORE(4)
MOST(1) MOST(2) MOST(3)

typedef void block_function(const struct fth_bf16_panel *p, uint32_t row);
#define ROW(V) block_1_##V, block_2_##V, block_3_##V, block_4_##V
#define ROW_MORE(V) ROW(V), block_5_##V, block_6_##V
static block_function *const blocks[MAX_VECTORS][MAX_ROWS] = {
    {ROW_MORE(1), block_7_1, block_8_1},
    {ROW_MORE(2), block_7_2, block_8_2},
    {ROW_MORE(3), block_7_3, block_8_3},
    {ROW_MORE(4)},
    {ROW(5)},
};
static const uint32_t most_rows[MAX_VECTORS] = {8, 8, 8, 6, 4};

static void panel(const struct fth_bf16_panel *p) {
    uint32_t vectors = (p->columns + 15) / 16, most = most_rows[vectors - 1];
    for (uint32_t row = 0; row < p->rows; row += most) {
        uint32_t rows = p->rows - row < most ? p->rows - row : most;
        blocks[vectors - 1][rows - 1](p, row);
    }
}

const struct fth_bf16_kernel fth_bf16_avx512 = {
    .name = "avx512-bf16",
    .depth = 2,
    .rows = 128,
    .chunk = 256,
    .strip = FTH_PANEL,
    .pack_rows = fth_bf16_pack_rows,
    .pack_pairs = fth_bf16_pack_pairs,
    .round_block = fth_bf16_round_block,
    .panel = panel};
