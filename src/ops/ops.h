/* The operations and the attributes that passes may read and write. One list: ops.def. */
#ifndef FTH_OPS_OPS_H
#define FTH_OPS_OPS_H

#include "graph/graph.h"
#include "graph/op.h"
#include "kernels/kernels.h"
#include "ops/layers.h"

#define FTH_OP(name) extern const struct fth_op fth_op_##name;
#include "ops/ops.def"
#undef FTH_OP

/* All of them, in the order of ops.def, NULL-terminated. */
const struct fth_op *const *fth_ops(void);

/* Makes the copies of a parameter (panels, transposed) equal to a block of `data`. */
void fth_ops_store_copies(const struct fth_view *parameter, uint32_t row, uint32_t column, uint32_t rows,
                          uint32_t columns);
/* Whether the value is what a ReLU or its gradient made, so that products may leave out its zeros (pass skip_zeros). */
int fth_ops_zeros(const fth_graph *graph, fth_id value);

/* linear(x, W, bias or none), domain_linear(x, domain, W, bias, panels or none): act(x W + bias). GELU is
 * refused: its gradient needs what stands before it. column: of linear_data_grad's input 5 */
struct fth_linear_attributes {
    fth_act act;
    uint32_t column;
};
static inline fth_act fth_linear_act(const struct fth_node *node) {
    const struct fth_linear_attributes *a = node->attributes;
    return a ? a->act : FTH_ACT_NONE;
}
/* to_tiles(x): by rows, and as `weight_grad`, one of the other ways (fth_tiles_way), reads it */
struct fth_to_tiles_attributes {
    int weight_grad;
};
/* bias_act(x, bias or none), act_grad(saved, dy) */
struct fth_act_attributes {
    fth_act act;
};
/* embedding(): lookups side by side */
struct fth_embedding_attributes {
    uint32_t skip_factored; /* nobody reads the columns of lookups with so few unique rows (fth_unique_few) */
    uint32_t n_lookups;
    uint32_t lookups[];
};
/* embedding_update(gradients of embedding outputs..., clip factor): one entry a lookup. `input` is which input,
 * `column` where in it; `clip` the input with the factor or FTH_NONE. Also row_squares'. */
struct fth_row_entry {
    uint32_t lookup, input, column;
    /* 0: a row an example. Else the input is a layer's row gradients, read when the lookup is
     * factorised; the entries of one input follow in its order. */
    uint32_t parts, dim;
    uint32_t most;    /* factorised backward: with so few unique rows (fth_unique_few) */
    int not_factored; /* only when the lookup is not factorised in the batch */
};
struct fth_row_update_attributes {
    int32_t clip;
    uint32_t n;
    struct fth_row_entry entries[];
};
/* mul_add_grad(dy, a, b, bias or none, sum or none) -> sum + dy (b + bias), dy a; with_dy: the first and dy once more;
 * column: of w, where mul_add_grad_rounded has one */
struct fth_mul_add_grad_attributes {
    int with_dy;
    uint32_t column;
};
/* row_dot_data_grad_rounded(dy, w, saved): the gradient of an activation; which column of w its first one is */
struct fth_outer_attributes {
    fth_act act;
    uint32_t column;
};
/* domain_combine: shared times own, or plus */
struct fth_domain_combine_attributes {
    int product;
};
/* scale: out = x * factor */
struct fth_scale_attributes {
    float factor;
};
/* fm, dot_interaction and their gradients: x holds vectors of dim columns each */
struct fth_vectors_attributes {
    uint32_t dim;
};
/* cin and its gradient: vectors of dim columns, `maps` of them come out */
struct fth_cin_attributes {
    uint32_t dim, maps;
};
/* co_action and its gradient: layers' widths, and how many powers of the input */
struct fth_co_action_attributes {
    uint32_t orders, n;
    uint32_t widths[];
};
struct fth_log_frequency_attributes {
    uint32_t lookup;
};
struct fth_bce_attributes {
    float smoothing;
    uint32_t n_tasks;
    float weights[]; /* [n_tasks] of the tasks' losses */
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
/* segment_last(x), segment_last_grad(dy): the last position of each example or the first; the gradient alone is told
 * the group */
struct fth_segment_last_attributes {
    int first;
    int32_t group;
};
/* Segments of positions are an example's (sessions FTH_NO_SESSIONS, layers.h) or a session's of this group.
 * segment_attention([q, k, v] side by side), its gradient */
struct fth_segment_attention_attributes {
    int32_t sessions;
    uint32_t heads;
};
/* segment_pool(x): one row a segment; its gradient (dy, and for the maximum x and y), whose rows are of `group` */
struct fth_segment_pool_attributes {
    int32_t sessions, group;
    fth_pooling pooling; /* not none */
};
/* position_bias(x, w): adds row min(index, rows - 1) of w to a position's row; a w of one column to all columns.
 * Its gradient (dx): w's. */
struct fth_position_bias_attributes {
    int32_t sessions;
    enum fth_position_index index;
    uint32_t rows, columns; /* of w */
};
/* prune_graph(): which entities of a relational graph link target and behaviours (prune_graph.c) */
struct fth_prune_graph_attributes {
    int32_t group; /* of the behaviours */
    uint32_t n;
    struct fth_graph_relation relations[]; /* layers.h */
};
/* gru, lstm. Inputs: x, recurrent weights, scores or none, and weights and bias of the inputs or none: then x holds
 * the gates' inputs (pass gate_split). */
struct fth_recurrent_attributes {
    int reverse; /* from an example's last position to its first */
};
enum { FTH_RECURRENT_X, FTH_RECURRENT_U, FTH_RECURRENT_SCORE, FTH_RECURRENT_W, FTH_RECURRENT_B };
/* next_loss, next_loss_grad; `stream` tells the draws of a graph's nodes apart */
struct fth_next_loss_attributes {
    float factor;
    uint32_t stream;
};
/* clip_factor(squares...): min(1, norm / sqrt(sum)) */
struct fth_clip_attributes {
    float norm;
};
/* batch norm: col_moments(x) -> mean, m2, count a tile; bn_finalize(those, running mean, running
 * variance) -> scale, mean, count; bn_apply(x, scale, mean, count) */

/* Rows that row_squares' output has room for: more update tasks than this are refused. */
#define FTH_ROW_TASKS_MAX 1024

/* linear_update(W, x, dy) is linear_weight_grad(x, dy) and update(W, gradient) in one.
 * update(parameter, gradient, clip factor or none); of optimizers with norms (update_norms.c):
 * update_direction(parameter, gradient, clip factor or none) -> direction, squares
 * update_scaled(parameter, direction, squares) */

/* A linear layer over concatenated embeddings whose fields' parts are computed once for each of the
 * batch's unique rows where those are few (ops/factor.h):
 *   factor_sum(W) -> y0, W', W'^T              y0: sums of the factorised fields; W', W'^T: the rest of W forward and
 *                                              backward, in panels
 *   factor_linear(x, W, b, y0, W') -> y, x'    x': the rest of x, forward first; y lies where y0 does
 *   factor_data_grad(dy, W, W'^T, sum or none) -> dx   sum: what dx is added to, in place
 *   factor_weight_grad(W, x', dy) -> row gradients, dW
 *   factor_update(W, x', dy) -> row gradients, and W is updated
 * Pieces: the columns of x from left to right, lookups of `dim` columns and what lies between. */
struct fth_factor_piece {
    uint32_t column, columns;
    int32_t lookup; /* -1: never factorised */
    int gradient;   /* dx is wanted here */
};
struct fth_factor_attributes {
    fth_act act;
    uint32_t dim;
    int zeros; /* factor_data_grad: the factorised columns of dx are read; they get zeros */
    uint32_t gradient_most; /* backward, fields with so few unique rows are factorised (fth_unique_few) */
    uint32_t n_lookups, n;
    struct fth_factor_piece pieces[];
};
#define FTH_FACTOR_LOOKUPS 64 /* at most in a layer */
/* Row gradients: of each part of W's columns, one after the other, [unique rows of all factorised
 * lookups, dim]. Their value is as large as that may become: [examples, n_lookups * parts * dim]. */
uint32_t fth_factor_parts(uint32_t columns);

#endif
