/* Panels: the right side of a matrix product, cut into strips of columns that are contiguous each.
 *
 * B[k, n] lies panel after panel of `width` columns (the last one has the rest, which joins the panel before
 * it when it is below 16 and width is not 16); a panel is its k rows one after another, each of `ld` floats. A
 * product goes through one panel at a time, so that it reads the weights as one stream, which the hardware fetches
 * ahead; rows of a whole matrix are strided pieces, of which it does not (docs/layout.md). On a batch's way: updates keep
 * the panels of a weight equal to it, tiles multiply by them. Threads: stores to different elements may
 * run at the same time.
 *
 * For products in bf16 (fth_precision of gemm.h) a panel consists of words, two rows' bf16 each
 * (gemm_bf16.h), of fth_panels_strip() columns, rows up to a multiple of 32, which AMX wants. The words of what
 * lies behind B are zeros that nobody writes. bf16x3 and bf16x6: the parts of the whole matrix lie one behind the
 * other. */
#ifndef FTH_KERNELS_PANELS_H
#define FTH_KERNELS_PANELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define FTH_PANEL 64u /* the widest */

/* Columns of a weight's panels: a tile of libxsmm, or a strip of gemm_fp32_avx2.c. */
static inline uint32_t fth_panel_width(void) {
    return fth_cpu_get()->isa == FTH_ISA_AVX2 ? 16 : FTH_PANEL;
}

struct fth_panels {
    uint32_t width;       /* columns of all but the last one, and floats of a row there */
    uint32_t count, last; /* panels; columns of the last one */
    uint32_t ld_last;     /* floats of a row of the last panel */
};

/* Columns cut into pieces of `width`; a rest below 16 joins the one before it: products of few columns are slow. */
static inline struct fth_panels fth_panels_cut(uint32_t columns, uint32_t width) {
    uint32_t rest = columns % width;
    uint32_t count = columns / width + (rest && (columns < width || rest >= 16 || width == 16));
    uint32_t last = columns - (count - 1) * width;
    return (struct fth_panels){width, count, last, (last + 15) / 16 * 16};
}

static inline struct fth_panels fth_panels_of(uint32_t columns) {
    return fth_panels_cut(columns, fth_panel_width());
}

/* Floats of a matrix of rows x columns in panels. */
static inline size_t fth_panels_floats(uint32_t rows, uint32_t columns) {
    struct fth_panels p = fth_panels_of(columns);
    return (size_t)rows * ((p.count - 1) * p.width + p.ld_last);
}

/* Columns of a strip of words, as this CPU's bf16 kernel reads them (gemm_bf16.h). */
uint32_t fth_panels_strip(void);

/* The same for bf16: pairs of rows, and words of a part. */
static inline uint32_t fth_panels_pairs(uint32_t rows) {
    return (rows + 31) / 32 * 16;
}
static inline size_t fth_panels_words(uint32_t rows, uint32_t columns) {
    struct fth_panels p = fth_panels_cut(columns, FTH_PANEL);
    return (size_t)fth_panels_pairs(rows) * ((p.count - 1) * p.width + p.ld_last);
}

/* Floats of room in any precision. */
static inline size_t fth_panels_room(int precision, uint32_t rows, uint32_t columns) {
    return precision ? fth_panels_words(rows, columns) * (size_t)precision : fth_panels_floats(rows, columns);
}

/* The panels of a matrix X[rows, columns]. */
struct fth_panels_target {
    float *panels;
    uint32_t rows, columns;
    int precision; /* fth_precision; 0: fp32 */
};

/* fp32: where X[row][column] lies, the floats of a row there, and how many columns follow in the same panel. */
struct fth_panels_place {
    float *start;
    uint32_t ld, columns;
};
struct fth_panels_place fth_panels_at(const struct fth_panels_target *target, uint32_t row, uint32_t column);
/* fp32: X[row], its columns behind each other. */
void fth_panels_row(const struct fth_panels_target *target, uint32_t row, float *out);
/* Writes a block whose corner is X[row][column]; block[height][ld]. */
void fth_panels_store(const struct fth_panels_target *target, uint32_t row, uint32_t column, uint32_t height,
                      uint32_t width, const float *block, size_t ld);
/* The same for the panels of a transposed copy: target's rows and columns are those of the copy, the block
 * (height x width, corner at row, column) that of the original. */
void fth_panels_store_transposed(const struct fth_panels_target *target, uint32_t row, uint32_t column,
                                 uint32_t height, uint32_t width, const float *block, size_t ld);

#endif
