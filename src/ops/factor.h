/* A linear layer over concatenated embeddings, factorised: what its operations share.
 *
 * With x = [E_1 .. E_F, rest] and the rows of example i of field f being unique row u_f(i),
 *     x W = sum over f of (E_f W_f)[u_f(i)] + rest W_rest,
 * so that a field with few unique rows needs its product once for each of them and then sums of rows:
 *     forward    y[i] = P_f[u_f(i)] + ..      P_f = E_unique W_f
 *     backward   S_f[u] = sum of dy[i] over the examples of u; dW_f = E_unique^T S_f; dE_unique = S_f W_f^T
 * Which fields are, follows from the batch's unique rows alone (graph/rows.h); the others' columns are
 * brought together (x', W') and multiplied as ever. Sums run in the order of fields, examples and
 * unique rows, whatever the threads. */
#ifndef FTH_OPS_FACTOR_H
#define FTH_OPS_FACTOR_H

#include "graph/rows.h"
#include "ops/ops_private.h"

/* Columns [column, + columns) of x (rows of W) lie at `at` in x' and W'. */
struct fth_factor_range {
    uint32_t column, columns, at;
};

struct fth_factor_field {
    const struct fth_unique_rows *unique;
    uint32_t column; /* its first of x */
    uint32_t first;  /* unique rows of the fields before it */
};

struct fth_factor_layout {
    uint32_t n_fields, unique_rows; /* factorised in this batch */
    struct fth_factor_field fields[FTH_FACTOR_LOOKUPS];
    uint32_t columns, n_ranges; /* the rest */
    struct fth_factor_range ranges[2 * FTH_FACTOR_LOOKUPS + 1];
};

/* What is factorised: forward more fields than backward, where ReLU's zeros make the plain products cheaper.
 * x' has the columns that are not factorised forward first, then the others that are not backward; dx leaves out those
 * whose gradient nobody wants. */
enum fth_factor_way { FTH_FACTOR_FORWARD, FTH_FACTOR_WEIGHTS, FTH_FACTOR_DATA };

/* This batch's. When nothing is factorised, operations work on x and W themselves. */
void fth_factor_layout_make(const struct fth_run *run, enum fth_factor_way way, struct fth_factor_layout *out);
/* Columns of the rest when `plain` of the lookups are not factorised. */
uint32_t fth_factor_columns(const struct fth_factor_attributes *a, enum fth_factor_way way, uint32_t plain);
/* The attributes fit x with so many columns, each of its lookups the graph. */
fth_status fth_factor_check(const fth_graph *graph, const struct fth_factor_attributes *a,
                            uint32_t columns, fth_error *err);
void fth_factor_print(const struct fth_node *node, struct fth_text *out);

/* The columns of W in blocks of 32, which whole-batch tasks take: so few that what a block sums over
 * the batch stays in the second cache. The last one takes a rest too small for a block of its own. */
#define FTH_FACTOR_BLOCK 32
struct fth_factor_blocks {
    uint32_t count, last; /* last: the last one's columns */
    uint32_t ld;          /* of a block's rows in scratch */
};
struct fth_factor_blocks fth_factor_blocks_make(uint32_t columns);
static inline uint32_t fth_factor_block_columns(const struct fth_factor_blocks *blocks,
                                                uint32_t block) {
    return block + 1 == blocks->count ? blocks->last : FTH_FACTOR_BLOCK;
}

#endif
