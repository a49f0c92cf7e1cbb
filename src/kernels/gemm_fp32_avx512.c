/* fp32 weight gradients by AVX-512, C[m, n] = A[k, m]^T B[k, n] with k = examples, and the optimizer's step that
 * uses them.
 *
 * A tile is 16 x 16 of C, a register a row: a step of k is one load of B and 16 multiply-adds with an element of A.
 *
 *     for chunk of k:  for strip of 16 rows of C (its part of A stays in the first cache):  for tile
 *
 * That leaves most of the memory pipes idle, and the divider. So the optimizer's step of a tile is not made after
 * its product but during the next one's, in small jobs between steps of k (gemm_step_avx512.h).
 *
 *     product of tile    |  0  |  1  |  2  | ...
 *     step of tile       |     |  0  |  1  | ...
 *     lines fetched for  |  0  |  1  |  2  | ...
 *
 * Every element of C is summed in increasing k. Threads: pure functions. */
#include "kernels/gemm_fp32.h"
#include "kernels/gemm_step_avx512.h"

#define DEPTH 256u

struct product {
    const float *a, *b;
    size_t lda, ldb;
    uint32_t m, k;
    const float *from; /* what is added to; NULL: zeros */
    float *to;
    size_t ld_from, ld_to;
    vt columns;
    /* What comes next, brought into the second cache: a line of `next` a step of k; and lines of C. */
    const float *next, *next_c;
    size_t ld_next;
};

static FTH_INLINE void steps_of_k(const int m, const struct product *t, size_t first, size_t end, vf *sums) {
    for (size_t p = first; p < end; p++) {
        const float *a = t->a + p * t->lda, *b = t->b + p * t->ldb;
        vf y = v_load_part(b, t->columns);
        fetch(b + 8 * t->ldb);
        _mm_prefetch((const char *)(t->next + p * t->ld_next), _MM_HINT_T1);
#pragma GCC unroll 16
        for (int i = 0; i < m; i++)
            sums[i] = v_fma(v_set(a[i]), y, sums[i]);
    }
}

/* The product of a tile of m rows; `kind` is no step: without jobs. */
static FTH_INLINE void tile(const int m, fth_weight_step kind, const struct product *t, struct jobs *jobs) {
    vf sums[TILE];
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
        sums[i] = t->from ? v_load_part(t->from + i * t->ld_from, t->columns) : v_zero();
    size_t p = 0, steps = t->k / JOBS;
    for (uint32_t row = 0; row < TILE; row++, p += steps) {
        if (kind != FTH_STEP_NONE)
            job_row(kind, jobs, row);
        fetch(t->next_c + row * t->ld_from);
        steps_of_k(m, t, p, p + steps, sums);
    }
    if (kind != FTH_STEP_NONE) {
        for (uint32_t quad = 0; quad < TILE / 4; quad++, p += steps) {
            job_quad(jobs, quad);
            steps_of_k(m, t, p, p + steps, sums);
        }
    }
    steps_of_k(m, t, p, t->k, sums);
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
        v_store_part(t->to + i * t->ld_to, t->columns, sums[i]);
}

#define TILES(TILE_OF) \
    TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4) TILE_OF(5) TILE_OF(6) TILE_OF(7) TILE_OF(8) \
    TILE_OF(9) TILE_OF(10) TILE_OF(11) TILE_OF(12) TILE_OF(13) TILE_OF(14) TILE_OF(15) TILE_OF(16)
#define DEFINE(m) \
    static void tile_##m(const struct product *t) { tile(m, FTH_STEP_NONE, t, NULL); }
TILES(DEFINE)
#define NAME(m) tile_##m,
static void (*const plain_tiles[TILE])(const struct product *) = {TILES(NAME)};

static void sgd_tile(const struct product *t, struct jobs *jobs) {
    tile(TILE, FTH_STEP_SGD, t, jobs);
}
static void adagrad_tile(const struct product *t, struct jobs *jobs) {
    tile(TILE, FTH_STEP_ADAGRAD, t, jobs);
}
static void adam_tile(const struct product *t, struct jobs *jobs) {
    tile(TILE, FTH_STEP_ADAM, t, jobs);
}

static void run_tile(const struct product *t, struct jobs *jobs) {
    if (jobs && t->m == TILE) {
        if (jobs->step.kind == FTH_STEP_SGD)
            sgd_tile(t, jobs);
        else if (jobs->step.kind == FTH_STEP_ADAGRAD)
            adagrad_tile(t, jobs);
        else
            adam_tile(t, jobs);
        return;
    }
    if (jobs)
        finish(jobs);
    plain_tiles[t->m - 1](t);
}

/* What the tile after `row`, `column` reads that this strip has not read yet: in the first strip B, whose tiles the
 * others find in the second cache; at a strip's end A of the next one, or of the next chunk. */
static void fetch_next(const struct fth_gemm_shape *s, struct product *t, const float *a, const float *b, uint32_t row,
                       uint32_t column) {
    int last = column + TILE >= s->n;
    t->ld_next = last ? t->lda : t->ldb;
    if (last)
        t->next = row + TILE < s->m ? a + row + TILE : a + t->k * t->lda;
    else if (row + TILE >= s->m && column + 2 * TILE >= s->n)
        t->next = b + t->k * t->ldb;
    else
        t->next = row == 0 ? b + column + TILE : t->b;
}

/* A chunk of k; jobs: NULL before the last one, or without a step. */
static void run_chunk(const struct fth_gemm_shape *s, struct product *t, const float *a, const float *b, float *c,
                      const struct fth_gemm_step *step, struct jobs *jobs) {
    float gradients[2][TILE * TILE] __attribute__((aligned(FTH_CACHE_LINE)));
    int add = t->from != NULL;
    uint32_t turn = 0;
    t->ld_from = s->ldc;
    for (uint32_t row = 0; row < s->m; row += TILE) {
        t->m = least(TILE, s->m - row);
        t->a = a + row;
        for (uint32_t column = 0; column < s->n; column += TILE, turn ^= 1) {
            uint32_t columns = least(TILE, s->n - column);
            float *at = c + row * (size_t)s->ldc + column;
            t->columns = v_tail(columns);
            t->b = b + column;
            fetch_next(s, t, a, b, row, column);
            t->next_c = column + TILE < s->n ? at + TILE : at + TILE * (size_t)s->ldc - column;
            t->from = add ? at : NULL;
            t->to = jobs ? gradients[turn] : at;
            t->ld_to = jobs ? TILE : s->ldc;
            if (jobs) {
                jobs->next = place_of(step, row, t->m, column, columns);
                jobs->next.gradient = t->to;
            }
            run_tile(t, jobs);
            if (jobs)
                jobs->now = jobs->next;
        }
    }
    if (jobs) {
        jobs->next.rows = 0;
        finish(jobs);
    }
}

void fth_fp32_avx512_run(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                         const struct fth_gemm_step *step) {
    struct product t = {.lda = s->lda, .ldb = s->ldb};
    struct jobs jobs = {.step = {.kind = FTH_STEP_NONE}};
    if (step)
        jobs = jobs_of(step, TILE);
    for (uint32_t p = 0; p < rows; p += DEPTH) {
        int last = rows - p <= DEPTH;
        t.k = last ? rows - p : DEPTH;
        t.from = s->accumulate || p > 0 ? c : NULL;
        run_chunk(s, &t, a + p * (size_t)s->lda, b + p * (size_t)s->ldb, c, step, last && step ? &jobs : NULL);
    }
}
