/* Blocks of dW = x^T dy: each is one product over the whole batch, so its bits do not depend on how
 * many workers there are or who computes it. */
#include "ops/weight_blocks.h"

#include "kernels/tiles.h"

#define LEAST_SHARED 256u /* columns; on two cores a block of more is for both */

void fth_weight_blocks_cut(const struct fth_prepare *prepare, const struct fth_view *x, const struct fth_view *dy,
                           struct fth_blocks *out) {
    struct fth_gemm_cut cut = fth_gemm_cut((fth_precision)prepare->precision);
    fth_blocks_make(x->columns, dy->columns, cut.block_rows, cut.block_columns, out);
    fth_blocks_for_cores(prepare->cores, out);
    if (prepare->cores <= 2 && fth_blocks_count(out) == 1 && dy->columns > LEAST_SHARED)
        fth_blocks_make(x->columns, dy->columns, cut.block_rows, cut.block_columns / 2, out);
}

fth_status fth_weight_blocks_make(const struct fth_prepare *prepare, const struct fth_view *x,
                                  const struct fth_view *dy, int zeros, uint32_t ldc,
                                  struct fth_weight_blocks *out, fth_error *err) {
    struct fth_weight_blocks made = {.gemms = {NULL}};
    fth_weight_blocks_cut(prepare, x, dy, &made.blocks);
    for (int i = 0; i < 4; i++) {
        uint32_t down = i / 2 ? made.blocks.down - 1 : 0;
        uint32_t across = i % 2 ? made.blocks.across - 1 : 0;
        struct fth_block_range range =
            fth_blocks_range(&made.blocks, down * made.blocks.across + across);
        struct fth_gemm_shape shape = {.form = FTH_GEMM_TN,
                                       .m = range.rows,
                                       .n = range.columns,
                                       .k = x->rows,
                                       .lda = x->ld,
                                       .ldb = dy->ld,
                                       .ldc = ldc,
                                       .tiles = x->tiles != 0,
                                       .zeros = zeros,
                                       .precision = (fth_precision)prepare->precision};
        fth_status status = fth_ops_product(prepare, &shape, &made.gemms[i], err);
        if (status != FTH_OK) {
            fth_weight_blocks_free(&made);
            return status;
        }
    }
    *out = made;
    return FTH_OK;
}

void fth_weight_blocks_free(struct fth_weight_blocks *blocks) {
    for (int i = 0; i < 4; i++)
        fth_gemm_destroy(blocks->gemms[i]);
}

size_t fth_weight_blocks_scratch(const struct fth_weight_blocks *blocks, uint32_t rows) {
    return fth_ops_align(fth_ops_products_scratch(blocks->gemms, 4, rows));
}

/* Column of an operand that lies as it is or in tiles. */
static const float *from_column(const struct fth_view *x, uint32_t column) {
    return x->data + (x->tiles ? fth_tiles_column((fth_precision)x->precision, x->tiles, column) : column);
}

static const fth_gemm *gemm_of(const struct fth_weight_blocks *blocks, uint32_t block) {
    const struct fth_blocks *b = &blocks->blocks;
    return blocks->gemms[2 * (block / b->across == b->down - 1) + (block % b->across == b->across - 1)];
}

void fth_weight_blocks_run(const struct fth_weight_blocks *blocks, uint32_t block,
                           const struct fth_view *x, const struct fth_view *dy, float *c,
                           void *scratch) {
    struct fth_block_range range = fth_blocks_range(&blocks->blocks, block);
    fth_gemm_run(gemm_of(blocks, block), x->rows, from_column(x, range.row), from_column(dy, range.column), c, scratch);
}

int fth_weight_blocks_step(const struct fth_weight_blocks *blocks, uint32_t block, const struct fth_view *x,
                           const struct fth_view *dy, float *c, const struct fth_optimizer *optimizer,
                           const struct fth_opt_args *args, const struct fth_view *w) {
    struct fth_block_range range = fth_blocks_range(&blocks->blocks, block);
    struct fth_gemm_step step = fth_ops_step(optimizer, args, w, range);
    return fth_gemm_run_step(gemm_of(blocks, block), x->rows, from_column(x, range.row),
                             from_column(dy, range.column), c, &step);
}
