/* The optimizer's step of a block of W whose gradient is complete, by AVX2: as gemm_step_avx512.c, tiles of 16 x 16, with two
 * vectors a row and four squares to turn.
 *
 * Threads: pure function. */
#include "kernels/cpu/simd_avx2.h"

#include "kernels/gemm_fp32.h"
#include "kernels/gemm_step_simd.h"

#define TILE FTH_STEP_TILE

static FTH_INLINE void step_row(fth_weight_step kind, const struct stepping *s, const struct place *p, uint32_t row,
                                float *turn) {
    for (uint32_t j = 0; j < p->columns; j += VW)
        if (j + VW <= p->columns)
            step_vector(kind, 0, v_tail(VW), s, p, row, j, turn);
        else
            step_vector(kind, 1, v_tail(p->columns - j), s, p, row, j, turn);
}

static FTH_INLINE void turn_square(const struct place *p, const float *turn, uint32_t row, uint32_t column) {
    uint32_t rows = least(VW, p->rows - row), columns = least(VW, p->columns - column);
    float *to = p->transposed + column * p->transposed_ld + row;
    vf r[VW];
    vt t = v_tail(rows);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < VW; i++)
        r[i] = v_load(turn + (row + i) * TILE + column);
    v_turn(r);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < VW; i++)
        if (i < columns)
            v_put(to + i * p->transposed_ld, rows < VW, t, r[i]);
}

static FTH_INLINE void step_tile(fth_weight_step kind, const struct stepping *s, const struct place *p,
                                 const struct place *next) {
    float turn[TILE * TILE] __attribute__((aligned(FTH_CACHE_LINE)));
    for (uint32_t row = 0; row < TILE; row++) {
        if (row < p->rows)
            step_row(kind, s, p, row, turn);
        fetch_row(kind, next, row, s->ld);
        fetch_turned(next, row, 1);
    }
    for (uint32_t row = 0; p->transposed && row < p->rows; row += VW)
        for (uint32_t column = 0; column < p->columns; column += VW)
            turn_square(p, turn, row, column);
}

static FTH_INLINE void step_block(fth_weight_step kind, const struct fth_gemm_step *step, uint32_t m, uint32_t n,
                                  const float *gradient, const struct stepping *s) {
    struct place now = {.rows = 0}, next;
    for (uint32_t row = 0; row < m; row += TILE)
        for (uint32_t column = 0; column < n; column += TILE) {
            next = place_of(step, row, least(TILE, m - row), column, least(TILE, n - column));
            next.gradient = gradient + row * s->gradient_ld + column;
            step_tile(kind, s, &now, &next);
            now = next;
        }
    next.rows = 0;
    step_tile(kind, s, &now, &next);
}

void fth_step_avx2_run(const struct fth_gemm_step *step, uint32_t m, uint32_t n, const float *gradient, size_t ld) {
    struct stepping s = stepping_of(step, ld);
    if (step->kind == FTH_STEP_SGD)
        step_block(FTH_STEP_SGD, step, m, n, gradient, &s);
    else if (step->kind == FTH_STEP_ADAGRAD)
        step_block(FTH_STEP_ADAGRAD, step, m, n, gradient, &s);
    else
        step_block(FTH_STEP_ADAM, step, m, n, gradient, &s);
}
