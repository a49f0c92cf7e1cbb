/* The products of an attention unit, for any vector width; attention_simd.h includes it.
 *
 * Blocks of a few rows by a few vectors stay in registers while the sum runs; the second operand is a struct operand in
 * scratch, or has whole vectors. What is to be done with a block's sums happens before they are stored. */
#ifndef FTH_KERNELS_CPU_ATTENTION_PRODUCT_SIMD_H
#define FTH_KERNELS_CPU_ATTENTION_PRODUCT_SIMD_H

/* Registers: rows x vectors sums, the vectors of a row of the second operand, one number. Of fewer than eight sums a core
 * waits for each to be added to. */
#ifdef FTH_SIMDE /* emulated blocks of full size take a minute to compile */
enum { MOST_ROWS = 2, MOST_VECTORS = 3, MOST_SUMS = 6 };
#else
enum { MOST_ROWS = VW == 16 ? 5 : 6, MOST_VECTORS = VW == 16 ? 5 : 3, MOST_SUMS = VW == 16 ? 25 : 12 };
#endif

enum kind {
    STORE,  /* c = a b */
    ADD,    /* c += a^T b */
    KEYS,   /* c = a b + weight[i] dout, where dout is not NULL */
    WEIGHTS /* c = a^T b is the gradient of an example's weights, see weights_finish */
};

struct product {
    uintptr_t fetch; /* the address whose line comes into the second cache next, and how far it goes on a turn; 0, 0: none */
    size_t fetch_step;
    size_t m, n, k;
    const float *a, *b;  /* a[m][k], of ADD and WEIGHTS a[k][m]; b has whole vectors, and behind them */
    const float *groups; /* where pack is not 1 the other columns' groups */
    size_t lda, ldb;
    int pack;
    float *c;
    size_t ldc;
    vt tail; /* of n */
    /* KEYS */
    const float *weight, *dout;
    size_t ld_weight;
    /* WEIGHTS: c is dW0 */
    const float *q, *w1;
    size_t ldw;
    float *dw1, *dq;
};

/* v_group of the first of p's floats only, zeros behind. */
static vf group_part(int pack, const float *p, size_t floats) {
    float lanes[4] = {0};
    for (size_t i = 0; i < (size_t)pack && i < floats; i++)
        lanes[i] = p[i];
    return pack == 2 ? v_group(2, lanes) : v_group(4, lanes);
}

static FTH_INLINE void store_finish(enum kind kind, const struct product *p, size_t i, size_t j, int part, vf sum) {
    float *c = p->c + i * p->ldc + j;
    if (kind == KEYS && p->dout)
        sum = v_add(v_mul(v_set(p->weight[i * p->ld_weight]), v_get(p->dout + j, part, p->tail)), sum);
    if (kind == ADD)
        sum = v_add(v_get(c, part, p->tail), sum);
    v_put(c, part, p->tail, sum);
}

/* dW0 += sum, dW1 += q[i] sum; returns sum W1, part of q's gradient. */
static FTH_INLINE vf weights_finish(const struct product *p, size_t i, size_t j, int part, vf sum,
                                    vf dq) {
    float *dw0 = p->c + i * p->ldc + j, *dw1 = p->dw1 + i * p->ldc + j;
    v_put(dw0, part, p->tail, v_add(v_get(dw0, part, p->tail), sum));
    v_put(dw1, part, p->tail, v_fma(v_set(p->q[i]), sum, v_get(dw1, part, p->tail)));
    return v_fma(sum, v_get(p->w1 + i * p->ldw + j, part, p->tail), dq);
}

static FTH_INLINE void finish_row(enum kind kind, int vectors, const struct product *p, size_t i,
                                  size_t j, const vf *sum) {
    int cut = j + (size_t)vectors * VW > p->n;
    vf dq = v_zero();
#pragma GCC unroll 5
    for (int v = 0; v < vectors; v++) {
        size_t to = j + (size_t)v * VW;
        int part = v == vectors - 1 && cut;
        if (kind == WEIGHTS)
            dq = part ? weights_finish(p, i, to, 1, sum[v], dq)
                      : weights_finish(p, i, to, 0, sum[v], dq);
        else if (part)
            store_finish(kind, p, i, to, 1, sum[v]);
        else
            store_finish(kind, p, i, to, 0, sum[v]);
    }
    if (kind == WEIGHTS)
        p->dq[i] += v_sum(dq);
}

/* sum[r][0 .. whole) += a[r] b, one step of the depth. */
static FTH_INLINE void step_of(int rows, int whole, const float *a, size_t row, const float *b,
                               vf sum[MOST_ROWS][MOST_VECTORS]) {
    vf second[MOST_VECTORS];
#pragma GCC unroll 5
    for (int v = 0; v < whole; v++)
        second[v] = v_load(b + v * VW);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        vf first = v_set(a[(size_t)r * row]);
#pragma GCC unroll 5
        for (int v = 0; v < whole; v++)
            sum[r][v] = v_fma_into(sum[r][v], first, second[v]);
    }
}

/* Steps of the depth in a turn of the loop, which fetches a line. AVX2's blocks are so small that the loop itself would take
 * a tenth of the time. */
static FTH_INLINE int turn_of(int pack) {
    return VW == 16 ? pack : 4;
}

/* Rows of a block; with groups AVX2 has addresses for four alone. */
static FTH_INLINE size_t rows_of_block(size_t vectors, int pack) {
    size_t most = VW == 8 && pack > 1 ? 4 : MOST_ROWS;
    return MOST_SUMS / vectors < most ? MOST_SUMS / vectors : most;
}

/* Rows [i, + rows) by vectors [j, + vectors VW) of c, with `pack` above 1 the last one from groups; all but p, i and j
 * are constants where this is called. */
static FTH_INLINE void block(enum kind kind, int rows, int vectors, int pack, struct product *p,
                             size_t i, size_t j) {
    vf sum[MOST_ROWS][MOST_VECTORS];
    int turned = kind == ADD || kind == WEIGHTS;
    size_t row = turned ? 1 : p->lda, step = turned ? p->lda : 1, left = p->k;
    const float *a = p->a + i * row, *b = p->b + j, *groups = p->groups;
    int whole = pack > 1 ? vectors - 1 : vectors, turn = turn_of(pack);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 5
        for (int v = 0; v < vectors; v++)
            sum[r][v] = v_zero();
    uintptr_t fetch = p->fetch;
    for (; left >= (size_t)turn; left -= (size_t)turn, fetch += p->fetch_step) {
        __builtin_prefetch((const void *)fetch, 0, 2);
#pragma GCC unroll 4
        for (int u = 0; u < turn; u++, a += step, b += p->ldb) {
            if (pack > 1 && u % pack == 0) {
                vf group = v_load(groups);
                groups += VW;
#pragma GCC unroll 6
                for (int r = 0; r < rows; r++)
                    sum[r][whole] = v_fma_into(sum[r][whole], v_group(pack, a + (size_t)r * row), group);
            }
            step_of(rows, whole, a, row, b, sum);
        }
    }
    p->fetch = fetch;
    for (int u = 0; left > 0; left--, u++, a += step, b += p->ldb) {
        if (pack > 1 && u % pack == 0) {
            for (int r = 0; r < rows; r++)
                sum[r][whole] = v_fma(group_part(pack, a + (size_t)r * row, left), v_load(groups), sum[r][whole]);
            groups += VW;
        }
        step_of(rows, whole, a, row, b, sum);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        if (pack > 1)
            sum[r][whole] = v_add_groups(pack, sum[r][whole]);
        finish_row(kind, vectors, p, i + (size_t)r, j, sum[r]);
    }
}

/* Blocks of as many rows one below the other, until fewer are left before `end`. */
static FTH_INLINE void blocks_down(enum kind kind, int rows, int vectors, int pack, struct product *p, size_t i,
                                   size_t end, size_t j) {
    for (; i + (size_t)rows <= end; i += (size_t)rows)
        block(kind, rows, vectors, pack, p, i, j);
}

#define BLOCK(r, v, pack)                                                                              \
    case ((r) * 8 + (v)) * 8 + (pack):                                                                 \
        if ((r) <= MOST_ROWS && (v) <= MOST_VECTORS && (r) * (v) <= MOST_SUMS &&                       \
            ((pack) == 1 || kind == STORE || kind == KEYS))                                            \
            blocks_down(kind, r <= MOST_ROWS ? r : 1, v <= MOST_VECTORS ? v : 1, pack, p, i, end, j);  \
        break;
#define BLOCKS(r, v) BLOCK(r, v, 1) BLOCK(r, v, 2) BLOCK(r, v, 4)
#define BLOCK_ROW(r) BLOCKS(r, 1) BLOCKS(r, 2) BLOCKS(r, 3) BLOCKS(r, 4) BLOCKS(r, 5)

static FTH_INLINE void any_blocks(enum kind kind, size_t rows, size_t vectors, int pack, struct product *p, size_t i,
                                  size_t end, size_t j) {
    switch ((rows * 8 + vectors) * 8 + (size_t)pack) {
        BLOCK_ROW(1)
        BLOCK_ROW(2)
        BLOCK_ROW(3)
        BLOCK_ROW(4)
        BLOCK_ROW(5)
        BLOCK_ROW(6)
    default: break;
    }
}

/* Rows between x and what is fetched. */
enum { AHEAD = 128 };

/* While p is made, whose other members are set, as many lines of x's next rows come nearer as p has turns, all of them
 * mostly. The hardware does not see them coming, as products walk down columns, and waits for many lines at once. */
static void fetch_rows(struct product *p, const float *x, size_t ldx, size_t rows) {
    size_t vectors = (p->n + VW - 1) / VW, strips = (vectors + MOST_VECTORS - 1) / MOST_VECTORS, turns = 0;
    for (size_t s = 0; s < strips; s++) {
        int pack = s + 1 == strips ? p->pack : 1;
        size_t high = rows_of_block(vectors / strips, pack);
        turns += (p->m + high - 1) / high * (p->k / (size_t)turn_of(pack));
    }
    size_t step = turns ? (rows * ldx * sizeof(float) + turns - 1) / turns : 0;
    p->fetch = (uintptr_t)x + AHEAD * ldx * sizeof(float);
    p->fetch_step = step < 64 ? step : 64;
}

/* Strips of columns of about equal width; rows of a strip in blocks. */
static FTH_INLINE void multiply_as(enum kind kind, struct product *p) {
    size_t vectors = (p->n + VW - 1) / VW, strips = (vectors + MOST_VECTORS - 1) / MOST_VECTORS;
    for (size_t s = 0, v = 0; s < strips; s++) {
        size_t here = (vectors - v + strips - s - 1) / (strips - s);
        int pack = s + 1 == strips ? p->pack : 1;
        for (size_t i = 0, rows; i < p->m; i += (p->m - i) / rows * rows) {
            rows = rows_of_block(here, pack) < p->m - i ? rows_of_block(here, pack) : p->m - i;
            any_blocks(kind, rows, here, pack, p, i, p->m, v * VW);
        }
        v += here;
    }
}

/* Once each, as the blocks of all sizes are in them. */
static __attribute__((noinline)) void multiply(struct product *p) {
    multiply_as(STORE, p);
}
static __attribute__((noinline)) void multiply_add(struct product *p) {
    multiply_as(ADD, p);
}
static __attribute__((noinline)) void multiply_keys(struct product *p) {
    multiply_as(KEYS, p);
}
static __attribute__((noinline)) void multiply_weights(struct product *p) {
    multiply_as(WEIGHTS, p);
}

static size_t whole_vectors(size_t n) {
    return (n + VW - 1) / VW * VW;
}

/* A product's second operand [k][n] in scratch, k whole_vectors(n) floats at most: whole vectors of columns, row by row,
 * and behind them the other columns. More than half a vector of those are one; of fewer, rows share vectors, `pack` of them:
 * lane j pack + i is column j of a group's row i. */
struct operand {
    size_t k, n, columns; /* columns: in whole vectors, the rest is in groups where pack is not 1 */
    int pack;
    float *at;
};

static struct operand operand_at(size_t k, size_t n, float *at) {
    size_t rest = n % VW;
    int pack = rest == 0 || rest > VW / 2 ? 1 : rest > VW / 4 ? 2 : 4;
    return (struct operand){.k = k, .n = n, .columns = pack == 1 ? whole_vectors(n) : n - rest, .pack = pack, .at = at};
}

static float *groups_of(const struct operand *o) {
    return o->at + o->k * o->columns;
}
static float *end_of(const struct operand *o) {
    return groups_of(o) + (o->pack == 1 ? 0 : (o->k + (size_t)o->pack - 1) / (size_t)o->pack * VW);
}

static void second_operand(struct product *p, const struct operand *o) {
    p->n = o->n;
    p->k = o->k;
    p->b = o->at;
    p->ldb = o->columns;
    p->pack = o->pack;
    p->groups = groups_of(o);
    p->tail = v_tail(o->n % VW);
}

static void lay_out(const struct operand *o, const float *w, size_t ldw) {
    vt t = v_tail(o->n % VW);
    size_t pack = (size_t)o->pack;
    for (size_t i = 0; i < o->k; i++, w += ldw) {
        size_t j = 0;
        for (; j + VW <= o->n; j += VW)
            v_store(o->at + i * o->columns + j, v_load(w + j));
        if (pack == 1 && j < o->n)
            v_store(o->at + i * o->columns + j, v_load_part(w + j, t));
        if (pack == 1)
            continue;
        float *group = groups_of(o) + i / pack * VW;
        if (i % pack == 0)
            v_store(group, v_zero());
        for (; j < o->n; j++)
            group[(j - o->columns) * pack + i % pack] = w[j];
    }
}

#endif
