/* The operations and the attributes that passes may read and write. One list: ops.def. */
#ifndef FTH_OPS_OPS_H
#define FTH_OPS_OPS_H

#include "graph/graph.h"
#include "graph/op.h"
#include "kernels/kernels.h"

#define FTH_OP(name) extern const struct fth_op fth_op_##name;
#include "ops/ops.def"
#undef FTH_OP

/* All of them, in the order of ops.def, NULL-terminated. */
const struct fth_op *const *fth_ops(void);
/* The op of a name, NULL when unknown: declared in ops/layers.h. */

/* linear(x, W, bias or none): act(x W + bias). GELU is refused: its gradient needs what stands
 * before it. */
struct fth_linear_attributes {
    fth_act act;
};
/* bias_act(x, bias or none), act_grad(saved, dy) */
struct fth_act_attributes {
    fth_act act;
};
/* embedding(): lookups side by side */
struct fth_embedding_attributes {
    uint32_t n_lookups;
    uint32_t lookups[];
};
/* embedding_update(gradients of embedding outputs..., outputs of max-pooled ones..., clip factor):
 * one entry a lookup. `input` is which input, `column` where in it; `output` the input with the
 * lookup's forward output (same column) or FTH_NONE; `clip` the input with the factor or FTH_NONE.
 * Also row_squares'. */
struct fth_row_entry {
    uint32_t lookup, input, column;
    int32_t output;
};
struct fth_row_update_attributes {
    int32_t clip;
    uint32_t n;
    struct fth_row_entry entries[];
};
/* scale: out = x * factor */
struct fth_scale_attributes {
    float factor;
};
/* fm, dot_interaction and their gradients: x holds vectors of dim columns each */
struct fth_vectors_attributes {
    uint32_t dim;
};
struct fth_bce_attributes {
    float smoothing;
};
/* sum_tiles: mean divides by the examples of the batch */
struct fth_sum_tiles_attributes {
    int mean;
};
/* dropout: `stream` tells the draws of a graph's dropout nodes apart; its gradient is itself on dy
 */
struct fth_dropout_attributes {
    float keep;
    uint32_t stream;
};
/* expand: to the positions of this ragged group */
struct fth_expand_attributes {
    int32_t group;
};
/* clip_factor(squares...): min(1, norm / sqrt(sum)) */
struct fth_clip_attributes {
    float norm;
};
/* batch norm: col_moments(x) -> mean, m2, count a tile; bn_finalize(those, running mean, running
 * variance) -> scale, shift, count; bn_apply(x, scale, shift, count) */

/* Rows that row_squares' output has room for: more update tasks than this are refused. */
#define FTH_ROW_TASKS_MAX 1024

/* linear_update(W, x, dy) is linear_weight_grad(x, dy) and update(W, gradient) in one.
 * update(parameter, gradient, clip factor or none) */

#endif
