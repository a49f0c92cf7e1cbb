/* Attention units for any vector width: attention_avx2.c and attention_avx512.c include it. See
 * kernels.def for what is computed, attention_scalar.c for the plain form. */
#ifndef FTH_KERNELS_CPU_ATTENTION_SIMD_H
#define FTH_KERNELS_CPU_ATTENTION_SIMD_H

#include "kernels/cpu/attention_product_simd.h"

/* out = w0 + diag(q) w1, q one a row: an example's weights */
static void example_weights(const struct operand *w0, const struct operand *w1, const float *q, const struct operand *out) {
    for (size_t i = 0; i < out->k; i++) {
        vf by = v_set(q[i]);
        size_t at = i * out->columns;
        for (size_t end = at + out->columns; at < end; at += VW)
            v_store(out->at + at, v_fma(by, v_load(w1->at + at), v_load(w0->at + at)));
    }
    for (size_t i = 0, at = 0; out->pack > 1 && i < out->k; i += (size_t)out->pack, at += VW)
        v_store(groups_of(out) + at, v_fma(group_part(out->pack, q + i, out->k - i), v_load(groups_of(w1) + at),
                                           v_load(groups_of(w0) + at)));
}

/* q[column] in the lanes of a group's first rows, 0 in the others */
static vf column_lanes(const struct operand *o, const float *q, size_t rows) {
    float lanes[VW] = {0};
    for (size_t j = o->columns; j < o->n; j++)
        for (size_t i = 0; i < rows; i++)
            lanes[(j - o->columns) * (size_t)o->pack + i] = q[j];
    return v_load(lanes);
}

/* out = w0 + w1 diag(q), q one a column: the same transposed */
static void example_weights_t(const struct operand *w0, const struct operand *w1, const float *q,
                              const struct operand *out) {
    vt t = v_tail(out->n % VW);
    for (size_t j = 0; j < out->columns; j += VW) {
        vf by = j + VW <= out->n ? v_load(q + j) : v_load_part(q + j, t);
        for (size_t at = j, i = 0; i < out->k; i++, at += out->columns)
            v_store(out->at + at, v_fma(by, v_load(w1->at + at), v_load(w0->at + at)));
    }
    size_t pack = (size_t)out->pack, first = groups_of(out) - out->at, end = end_of(out) - out->at;
    vf by = column_lanes(out, q, pack);
    for (size_t at = first, i = 0; at < end; at += VW, i += pack) {
        if (out->k - i < pack) /* rows behind the last one stay 0, also where q is infinite */
            by = column_lanes(out, q, out->k - i);
        v_store(out->at + at, v_fma(by, v_load(w1->at + at), v_load(w0->at + at)));
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

/* Rows of an example that go through all of a unit together, products by way of `sums`: what is stored twice, or read soon
 * behind its store, is in the first cache then. They are whole blocks, of five rows or of four and six. */
enum { CHUNK = VW == 16 ? 20 : 24 };
_Static_assert((int)CHUNK <= (int)FTH_ATTENTION_CHUNK, "the caller's scratch is too small");

/* A layer's weights, and an example's. */
struct layer_weights {
    struct operand w0, w1, here;
};

/* Over [k][n]; w1 is `second` floats behind w0. Returns where they end. */
static float *layer_weights(struct layer_weights *l, size_t k, size_t n, const float *w, size_t second, size_t ldw,
                            float *scratch) {
    l->w0 = operand_at(k, n, scratch);
    l->w1 = operand_at(k, n, end_of(&l->w0));
    l->here = operand_at(k, n, end_of(&l->w1));
    lay_out(&l->w0, w, ldw);
    lay_out(&l->w1, w + second, ldw);
    return end_of(&l->here);
}

/* y = act(k w + r), rows [t, t + rows) of example e. */
static void layer_rows(const struct fth_attention *a, size_t e, size_t t, size_t rows, const struct operand *w, float *y,
                       size_t ldy, float *sums) {
    struct product p = {.m = rows, .a = a->k + (begin_of(a, e) + t) * a->ldk, .lda = a->ldk,
                        .c = sums, .ldc = whole_vectors(a->n)};
    second_operand(&p, w);
    fetch_rows(&p, y, ldy, rows);
    multiply(&p);
    FTH_K(bias_act)(rows, a->n, sums, p.ldc, a->r + e * a->ldr, a->act, y, ldy);
}

static size_t chunk_of(size_t rows, size_t t) {
    return rows - t < CHUNK ? rows - t : CHUNK;
}

void FTH_K(attention_layer)(const struct fth_attention *a, float *y, size_t ldy, float *scratch) {
    struct layer_weights l;
    float *sums = layer_weights(&l, a->d, a->n, a->w, a->d * a->ldw, a->ldw, scratch);
    for (size_t e = 0; e < a->m; e++) {
        size_t rows = rows_of(a, e);
        if (rows)
            example_weights(&l.w0, &l.w1, a->q + e * a->ldq, &l.here);
        for (size_t t = 0; t < rows; t += CHUNK)
            layer_rows(a, e, t, chunk_of(rows, t), &l.here, y + (begin_of(a, e) + t) * ldy, ldy, sums);
    }
}

void FTH_K(attention_unit)(const struct fth_attention *a, float *y, size_t ldy,
                           const struct fth_attention_unit *u, float *scratch) {
    struct layer_weights l;
    struct operand w = operand_at(a->n, u->n, layer_weights(&l, a->d, a->n, a->w, a->d * a->ldw, a->ldw, scratch));
    float *sums = end_of(&w);
    lay_out(&w, u->w, u->ldw);
    for (size_t e = 0; e < a->m; e++) {
        size_t begin = begin_of(a, e), rows = rows_of(a, e);
        float *y_e = y + begin * ldy, *h = u->h + begin * u->ldh;
        float *weight = u->weight + begin * u->ld_weight;
        if (rows)
            example_weights(&l.w0, &l.w1, a->q + e * a->ldq, &l.here);
        for (size_t t = 0; t < rows; t += CHUNK) {
            size_t here = chunk_of(rows, t);
            layer_rows(a, e, t, here, &l.here, y_e + t * ldy, ldy, sums);
            struct product second = {.m = here, .a = y_e + t * ldy, .lda = ldy, .c = sums,
                                     .ldc = whole_vectors(u->n)};
            second_operand(&second, &w);
            fetch_rows(&second, h + t * u->ldh, u->ldh, here);
            multiply(&second);
            FTH_K(bias_act)(here, u->n, sums, second.ldc, u->b, a->act, h + t * u->ldh, u->ldh);
            FTH_K(row_dot)(here, u->n, h + t * u->ldh, u->ldh, u->v, u->bias, weight + t * u->ld_weight, u->ld_weight);
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
                         const float *dz, size_t ld, const struct layer_weights *l) {
    size_t begin = begin_of(a, e), rows = rows_of(a, e);
    const float *q = a->q + e * a->ldq, *k = a->k + begin * a->ldk;
    float *dq = g->dq + e * g->lddq;
    FTH_K(col_sum)(rows, a->n, dz, ld, g->dr + e * g->lddr);
    zero(dq, a->d);
    if (!rows)
        return;
    example_weights_t(&l->w0, &l->w1, q, &l->here);
    struct product keys = {.m = rows, .a = dz, .lda = ld, .c = g->dk + begin * g->lddk,
                           .ldc = g->lddk, .ld_weight = g->ld_weight};
    second_operand(&keys, &l->here);
    fetch_rows(&keys, k, a->ldk, rows);
    if (g->dout) {
        keys.weight = g->weight + begin * g->ld_weight;
        keys.dout = g->dout + e * g->lddo;
    }
    multiply_keys(&keys);
    struct product weights = {.pack = 1, .m = a->d, .n = a->n, .k = rows, .a = k,
                              .lda = a->ldk, .b = dz, .ldb = ld, .c = g->dw, .ldc = a->n, .tail = v_tail(a->n % VW), .q = q,
                              .w1 = a->w + a->d * a->ldw, .ldw = a->ldw, .dw1 = g->dw + a->d * a->n,
                              .dq = dq};
    multiply_weights(&weights);
}

void FTH_K(attention_layer_grad)(const struct fth_attention *a, const struct fth_attention_grad *g,
                                 float *scratch) {
    struct layer_weights l;
    float *rows = layer_weights(&l, a->n, a->d, g->wt, a->d, g->ldwt, scratch);
    zero(g->dw, 2 * a->d * a->n);
    for (size_t e = 0; e < a->m; e++) {
        size_t ld;
        const float *dz = before_activation(a, g, e, rows, &ld);
        example_grad(a, g, e, dz, ld, &l);
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

/* Scratch of unit_example: the layer's weights, the second layer's transposed and its gradient transposed, in rows of
 * whole_vectors(a->n); and of an example's rows y in whole vectors, dz of both layers and dweight. */
struct unit_scratch {
    struct layer_weights layer;
    struct operand wt;
    float *dwt, *y, *dz, *dz2, *dweight;
};

/* An example's rows of y in whole vectors, in scratch where they are not so already. */
static const float *whole_rows(const struct fth_attention *a, size_t rows, const float *y, size_t *ld, float *scratch) {
    if (a->n % VW == 0)
        return y;
    struct operand copy = {.k = rows, .n = a->n, .columns = whole_vectors(a->n), .pack = 1, .at = scratch};
    lay_out(&copy, y, *ld);
    *ld = copy.columns;
    return scratch;
}

static void unit_example(const struct fth_attention *a, const struct fth_attention_grad *g,
                         const struct fth_attention_unit_grad *u, size_t e, const struct unit_scratch *at) {
    size_t begin = begin_of(a, e), rows = rows_of(a, e), ld = whole_vectors(a->n), ld2 = whole_vectors(u->n);
    size_t ldy = g->ldy;
    const float *y = g->y + begin * g->ldy;
    FTH_K(row_dot)
    (rows, a->d, a->k + begin * a->ldk, a->ldk, g->dout + e * g->lddo, 0.0f, at->dweight, 1);
    float bias = 0.0f;
    for (size_t t = 0; t < rows; t++)
        bias += at->dweight[t];
    *u->dbias += bias;
    gate_grad(a->act, u, rows, at->dweight, u->h + begin * u->ldh, at->dz2);
    /* Transposed, as there are whole vectors of a->n mostly, but not of u->n. */
    const float *whole = whole_rows(a, rows, y, &ldy, at->y);
    struct product weights = {.m = u->n, .n = ld, .k = rows, .a = at->dz2, .lda = ld2,
                              .b = whole, .ldb = ldy, .pack = 1, .c = at->dwt, .ldc = ld};
    fetch_rows(&weights, y, g->ldy, rows);
    multiply_add(&weights);
    struct product data = {.m = rows, .a = at->dz2, .lda = ld2, .c = at->dz, .ldc = ld};
    second_operand(&data, &at->wt);
    fetch_rows(&data, u->h + begin * u->ldh, u->ldh, rows);
    multiply(&data);
    FTH_K(act_grad)(a->act, rows, a->n, y, g->ldy, at->dz, ld, at->dz, ld);
    example_grad(a, g, e, at->dz, ld, &at->layer);
}

void FTH_K(attention_unit_grad)(const struct fth_attention *a, const struct fth_attention_grad *g,
                                const struct fth_attention_unit_grad *u, float *scratch) {
    size_t most = 0, ld = whole_vectors(a->n);
    for (size_t e = 0; e < a->m; e++)
        most = most > rows_of(a, e) ? most : rows_of(a, e);
    struct unit_scratch at;
    at.wt = operand_at(u->n, a->n, layer_weights(&at.layer, a->n, a->d, g->wt, a->d, g->ldwt, scratch));
    at.dwt = end_of(&at.wt);
    at.y = at.dwt + u->n * ld;
    at.dz = at.y + (a->n % VW ? most * ld : 0);
    at.dz2 = at.dz + most * ld;
    at.dweight = at.dz2 + most * whole_vectors(u->n);
    lay_out(&at.wt, u->wt, u->ldwt);
    zero(at.dwt, u->n * ld);
    zero(at.dz, most * ld); /* columns behind a->n stay so */
    zero(g->dw, 2 * a->d * a->n);
    zero(u->db, u->n);
    zero(u->dv, u->n);
    *u->dbias = 0.0f;
    for (size_t e = 0; e < a->m; e++)
        unit_example(a, g, u, e, &at);
    for (size_t i = 0; i < a->n; i++)
        for (size_t j = 0; j < u->n; j++)
            u->dw[i * u->n + j] = at.dwt[j * ld + i];
}

#endif
