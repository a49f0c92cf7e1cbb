/* Products with an operand that is mostly zeros, as what a ReLU and its gradient leave: what gemm.c and the kernels
 * share. Only src/kernels/gemm*.c include this. */
#ifndef FTH_KERNELS_GEMM_ZEROS_H
#define FTH_KERNELS_GEMM_ZEROS_H

#include "kernels/gemm.h"
#include "kernels/panels.h"

/* Whose zeros (FTH_ZEROS_A, _B) products of the shape leave out where they are many, on this CPU. */
int fth_gemm_zeros_of(const struct fth_gemm_shape *shape);
/* The one of them whose are left out of a run, by their number; 0: neither. */
int fth_gemm_zeros_many(const struct fth_gemm_shape *shape, int zeros, uint32_t rows, const float *a, const float *b);

/* NN, B as it is or in panels: C[m, n] = A B without A's zeros, or added to C; every element summed in increasing k by
 * fused multiply-adds. finish: or NULL. */
void fth_gemm_zeros_nn(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish);

/* Of so many examples of a weight gradient one is counted. */
#define FTH_ZEROS_SAMPLE 64u

/* Of every `every`th row of a[rows][columns], from the first on, the elements that are no zeros. */
uint64_t fth_zeros_avx512_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every);
uint64_t fth_zeros_avx2_count(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every);

/* Of every `every`th pair of rows, or three rows, the columns that are not zero in all of them. */
uint64_t fth_zeros_avx512_pairs(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every);
uint64_t fth_zeros_avx2_triples(const float *a, uint32_t rows, uint32_t columns, uint32_t ld, uint32_t every);

/* Row k of panel i of B, of which the next one lies ld floats behind. */
static inline const float *fth_zeros_panel(const struct fth_gemm_shape *s, const struct fth_panels *panels, const float *b,
                                           uint32_t i, uint32_t k, size_t *ld) {
    uint32_t column = i * panels->width;
    *ld = !s->panels ? s->ldb : i + 1 == panels->count ? panels->ld_last : panels->width;
    return b + (s->panels ? (size_t)column * s->k : column) + k * *ld;
}

/* fth_gemm_zeros_nn by a function for at most FTH_ZEROS_ROWS rows. */
#define FTH_ZEROS_ROWS 64u
typedef void fth_zeros_rows(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b, float *c,
                            const struct fth_gemm_finish *finish);
void fth_zeros_by_rows(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish, fth_zeros_rows *run);

/* TN: C[m, n] = A^T B by `rows` examples, at least one, without the zeros of A or (of_b) of B; the same bits as the whole
 * product by our own kernels (gemm_fp32.h). scratch: of fth_zeros_tn_scratch bytes. */
void fth_gemm_zeros_tn(const struct fth_gemm_shape *shape, int of_b, uint32_t rows, const float *a, const float *b,
                       float *c, void *scratch);
size_t fth_zeros_tn_scratch(const struct fth_gemm_shape *shape);
/* Likewise where both operands' zeros lie by column; returns 0, and does nothing, where that would not be faster, by the
 * operands' elements alone. wide: dense columns by tiles of 6 x 64, else of 16 x 16. scratch: of the bytes that the other
 * function says, 0 where the shape is too wide. */
int fth_split_avx2_tn(const struct fth_gemm_shape *shape, int of_b, uint32_t rows, const float *a, const float *b, float *c,
                      void *scratch);
int fth_split_avx512_tn(const struct fth_gemm_shape *shape, int wide, int of_b, uint32_t rows, const float *a,
                        const float *b, float *c, void *scratch);
size_t fth_split_avx2_scratch(const struct fth_gemm_shape *shape);
size_t fth_split_avx512_scratch(const struct fth_gemm_shape *shape);

/* By instruction set. wide: strips of more columns; the same bits. */
void fth_zeros_avx2_nn(const struct fth_gemm_shape *shape, uint32_t rows, const float *a, const float *b, float *c,
                       const struct fth_gemm_finish *finish);
void fth_zeros_avx512_nn(const struct fth_gemm_shape *shape, int wide, uint32_t rows, const float *a, const float *b,
                         float *c, const struct fth_gemm_finish *finish);
void fth_zeros_avx2_tn(const struct fth_gemm_shape *shape, int of_b, uint32_t rows, const float *a, const float *b, float *c,
                       void *scratch);
void fth_zeros_avx512_tn(const struct fth_gemm_shape *shape, int wide, int of_b, uint32_t rows, const float *a,
                         const float *b, float *c, void *scratch);

#endif
