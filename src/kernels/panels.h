/* Panels: the right side of a matrix product, cut into strips of columns that are contiguous each.
 *
 * B[k, n] lies panel after panel of FTH_PANEL columns (the last one of 16 to FTH_PANEL + 15, or of n when
 * n is smaller); a panel is its k rows one after another, each of `ld` floats. A product goes through one
 * panel at a time, so that it reads the weights as one stream, which the hardware fetches ahead; rows of a
 * whole matrix are strided pieces, of which it does not (docs/layout.md). On a batch's way: updates keep
 * the panels of a weight equal to it, tiles multiply by them. Threads: stores to different elements may
 * run at the same time. */
#ifndef FTH_KERNELS_PANELS_H
#define FTH_KERNELS_PANELS_H

#include <stddef.h>
#include <stdint.h>

#define FTH_PANEL 64u

struct fth_panels {
    uint32_t count, last; /* panels; columns of the last one */
    uint32_t ld_last;     /* floats of a row of the last panel, FTH_PANEL for the others */
};

/* A rest below 16 columns joins the panel before it: products of few columns are slow. */
static inline struct fth_panels fth_panels_of(uint32_t columns) {
    uint32_t count = columns / FTH_PANEL, rest = columns % FTH_PANEL;
    uint32_t last = columns < FTH_PANEL ? columns : rest >= 16 ? rest : FTH_PANEL + rest;
    count += columns < FTH_PANEL || rest >= 16;
    return (struct fth_panels){count, last, (last + 15) / 16 * 16};
}

/* Floats of a matrix of rows x columns in panels. */
static inline size_t fth_panels_floats(uint32_t rows, uint32_t columns) {
    struct fth_panels p = fth_panels_of(columns);
    return (size_t)rows * ((p.count - 1) * FTH_PANEL + p.ld_last);
}

/* The panels of a matrix X[rows, columns]. */
struct fth_panels_target {
    float *panels;
    uint32_t rows, columns;
};

/* Writes a block whose corner is X[row][column]; block[height][ld]. */
void fth_panels_store(const struct fth_panels_target *target, uint32_t row, uint32_t column, uint32_t height,
                      uint32_t width, const float *block, size_t ld);
/* The same for the panels of a transposed copy: target's rows and columns are those of the copy, the block
 * (height x width, corner at row, column) that of the original. */
void fth_panels_store_transposed(const struct fth_panels_target *target, uint32_t row, uint32_t column,
                                 uint32_t height, uint32_t width, const float *block, size_t ld);

#endif
