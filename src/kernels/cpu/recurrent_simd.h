/* A time step of recurrent layers for any vector width: recurrent_avx2.c and recurrent_avx512.c include it. See
 * kernels.h for the arithmetic, recurrent_scalar.c for the plain form. */
#ifndef FTH_KERNELS_CPU_RECURRENT_SIMD_H
#define FTH_KERNELS_CPU_RECURRENT_SIMD_H

/* x (1 - x) */
static FTH_INLINE vf sigmoid_slope(vf x) {
    return v_fnma(x, x, x);
}
/* d (1 - x^2) */
static FTH_INLINE vf tanh_slope(vf x, vf d) {
    return v_fnma(v_mul(d, x), x, d);
}

/* What an example's next step reads and writes comes from the third cache or from memory, and no hardware sees it
 * coming: a step goes from example to example. Without this three quarters of the gradient's time were waiting. What
 * lies over something else (kernels.h) is fetched once. */
static FTH_INLINE void fetch_read(const float *row, size_t n) {
    for (size_t j = 0; j < n; j += 16)
        __builtin_prefetch(row + j, 0);
}
static FTH_INLINE void fetch_written(const float *row, size_t n) {
    for (size_t j = 0; j < n; j += 16)
        __builtin_prefetch(row + j, 1);
}

static FTH_INLINE void fetch_next(const struct fth_recurrent *c, size_t i, size_t gates) {
    if (i >= c->n_next)
        return;
    size_t at = c->next[i];
    if (!c->x_by_step && c->x != c->kept)
        fetch_read(c->x + at * c->ldx, gates * c->n);
    fetch_written(c->kept + at * c->ldk, (gates + 1) * c->n);
    fetch_written(c->states + at * c->lds, c->n);
}

static FTH_INLINE void fetch_previous(const struct fth_recurrent_grad *c, size_t i, size_t kept) {
    if (!c->previous)
        return;
    size_t at = c->previous[i];
    if (c->kept != c->gates)
        fetch_read(c->kept + at * c->ldk, kept * c->n);
    fetch_read(c->dy + at * c->lddy, c->n);
    fetch_written(c->gates + at * c->ldg, 4 * c->n);
    fetch_written(c->before + at * c->ldb, c->n);
    if (c->earlier)
        fetch_read(c->states + c->earlier[i] * c->lds, c->n);
}

/* Vectors whose functions are made side by side: as many as registers hold. */
enum { TOGETHER = VW == 16 ? 3 : 2 };

/* `count` vectors of units; with `part` the last one is the tail t. */
static FTH_INLINE void gru_lanes(const int count, const int part, vt t, size_t n, const float *x, const float *b,
                                 const float *r, vf score, float *h, float *kept, float *state) {
    vf gates[6], g[3], *u = gates, *v = gates + count;
#define TAIL(j) (part && (j) + 1 == count)
#define INPUT(at, j) v_add(v_get(x + (at) + (j) * VW, TAIL(j), t), v_get(b + (at) + (j) * VW, TAIL(j), t))
    FTH_EACH(j, count) u[j] = v_add(INPUT(n, j), v_get(r + j * VW, TAIL(j), t));
    FTH_EACH(j, count) v[j] = v_add(INPUT(2 * n, j), v_get(r + n + j * VW, TAIL(j), t));
    v_sigmoid_pairs(count, gates);
    FTH_EACH(j, count) {
        vf q = v_get(r + 2 * n + j * VW, TAIL(j), t);
        g[j] = v_fma(v[j], q, INPUT(0, j));
        v_put(kept + n + j * VW, TAIL(j), t, u[j]);
        v_put(kept + 2 * n + j * VW, TAIL(j), t, v[j]);
        v_put(kept + 3 * n + j * VW, TAIL(j), t, q);
    }
    v_tanh_each(count, g);
    FTH_EACH(j, count) {
        vf old = v_get(h + j * VW, TAIL(j), t), now = v_fma(v_mul(score, u[j]), v_sub(g[j], old), old);
        v_put(kept + j * VW, TAIL(j), t, g[j]);
        v_put(h + j * VW, TAIL(j), t, now);
        v_put(state + j * VW, TAIL(j), t, now);
    }
#undef INPUT
#undef TAIL
}

void FTH_K(gru)(const struct fth_recurrent *c) {
    size_t n = c->n, last = (n - 1) % VW + 1;
    vt t = v_tail(last);
    for (size_t i = 0; i < c->m; i++) {
        size_t at = c->rows[i], j = 0;
        const float *x = c->x + (c->x_by_step ? i : at) * c->ldx, *r = c->r + i * c->ldr;
        float *h = c->h + i * c->ldh, *kept = c->kept + at * c->ldk, *state = c->states + at * c->lds;
        vf score = v_set(c->score ? c->score[at] : 1.0f);
        fetch_next(c, i, 3);
        for (; j + TOGETHER * VW <= n; j += TOGETHER * VW)
            gru_lanes(TOGETHER, 0, t, n, x + j, c->bias + j, r + j, score, h + j, kept + j, state + j);
        if (TOGETHER > 2 && j + 2 * VW < n)
            gru_lanes(3, 1, t, n, x + j, c->bias + j, r + j, score, h + j, kept + j, state + j);
        else if (TOGETHER > 1 && j + VW < n)
            gru_lanes(2, 1, t, n, x + j, c->bias + j, r + j, score, h + j, kept + j, state + j);
        else if (j < n)
            gru_lanes(1, 1, t, n, x + j, c->bias + j, r + j, score, h + j, kept + j, state + j);
    }
}

/* Returns its part of the score's gradient. */
static FTH_INLINE vf gru_grad_lanes(int part, vt t, size_t n, const float *kept, const float *previous,
                                    const float *dy, vf score, float *dh, float *dr, float *gates,
                                    float *before) {
    vf g = v_get(kept, part, t), u = v_get(kept + n, part, t), v = v_get(kept + 2 * n, part, t);
    vf h = previous ? v_get(previous, part, t) : v_zero();
    vf d = v_add(v_get(dy, part, t), v_get(dh, part, t)), w = v_mul(score, u), through = v_mul(d, w);
    vf dw = v_mul(d, v_sub(g, h)), dg = tanh_slope(g, through);
    vf du = v_mul(v_mul(dw, score), sigmoid_slope(u));
    vf dv = v_mul(v_mul(dg, v_get(kept + 3 * n, part, t)), sigmoid_slope(v)), dq = v_mul(dg, v);
    v_put(dh, part, t, v_sub(d, through));
    v_put(before, part, t, h);
    v_put(gates, part, t, dg);
    v_put(gates + n, part, t, du);
    v_put(gates + 2 * n, part, t, dv);
    v_put(gates + 3 * n, part, t, dq);
    v_put(dr, part, t, du);
    v_put(dr + n, part, t, dv);
    v_put(dr + 2 * n, part, t, dq);
    return v_mul(dw, u);
}

void FTH_K(gru_grad)(const struct fth_recurrent_grad *c) {
    size_t n = c->n;
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < c->m; i++) {
        size_t at = c->rows[i], j = 0;
        const float *kept = c->kept + at * c->ldk, *dy = c->dy + at * c->lddy;
        const float *previous = c->previous ? c->states + c->previous[i] * c->lds : NULL;
        float *dh = c->dh + i * c->lddh, *dr = c->dr + i * c->lddr, *gates = c->gates + at * c->ldg;
        float *before = c->before + at * c->ldb;
        vf score = v_set(c->score ? c->score[at] : 1.0f), dscore = v_zero();
        fetch_previous(c, i, 4);
        for (; j + VW <= n; j += VW)
            dscore = v_add(dscore, gru_grad_lanes(0, t, n, kept + j, previous ? previous + j : NULL, dy + j,
                                                  score, dh + j, dr + j, gates + j, before + j));
        if (j < n) /* lanes beyond the tail are 0 everywhere */
            dscore = v_add(dscore, gru_grad_lanes(1, t, n, kept + j, previous ? previous + j : NULL, dy + j,
                                                  score, dh + j, dr + j, gates + j, before + j));
        if (c->score)
            c->dscore[at] = v_sum(dscore);
    }
}

static FTH_INLINE void lstm_lanes(int part, vt t, size_t n, const float *x, const float *b, const float *r, float *h,
                                  float *cell, float *kept, float *state) {
#define GATE(k) v_add(v_add(v_get(x + (k) * n, part, t), v_get(b + (k) * n, part, t)), v_get(r + (k) * n, part, t))
    vf in = v_sigmoid(GATE(0));
    vf forget = v_sigmoid(GATE(1));
    vf g = v_tanh(GATE(2));
    vf out = v_sigmoid(GATE(3));
    vf now = v_fma(forget, v_get(cell, part, t), v_mul(in, g)), state_now = v_mul(out, v_tanh(now));
    v_put(kept, part, t, in);
    v_put(kept + n, part, t, forget);
    v_put(kept + 2 * n, part, t, g);
    v_put(kept + 3 * n, part, t, out);
    v_put(kept + 4 * n, part, t, now);
    v_put(cell, part, t, now);
    v_put(h, part, t, state_now);
    v_put(state, part, t, state_now);
#undef GATE
}

void FTH_K(lstm)(const struct fth_recurrent *c) {
    size_t n = c->n;
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < c->m; i++) {
        size_t at = c->rows[i], j = 0;
        const float *x = c->x + (c->x_by_step ? i : at) * c->ldx, *r = c->r + i * c->ldr;
        float *h = c->h + i * c->ldh, *cell = c->c + i * c->ldc;
        float *kept = c->kept + at * c->ldk, *state = c->states + at * c->lds;
        fetch_next(c, i, 4);
        for (; j + VW <= n; j += VW)
            lstm_lanes(0, t, n, x + j, c->bias + j, r + j, h + j, cell + j, kept + j, state + j);
        if (j < n)
            lstm_lanes(1, t, n, x + j, c->bias + j, r + j, h + j, cell + j, kept + j, state + j);
    }
}

/* What is put twice: by position and by example. */
static FTH_INLINE void put_both(float *a, float *b, int part, vt t, vf v) {
    v_put(a, part, t, v);
    v_put(b, part, t, v);
}

static FTH_INLINE void lstm_grad_lanes(int part, vt t, size_t n, const float *kept, const float *state,
                                       const float *cell, const float *dy, float *dh, float *dc,
                                       float *dr, float *gates, float *before) {
    vf in = v_get(kept, part, t), forget = v_get(kept + n, part, t), g = v_get(kept + 2 * n, part, t);
    vf out = v_get(kept + 3 * n, part, t), th = v_tanh(v_get(kept + 4 * n, part, t));
    vf d = v_add(v_get(dy, part, t), v_get(dh, part, t));
    vf inner = v_add(v_get(dc, part, t), tanh_slope(th, v_mul(d, out)));
    v_put(before, part, t, state ? v_get(state, part, t) : v_zero());
    put_both(gates, dr, part, t, v_mul(v_mul(inner, g), sigmoid_slope(in)));
    put_both(gates + n, dr + n, part, t,
             v_mul(v_mul(inner, cell ? v_get(cell, part, t) : v_zero()), sigmoid_slope(forget)));
    put_both(gates + 2 * n, dr + 2 * n, part, t, tanh_slope(g, v_mul(inner, in)));
    put_both(gates + 3 * n, dr + 3 * n, part, t, v_mul(v_mul(d, th), sigmoid_slope(out)));
    v_put(dc, part, t, v_mul(inner, forget));
    v_put(dh, part, t, v_zero());
}

void FTH_K(lstm_grad)(const struct fth_recurrent_grad *c) {
    size_t n = c->n;
    vt t = v_tail(n % VW);
    for (size_t i = 0; i < c->m; i++) {
        size_t at = c->rows[i], j = 0;
        const float *kept = c->kept + at * c->ldk, *dy = c->dy + at * c->lddy;
        const float *state = c->previous ? c->states + c->previous[i] * c->lds : NULL;
        const float *cell = c->previous ? c->kept + c->previous[i] * c->ldk + 4 * n : NULL;
        float *dh = c->dh + i * c->lddh, *dc = c->dc + i * c->lddc, *dr = c->dr + i * c->lddr;
        float *gates = c->gates + at * c->ldg, *before = c->before + at * c->ldb;
        fetch_previous(c, i, 5);
        if (c->earlier) /* of what is kept the cell is read a step before the gates */
            fetch_read(c->kept + c->earlier[i] * c->ldk + 4 * n, n);
        for (; j + VW <= n; j += VW)
            lstm_grad_lanes(0, t, n, kept + j, state ? state + j : NULL, cell ? cell + j : NULL, dy + j,
                            dh + j, dc + j, dr + j, gates + j, before + j);
        if (j < n)
            lstm_grad_lanes(1, t, n, kept + j, state ? state + j : NULL, cell ? cell + j : NULL, dy + j,
                            dh + j, dc + j, dr + j, gates + j, before + j);
    }
}

#endif
