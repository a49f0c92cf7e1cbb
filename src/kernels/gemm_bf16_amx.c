/* The bf16 kernel for AMX: tiles of 16 x 16 of C in tile registers, four at a time. See gemm_bf16.h; runs only
 * where fth_cpu says amx_bf16, which includes Linux's permission to use the tiles.
 *
 *            B  6   7        32 of k are 16 words; a tile of A is 16 rows by 16 words, one of B 16 words of
 *      A  4     0   1        k by 16 columns.
 *         5     2   3
 *
 * Tiles are always full: depths are multiples of 32, panels have multiples of 16 columns, and rows of A
 * behind the last hold anything (they are there, see fth_bf16_scratch; what they give is not stored).
 * Threads: tile registers are the thread's own and released after every panel. */
#include "kernels/gemm_bf16.h"

#ifdef FTH_SIMDE
#include "emulated_bf16.h"
#else
#include <immintrin.h>
#endif

#define SIDE 16u

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
};

static const struct tile_config all_full = {.palette = 1,
                                            .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                            .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Adds a tile of sums to C, or sets it, as far as C goes. */
static void put(const struct fth_bf16_panel *p, const float (*sums)[SIDE], uint32_t row, uint32_t column) {
    if (row >= p->rows || column >= p->columns)
        return;
    uint32_t rows = p->rows - row < SIDE ? p->rows - row : SIDE;
    uint32_t n = p->columns - column;
    __mmask16 mask = n >= SIDE ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
    for (uint32_t r = 0; r < rows; r++) {
        float *c = p->c + (row + r) * p->ldc + column;
        __m512 sum = _mm512_loadu_ps(sums[r]);
        if (p->add)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, c));
        _mm512_mask_storeu_ps(c, mask, sum);
    }
}

/* Up to 32 x 32 of C. */
static void tiles_block(const struct fth_bf16_panel *p, uint32_t row, uint32_t column) {
    int two_rows = p->rows - row > SIDE, two_columns = p->columns - column > SIDE;
    long a_bytes = (long)(p->a_row * sizeof(uint32_t)), b_bytes = (long)(p->ldb * sizeof(uint32_t));
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int term = p->terms - 1; term >= 0; term--) {
        const uint32_t *a = p->a + row * p->a_row + (term == 2 ? p->a_low : 0);
        const uint32_t *b = p->b + column + (term == 1 ? p->b_low : 0);
        for (uint32_t q = 0; q < p->depth / 2; q += SIDE, a += SIDE, b += SIDE * p->ldb) {
            _tile_loadd(4, a, a_bytes);
            _tile_loadd(6, b, b_bytes);
            _tile_dpbf16ps(0, 4, 6);
            if (two_columns) {
                _tile_loadd(7, b + SIDE, b_bytes);
                _tile_dpbf16ps(1, 4, 7);
            }
            if (two_rows) {
                _tile_loadd(5, a + SIDE * p->a_row, a_bytes);
                _tile_dpbf16ps(2, 5, 6);
                if (two_columns)
                    _tile_dpbf16ps(3, 5, 7);
            }
        }
    }
    float sums[4][SIDE][SIDE] __attribute__((aligned(64)));
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
    _tile_stored(2, sums[2], 64);
    _tile_stored(3, sums[3], 64);
    for (uint32_t i = 0; i < 4; i++)
        put(p, sums[i], row + i / 2 * SIDE, column + i % 2 * SIDE);
}

static void tiles_panel(const struct fth_bf16_panel *p) {
    _tile_loadconfig(&all_full);
    for (uint32_t column = 0; column < p->columns; column += 2 * SIDE)
        for (uint32_t row = 0; row < p->rows; row += 2 * SIDE)
            tiles_block(p, row, column);
    _tile_release();
}

const struct fth_bf16_kernel fth_bf16_amx = {.name = "amx-bf16",
                                             .depth = 32,
                                             .a_by_rows = 1,
                                             .pack_rows = fth_bf16_pack_rows,
                                             .pack_pairs = fth_bf16_pack_pairs,
                                             .panel = tiles_panel};
