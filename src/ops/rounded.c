/* What nodes share that make a gradient for products of tiles alone (pass round_once): a block at a time, whose floats
 * stay in cache, rounded by rows and in pairs (kernels/tiles.h), and the sum of its rows. */
#include "kernels/tiles.h"
#include "ops/ops_private.h"

_Static_assert(FTH_OPS_MADE_SIDE == FTH_TILES_ROUND, "blocks are those that are stored");

/* Of sums, as many as whole words of bits have columns. */
static size_t sums_room(uint32_t columns) {
    return ((size_t)columns + 31) / 32 * 32;
}

size_t fth_ops_made_floats(uint32_t columns) {
    return sums_room(columns) + (size_t)FTH_OPS_MADE_SIDE * FTH_OPS_MADE_SIDE;
}

void fth_ops_store_made(const struct fth_run *run, fth_ops_make *make, uint32_t output) {
    const struct fth_view *by_rows = &run->out[output], *summed = by_rows + 1, *sum = by_rows + 2;
    float *sums = run->scratch;
    size_t room = sums_room(by_rows->columns);
    const struct fth_ops_maker maker = {run, sums + room};
    memset(sums, 0, room * sizeof *sums);
    fth_tiles_store(&(struct fth_tiles_store){.ldx = FTH_OPS_MADE_SIDE, .rows = by_rows->rows,
                                              .columns = by_rows->columns, .make = make, .maker = &maker,
                                              .by_rows = by_rows->data, .summed = summed->data, .way = FTH_TILES_PAIRS,
                                              .ld = by_rows->ld, .sums = sums,
                                              .precision = (fth_precision)by_rows->precision});
    memcpy(sum->data, sums, by_rows->columns * sizeof *sums);
}
