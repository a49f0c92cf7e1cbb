/* The optimizer's step of a tile of 16 x 16 of W, whose gradient an AVX-512 kernel has made, in 20 small jobs to be done
 * between steps of k of a next tile's product: 16 rows of weights and slots, then four times four rows of the
 * transposed copy; each job fetches what the same job of the next tile needs. Included by the kernels alone
 * (gemm_fp32_avx512.c, gemm_fp32_wide_avx512.c, gemm_step_avx512.c). */
#ifndef FTH_KERNELS_GEMM_STEP_AVX512_H
#define FTH_KERNELS_GEMM_STEP_AVX512_H

#include "kernels/cpu/simd_avx512.h"

#include "kernels/gemm_step_simd.h"

#define TILE FTH_STEP_TILE
#define JOBS (TILE + TILE / 4)
#define FULL ((vt)0xffff)

struct jobs {
    struct stepping step;
    struct place now, next; /* whose step is made; whose lines are fetched */
    float turn[TILE * TILE] __attribute__((aligned(FTH_CACHE_LINE)));
};

static FTH_INLINE vf lanes_of_rows(const float *x) {
    __m512 v = _mm512_castps128_ps512(_mm_load_ps(x));
    v = _mm512_insertf32x4(v, _mm_load_ps(x + 4 * TILE), 1);
    v = _mm512_insertf32x4(v, _mm_load_ps(x + 8 * TILE), 2);
    return _mm512_insertf32x4(v, _mm_load_ps(x + 12 * TILE), 3);
}

/* Columns 4 quad .. 4 quad + 3 of the tile become rows of the transposed copy. */
static FTH_INLINE void turn_quad(const struct place *p, const float *turn, uint32_t quad) {
    const float *x = turn + 4 * quad;
    vf r0 = lanes_of_rows(x), r1 = lanes_of_rows(x + TILE), r2 = lanes_of_rows(x + 2 * TILE),
       r3 = lanes_of_rows(x + 3 * TILE);
    __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1)), b = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
    __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3)), d = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
    const vf rows[4] = {_mm512_castpd_ps(_mm512_unpacklo_pd(a, c)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, c)),
                        _mm512_castpd_ps(_mm512_unpacklo_pd(b, d)), _mm512_castpd_ps(_mm512_unpackhi_pd(b, d))};
    vt t = v_tail(p->rows);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++)
        if (4 * quad + i < p->columns)
            v_store_part(p->transposed + (4 * quad + i) * p->transposed_ld, t, rows[i]);
}

static FTH_INLINE void job_row(fth_weight_step kind, struct jobs *j, uint32_t row) {
    if (row < j->now.rows && j->now.columns == TILE)
        step_vector(kind, 0, FULL, &j->step, &j->now, row, 0, j->turn);
    else if (row < j->now.rows)
        step_vector(kind, 1, v_tail(j->now.columns), &j->step, &j->now, row, 0, j->turn);
    fetch_row(kind, &j->next, row, j->step.ld);
}

static FTH_INLINE void job_quad(struct jobs *j, uint32_t quad) {
    if (j->now.rows && j->now.transposed)
        turn_quad(&j->now, j->turn, quad);
    fetch_turned(&j->next, 4 * quad, 4);
}

/* The jobs alone: behind the last tile, and where the next one makes no steps. */
static inline void finish(struct jobs *jobs) {
    for (uint32_t row = 0; row < TILE; row++)
        if (jobs->step.kind == FTH_STEP_SGD)
            job_row(FTH_STEP_SGD, jobs, row);
        else if (jobs->step.kind == FTH_STEP_ADAGRAD)
            job_row(FTH_STEP_ADAGRAD, jobs, row);
        else
            job_row(FTH_STEP_ADAM, jobs, row);
    for (uint32_t quad = 0; quad < TILE / 4; quad++)
        job_quad(jobs, quad);
}

static inline struct jobs jobs_of(const struct fth_gemm_step *s, size_t gradient_ld) {
    return (struct jobs){.step = stepping_of(s, gradient_ld)};
}

#endif
