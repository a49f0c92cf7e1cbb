/* An attention unit's first layer for any vector width: attention_avx2.c and attention_avx512.c include it. See
 * kernels.def for what is computed, attention_scalar.c for the plain form.
 *
 * All three products of an example are blocks of a few rows by a few vectors that stay in registers while the sum
 * runs; the second operand is in scratch, in whole vectors, or has no tail. What is to be done with a block's sums
 * happens before they are stored. */
#ifndef FTH_KERNELS_CPU_ATTENTION_SIMD_H
#define FTH_KERNELS_CPU_ATTENTION_SIMD_H

/* Registers: rows x vectors sums, the vectors of a row of the second operand, one number. */
enum { MOST_ROWS = VW == 16 ? 5 : 4, MOST_VECTORS = VW == 16 ? 5 : 3 };

enum kind {
    LAYER,  /* c = a b */
    KEYS,   /* c = a b, and weight[row] dout where that is not NULL */
    WEIGHTS /* a turned over; c's gradients, see weights_finish */
};

struct product {
    enum kind kind;
    size_t m, n, k;
    const float *a, *b;
    size_t lda, ldb;
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

static FTH_INLINE void keys_finish(const struct product *p, size_t i, size_t j, int part, vf sum) {
    if (p->dout)
        sum = v_add(v_mul(v_set(p->weight[i * p->ld_weight]), v_get(p->dout + j, part, p->tail)), sum);
    v_put(p->c + i * p->ldc + j, part, p->tail, sum);
}

/* dW0 += sum, dW1 += q[i] sum; returns sum W1, part of q's gradient. */
static FTH_INLINE vf weights_finish(const struct product *p, size_t i, size_t j, int part, vf sum,
                                    vf dq) {
    float *dw0 = p->c + i * p->ldc + j, *dw1 = p->dw1 + i * p->ldc + j;
    v_put(dw0, part, p->tail, v_add(v_get(dw0, part, p->tail), sum));
    v_put(dw1, part, p->tail, v_fma(v_set(p->q[i]), sum, v_get(dw1, part, p->tail)));
    return v_fma(sum, v_get(p->w1 + i * p->ldw + j, part, p->tail), dq);
}

/* Rows [i, + rows) by vectors [j, + vectors VW) of c; `kind`, `rows` and `vectors` are constants where this is called. */
static FTH_INLINE void block(enum kind kind, int rows, int vectors, const struct product *p, size_t i,
                             size_t j) {
    vf sum[MOST_ROWS][MOST_VECTORS];
    size_t row = kind == WEIGHTS ? 1 : p->lda, step = kind == WEIGHTS ? p->lda : 1;
    const float *a = p->a + i * row, *b = p->b + j;
#pragma GCC unroll 5
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 5
        for (int v = 0; v < vectors; v++)
            sum[r][v] = v_zero();
    for (size_t s = p->k; s > 0; s--, a += step, b += p->ldb) {
        vf second[MOST_VECTORS];
#pragma GCC unroll 5
        for (int v = 0; v < vectors; v++)
            second[v] = v_load(b + v * VW);
#pragma GCC unroll 5
        for (int r = 0; r < rows; r++) {
            vf first = v_set(a[(size_t)r * row]);
#pragma GCC unroll 5
            for (int v = 0; v < vectors; v++)
                sum[r][v] = v_fma(first, second[v], sum[r][v]);
        }
    }
    int cut = j + (size_t)vectors * VW > p->n;
#pragma GCC unroll 5
    for (int r = 0; r < rows; r++) {
        vf dq = v_zero();
#pragma GCC unroll 5
        for (int v = 0; v < vectors; v++) {
            size_t to = j + (size_t)v * VW;
            int part = v == vectors - 1 && cut;
            if (kind == WEIGHTS)
                dq = part ? weights_finish(p, i + (size_t)r, to, 1, sum[r][v], dq)
                          : weights_finish(p, i + (size_t)r, to, 0, sum[r][v], dq);
            else if (part)
                keys_finish(p, i + (size_t)r, to, 1, sum[r][v]);
            else
                keys_finish(p, i + (size_t)r, to, 0, sum[r][v]);
        }
        if (kind == WEIGHTS)
            p->dq[i + (size_t)r] += v_sum(dq);
    }
}

#define BLOCK(r, v)                                                   \
    case (r) * 8 + (v):                                               \
        if ((r) <= MOST_ROWS && (v) <= MOST_VECTORS)                  \
            block(kind, r <= MOST_ROWS ? r : 1, v <= MOST_VECTORS ? v : 1, p, i, j); \
        break;
#define BLOCK_ROW(r) BLOCK(r, 1) BLOCK(r, 2) BLOCK(r, 3) BLOCK(r, 4) BLOCK(r, 5)

static FTH_INLINE void any_block(enum kind kind, size_t rows, size_t vectors, const struct product *p,
                                 size_t i, size_t j) {
    switch (rows * 8 + vectors) {
        BLOCK_ROW(1)
        BLOCK_ROW(2)
        BLOCK_ROW(3)
        BLOCK_ROW(4)
        BLOCK_ROW(5)
    default: break;
    }
}

/* Strips of columns of about equal width; rows of a strip in blocks. */
static FTH_INLINE void multiply(enum kind kind, const struct product *p) {
    size_t vectors = (p->n + VW - 1) / VW, strips = (vectors + MOST_VECTORS - 1) / MOST_VECTORS;
    for (size_t s = 0, v = 0; s < strips; s++) {
        size_t here = (vectors - v + strips - s - 1) / (strips - s);
        for (size_t i = 0; i < p->m; i += MOST_ROWS)
            any_block(kind, p->m - i < MOST_ROWS ? p->m - i : MOST_ROWS, here, p, i, v * VW);
        v += here;
    }
}

static size_t whole_vectors(size_t n) {
    return (n + VW - 1) / VW * VW;
}

/* out = W0 + diag(q) W1, in whole vectors */
static void example_weights(const struct fth_attention *a, const float *q, float *out) {
    size_t ldo = whole_vectors(a->n);
    vt t = v_tail(a->n % VW);
    for (size_t i = 0; i < a->d; i++) {
        const float *w0 = a->w + i * a->ldw, *w1 = a->w + (a->d + i) * a->ldw;
        vf by = v_set(q[i]);
        size_t j = 0;
        for (; j + VW <= a->n; j += VW)
            v_store(out + i * ldo + j, v_fma(by, v_load(w1 + j), v_load(w0 + j)));
        if (j < a->n)
            v_store(out + i * ldo + j, v_fma(by, v_load_part(w1 + j, t), v_load_part(w0 + j, t)));
    }
}

/* The same transposed. */
static void example_weights_t(const struct fth_attention *a, const struct fth_attention_grad *g,
                              const float *q, float *out) {
    size_t ldo = whole_vectors(a->d);
    vt t = v_tail(a->d % VW);
    for (size_t j = 0; j < a->n; j++) {
        const float *w0 = g->wt + j * g->ldwt, *w1 = w0 + a->d;
        size_t i = 0;
        for (; i + VW <= a->d; i += VW)
            v_store(out + j * ldo + i, v_fma(v_load(q + i), v_load(w1 + i), v_load(w0 + i)));
        if (i < a->d)
            v_store(out + j * ldo + i,
                    v_fma(v_load_part(q + i, t), v_load_part(w1 + i, t), v_load_part(w0 + i, t)));
    }
}

void FTH_K(attention_layer)(const struct fth_attention *a, float *y, size_t ldy, float *scratch) {
    struct product p = {.n = a->n, .k = a->d, .lda = a->ldk, .b = scratch,
                        .ldb = whole_vectors(a->n), .ldc = ldy, .tail = v_tail(a->n % VW)};
    for (size_t e = 0; e < a->m; e++) {
        size_t begin = a->offsets[e] - a->offsets[0];
        p.m = a->offsets[e + 1] - a->offsets[e];
        if (!p.m)
            continue;
        example_weights(a, a->q + e * a->ldq, scratch);
        p.a = a->k + begin * a->ldk;
        p.c = y + begin * ldy;
        multiply(LAYER, &p);
        FTH_K(bias_act)(p.m, a->n, p.c, ldy, a->r + e * a->ldr, a->act, p.c, ldy);
    }
}

/* The gradient before the activation, in rows of whole vectors. */
static const float *before_activation(const struct fth_attention *a, const struct fth_attention_grad *g,
                                      size_t begin, size_t rows, float *scratch, size_t *ld) {
    const float *y = g->y + begin * g->ldy, *dy = g->dy + begin * g->lddy;
    *ld = g->lddy;
    if (a->act == FTH_ACT_NONE && a->n % VW == 0)
        return dy;
    *ld = whole_vectors(a->n);
    FTH_K(act_grad)(a->act, rows, a->n, y, g->ldy, dy, g->lddy, scratch, *ld);
    for (size_t t = 0; t < rows && *ld > a->n; t++)
        for (size_t j = a->n; j < *ld; j++)
            scratch[t * *ld + j] = 0.0f;
    return scratch;
}

static void example_grad(const struct fth_attention *a, const struct fth_attention_grad *g, size_t e,
                         float *scratch) {
    size_t begin = a->offsets[e] - a->offsets[0], rows = a->offsets[e + 1] - a->offsets[e], ld;
    const float *q = a->q + e * a->ldq;
    float *dq = g->dq + e * g->lddq, *rest = scratch + a->n * whole_vectors(a->d);
    const float *dz = before_activation(a, g, begin, rows, rest, &ld);
    FTH_K(col_sum)(rows, a->n, dz, ld, g->dr + e * g->lddr);
    for (size_t i = 0; i < a->d; i++)
        dq[i] = 0.0f;
    if (!rows)
        return;
    example_weights_t(a, g, q, scratch);
    struct product keys = {.m = rows, .n = a->d, .k = a->n, .a = dz, .lda = ld, .b = scratch,
                           .ldb = whole_vectors(a->d), .c = g->dk + begin * g->lddk, .ldc = g->lddk,
                           .tail = v_tail(a->d % VW), .ld_weight = g->ld_weight};
    if (g->dout) {
        keys.weight = g->weight + begin * g->ld_weight;
        keys.dout = g->dout + e * g->lddo;
    }
    multiply(KEYS, &keys);
    struct product weights = {.m = a->d, .n = a->n, .k = rows, .a = a->k + begin * a->ldk,
                              .lda = a->ldk, .b = dz, .ldb = ld, .c = g->dw, .ldc = a->n,
                              .tail = v_tail(a->n % VW), .q = q, .w1 = a->w + a->d * a->ldw,
                              .ldw = a->ldw, .dw1 = g->dw + a->d * a->n, .dq = dq};
    multiply(WEIGHTS, &weights);
}

void FTH_K(attention_layer_grad)(const struct fth_attention *a, const struct fth_attention_grad *g,
                                 float *scratch) {
    for (size_t i = 0; i < 2 * a->d * a->n; i++)
        g->dw[i] = 0.0f;
    for (size_t e = 0; e < a->m; e++)
        example_grad(a, g, e, scratch);
}

#endif
