/* bf16 products of our own: what their driver (gemm_bf16.c), their kernels (gemm_bf16_avx512bf16.c,
 * gemm_bf16_amx.c) and the tests share. Only src/kernels/gemm*.c and tests include this.
 *
 * The hardware multiplies pairs of neighbours along k, so packed matrices consist of words: two bf16,
 * the one of even k in the low half. An operand has one, two or three parts (bf16, bf16x3, bf16x6), `part` words apart:
 * x rounded to bf16, what that leaves rounded to bf16, and what both leave. Three are x itself, but for the last bits of
 * what is below 2^-109.
 *
 * Arithmetic, for every element of C, k in chunks (the kernel's; NN and NT: one), all in fp32 with
 * subnormal numbers taken as 0:
 *
 *   bf16     C += sum(a0 b0)
 *   bf16x3   C += sum(a1 b0), sum(a0 b1), sum(a0 b0) into one sum
 *   bf16x6   C += sum(a2 b0), sum(a1 b1), sum(a0 b2), and then those
 *
 * A sum goes up in k. AVX512-BF16 takes the parts in this order and adds the products of a word one after the
 * other, odd k first, each by a fused multiply-add. AMX sums 32 of k apart, even and odd ones apart, and adds these, of
 * bf16x3 a1 b0, a0 b0, a0 b1 in each 32, of bf16x6 a2 b0, a1 b0, a1 b1, a0 b1, a0 b2, a0 b0, and its sum begins with C
 * instead of being added to it.
 *
 * Threads: pure functions and constants; each run has its own scratch. */
#ifndef FTH_KERNELS_GEMM_BF16_H
#define FTH_KERNELS_GEMM_BF16_H

#include "kernels/gemm.h"
#include "kernels/tiles.h"

/* A matrix to be packed: n is its extent beside k. depth is k padded, even; what is behind k becomes
 * zero. ldo counts words of out. */
struct fth_bf16_pack {
    const float *x;
    size_t ldx;
    uint32_t n, k, depth;
    uint32_t *out;
    size_t ldo, part;
    uint32_t parts;
    size_t width; /* pairs: words of a row that are written, a multiple of 16 */
};

/* 32 x 32 numbers into tiles (tiles.h): by rows two, `group` words apart; by pairs two, side by side. Either may be NULL.
 * bias, keep, positive, sums: of these 32 columns, as tiles.h says, or NULL. */
struct fth_bf16_block {
    const float *x;
    size_t ldx;
    const float *bias;
    int relu;
    uint32_t *by_rows, *by_pairs;
    size_t group;
    uint32_t parts; /* tiles behind one another, as in tiles.h */
    const uint32_t *keep;
    uint32_t *positive;
    size_t ld_keep, ld_positive;
    float *sums;
    const uint32_t *ahead; /* a block's pairs that are written soon, lines one after another; or NULL */
};

/* What is read next: pieces of lines of 16 words, `step` words from each to the next. */
struct fth_bf16_ahead {
    const uint32_t *from;
    size_t step;
    uint32_t lines, pieces;
};

/* C[rows, columns] = or += A B for one panel of B; columns is at most 79, but for tiles. */
struct fth_bf16_panel {
    uint32_t rows, columns, depth;
    const uint32_t *a; /* word of row r, pair q: a[r a_row + q a_pair] */
    size_t a_row, a_pair, a_part;
    const uint32_t *b; /* pair q, column j: b[q ldb + j]; ldb is a multiple of 16, rows at 64 bytes */
    size_t ldb, b_part;
    /* AMX: from 16 rows of A, or columns of B, to the next; and from 16 pairs to the next. */
    size_t a_block, a_step, b_block, b_step;
    struct fth_bf16_ahead ahead[2]; /* bf16 alone */
    uint32_t parts;
    float *c;
    size_t ldc;
    int add;
    /* What is read next, brought into the second cache on the way: rows of 64 columns; 0: nothing. */
    const uint32_t *next;
    size_t ld_next;
    uint32_t next_rows;
    void (*aside)(void *ctx); /* AMX, of more than one part: called between products; NULL: nothing */
    void *ctx;
};

struct fth_bf16_kernel {
    const char *name;
    uint32_t depth; /* depths are multiples of it */
    uint32_t rows;  /* examples whose part of A is packed at a time, NN and NT */
    uint32_t chunk; /* examples summed at a time, TN */
    uint32_t strip; /* columns of a strip of words in weights' panels */
    int a_by_rows;  /* wants a_pair == 1 */
    void (*pack_rows)(const struct fth_bf16_pack *pack);
    void (*pack_pairs)(const struct fth_bf16_pack *pack);
    void (*round_block)(const struct fth_bf16_block *block, uint32_t first, uint32_t end); /* pairs of rows */
    void (*begin)(void), (*end)(void); /* around the panels of a run; NULL: nothing to do */
    void (*panel)(const struct fth_bf16_panel *panel);
};

/* By AVX512-BF16. rows: out[i][q] = (x[i][2q], x[i][2q + 1]), i < n. pairs: out[q][j] = (x[2q][j],
 * x[2q + 1][j]), j < n; zero up to `width`. */
void fth_bf16_pack_rows(const struct fth_bf16_pack *pack);
void fth_bf16_pack_pairs(const struct fth_bf16_pack *pack);
void fth_bf16_round_block(const struct fth_bf16_block *block, uint32_t first, uint32_t end);

extern const struct fth_bf16_kernel fth_bf16_avx512;
extern const struct fth_bf16_kernel fth_bf16_amx;

/* The product of a shape by a kernel; scratch of fth_bf16_scratch bytes, 64-byte aligned; finish as in gemm.h, of NN
 * alone, or NULL. */
size_t fth_bf16_scratch(const struct fth_gemm_shape *shape, const struct fth_bf16_kernel *kernel);
void fth_bf16_run(const struct fth_gemm_shape *shape, const struct fth_bf16_kernel *kernel, uint32_t rows,
                  const float *a, const float *b, float *c, void *scratch, const struct fth_gemm_finish *finish);

/* tiles.h's functions, by a kernel's packing. */
void fth_bf16_tiles_store(const struct fth_bf16_kernel *kernel, const struct fth_tiles_store *store);
void fth_bf16_tiles_next(const struct fth_bf16_kernel *kernel, struct fth_tiles_steps *steps);
void fth_bf16_tiles_end(const struct fth_bf16_kernel *kernel, struct fth_tiles_steps *steps);

/* panels.h's functions for bf16. */
void fth_panels_store_bf16(const struct fth_panels_target *target, uint32_t row, uint32_t column, uint32_t height,
                           uint32_t width, const float *block, size_t ld);
void fth_panels_store_transposed_bf16(const struct fth_panels_target *target, uint32_t row, uint32_t column,
                                      uint32_t height, uint32_t width, const float *block, size_t ld);

#endif
