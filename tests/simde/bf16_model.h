/* A scalar model of products of bf16, of one part to three, which knows nothing of packing and panels, only the order of gemm_bf16.h,
 * and checks of the emulated kernels against it, to the bit. One thread; what is returned is owned: fth_free. */
#ifndef FTH_TEST_BF16_MODEL_H
#define FTH_TEST_BF16_MODEL_H

#include "kernels/gemm_bf16.h"
#include "kernels/gemm_private.h"
#include "kernels/panels.h"

extern const struct fth_bf16_kernel emulated_bf16_avx512, emulated_bf16_amx;

struct bf16_operands {
    struct fth_gemm_shape shape;
    uint32_t rows;
    float *a, *b;
    float *panels; /* B's, where the shape says so */
    float *tiles_a, *tiles_b; /* what the shape says is in tiles */
};

uint32_t bf16_draw(uint32_t below);
float *bf16_numbers(size_t n); /* drawn, of six magnitudes */
/* 0: rounded to bf16; 1: what that leaves, rounded; 2: what both leave. */
float bf16_part(float x, uint32_t part);
float bf16_a(const struct bf16_operands *o, uint32_t i, uint32_t p);
float bf16_b(const struct bf16_operands *o, uint32_t p, uint32_t j);

/* A and B drawn, their rows a little apart; rows, and `fixed` of k (TN: of m). */
struct bf16_operands bf16_operands(fth_gemm_form form, fth_precision precision, uint32_t rows, uint32_t fixed,
                                   uint32_t n);
/* B's panels, stored in blocks that end anywhere, so half a word at a time (way 0), or in one block (1); or the
 * transposed copy's from B turned over (2, 3). All the same memory. */
float *bf16_panels(const struct bf16_operands *o, int way);
/* C[floats], which was `before`, as the kernel makes it; nothing may be written beside its scratch, and what it tells
 * of must be what it is. */
float *bf16_run(const struct bf16_operands *o, const struct fth_bf16_kernel *kernel, const float *before,
                size_t floats);
/* The emulated kernels against the model; where this machine has the instructions, its own kernels, too. */
void bf16_check(const struct bf16_operands *o);

#endif
