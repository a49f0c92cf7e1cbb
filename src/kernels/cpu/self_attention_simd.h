/* Self-attention within segments and their maxima for any vector width: self_attention_avx2.c and
 * self_attention_avx512.c include it. See kernels.def and kernels.h.
 *
 * A head's keys (backwards its values, too) are turned once, so that every step is one kind of product, rows by
 * columns, on vectors of positions or of the head's columns. FTH_SELF_ATTENTION_QUERIES queries at a time: their
 * weights stay in the first cache. */
#ifndef FTH_KERNELS_CPU_SELF_ATTENTION_SIMD_H
#define FTH_KERNELS_CPU_SELF_ATTENTION_SIMD_H

#define QUERIES FTH_SELF_ATTENTION_QUERIES

/* out (+)= a b: a[i][l] at a + i * ai + l * al, [rows, depth]; b [depth, n]. */
struct small_product {
    size_t rows, depth, n;
    const float *a;
    size_t ai, al;
    const float *b;
    size_t ldb;
    float *out;
    size_t ldo;
    int add;
};

static FTH_INLINE void product_block(const struct small_product *p, int together, int vectors,
                                     int part, vt t, size_t i, size_t j) {
    vf sum[4][2];
    for (int r = 0; r < together; r++)
        for (int c = 0; c < vectors; c++)
            sum[r][c] = p->add ? v_get(p->out + (i + r) * p->ldo + j + c * VW, part, t) : v_zero();
    const float *a = p->a + i * p->ai;
    for (size_t l = 0; l < p->depth; l++) {
        vf b[2];
        for (int c = 0; c < vectors; c++)
            b[c] = v_get(p->b + l * p->ldb + j + c * VW, part, t);
        for (int r = 0; r < together; r++)
            for (int c = 0; c < vectors; c++)
                sum[r][c] = v_fma(v_set(a[r * p->ai + l * p->al]), b[c], sum[r][c]);
    }
    for (int r = 0; r < together; r++)
        for (int c = 0; c < vectors; c++)
            v_put(p->out + (i + r) * p->ldo + j + c * VW, part, t, sum[r][c]);
}

static FTH_INLINE void product_rows(const struct small_product *p, int together, size_t i) {
    size_t j = 0;
    for (; j + 2 * VW <= p->n; j += 2 * VW)
        product_block(p, together, 2, 0, v_tail(0), i, j);
    for (; j < p->n; j += VW)
        product_block(p, together, 1, 1, v_tail(p->n - j < VW ? p->n - j : VW), i, j);
}

static void product(const struct small_product *p) {
    size_t i = 0;
    for (; i + 4 <= p->rows; i += 4)
        product_rows(p, 4, i);
    for (; i + 2 <= p->rows; i += 2)
        product_rows(p, 2, i);
    for (; i < p->rows; i++)
        product_rows(p, 1, i);
}

static FTH_INLINE size_t whole_vectors(size_t n) {
    return (n + VW - 1) / VW * VW;
}

/* Softmax of scale * s, in place; room for whole vectors, whose rest becomes 0. (Not by -infinity there: exp of it
 * underflows, which is slow.) */
static void softmax_row(size_t n, float scale, float *s) {
    size_t last = whole_vectors(n) - VW;
    vt t = v_tail(n - last);
    vf first = v_set(s[0]), most = first, sum = v_zero(), factor = v_set(scale);
    /* Behind the end the first one again. */
    v_store(s + last, v_add(v_load_part(s + last, t), v_sub(first, v_keep_part(t, first))));
    for (size_t j = 0; j <= last; j += VW)
        most = v_max(most, v_load(s + j));
    most = v_set(v_largest(most));
    for (size_t j = 0; j <= last; j += VW) {
        vf e = v_exp(v_mul(factor, v_sub(v_load(s + j), most)));
        e = j < last ? e : v_keep_part(t, e);
        v_store(s + j, e);
        sum = v_add(sum, e);
    }
    vf part = v_set(1.0f / v_sum(sum));
    for (size_t j = 0; j <= last; j += VW)
        v_store(s + j, v_mul(v_load(s + j), part));
}

/* dp becomes the gradient of the scores: scale * p (dp - <p, dp>). Behind the end p is 0. */
static void softmax_row_grad(size_t n, float scale, const float *p, float *dp) {
    size_t last = whole_vectors(n) - VW;
    vf sum = v_zero(), factor = v_set(scale);
    v_store(dp + last, v_load_part(dp + last, v_tail(n - last)));
    for (size_t j = 0; j <= last; j += VW)
        sum = v_fma(v_load(p + j), v_load(dp + j), sum);
    vf mean = v_set(v_sum(sum));
    for (size_t j = 0; j <= last; j += VW)
        v_store(dp + j, v_mul(v_mul(factor, v_load(p + j)), v_sub(v_load(dp + j), mean)));
}

/* The weights of `queries` queries, rows of `padded` floats; kt: the keys turned. */
static void weights(const struct fth_self_attention *a, size_t rows, size_t queries, const float *q,
                    const float *kt, size_t padded, float *p) {
    product(&(struct small_product){.rows = queries,
                                    .depth = a->d,
                                    .n = rows,
                                    .a = q,
                                    .ai = a->ldx,
                                    .al = 1,
                                    .b = kt,
                                    .ldb = padded,
                                    .out = p,
                                    .ldo = padded});
    for (size_t i = 0; i < queries; i++)
        softmax_row(rows, a->scale, p + i * padded);
}

static void head(const struct fth_self_attention *a, size_t rows, size_t at, float *y, size_t ldy,
                 float *scratch) {
    size_t padded = whole_vectors(rows);
    float *kt = scratch, *p = kt + a->d * padded;
    FTH_K(transpose)(rows, a->d, a->k + at, a->ldx, kt, padded);
    for (size_t i = 0; i < rows; i += QUERIES) {
        size_t queries = rows - i < QUERIES ? rows - i : QUERIES;
        weights(a, rows, queries, a->q + at + i * a->ldx, kt, padded, p);
        product(&(struct small_product){.rows = queries,
                                        .depth = rows,
                                        .n = a->d,
                                        .a = p,
                                        .ai = padded,
                                        .al = 1,
                                        .b = a->v + at,
                                        .ldb = a->ldx,
                                        .out = y + i * ldy,
                                        .ldo = ldy});
    }
}

void FTH_K(self_attention)(const struct fth_self_attention *a, float *y, size_t ldy, float *scratch) {
    for (size_t i = 0; i < a->m; i++) {
        size_t begin = a->offsets[i] - a->offsets[0], rows = a->offsets[i + 1] - a->offsets[i];
        for (size_t h = 0; rows && h < a->heads; h++)
            head(a, rows, begin * a->ldx + h * a->d, y + begin * ldy + h * a->d, ldy, scratch);
    }
}

/* One head of one segment backwards: pointers are to its first row and column. */
struct head_grad {
    const float *dy;
    float *dq, *dk, *dv;
    size_t lddy, lddx;
};

/* `queries` queries from the one of row i on: their rows of dq, and their parts of dk and dv. */
static void queries_grad(const struct fth_self_attention *a, size_t rows, size_t queries, size_t at,
                         size_t i, const struct head_grad *g, const float *kt, const float *values,
                         size_t padded, float *p, float *dp) {
    const float *q = a->q + at + i * a->ldx, *dy = g->dy + i * g->lddy;
    struct small_product s = {.rows = queries, .depth = a->d, .n = rows, .a = dy, .ai = g->lddy,
                              .al = 1, .b = values, .ldb = padded, .out = dp, .ldo = padded};
    weights(a, rows, queries, q, kt, padded, p);
    product(&s);
    for (size_t r = 0; r < queries; r++)
        softmax_row_grad(rows, a->scale, p + r * padded, dp + r * padded);
    product(&(struct small_product){.rows = queries,
                                    .depth = rows,
                                    .n = a->d,
                                    .a = dp,
                                    .ai = padded,
                                    .al = 1,
                                    .b = a->k + at,
                                    .ldb = a->ldx,
                                    .out = g->dq + i * g->lddx,
                                    .ldo = g->lddx});
    s = (struct small_product){.rows = rows, .depth = queries, .n = a->d, .a = dp, .ai = 1,
                               .al = padded, .b = q, .ldb = a->ldx, .out = g->dk, .ldo = g->lddx,
                               .add = i > 0};
    product(&s);
    s.a = p;
    s.b = dy;
    s.ldb = g->lddy;
    s.out = g->dv;
    product(&s);
}

static void head_grad(const struct fth_self_attention *a, size_t rows, size_t at,
                      const struct head_grad *g, float *scratch) {
    size_t padded = whole_vectors(rows);
    float *kt = scratch, *values = kt + a->d * padded, *p = values + a->d * padded;
    FTH_K(transpose)(rows, a->d, a->k + at, a->ldx, kt, padded);
    FTH_K(transpose)(rows, a->d, a->v + at, a->ldx, values, padded);
    for (size_t i = 0; i < rows; i += QUERIES) {
        size_t queries = rows - i < QUERIES ? rows - i : QUERIES;
        queries_grad(a, rows, queries, at, i, g, kt, values, padded, p, p + QUERIES * padded);
    }
}

void FTH_K(self_attention_grad)(const struct fth_self_attention *a, const float *dy, size_t lddy,
                                float *dq, float *dk, float *dv, size_t lddx, float *scratch) {
    for (size_t i = 0; i < a->m; i++) {
        size_t begin = a->offsets[i] - a->offsets[0], rows = a->offsets[i + 1] - a->offsets[i];
        for (size_t h = 0; rows && h < a->heads; h++) {
            size_t to = begin * lddx + h * a->d;
            struct head_grad g = {.dy = dy + begin * lddy + h * a->d, .dq = dq + to, .dk = dk + to,
                                  .dv = dv + to, .lddy = lddy, .lddx = lddx};
            head_grad(a, rows, begin * a->ldx + h * a->d, &g, scratch);
        }
    }
}

static FTH_INLINE void max_columns(int part, vt t, size_t rows, const float *x, size_t ldx,
                                   float *out) {
    vf most = rows ? v_get(x, part, t) : v_zero();
    for (size_t i = 1; i < rows; i++) {
        vf v = v_get(x + i * ldx, part, t);
        most = v_select(v_gt(v, most), v, most);
    }
    v_put(out, part, t, most);
}

void FTH_K(segment_max)(size_t m, const uint32_t *offsets, size_t n, const float *x, size_t ldx,
                        float *out, size_t ldo) {
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i], j = 0;
        for (; j + VW <= n; j += VW)
            max_columns(0, v_tail(0), rows, x + begin * ldx + j, ldx, out + i * ldo + j);
        if (j < n)
            max_columns(1, v_tail(n - j), rows, x + begin * ldx + j, ldx, out + i * ldo + j);
    }
}

/* x <= y everywhere, so "equal" is "not less": the first gets the gradient, which then is 0. */
static FTH_INLINE void max_columns_grad(int part, vt t, size_t rows, const float *x, size_t ldx,
                                        const float *y, const float *dy, float *dx, size_t lddx) {
    vf most = v_get(y, part, t), left = v_get(dy, part, t), zero = v_zero();
    for (size_t i = 0; i < rows; i++) {
        vm less = v_lt(v_get(x + i * ldx, part, t), most);
        v_put(dx + i * lddx, part, t, v_select(less, zero, left));
        left = v_select(less, left, zero);
    }
}

void FTH_K(segment_max_grad)(size_t m, const uint32_t *offsets, size_t n, const float *x, size_t ldx,
                             const float *y, size_t ldy, const float *dy, size_t lddy, float *dx,
                             size_t lddx) {
    for (size_t i = 0; i < m; i++) {
        size_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i], j = 0;
        const float *from = x + begin * ldx;
        for (; j + VW <= n; j += VW)
            max_columns_grad(0, v_tail(0), rows, from + j, ldx, y + i * ldy + j, dy + i * lddy + j,
                             dx + begin * lddx + j, lddx);
        if (j < n)
            max_columns_grad(1, v_tail(n - j), rows, from + j, ldx, y + i * ldy + j,
                             dy + i * lddy + j, dx + begin * lddx + j, lddx);
    }
}

#undef QUERIES

#endif
