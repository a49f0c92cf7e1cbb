/* The bf16 kernel for AMX: tiles of 16 x 16 of C in tile registers, four at a time. See gemm_bf16.h; runs only
 * where fth_cpu says amx_bf16, which includes Linux's permission to use the tiles.
 *
 *            B  6   7        32 of k are 16 words; a tile of A is 16 rows by 16 words, one of B 16 words of
 *      A  4     0   1        k by 16 columns.
 *         5     2   3
 *
 * Tiles are always full: depths are multiples of 32, panels have multiples of 16 columns, and rows of A
 * behind the last hold anything (they are there, see fth_bf16_scratch; what they give is not stored).
 * Threads: tile registers are the thread's own, configured for a run and released after it. */
#include "kernels/gemm_bf16.h"

#ifdef FTH_SIMDE
#include "emulated_bf16.h"
#define FETCH_FAR(place) ((void)(place))
#else
#include <immintrin.h>
#define FETCH_FAR(place) _mm_prefetch((const char *)(place), _MM_HINT_T1)
#endif

#define SIDE 16u
#define DEPTH 512u /* numbers of a column, of all parts, that stay in the first cache */
#define AHEAD 8    /* lines that bf16 fetches a step of depth */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
};

static const struct tile_config all_full = {.palette = 1,
                                            .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                            .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static int in_c(const struct fth_bf16_panel *p, uint32_t row, uint32_t column) {
    return p->rows - row >= SIDE && p->columns - column >= SIDE;
}

/* The part of a tile that C has. */
static __mmask16 part_columns(const struct fth_bf16_panel *p, uint32_t column) {
    uint32_t n = p->columns - column;
    return n >= SIDE ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
}
static void get_part(const struct fth_bf16_panel *p, float (*sums)[SIDE], uint32_t row, uint32_t column) {
    uint32_t rows = p->rows - row < SIDE ? p->rows - row : SIDE;
    __mmask16 mask = part_columns(p, column);
    for (uint32_t r = 0; r < rows; r++)
        _mm512_storeu_ps(sums[r], _mm512_maskz_loadu_ps(mask, p->c + (row + r) * p->ldc + column));
    for (uint32_t r = rows; r < SIDE; r++)
        _mm512_storeu_ps(sums[r], _mm512_setzero_ps());
}
static void put_part(const struct fth_bf16_panel *p, const float (*sums)[SIDE], uint32_t row, uint32_t column) {
    uint32_t rows = p->rows - row < SIDE ? p->rows - row : SIDE;
    __mmask16 mask = part_columns(p, column);
    for (uint32_t r = 0; r < rows; r++)
        _mm512_mask_storeu_ps(p->c + (row + r) * p->ldc + column, mask, _mm512_loadu_ps(sums[r]));
}

/* Tile registers are named in the code: these become one instruction each. */
#define BEGIN(tile, r, n)                                                         \
    do {                                                                          \
        if (!p->add)                                                              \
            _tile_zero(tile);                                                     \
        else if (in_c(p, r, n))                                                   \
            _tile_stream_loadd(tile, p->c + (r) * p->ldc + (n), c_bytes);         \
        else {                                                                    \
            get_part(p, sums, r, n);                                              \
            _tile_loadd(tile, sums, 64);                                          \
        }                                                                         \
    } while (0)
#define END(tile, r, n)                                                           \
    do {                                                                          \
        if (in_c(p, r, n))                                                        \
            _tile_stored(tile, p->c + (r) * p->ldc + (n), c_bytes);               \
        else {                                                                    \
            _tile_stored(tile, sums, 64);                                         \
            put_part(p, (const float(*)[SIDE])sums, r, n);                        \
        }                                                                         \
    } while (0)

/* One part of A's rows or B's columns. */
#define LOAD_A(from)                                             \
    do {                                                         \
        _tile_stream_loadd(4, from, a_bytes);                    \
        if (two_rows)                                            \
            _tile_stream_loadd(5, (from) + a_block, a_bytes);    \
    } while (0)
#define LOAD_B(from)                                             \
    do {                                                         \
        _tile_loadd(6, from, b_bytes);                           \
        if (two_columns)                                         \
            _tile_loadd(7, (from) + b_block, b_bytes);           \
    } while (0)
#define MULTIPLY()                                               \
    do {                                                         \
        _tile_dpbf16ps(0, 4, 6);                                 \
        if (two_rows)                                            \
            _tile_dpbf16ps(2, 5, 6);                             \
        if (two_columns)                                         \
            _tile_dpbf16ps(1, 4, 7);                             \
        if (two_rows && two_columns)                             \
            _tile_dpbf16ps(3, 5, 7);                             \
    } while (0)

/* 16 or 32 rows by 16 or 32 columns of C. With two or three parts a load makes up to three products, one operand staying
 * from each to the next, so that loads take less time than products and nothing has to be fetched ahead; bf16 waits for
 * loads. */
static inline __attribute__((always_inline)) void tiles_block(const struct fth_bf16_panel *p, uint32_t row,
                                                              uint32_t column, const int two_rows,
                                                              const int two_columns, const uint32_t parts,
                                                              const uint32_t *ahead) {
    long a_bytes = (long)(p->a_row * sizeof(uint32_t)), b_bytes = (long)(p->ldb * sizeof(uint32_t));
    size_t a_block = p->a_block, a_step = p->a_step, b_block = p->b_block, b_step = p->b_step;
    long c_bytes = (long)(p->ldc * sizeof(float));
    float sums[SIDE][SIDE] __attribute__((aligned(64)));
    BEGIN(0, row, column);
    if (two_columns)
        BEGIN(1, row, column + SIDE);
    if (two_rows)
        BEGIN(2, row + SIDE, column);
    if (two_rows && two_columns)
        BEGIN(3, row + SIDE, column + SIDE);
    const uint32_t *a = p->a + row / SIDE * a_block, *b = p->b + column / SIDE * b_block;
    for (uint32_t q = 0; q < p->depth / 2; q += SIDE, a += a_step, b += b_step) {
        if (parts == 3) {
            LOAD_A(a + 2 * p->a_part);
            LOAD_B(b);
            MULTIPLY();
            LOAD_A(a + p->a_part);
            MULTIPLY();
            LOAD_B(b + p->b_part);
            MULTIPLY();
            if (p->aside)
                p->aside(p->ctx);
            LOAD_A(a);
            MULTIPLY();
            LOAD_B(b + 2 * p->b_part);
            MULTIPLY();
            LOAD_B(b);
            MULTIPLY();
            if (p->aside)
                p->aside(p->ctx);
            continue;
        }
        if (parts == 2) {
            LOAD_A(a + p->a_part);
            LOAD_B(b);
            MULTIPLY();
            if (p->aside)
                p->aside(p->ctx);
            LOAD_A(a);
            MULTIPLY();
            LOAD_B(b + p->b_part);
            MULTIPLY();
            if (p->aside)
                p->aside(p->ctx);
            continue;
        }
        _tile_stream_loadd(4, a, a_bytes);
        if (two_rows)
            _tile_stream_loadd(5, a + a_block, a_bytes);
        _tile_loadd(6, b, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
#pragma GCC unroll 8
        for (int i = 0; i < AHEAD; i++, ahead += SIDE)
            FETCH_FAR(ahead);
        if (two_rows)
            _tile_dpbf16ps(2, 5, 6);
        if (two_columns) {
            _tile_loadd(7, b + b_block, b_bytes);
            _tile_dpbf16ps(1, 4, 7);
            if (two_rows)
                _tile_dpbf16ps(3, 5, 7);
        }
    }
    END(0, row, column);
    if (two_columns)
        END(1, row, column + SIDE);
    if (two_rows)
        END(2, row + SIDE, column);
    if (two_rows && two_columns)
        END(3, row + SIDE, column + SIDE);
}

/* Where the block of that number fetches AHEAD lines a step of depth. */
static const uint32_t *ahead_of(const struct fth_bf16_panel *p, uint32_t block) {
    for (int i = 0; i < 2; i++) {
        const struct fth_bf16_ahead *next = &p->ahead[i];
        uint32_t run = AHEAD * p->depth / (2 * SIDE), runs = (next->lines + run - 1) / run;
        if (block < runs * next->pieces)
            return next->from + block / runs * next->step + block % runs * run * SIDE;
        block -= runs * next->pieces;
    }
    return p->a; /* in cache */
}

/* Returns the number of the next block. */
static inline __attribute__((always_inline)) uint32_t tiles_depth(const struct fth_bf16_panel *p, const uint32_t parts,
                                                                  uint32_t block) {
    for (uint32_t column = 0; column < p->columns; column += 2 * SIDE) {
        int two_columns = p->columns - column > SIDE;
        for (uint32_t row = 0; row < p->rows; row += 2 * SIDE) {
            int two_rows = p->rows - row > SIDE;
            const uint32_t *ahead = parts > 1 ? NULL : ahead_of(p, block++);
            if (two_rows && two_columns)
                tiles_block(p, row, column, 1, 1, parts, ahead);
            else if (two_rows)
                tiles_block(p, row, column, 1, 0, parts, ahead);
            else if (two_columns)
                tiles_block(p, row, column, 0, 1, parts, ahead);
            else
                tiles_block(p, row, column, 0, 0, parts, ahead);
        }
    }
    return block;
}

/* Depth by depth, so that B's columns stay in the first cache for all rows; sums begin with C, so to the same bits. */
static void tiles_panel(const struct fth_bf16_panel *p) {
    struct fth_bf16_panel part = *p;
    uint32_t depth = DEPTH / p->parts / (2 * SIDE) * (2 * SIDE), left = p->depth, block = 0;
    for (uint32_t pieces = (left + depth - 1) / depth; left; pieces--) {
        part.depth = (left / pieces + 2 * SIDE - 1) / (2 * SIDE) * (2 * SIDE);
        block = p->parts == 3   ? tiles_depth(&part, 3, block)
                : p->parts == 2 ? tiles_depth(&part, 2, block)
                                : tiles_depth(&part, 1, block);
        part.a += part.depth / (2 * SIDE) * p->a_step;
        part.b += part.depth / (2 * SIDE) * p->b_step;
        part.add = 1;
        left -= part.depth;
    }
}

static void tiles_begin(void) {
    _tile_loadconfig(&all_full);
}
static void tiles_end(void) {
    _tile_release();
}

const struct fth_bf16_kernel fth_bf16_amx = {.name = "amx-bf16",
                                             .depth = 32,
                                             .rows = 256,
                                             .chunk = 512,
                                             .strip = SIDE,
                                             .a_by_rows = 1,
                                             .pack_rows = fth_bf16_pack_rows,
                                             .pack_pairs = fth_bf16_pack_pairs,
                                             .round_block = fth_bf16_round_block,
                                             .begin = tiles_begin,
                                             .end = tiles_end,
                                             .panel = tiles_panel};
