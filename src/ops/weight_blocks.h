/* dW = x^T dy cut into blocks: the products that linear_weight_grad and linear_update share. */
#ifndef FTH_OPS_WEIGHT_BLOCKS_H
#define FTH_OPS_WEIGHT_BLOCKS_H

#include "kernels/gemm.h"
#include "optim/optim.h"
#include "ops/ops_private.h"

struct fth_weight_blocks {
    struct fth_blocks blocks;
    fth_gemm *gemms[4]; /* [2 * (last row of blocks) + (last column)]; they may be smaller */
};

/* The cut of dW[x's columns, dy's columns]: blocks as the precision wants them (gemm.h), on more than two cores as
 * fth_blocks_for_cores cuts these; on up to two, one of more than 256 columns in two. */
void fth_weight_blocks_cut(const struct fth_prepare *prepare, const struct fth_view *x, const struct fth_view *dy,
                           struct fth_blocks *out);
/* x and dy as prepare sees them, zeros (fth_gemm_shape) of which may be left out; ldc of the block that the products write. */
fth_status fth_weight_blocks_make(const struct fth_prepare *prepare, const struct fth_view *x,
                                  const struct fth_view *dy, int zeros, uint32_t ldc,
                                  struct fth_weight_blocks *out, fth_error *err);
void fth_weight_blocks_free(struct fth_weight_blocks *blocks);
size_t fth_weight_blocks_scratch(const struct fth_weight_blocks *blocks, uint32_t rows);
/* The whole batch's product for one block into c. */
void fth_weight_blocks_run(const struct fth_weight_blocks *blocks, uint32_t block,
                           const struct fth_view *x, const struct fth_view *dy, float *c,
                           void *scratch);
/* The same and the optimizer's step on that block of w and its copies, made on the way: 1; or 0 and nothing done,
 * where the product's provider or the optimizer cannot. */
int fth_weight_blocks_step(const struct fth_weight_blocks *blocks, uint32_t block, const struct fth_view *x,
                           const struct fth_view *dy, float *c, const struct fth_optimizer *optimizer,
                           const struct fth_opt_args *args, const struct fth_view *w);

#endif
