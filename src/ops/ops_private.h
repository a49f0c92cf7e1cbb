/* What the files of ops/ share: shape checks, costs, sums over tiles, blocks of a parameter. */
#ifndef FTH_OPS_OPS_PRIVATE_H
#define FTH_OPS_OPS_PRIVATE_H

#include <string.h>

#include "base/memory.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

/* Of batch normalisation, which a domain's own equals. */
#define FTH_NORM_EPS 1e-5
#define FTH_NORM_MOMENTUM 0.1

/* Input i as a copy (values move when new ones are made); id FTH_NONE when absent. */
struct fth_value fth_ops_input(const fth_graph *graph, const struct fth_node *node, uint32_t i);
/* Whether input i is there and needs a gradient. */
int fth_ops_wants(const fth_graph *graph, const struct fth_node *node, uint32_t i);

/* Refusals of shape rules. `row`: one of examples, positions. */
fth_status fth_ops_need(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                        fth_error *err);
fth_status fth_ops_need_rows(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                             fth_error *err);
/* Inputs a and b have the same rows and the same columns. */
fth_status fth_ops_need_same(const fth_graph *graph, const struct fth_node *node, uint32_t a,
                             uint32_t b, fth_error *err);
/* The same rows only. */
fth_status fth_ops_need_same_rows(const fth_graph *graph, const struct fth_node *node, uint32_t a,
                                  uint32_t b, fth_error *err);
/* Input s is one column, and input w one row, which has columns [column, + columns). */
fth_status fth_ops_need_outer(const fth_graph *graph, const struct fth_node *node, uint32_t s, uint32_t w,
                              uint32_t column, uint32_t columns, fth_error *err);
/* Input i is FTH_WHOLE [rows, columns]. */
fth_status fth_ops_need_whole(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                              uint32_t rows, uint32_t columns, fth_error *err);
/* Input i is FTH_TILES [tiles, columns]; columns 0: any. */
fth_status fth_ops_need_tiles(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                              uint32_t columns, fth_error *err);

/* Input i is one row an example of `columns` columns; has a row a position. */
fth_status fth_ops_need_example_row(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                    uint32_t columns, fth_error *err);
fth_status fth_ops_need_positions(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                  fth_error *err);

/* Segments of the positions of input i (ops.h): refused where the sessions are not of its group; as a running node
 * sees them, [n + 1] offsets of which the first is the tile's first position. */
struct fth_segments {
    const uint32_t *offsets;
    uint32_t n;
};
fth_status fth_ops_need_segments(const fth_graph *graph, const struct fth_node *node, uint32_t i,
                                 int32_t sessions, fth_error *err);
struct fth_segments fth_ops_segments(const struct fth_run *run, const struct fth_view *positions,
                                     int32_t sessions);
/* Output 0: a row a segment of input 0. And a gradient's: a row a position of `group`, input 0 has one
 * a segment. Both with the columns of input 0. */
fth_status fth_ops_output_segments(fth_graph *graph, struct fth_node *node, int32_t sessions, fth_error *err);
fth_status fth_ops_output_positions(fth_graph *graph, struct fth_node *node, int32_t sessions, int32_t group,
                                    fth_error *err);
void fth_ops_print_sessions(int32_t sessions, struct fth_text *out);

/* For printing. */
const char *fth_ops_act_name(fth_act act);

/* Output `index` with the rows of input i and `columns` columns; or one row a tile. */
fth_status fth_ops_output_like(fth_graph *graph, struct fth_node *node, uint32_t index, uint32_t i,
                               uint32_t columns, fth_error *err);
fth_status fth_ops_output_tiles(fth_graph *graph, struct fth_node *node, uint32_t index,
                                uint32_t columns, fth_error *err);

/* A whole shape rule: inputs 0 and 1 are rows of the same shape, output 0 is like them. */
fth_status fth_ops_shape_alike(fth_graph *graph, struct fth_node *node, fth_error *err);

/* Rows a value stands for. */
double fth_ops_rows(const struct fth_value *value, double examples, double positions);
/* bytes: every input and output once; flops: one a number of the first output (of the first input
 * when there is none or it is a sum). */
void fth_ops_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                  double positions, struct fth_cost *out);
/* The same, with the FLOPs of inputs 0 and 1 as x and W, and as x and dy. */
void fth_ops_product_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                          double positions, struct fth_cost *out);
void fth_ops_weight_grad_cost(const fth_graph *graph, const struct fth_node *node, double examples,
                              double positions, struct fth_cost *out);

/* out[0..n) = columns [column, column + n) of x summed over its rows in a fixed pairwise tree. */
void fth_ops_sum_rows(const struct fth_view *x, uint32_t column, uint32_t n, float *out);

/* A column vector's numbers one after the other: its own memory when it is laid out so, else copied
 * to `scratch` (rows floats). NULL stays NULL. */
const float *fth_ops_dense_column(const struct fth_view *column, float *scratch);

/* Where a kernel is to write a column vector: the column itself when it is laid out so, else
 * `scratch`; then fth_ops_column_written puts it into place. */
float *fth_ops_column_target(const struct fth_view *column, float *scratch);
void fth_ops_column_written(const struct fth_view *column, const float *written);

/* Zeros in a tile's row of partial sums, for tiles without rows. */
void fth_ops_zero_row(const struct fth_view *tile_row);

/* Outputs `output` to `output` + 2: a gradient of examples by rows and in pairs, and the sum of its rows, of blocks that
 * `make` puts into the maker's block, [rows][FTH_OPS_MADE_SIDE], and returns (fth_tiles_store). Scratch: of
 * fth_ops_made_floats floats. */
#define FTH_OPS_MADE_SIDE 32u
struct fth_ops_maker {
    const struct fth_run *run;
    float *block;
};
typedef const float *fth_ops_make(const void *maker, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns);
size_t fth_ops_made_floats(uint32_t columns);
void fth_ops_store_made(const struct fth_run *run, fth_ops_make *make, uint32_t output);

/* A parameter cut into blocks of at most fth_gemm_cut's size: the tasks of weight gradients. Sizes are
 * multiples of 16 but for the last, so that blocks begin on a cache line. */
struct fth_blocks {
    uint32_t rows, columns; /* of the whole */
    uint32_t block_rows, block_columns;
    uint32_t down, across; /* numbers of blocks */
};
struct fth_block_range {
    uint32_t row, rows, column, columns;
};
void fth_blocks_make(uint32_t rows, uint32_t columns, uint32_t most_rows, uint32_t most_columns,
                     struct fth_blocks *out);
static inline uint32_t fth_blocks_count(const struct fth_blocks *blocks) {
    return blocks->down * blocks->across;
}
/* For more than two cores sides of more than 64 are halved until there are as many blocks as cores: a few large ones would
 * last longer than all else that is shared out. Products want them large, as operands are read once for a block. */
void fth_blocks_for_cores(uint32_t cores, struct fth_blocks *blocks);
struct fth_block_range fth_blocks_range(const struct fth_blocks *blocks, uint32_t block);

/* Inputs of an update: parameter, its gradient, clip factor or none. */
fth_status fth_ops_need_update(const fth_graph *graph, const struct fth_node *node, fth_error *err);
/* An update's tasks: blocks of whole rows; tiles: the gradient is one partial sum a tile. */
void fth_ops_update_blocks(uint32_t rows, uint32_t columns, int tiles, struct fth_blocks *out);
/* A block's gradient [rows][*ld], of tiles summed into scratch. */
const float *fth_ops_block_gradient(const struct fth_view *gradient, int tiles, struct fth_block_range range,
                                    uint32_t columns, float *scratch, uint32_t *ld);

/* The i-th double of a row, in the place of two floats. */
static inline void fth_ops_double_put(const struct fth_view *out, uint32_t row, uint32_t i, double value) {
    memcpy(out->data + (size_t)row * out->ld + 2 * i, &value, sizeof value);
}
static inline double fth_ops_double_get(const struct fth_view *in, uint32_t row, uint32_t i) {
    double value;
    memcpy(&value, in->data + (size_t)row * in->ld + 2 * i, sizeof value);
    return value;
}

/* What a product or fth_gemm_step is told of a block of a parameter. */
struct fth_gemm_step fth_ops_step(const struct fth_optimizer *optimizer, const struct fth_opt_args *args,
                                  const struct fth_view *w, struct fth_block_range range);

/* The optimizer on a block of a parameter and of its copies, from the block's gradient [rows][ld]. Not for
 * whole_parameter optimizers. */
void fth_ops_apply(const struct fth_optimizer *optimizer, const struct fth_opt_args *args,
                   const struct fth_view *w, struct fth_block_range range, const float *gradient,
                   uint32_t ld);

/* The row gradients of embedding_update and row_squares: checked, their bytes of scratch, and
 * filled at the scratch's start. */
struct fth_row_gradient;
fth_status fth_ops_check_row_entries(const fth_graph *graph, const struct fth_node *node,
                                     const struct fth_row_update_attributes *a, fth_error *err);
size_t fth_ops_row_entries_bytes(const struct fth_row_update_attributes *a);
const struct fth_row_gradient *fth_ops_row_entries(const struct fth_run *run,
                                                   const struct fth_row_update_attributes *a,
                                                   uint32_t *n);

/* The transposed copy of weights that attention_weights made; FTH_NONE for other values. */
fth_id fth_ops_transposed(const fth_graph *graph, fth_id weights);

/* A node's own memory, zeros: set as `prepared`, so that the op's release ends it and what it owns
 * whatever becomes of the rest of `prepare`. NULL: err is set. */
void *fth_ops_state(struct fth_prepare *prepare, size_t bytes, fth_error *err);

/* A worker's scratch in sections: where the next one of `numbers` 4-byte numbers begins, `bytes` being
 * what is taken; and the section of a running node. */
size_t fth_ops_section(size_t *bytes, size_t numbers);
float *fth_ops_at(const struct fth_run *run, size_t section);

/* The matrix product of this shape by the plan's tuning, reported to who asks for shapes. */
fth_status fth_ops_product(const struct fth_prepare *prepare, const struct fth_gemm_shape *shape,
                           fth_gemm **out, fth_error *err);
/* fth_ops_zeros of a product's operands A and B (either may be FTH_NONE), as fth_gemm_shape has it. */
int fth_ops_zeros_of(const struct fth_prepare *prepare, fth_id a, fth_id b);
/* Bias and activation of rows of y, applied to columns when a product has made them (fth_gemm_finish). */
struct fth_ops_bias_act {
    fth_act act;
    const float *bias; /* or NULL */
    float *y;
    uint32_t rows, ld;
};
void fth_ops_bias_act(void *bias_act, uint32_t column, uint32_t columns);
/* The scratch that each of n products can do with; NULL ones take none. */
size_t fth_ops_products_scratch(fth_gemm *const *products, uint32_t n, uint32_t rows);

static inline size_t fth_ops_align(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

#endif
