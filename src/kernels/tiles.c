/* Tiles of bf16 (tiles.h): blocks of 32 x 32. Threads: no state. */
#include "kernels/tiles.h"

#include <string.h>

#include "kernels/gemm_bf16.h"
#include "kernels/kernels.h"

#define SIDE ((uint32_t)FTH_TILES_ROUND)
#define WORDS ((size_t)FTH_TILES_WORDS)
#define BLOCKS_AHEAD 2
#define PAIRS (SIDE / 2) /* of rows */

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void turn(const uint32_t *tile, uint32_t *out) {
    fth_kernels_get()->transpose(FTH_TILES_LINE, FTH_TILES_LINE, (const float *)(const void *)tile, FTH_TILES_LINE,
                                 (float *)(void *)out, FTH_TILES_LINE);
}

/* Where the matrix ends: what is behind it is 0, also where there is a bias. */
struct ending {
    float x[FTH_TILES_ROUND * FTH_TILES_ROUND];
    uint32_t positive[FTH_TILES_ROUND];
};

static void ending_make(struct ending *end, struct fth_bf16_block *b, uint32_t rows, uint32_t columns) {
    memset(end, 0, sizeof *end);
    for (uint32_t row = 0; row < rows; row++) {
        float *x = end->x + row * SIDE;
        memcpy(x, b->x + row * b->ldx, columns * sizeof *x);
        for (uint32_t i = 0; b->keep && i < columns; i++)
            x[i] = b->keep[row * b->ld_keep] >> i & 1 ? x[i] : 0.0f;
        for (uint32_t i = 0; b->bias && i < columns; i++)
            x[i] += b->bias[i];
        for (uint32_t i = 0; b->relu && i < columns; i++)
            x[i] = 0.0f > x[i] ? 0.0f : x[i];
    }
    b->x = end->x;
    b->bias = NULL;
    b->relu = 0;
    b->ldx = SIDE;
    b->keep = NULL;
    b->positive = b->positive ? end->positive : NULL;
    b->ld_positive = 1;
}

/* Where the block after next is summed, in the order of fth_bf16_tiles_store. */
static const uint32_t *ahead_of(const struct fth_tiles_store *s, uint32_t row, uint32_t column) {
    column += BLOCKS_AHEAD * SIDE;
    for (; column >= s->columns && row < s->rows; row += SIDE)
        column -= (s->columns + SIDE - 1) / SIDE * SIDE;
    if (!s->summed || row >= s->rows)
        return NULL;
    return (const uint32_t *)(const void *)(s->summed + row * s->ld + fth_tiles_column(s->precision, s->way, column));
}

/* The block at a row and a column, which are multiples of 32; x: its numbers. Its pairs go to `turned` if they are to be
 * turned, to *summed. */
static struct fth_bf16_block block_of(const struct fth_tiles_store *s, uint32_t row, uint32_t column, const float *x,
                                      uint32_t *turned, uint32_t **summed) {
    size_t at = row * s->ld, sums = s->sum_rows ? row / s->sum_rows * s->ld_sums : 0;
    float *begin = s->summed ? s->summed + at + fth_tiles_column(s->precision, s->way, column) : NULL;
    float *by_rows = s->by_rows ? s->by_rows + at + fth_tiles_column(s->precision, FTH_TILES_ROWS, column) : NULL;
    *summed = (uint32_t *)(void *)begin;
    return (struct fth_bf16_block){.x = x, .ldx = s->ldx, .group = 16 * s->ld,
                                   .by_rows = (uint32_t *)(void *)by_rows,
                                   .by_pairs = s->way == FTH_TILES_TURNED && begin ? turned : *summed,
                                   .parts = fth_gemm_parts(s->precision),
                                   .keep = s->keep ? s->keep + row * s->ld_keep + column / SIDE : NULL,
                                   .ld_keep = s->ld_keep,
                                   .positive = s->positive ? s->positive + row * s->ld_positive + column / SIDE : NULL,
                                   .ld_positive = s->ld_positive,
                                   .sums = s->sums ? s->sums + sums + column : NULL,
                                   .bias = s->bias ? s->bias + column : NULL, .relu = s->relu,
                                   .ahead = ahead_of(s, row, column)};
}

static void store_block(const struct fth_bf16_kernel *kernel, const struct fth_tiles_store *s, uint32_t row,
                        uint32_t column) {
    uint32_t turned[2 * FTH_GEMM_PARTS * FTH_TILES_WORDS] __attribute__((aligned(64))), *summed;
    uint32_t rows = least(s->rows - row, SIDE), columns = least(s->columns - column, SIDE);
    const float *x = s->make ? s->make(s->maker, row, column, rows, columns) : s->x + row * s->ldx + column;
    struct fth_bf16_block b = block_of(s, row, column, x, turned, &summed);
    uint32_t *positive = b.positive;
    struct ending end;
    int ends = rows < SIDE || columns < SIDE;
    if (ends)
        ending_make(&end, &b, rows, columns);
    kernel->round_block(&b, 0, PAIRS);
    for (uint32_t i = 0; ends && positive && i < rows; i++)
        positive[i * s->ld_positive] = end.positive[i];
    for (uint32_t tile = 0; b.by_pairs == turned && tile < 2 * b.parts; tile++)
        turn(turned + tile * WORDS, summed + tile * WORDS);
}

void fth_bf16_tiles_store(const struct fth_bf16_kernel *kernel, const struct fth_tiles_store *s) {
    for (uint32_t row = 0; row < s->rows; row += SIDE)
        for (uint32_t column = 0; column < s->columns; column += SIDE)
            store_block(kernel, s, row, column);
}

void fth_tiles_store(const struct fth_tiles_store *store) {
    fth_bf16_tiles_store(&fth_bf16_amx, store);
}

void fth_tiles_steps_begin(struct fth_tiles_steps *steps, const struct fth_tiles_store *store, uint32_t column,
                           uint32_t columns) {
    struct fth_tiles_store *s = &steps->store;
    *s = *store;
    s->columns = columns;
    s->by_rows = s->by_rows ? s->by_rows + fth_tiles_column(s->precision, FTH_TILES_ROWS, column) : NULL;
    s->summed = s->summed ? s->summed + fth_tiles_column(s->precision, s->way, column) : NULL;
    s->keep = s->keep ? s->keep + column / SIDE : NULL;
    s->positive = s->positive ? s->positive + column / SIDE : NULL;
    s->sums = s->sums ? s->sums + column : NULL;
    s->bias = s->bias ? s->bias + column : NULL;
    steps->row = steps->column = steps->at = 0;
}

static void next_block(struct fth_tiles_steps *t) {
    t->at = 0;
    t->column += SIDE;
    if (t->column >= t->store.columns) {
        t->column = 0;
        t->row += SIDE;
    }
}

/* A pair of rows, then a tile turned; blocks that the matrix ends in are a step. */
void fth_bf16_tiles_next(const struct fth_bf16_kernel *kernel, struct fth_tiles_steps *t) {
    const struct fth_tiles_store *s = &t->store;
    uint32_t *summed, n = 1;
    if (t->row >= s->rows)
        return;
    if (s->rows - t->row < SIDE || s->columns - t->column < SIDE) {
        store_block(kernel, s, t->row, t->column);
    } else {
        const float *x = s->x + t->row * s->ldx + t->column;
        struct fth_bf16_block b = block_of(s, t->row, t->column, x, t->turned, &summed);
        n = PAIRS + (b.by_pairs == t->turned ? 2 * b.parts : 0);
        if (t->at < PAIRS)
            kernel->round_block(&b, t->at, t->at + 1);
        else
            turn(t->turned + (t->at - PAIRS) * WORDS, summed + (t->at - PAIRS) * WORDS);
    }
    if (++t->at == n)
        next_block(t);
}

void fth_bf16_tiles_end(const struct fth_bf16_kernel *kernel, struct fth_tiles_steps *t) {
    while (t->at > 0)
        fth_bf16_tiles_next(kernel, t);
    for (; t->row < t->store.rows; next_block(t))
        store_block(kernel, &t->store, t->row, t->column);
}

void fth_tiles_steps_next(struct fth_tiles_steps *steps) {
    fth_bf16_tiles_next(&fth_bf16_amx, steps);
}

void fth_tiles_steps_end(struct fth_tiles_steps *steps) {
    fth_bf16_tiles_end(&fth_bf16_amx, steps);
}
