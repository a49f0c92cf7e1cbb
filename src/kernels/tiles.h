/* Tiles: rows of a matrix rounded to bf16 once, in the order in which AMX takes them.
 *
 * A tile is 16 x 16 words, of two bf16 each (gemm_bf16.h), one after another: 1 kB, loaded as one stream. X[rows, columns]
 * lies in tiles in one of three ways, `ld` words a row of X; tile t is 256 t words behind where its group of rows
 * begins, for bf16x3 512 t and for bf16x6 768 t, with what is left of its numbers behind it:
 *
 *   FTH_TILES_ROWS     groups of 16 rows at 16 ld; tile t: columns 32 t ..; a line is a row, a word two columns
 *   FTH_TILES_PAIRS    groups of 32 rows at 32 ld; tile t: columns 16 t ..; a line is two rows, a word a column
 *   FTH_TILES_TURNED   the same groups and tiles; a line is a column, a word two rows
 *
 * The first is the left operand of a product NN, the others are the right and the left one of TN (X^T). Numbers behind X
 * in its last tiles are 0, but for rows behind it by ROWS, which are not written. Threads: groups of rows may be written
 * at the same time. */
#ifndef FTH_KERNELS_TILES_H
#define FTH_KERNELS_TILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "kernels/gemm.h"

enum { FTH_TILES_LINE = 16, FTH_TILES_WORDS = 256, FTH_TILES_ROUND = 32 };

typedef enum fth_tiles_way { FTH_TILES_ROWS = 1, FTH_TILES_PAIRS, FTH_TILES_TURNED } fth_tiles_way;

/* Words of a row, for rows of any way. Room is to be there for rows up to a multiple of FTH_TILES_ROUND. */
static inline uint32_t fth_tiles_ld(fth_precision precision, uint32_t columns) {
    return fth_padded_columns((columns + 31) / 32 * 16) * fth_gemm_parts(precision);
}

/* Words from a tile to the next of its group. */
static inline size_t fth_tiles_step(fth_precision precision) {
    return (size_t)FTH_TILES_WORDS * fth_gemm_parts(precision);
}

/* Where the tiles of a column begin in a group of rows; it is a multiple of 32 by ROWS, else of 16. */
static inline size_t fth_tiles_column(fth_precision precision, int way, uint32_t column) {
    return column / (way == FTH_TILES_ROWS ? 32 : 16) * fth_tiles_step(precision);
}

/* x[rows][ldx] rounded, into tiles of a matrix whose first row and column it begins at, as many rows as make whole groups.
 * Either of them may be NULL. Where a CPU has AMX (fth_gemm_cut's tiles). */
struct fth_tiles_store {
    const float *x;
    size_t ldx;
    uint32_t rows, columns;
    float *by_rows;
    float *summed; /* rows are what a product sums over: PAIRS or TURNED */
    fth_tiles_way way;
    fth_precision precision;
    size_t ld; /* of both */
    const float *bias; /* [columns], added to each row; NULL: none */
    int relu;          /* then applied */
    /* Bits of 32 columns a word, columns beginning at a multiple of 32; NULL: none. */
    const uint32_t *keep; /* numbers without a bit count as 0 */
    uint32_t *positive;   /* what is not <= 0 gets a bit */
    size_t ld_keep, ld_positive;
    /* [columns up to a multiple of 32] to which the rows are added, one after the other; or NULL. Each `sum_rows` rows, a
     * multiple of 32, have sums of their own, ld_sums behind those before; 0: all rows have the same. */
    float *sums;
    uint32_t sum_rows;
    size_t ld_sums;
    /* Makes x's block at a row and a column, of up to 32 x 32, before it is stored, and says where it begins; NULL: x
     * is there. */
    const float *(*make)(const void *maker, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns);
    const void *maker;
};
void fth_tiles_store(const struct fth_tiles_store *store);

/* The same in steps of some 50 ns, between which something else is done: the store's columns [column, + columns), which
 * its x begins with; column is a multiple of 32. No `make`. Threads: steps belong to one. */
struct fth_tiles_steps {
    struct fth_tiles_store store; /* these columns' */
    uint32_t row, column, at;     /* the block in work, and its next step */
    uint32_t turned[2 * FTH_GEMM_PARTS * FTH_TILES_WORDS] __attribute__((aligned(64)));
};
void fth_tiles_steps_begin(struct fth_tiles_steps *steps, const struct fth_tiles_store *store, uint32_t column,
                           uint32_t columns);
void fth_tiles_steps_next(struct fth_tiles_steps *steps); /* a step, if there is one left */
void fth_tiles_steps_end(struct fth_tiles_steps *steps);  /* all that are left */

#endif
