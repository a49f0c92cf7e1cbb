/* fp32 weight gradients by AVX-512, C[m, n] = A[k, m]^T B[k, n] with k = examples, and the optimizer's step that uses
 * them, where a core makes two multiply-adds of 512 bits a cycle: the tiles of gemm_fp32_avx512.c would wait there for
 * their operands' loads, 17 for 16 multiply-adds.
 *
 * A tile is 6 x 64 of C (gemm_wide_avx512.h).
 *
 *     for chunk of k:  for strip of 6 rows of C (its part of A packed: six after six numbers):  for tile
 *
 * The next strip's part of A is packed during this one's products, a row every four steps of k.
 *
 * What the next chunk reads is fetched meanwhile: its rows lie on pages of their own, the hardware does not follow.
 * Sums go into C chunk by chunk; the optimizer's step (gemm_step_avx512.h) of what is complete, 16 rows of two times 16
 * columns at a time, is made during the products of the strips below.
 *
 * Every element of C is summed in increasing k: the same bits as gemm_fp32_avx512.c. Threads: pure functions. */
#include "kernels/gemm_fp32.h"
#include "kernels/gemm_step_avx512.h"
#include "kernels/gemm_wide_avx512.h"

#define DEPTH 128u
#define PAIR 2u /* tiles of a step side by side */

struct product {
    const float *a, *b; /* a: packed */
    size_t ldb;
    uint32_t k;
    const float *from; /* what is added to; NULL: zeros */
    float *to;
    size_t ldc;
    vt columns; /* of the last vector */
    const float *next;
    size_t ld_next;
    /* Rows of A that are packed for the next strip meanwhile, one a group of k; strides 0: none. */
    const float *x;
    float *x_packed;
    size_t ldx, ld_packed;
};

/* What is left of the next chunk to be fetched: columns of 16 floats of A, then of B, in pieces of as many rows as
 * a tile fetches. */
struct ahead {
    const float *a, *b;
    uint32_t m, n, pieces, piece; /* pieces a column; the next one */
};

/* How far the optimizer's steps have come. */
struct steps {
    const struct fth_gemm_step *step;
    const float *gradient;
    uint32_t m, n, row, column; /* what is fetched after `next` of the jobs */
    uint32_t until;             /* rows of C whose products must be complete before these jobs */
    struct jobs jobs[PAIR];
};

static FTH_INLINE void groups_of_k(const int m, const int v, struct product *t, uint32_t groups, vf *sums) {
    for (; groups > 0; groups--) {
        for (uint32_t i = 0; i < FETCHES; i++, t->next += t->ld_next)
            _mm_prefetch((const char *)t->next, _MM_HINT_T1);
        vh_store(t->x_packed, vh_load(t->x));
        t->x += t->ldx;
        t->x_packed += t->ld_packed;
#pragma GCC unroll 4
        for (uint32_t i = 0; i < GROUP; i++, t->a += m, t->b += t->ldb)
            step_of_k(m, v, t->a, t->a + 3, 1, t->b, t->columns, sums);
    }
}

/* The product of a tile of m rows and v vectors; `kind` is no step: without jobs. */
static FTH_INLINE void tile(const int m, const int v, fth_weight_step kind, const struct product *of,
                            struct jobs *jobs) {
    struct product t = *of;
    vf sums[ROWS * VECTORS];
    load_sums(m, v, t.from, t.ldc, t.columns, sums);
    uint32_t groups = t.k / GROUP, between = groups / JOBS;
    if (kind != FTH_STEP_NONE) {
        for (uint32_t row = 0; row < TILE; row++) {
            job_row(kind, &jobs[0], row);
            job_row(kind, &jobs[1], row);
            groups_of_k(m, v, &t, between, sums);
        }
        for (uint32_t quad = 0; quad < TILE / 4; quad++) {
            job_quad(&jobs[0], quad);
            job_quad(&jobs[1], quad);
            groups_of_k(m, v, &t, between, sums);
        }
        groups -= JOBS * between;
    }
    groups_of_k(m, v, &t, groups, sums);
    for (uint32_t p = t.k % GROUP; p > 0; p--, t.a += m, t.b += t.ldb)
        step_of_k(m, v, t.a, t.a + 3, 1, t.b, t.columns, sums);
    store_sums(m, v, t.to, t.ldc, t.columns, sums);
}

#define DEFINE(m) \
    static void tile_##m##_1(const struct product *t) { tile(m, 1, FTH_STEP_NONE, t, NULL); } \
    static void tile_##m##_2(const struct product *t) { tile(m, 2, FTH_STEP_NONE, t, NULL); } \
    static void tile_##m##_3(const struct product *t) { tile(m, 3, FTH_STEP_NONE, t, NULL); } \
    static void tile_##m##_4(const struct product *t) { tile(m, 4, FTH_STEP_NONE, t, NULL); }
HEIGHTS(DEFINE)
#define NAMES(m) [m] = {tile_##m##_1, tile_##m##_2, tile_##m##_3, tile_##m##_4},
static void (*const plain_tiles[ROWS + 1][VECTORS])(const struct product *) = {HEIGHTS(NAMES)};

static void sgd_tile(const struct product *t, struct jobs *jobs) {
    tile(ROWS, VECTORS, FTH_STEP_SGD, t, jobs);
}
static void adagrad_tile(const struct product *t, struct jobs *jobs) {
    tile(ROWS, VECTORS, FTH_STEP_ADAGRAD, t, jobs);
}
static void adam_tile(const struct product *t, struct jobs *jobs) {
    tile(ROWS, VECTORS, FTH_STEP_ADAM, t, jobs);
}

/* m of a packed row: A's columns a .. a + m. A store may write two numbers too many, which the next one overwrites. */
static void pack(const float *a, size_t lda, uint32_t m, uint32_t k, float *out) {
    vt columns = v_tail(m);
    for (uint32_t p = 0; p < k; p++, a += lda, out += m)
        vh_store(out, vh_of(v_load_part(a, columns)));
}

/* The jobs turn to the next pair of tiles. */
static void advance(struct steps *s, size_t ldc) {
    for (uint32_t i = 0; i < PAIR; i++) {
        struct jobs *jobs = &s->jobs[i];
        uint32_t column = s->column + i * TILE;
        jobs->now = jobs->next;
        jobs->next.rows = 0;
        if (s->row >= s->m || column >= s->n)
            continue;
        jobs->next = place_of(s->step, s->row, least(TILE, s->m - s->row), column, least(TILE, s->n - column));
        jobs->next.gradient = s->gradient + s->row * ldc + column;
    }
    s->until = s->row < s->m ? least(s->row + TILE, s->m) : UINT32_MAX;
    s->column += PAIR * TILE;
    if (s->column >= s->n) {
        s->column = 0;
        s->row += TILE;
    }
}

/* Steps of what is complete and has had none. */
static void finish_steps(struct steps *s, size_t ldc) {
    do {
        advance(s, ldc);
        finish(&s->jobs[0]);
        finish(&s->jobs[1]);
    } while (s->until != UINT32_MAX);
}

static void fetch_ahead(struct ahead *ahead, const struct fth_gemm_shape *s, struct product *t) {
    uint32_t column = ahead->piece / ahead->pieces * VW, piece = ahead->piece % ahead->pieces;
    int of_a = column < ahead->m;
    if (!of_a)
        column -= (ahead->m + VW - 1) / VW * VW;
    t->next = t->b;
    t->ld_next = 0;
    if (!ahead->a || column >= (of_a ? ahead->m : ahead->n))
        return;
    t->ld_next = of_a ? s->lda : s->ldb;
    t->next = (of_a ? ahead->a : ahead->b) + column + piece * (size_t)(DEPTH / GROUP * FETCHES) * t->ld_next;
    ahead->piece++;
}

/* The part of A of a strip of six rows that is being packed: `a` is the strip's corner, NULL: none. */
struct packing {
    const float *a;
    float *packed;
    uint32_t rows; /* so far */
};

/* What a tile packs: a row a group of k. Behind the last one, nothing: one number again and again, into a sink. */
static void pack_ahead(struct packing *packing, const struct fth_gemm_shape *s, struct product *t, float *sink) {
    uint32_t groups = t->k / GROUP;
    int some = packing->a && groups <= t->k - packing->rows;
    t->x = some ? packing->a + packing->rows * (size_t)s->lda : sink;
    t->x_packed = some ? packing->packed + packing->rows * ROWS : sink;
    t->ldx = some ? s->lda : 0;
    t->ld_packed = some ? ROWS : 0;
    packing->rows += some ? groups : 0;
}

/* A strip of C: m rows. steps: NULL before the last chunk, or without a step. */
static void run_strip(const struct fth_gemm_shape *s, struct product *t, const float *b, uint32_t m, float *c,
                      struct ahead *ahead, struct packing *packing, struct steps *steps, uint32_t row) {
    int add = t->from != NULL;
    float sink[VW] = {0};
    for (uint32_t column = 0; column < s->n; column += COLUMNS) {
        uint32_t columns = least(COLUMNS, s->n - column), v = (columns + VW - 1) / VW;
        t->b = b + column;
        t->to = c + column;
        t->from = add ? t->to : NULL;
        t->columns = v_tail(columns - (v - 1) * VW);
        fetch_ahead(ahead, s, t);
        pack_ahead(packing, s, t, sink);
        if (!steps || row < steps->until || m != ROWS || v != VECTORS) {
            plain_tiles[m][v - 1](t);
            continue;
        }
        advance(steps, s->ldc);
        if (steps->jobs[0].step.kind == FTH_STEP_SGD)
            sgd_tile(t, steps->jobs);
        else if (steps->jobs[0].step.kind == FTH_STEP_ADAGRAD)
            adagrad_tile(t, steps->jobs);
        else
            adam_tile(t, steps->jobs);
    }
}

/* A chunk of t->k examples. */
static void run_chunk(const struct fth_gemm_shape *s, struct product *t, const float *a, const float *b, float *c,
                      struct ahead *ahead, struct steps *steps) {
    float packed[2][ROWS * DEPTH + 2] __attribute__((aligned(FTH_CACHE_LINE)));
    struct packing packing = {.a = NULL};
    int turn = 0;
    for (uint32_t row = 0, m; row < s->m; row += m, turn = !turn) {
        m = strip_height(s->m - row);
        pack(a + row + packing.rows * (size_t)s->lda, s->lda, m, t->k - packing.rows, packed[turn] + packing.rows * m);
        t->a = packed[turn];
        /* A row is loaded as eight numbers. */
        int more = s->m - row - m >= VW / 2;
        packing = (struct packing){.a = more ? a + row + m : NULL, .packed = packed[!turn]};
        run_strip(s, t, b, m, c + row * (size_t)s->ldc, ahead, &packing, steps, row);
    }
}

void fth_fp32_wide_avx512_run(const struct fth_gemm_shape *s, uint32_t rows, const float *a, const float *b, float *c,
                              const struct fth_gemm_step *step) {
    struct product t = {.ldb = s->ldb, .ldc = s->ldc};
    struct steps steps = {.step = step, .gradient = c, .m = s->m, .n = s->n};
    if (step)
        steps.jobs[0] = steps.jobs[1] = jobs_of(step, s->ldc);
    for (uint32_t p = 0; p < rows; p += DEPTH, a += DEPTH * (size_t)s->lda, b += DEPTH * (size_t)s->ldb) {
        int last = rows - p <= DEPTH;
        struct ahead ahead = {.m = s->m, .n = s->n, .pieces = GROUP / FETCHES};
        if (!last) {
            ahead.a = a + DEPTH * (size_t)s->lda;
            ahead.b = b + DEPTH * (size_t)s->ldb;
        }
        t.k = last ? rows - p : DEPTH;
        t.from = s->accumulate || p > 0 ? c : NULL;
        run_chunk(s, &t, a, b, c, &ahead, last && step ? &steps : NULL);
    }
    if (step)
        finish_steps(&steps, s->ldc);
}
