/* Tiles of bf16 (tiles.h): blocks of 32 x 32, whole ones by a kernel of their own. Threads: no state. */
#include "kernels/tiles.h"

#include "kernels/gemm_bf16.h"
#include "kernels/kernels.h"

#define SIDE ((uint32_t)FTH_TILES_ROUND)
#define WORDS ((size_t)FTH_TILES_WORDS)

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* A block that the matrix ends in. */
static void part_by_rows(const struct fth_bf16_kernel *kernel, const struct fth_bf16_block *b, uint32_t rows,
                         uint32_t columns) {
    for (uint32_t row = 0; row < rows; row += 16)
        kernel->pack_rows(&(struct fth_bf16_pack){.x = b->x + row * b->ldx, .ldx = b->ldx, .n = least(rows - row, 16),
                                                  .k = columns, .depth = SIDE, .out = b->by_rows + row / 16 * b->group,
                                                  .ldo = FTH_TILES_LINE});
}
static void part_by_pairs(const struct fth_bf16_kernel *kernel, const struct fth_bf16_block *b, uint32_t rows,
                          uint32_t columns) {
    for (uint32_t column = 0; column < columns; column += 16)
        kernel->pack_pairs(&(struct fth_bf16_pack){.x = b->x + column, .ldx = b->ldx, .n = least(columns - column, 16),
                                                   .k = rows, .depth = SIDE, .out = b->by_pairs + column / 16 * WORDS,
                                                   .ldo = FTH_TILES_LINE, .width = FTH_TILES_LINE});
}

static void turn(const uint32_t *tile, uint32_t *out) {
    fth_kernels_get()->transpose(FTH_TILES_LINE, FTH_TILES_LINE, (const float *)(const void *)tile, FTH_TILES_LINE,
                                 (float *)(void *)out, FTH_TILES_LINE);
}

/* The block at a row and a column, which are multiples of 32. */
static void store_block(const struct fth_bf16_kernel *kernel, const struct fth_tiles_store *s, uint32_t row,
                        uint32_t column) {
    uint32_t turned[2 * FTH_TILES_WORDS] __attribute__((aligned(64)));
    uint32_t rows = least(s->rows - row, SIDE), columns = least(s->columns - column, SIDE);
    size_t at = row * s->ld;
    struct fth_bf16_block b = {.x = s->x + row * s->ldx + column, .ldx = s->ldx, .group = 16 * s->ld};
    uint32_t *summed = s->summed ? (uint32_t *)(void *)(s->summed + at + fth_tiles_column(s->way, column)) : NULL;
    if (s->by_rows)
        b.by_rows = (uint32_t *)(void *)(s->by_rows + at + fth_tiles_column(FTH_TILES_ROWS, column));
    b.by_pairs = s->way == FTH_TILES_TURNED && summed ? turned : summed;
    if (rows == SIDE && columns == SIDE) {
        kernel->round_block(&b);
    } else {
        if (b.by_rows)
            part_by_rows(kernel, &b, rows, columns);
        if (b.by_pairs)
            part_by_pairs(kernel, &b, rows, columns);
    }
    for (uint32_t tile = 0; b.by_pairs == turned && tile < columns; tile += 16)
        turn(turned + tile / 16 * WORDS, summed + tile / 16 * WORDS);
}

void fth_bf16_tiles_store(const struct fth_bf16_kernel *kernel, const struct fth_tiles_store *s) {
    for (uint32_t row = 0; row < s->rows; row += SIDE)
        for (uint32_t column = 0; column < s->columns; column += SIDE)
            store_block(kernel, s, row, column);
}

void fth_tiles_store(const struct fth_tiles_store *store) {
    fth_bf16_tiles_store(&fth_bf16_amx, store);
}
