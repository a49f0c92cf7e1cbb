/* Attention units for any vector width: attention_avx2.c and attention_avx512.c include it. See
 * kernels.def for what is computed, attention_scalar.c for the plain form.
 *
 * An example's products are blocks of a few rows by a few vectors that stay in registers while the sum
 * runs; the second operand is in scratch, in whole vectors, or has no tail. What is to be done with a block's sums
 * happens before they are stored. */
#ifndef FTH_KERNELS_CPU_ATTENTION_SIMD_H
#define FTH_KERNELS_CPU_ATTENTION_SIMD_H

/* Registers: rows x vectors sums, the vectors of a row of the second operand, one number. */
#ifdef FTH_SIMDE /* emulated blocks of full size take a minute to compile */
enum { MOST_ROWS = 2, MOST_VECTORS = 3 };
#else
enum { MOST_ROWS = VW == 16 ? 5 : 4, MOST_VECTORS = VW == 16 ? 5 : 3 };
#endif
/* A last vector of at most half its lanes is half a vector, where those are cheaper. */
enum { HALVES = VW == 16 };

enum kind {
    STORE,  /* c = a b, see store_finish */
    WEIGHTS /* c = a^T b is the gradient of an example's weights, see weights_finish */
};

/* What is to come into the second cache meanwhile: the next example's rows, some lines a block. The hardware does
 * not see them coming: products walk down columns. */
struct ahead {
    const char *at[3], *end[3];
    int write;
};

static void ahead_add(struct ahead *ahead, int i, const float *from, size_t floats) {
    ahead->at[i] = (const char *)from;
    ahead->end[i] = (const char *)(from + floats);
}

static FTH_INLINE void fetch_ahead(struct ahead *ahead) {
    enum { LINES = 16 };
    int i = ahead->at[0] < ahead->end[0] ? 0 : ahead->at[1] < ahead->end[1] ? 1 : 2;
    for (int l = 0; l < LINES && ahead->at[i] < ahead->end[i]; l++, ahead->at[i] += 64)
        if (ahead->write)
            __builtin_prefetch(ahead->at[i], 1, 2);
        else
            __builtin_prefetch(ahead->at[i], 0, 2);
}

struct product {
    struct ahead *ahead; /* NULL: none */
    size_t m, n, k;
    const float *a, *b; /* a[i][s] is at i row + s step; b has whole vectors */
    size_t row, step, ldb;
    float *c;
    size_t ldc;
    vt tail; /* of n */
    /* STORE */
    int add;                    /* c is added to */
    const float *weight, *dout; /* where not NULL weight[i] dout is added, too */
    size_t ld_weight;
    /* WEIGHTS: c is dW0 */
    const float *q, *w1;
    size_t ldw;
    float *dw1, *dq;
};

static FTH_INLINE void store_finish(const struct product *p, size_t i, size_t j, int part, vf sum) {
    float *c = p->c + i * p->ldc + j;
    if (p->dout)
        sum = v_add(v_mul(v_set(p->weight[i * p->ld_weight]), v_get(p->dout + j, part, p->tail)), sum);
    if (p->add)
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
            store_finish(p, i, to, 1, sum[v]);
        else
            store_finish(p, i, to, 0, sum[v]);
    }
    if (kind == WEIGHTS)
        p->dq[i] += v_sum(dq);
}

/* Rows [i, + rows) by vectors [j, + vectors VW) of c, the last one half where `half`; all but p, i and j are
 * constants where this is called. */
static FTH_INLINE void block(enum kind kind, int rows, int vectors, int half, const struct product *p,
                             size_t i, size_t j) {
    vf sum[MOST_ROWS][MOST_VECTORS];
    vh sum_half[MOST_ROWS];
    size_t row = kind == WEIGHTS ? 1 : p->row, step = p->step;
    const float *a = p->a + i * row, *b = p->b + j;
    int whole = vectors - half;
#pragma GCC unroll 5
    for (int r = 0; r < rows; r++) {
        sum_half[r] = vh_zero();
#pragma GCC unroll 5
        for (int v = 0; v < whole; v++)
            sum[r][v] = v_zero();
    }
    for (size_t s = p->k; s > 0; s--, a += step, b += p->ldb) {
        vf second[MOST_VECTORS];
        vh second_half = half ? vh_load(b + whole * VW) : vh_zero();
#pragma GCC unroll 5
        for (int v = 0; v < whole; v++)
            second[v] = v_load(b + v * VW);
#pragma GCC unroll 5
        for (int r = 0; r < rows; r++) {
            vf first = v_set(a[(size_t)r * row]);
#pragma GCC unroll 5
            for (int v = 0; v < whole; v++)
                sum[r][v] = v_fma(first, second[v], sum[r][v]);
            if (half)
                sum_half[r] = vh_fma(vh_of(first), second_half, sum_half[r]);
        }
    }
#pragma GCC unroll 5
    for (int r = 0; r < rows; r++) {
        if (half)
            sum[r][vectors - 1] = vh_whole(sum_half[r]);
        finish_row(kind, vectors, p, i + (size_t)r, j, sum[r]);
    }
}

#define BLOCK(r, v, h)                                                        \
    case ((r) * 8 + (v)) * 2 + (h):                                           \
        if ((r) <= MOST_ROWS && (v) <= MOST_VECTORS && (h) <= HALVES)         \
            block(kind, r <= MOST_ROWS ? r : 1, v <= MOST_VECTORS ? v : 1, h, p, i, j); \
        break;
#define BLOCKS(r, v) BLOCK(r, v, 0) BLOCK(r, v, 1)
#define BLOCK_ROW(r) BLOCKS(r, 1) BLOCKS(r, 2) BLOCKS(r, 3) BLOCKS(r, 4) BLOCKS(r, 5)

static FTH_INLINE void any_block(enum kind kind, size_t rows, size_t vectors, size_t half,
                                 const struct product *p, size_t i, size_t j) {
    switch ((rows * 8 + vectors) * 2 + half) {
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
        size_t half = HALVES && s + 1 == strips && (p->n - 1) % VW < VW / 2;
        for (size_t i = 0; i < p->m; i += MOST_ROWS) {
            if (p->ahead)
                fetch_ahead(p->ahead);
            any_block(kind, p->m - i < MOST_ROWS ? p->m - i : MOST_ROWS, here, half, p, i, v * VW);
        }
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

/* out = w [rows][columns] in rows of whole vectors, zeros behind. */
static void in_whole_vectors(size_t rows, size_t columns, const float *w, size_t ldw, float *out) {
    size_t ldo = whole_vectors(columns);
    vt t = v_tail(columns % VW);
    for (size_t i = 0; i < rows; i++) {
        size_t j = 0;
        for (; j + VW <= columns; j += VW)
            v_store(out + i * ldo + j, v_load(w + i * ldw + j));
        if (j < columns)
            v_store(out + i * ldo + j, v_load_part(w + i * ldw + j, t));
    }
}

static void zero(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = 0.0f;
}

static size_t begin_of(const struct fth_attention *a, size_t e) {
    return a->offsets[e] - a->offsets[0];
}
static size_t rows_of(const struct fth_attention *a, size_t e) {
    return a->offsets[e + 1] - a->offsets[e];
}

/* An example's rows of y. */
static void example_layer(const struct fth_attention *a, size_t e, float *y, size_t ldy,
                          struct ahead *ahead, float *scratch) {
    struct product p = {.ahead = ahead, .m = rows_of(a, e), .n = a->n, .k = a->d,
                        .a = a->k + begin_of(a, e) * a->ldk,
                        .row = a->ldk, .step = 1, .b = scratch, .ldb = whole_vectors(a->n), .c = y,
                        .ldc = ldy, .tail = v_tail(a->n % VW)};
    example_weights(a, a->q + e * a->ldq, scratch);
    multiply(STORE, &p);
    FTH_K(bias_act)(p.m, a->n, y, ldy, a->r + e * a->ldr, a->act, y, ldy);
}

void FTH_K(attention_layer)(const struct fth_attention *a, float *y, size_t ldy, float *scratch) {
    for (size_t e = 0; e < a->m; e++)
        if (rows_of(a, e))
            example_layer(a, e, y + begin_of(a, e) * ldy, ldy, NULL, scratch);
}

void FTH_K(attention_unit)(const struct fth_attention *a, float *y, size_t ldy,
                           const struct fth_attention_unit *u, float *scratch) {
    float *w = scratch + a->d * whole_vectors(a->n);
    in_whole_vectors(a->n, u->n, u->w, u->ldw, w);
    for (size_t e = 0; e < a->m; e++) {
        size_t begin = begin_of(a, e), rows = rows_of(a, e);
        float *y_e = y + begin * ldy, *h = u->h + begin * u->ldh;
        float *weight = u->weight + begin * u->ld_weight;
        struct ahead ahead = {.write = 1};
        if (e + 1 < a->m) {
            size_t next = begin_of(a, e + 1), n = rows_of(a, e + 1);
            ahead_add(&ahead, 0, y + next * ldy, n * ldy);
            ahead_add(&ahead, 1, u->h + next * u->ldh, n * u->ldh);
        }
        struct product second = {.ahead = &ahead, .m = rows, .n = u->n, .k = a->n, .a = y_e,
                                 .row = ldy, .step = 1, .b = w, .ldb = whole_vectors(u->n), .c = h, .ldc = u->ldh,
                                 .tail = v_tail(u->n % VW)};
        if (rows) {
            example_layer(a, e, y_e, ldy, &ahead, scratch);
            multiply(STORE, &second);
            FTH_K(bias_act)(rows, u->n, h, u->ldh, u->b, a->act, h, u->ldh);
            FTH_K(row_dot)(rows, u->n, h, u->ldh, u->v, u->bias, weight, u->ld_weight);
        }
        FTH_K(col_weighted_sum)
        (rows, a->d, weight, u->ld_weight, a->k + begin * a->ldk, a->ldk, u->out + e * u->ldo);
    }
}

/* The gradient before the activation, in rows of whole vectors. */
static const float *before_activation(const struct fth_attention *a, const struct fth_attention_grad *g,
                                      size_t e, float *scratch, size_t *ld) {
    size_t begin = begin_of(a, e), rows = rows_of(a, e);
    const float *y = g->y + begin * g->ldy, *dy = g->dy + begin * g->lddy;
    *ld = g->lddy;
    if (a->act == FTH_ACT_NONE && a->n % VW == 0)
        return dy;
    *ld = whole_vectors(a->n);
    FTH_K(act_grad)(a->act, rows, a->n, y, g->ldy, dy, g->lddy, scratch, *ld);
    for (size_t t = 0; t < rows; t++)
        zero(scratch + t * *ld + a->n, *ld - a->n);
    return scratch;
}

/* The gradients of an example's keys, query, row and weights from dz, the one before the activation. */
static void example_grad(const struct fth_attention *a, const struct fth_attention_grad *g, size_t e,
                         const float *dz, size_t ld, struct ahead *ahead, float *scratch) {
    size_t begin = begin_of(a, e), rows = rows_of(a, e);
    const float *q = a->q + e * a->ldq, *k = a->k + begin * a->ldk;
    float *dq = g->dq + e * g->lddq;
    FTH_K(col_sum)(rows, a->n, dz, ld, g->dr + e * g->lddr);
    zero(dq, a->d);
    if (!rows)
        return;
    example_weights_t(a, g, q, scratch);
    struct product keys = {.ahead = ahead, .m = rows, .n = a->d, .k = a->n, .a = dz, .row = ld,
                           .step = 1, .b = scratch,
                           .ldb = whole_vectors(a->d), .c = g->dk + begin * g->lddk, .ldc = g->lddk,
                           .tail = v_tail(a->d % VW), .ld_weight = g->ld_weight};
    if (g->dout) {
        keys.weight = g->weight + begin * g->ld_weight;
        keys.dout = g->dout + e * g->lddo;
    }
    multiply(STORE, &keys);
    struct product weights = {.ahead = ahead, .m = a->d, .n = a->n, .k = rows, .a = k,
                              .step = a->ldk, .b = dz, .ldb = ld, .c = g->dw, .ldc = a->n, .tail = v_tail(a->n % VW), .q = q,
                              .w1 = a->w + a->d * a->ldw, .ldw = a->ldw, .dw1 = g->dw + a->d * a->n,
                              .dq = dq};
    multiply(WEIGHTS, &weights);
}

void FTH_K(attention_layer_grad)(const struct fth_attention *a, const struct fth_attention_grad *g,
                                 float *scratch) {
    zero(g->dw, 2 * a->d * a->n);
    for (size_t e = 0; e < a->m; e++) {
        size_t ld;
        const float *dz = before_activation(a, g, e, scratch + a->n * whole_vectors(a->d), &ld);
        example_grad(a, g, e, dz, ld, NULL, scratch);
    }
}

/* One vector of columns of the second layer's gradient before its activation, dz = dweight v act'(h), down an
 * example's rows; its sums and those of v's gradient stay in registers. `act` is a constant where this is called. */
static FTH_INLINE void gate_columns(int part, vt t, fth_act act, size_t rows, const float *dweight,
                                    const float *h, size_t ldh, const float *v, float *dz, size_t ldz,
                                    float *db, float *dv) {
    vf by = v_get(v, part, t), one = v_set(1.0f), zero_ = v_zero();
    vf sum = v_get(db, part, t), dot = v_get(dv, part, t);
    for (size_t i = 0; i < rows; i++) {
        vf s = v_set(dweight[i]), x = v_get(h + i * ldh, part, t), d = v_mul(s, by);
        if (act == FTH_ACT_RELU)
            d = v_select(v_gt(x, zero_), d, zero_);
        else if (act == FTH_ACT_SIGMOID)
            d = v_mul(d, v_mul(x, v_sub(one, x)));
        else if (act == FTH_ACT_TANH)
            d = v_mul(d, v_sub(one, v_mul(x, x)));
        v_store(dz + i * ldz, d);
        sum = v_add(sum, d);
        dot = v_fma(s, x, dot);
    }
    v_put(db, part, t, sum);
    v_put(dv, part, t, dot);
}

static FTH_INLINE void gate_rows(fth_act act, const struct fth_attention_unit_grad *u, size_t rows,
                                 const float *dweight, const float *h, float *dz) {
    vt t = v_tail(u->n % VW);
    size_t ldz = whole_vectors(u->n), j = 0;
    for (; j + VW <= u->n; j += VW)
        gate_columns(0, t, act, rows, dweight, h + j, u->ldh, u->v + j, dz + j, ldz, u->db + j,
                     u->dv + j);
    if (j < u->n)
        gate_columns(1, t, act, rows, dweight, h + j, u->ldh, u->v + j, dz + j, ldz, u->db + j,
                     u->dv + j);
}

static void gate_grad(fth_act act, const struct fth_attention_unit_grad *u, size_t rows,
                      const float *dweight, const float *h, float *dz) {
    switch (act) {
    case FTH_ACT_RELU: gate_rows(FTH_ACT_RELU, u, rows, dweight, h, dz); break;
    case FTH_ACT_SIGMOID: gate_rows(FTH_ACT_SIGMOID, u, rows, dweight, h, dz); break;
    case FTH_ACT_TANH: gate_rows(FTH_ACT_TANH, u, rows, dweight, h, dz); break;
    default: gate_rows(FTH_ACT_NONE, u, rows, dweight, h, dz); break;
    }
}

/* Scratch of unit_example, behind example_grad's weights. */
struct unit_scratch {
    float *wt, *dz, *dz2, *dweight; /* wt: u->wt in whole vectors; dz of the layer, of the second */
};

static void unit_example(const struct fth_attention *a, const struct fth_attention_grad *g,
                         const struct fth_attention_unit_grad *u, size_t e,
                         const struct unit_scratch *at, float *scratch) {
    size_t begin = begin_of(a, e), rows = rows_of(a, e), ld = whole_vectors(a->n);
    const float *y = g->y + begin * g->ldy;
    struct ahead ahead = {.write = 0};
    if (e + 1 < a->m) {
        size_t next = begin_of(a, e + 1), n = rows_of(a, e + 1);
        ahead_add(&ahead, 0, a->k + next * a->ldk, n * a->ldk);
        ahead_add(&ahead, 1, u->h + next * u->ldh, n * u->ldh);
        ahead_add(&ahead, 2, g->y + next * g->ldy, n * g->ldy);
    }
    FTH_K(row_dot)
    (rows, a->d, a->k + begin * a->ldk, a->ldk, g->dout + e * g->lddo, 0.0f, at->dweight, 1);
    for (size_t t = 0; t < rows; t++)
        *u->dbias += at->dweight[t];
    gate_grad(a->act, u, rows, at->dweight, u->h + begin * u->ldh, at->dz2);
    struct product weights = {.ahead = &ahead, .m = a->n, .n = u->n, .k = rows, .a = y,
                              .row = 1, .step = g->ldy, .b = at->dz2, .ldb = whole_vectors(u->n), .c = u->dw, .ldc = u->n,
                              .tail = v_tail(u->n % VW), .add = 1};
    multiply(STORE, &weights);
    struct product data = {.ahead = &ahead, .m = rows, .n = ld, .k = u->n, .a = at->dz2,
                           .row = whole_vectors(u->n), .step = 1, .b = at->wt, .ldb = ld, .c = at->dz, .ldc = ld};
    multiply(STORE, &data);
    FTH_K(act_grad)(a->act, rows, a->n, y, g->ldy, at->dz, ld, at->dz, ld);
    example_grad(a, g, e, at->dz, ld, &ahead, scratch);
}

void FTH_K(attention_unit_grad)(const struct fth_attention *a, const struct fth_attention_grad *g,
                                const struct fth_attention_unit_grad *u, float *scratch) {
    size_t most = 0, ld = whole_vectors(a->n);
    for (size_t e = 0; e < a->m; e++)
        most = most > rows_of(a, e) ? most : rows_of(a, e);
    struct unit_scratch at = {.wt = scratch + a->n * whole_vectors(a->d)};
    at.dz = at.wt + u->n * ld;
    at.dz2 = at.dz + most * ld;
    at.dweight = at.dz2 + most * whole_vectors(u->n);
    in_whole_vectors(u->n, a->n, u->wt, u->ldwt, at.wt);
    zero(g->dw, 2 * a->d * a->n);
    zero(u->dw, a->n * u->n);
    zero(u->db, u->n);
    zero(u->dv, u->n);
    *u->dbias = 0.0f;
    for (size_t e = 0; e < a->m; e++)
        unit_example(a, g, u, e, &at, scratch);
}

#endif
