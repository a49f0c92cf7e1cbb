/* What recurrent.c and recurrent_grad.c share: the examples of a tile in the order in which time steps take them, and
 * the scratch both need. Only ops/ includes this.
 *
 * Examples stand by length, the longest first, so that those still running at a step are the first ones:
 *
 *     step      0 1 2 3 4          a step's rows (states, gates' products) are dense, row i the example in place i;
 *     place 0   x x x x x          what belongs to positions stays where it is in the ragged values
 *           1   x x x
 *           2   x                  running(step): 3 2 2 1 1
 */
#ifndef FTH_OPS_RECURRENT_H
#define FTH_OPS_RECURRENT_H

#include "ops/ops_private.h"

static inline int fth_recurrent_has(const struct fth_node *node, uint32_t input) {
    return node->n_inputs > input && node->inputs[input] != FTH_NONE;
}

/* Columns of x, of r and of `kept` a unit (kernels.h). */
static inline uint32_t fth_recurrent_gates(int lstm) {
    return lstm ? 4 : 3;
}
static inline uint32_t fth_recurrent_kept(int lstm) {
    return lstm ? 5 : 4;
}

struct fth_steps {
    uint32_t *running; /* [longest + 1] examples that have more positions than this */
    uint32_t *first;   /* [places] where the example's positions begin in the tile */
    uint32_t *length;  /* [places] */
    uint32_t longest;
    int reverse;
};

/* How many numbers of memory `examples` examples with at most `positions` positions in all take. */
size_t fth_steps_numbers(uint32_t examples, uint32_t positions);
void fth_steps_make(const uint32_t *offsets, uint32_t examples, int reverse, uint32_t *memory,
                    struct fth_steps *out);
/* The positions of the first `n` places at a step, in the direction of the walk. */
void fth_steps_rows(const struct fth_steps *steps, uint32_t step, uint32_t n, uint32_t *rows);

/* rows[i] of a ragged value to row i of a dense one, and back. */
void fth_steps_gather(uint32_t n, const uint32_t *rows, uint32_t columns, const float *from, size_t ldf,
                      float *to, size_t ldt);
void fth_steps_scatter(uint32_t n, const uint32_t *rows, uint32_t columns, const float *from, size_t ldf,
                       float *to, size_t ldt);

/* A dense product of a step: x[rows, k] times a weight with n columns; `turned`: times its transposed copy. Always
 * fp32: states are carried on from step to step. One column in or out is no matrix product: then `gemm` is NULL. */
struct fth_step_product {
    fth_gemm *gemm;
    uint32_t ldx, ldy, k, n, weight; /* weight: which input */
    int turned;
    size_t x, y; /* where in scratch: [tile, ldx], [tile, ldy] */
};

/* What `prepare` makes of each of the four. The products are those of a step: of the states h with U (h U), of x with W;
 * backwards of their gradients, so that h stands in recurrent.x and its gradient in recurrent.y. */
struct fth_recurrent_state {
    struct fth_step_product recurrent, input; /* input: with W alone */
    size_t steps, rows, other, earlier, cell, product; /* where in scratch; other: rows of the step behind or before;
                                                          earlier: of two before; cell: c of an LSTM or its gradient,
                                                          laid out as h or its gradient */
};
fth_status fth_recurrent_prepare(struct fth_prepare *prepare, fth_error *err);
void fth_recurrent_release(void *prepared);
/* y = x W, or added to it, for the first `rows` of the product's x. */
void fth_step_product_run(const struct fth_run *run, const struct fth_step_product *product, uint32_t rows);

int fth_recurrent_is_lstm(const struct fth_node *node);
void fth_recurrent_print(const struct fth_node *node, struct fth_text *out);
fth_status fth_recurrent_gradient(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                                  fth_id *d_inputs, fth_error *err);

#endif
