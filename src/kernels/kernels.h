/* The arithmetic, one function pointer per kernel, chosen once by CPU.
 *
 * kernels.def is the one list: it makes this table, the dispatch (cpu/<group>_<isa>.c hold the code),
 * the tests (every instruction set against scalar) and `fathom info`.
 *
 * Conventions. A matrix is (rows m, columns n, pointer, leading dimension in floats >= n), row-major.
 * Nothing is assumed about alignment; padding columns (n .. ld) may be read by nobody and written by
 * nobody. Outputs come last and never overlap inputs except where "in place" is said. Kernels are pure:
 * no allocation, no system call, no state; sums over rows run in increasing row order, so a kernel's
 * result is a function of its arguments alone. Scalar kernels are the reference that the tests
 * compare with. */
#ifndef FTH_KERNELS_KERNELS_H
#define FTH_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

typedef enum fth_act {
    FTH_ACT_NONE,
    FTH_ACT_RELU,
    FTH_ACT_SIGMOID,
    FTH_ACT_TANH,
    FTH_ACT_GELU, /* x * Phi(x), the exact form by erf */
    FTH_ACT_COUNT
} fth_act;

typedef enum fth_pooling { FTH_POOL_NONE, FTH_POOL_SUM, FTH_POOL_MEAN, FTH_POOL_MAX } fth_pooling;

/* What an optimizer step needs besides the vectors; filled once per step by optim/. */
struct fth_opt_args {
    float lr;          /* this step's, schedule applied; FTRL: without the schedule */
    float schedule;    /* FTRL: the schedule's factor, of gradients that go into z */
    float grad_scale;  /* every gradient is multiplied by it first: clipping, FTRL's examples; 1 = none */
    float l1, l2;      /* l2: gradient += l2 * w (coupled); FTRL: the two penalties */
    float weight_decay; /* decoupled: w -= lr * weight_decay * w */
    float momentum;
    float eps;
    float beta1, beta2;
    float correction1, correction2; /* 1 - beta^step: Adam's bias corrections */
    float lr_power, beta;           /* FTRL-proximal: -0.5 and beta usually */
};

/* The first layer of an attention unit, y = act(k (W0 + diag(q) W1) + r): k has a row a position (example i owns
 * those of offsets[i] - offsets[0] on), q and r one an example. */
struct fth_attention {
    size_t m, d, n; /* examples, columns of k and of y */
    const uint32_t *offsets;
    fth_act act; /* not GELU */
    const float *k, *q, *r;
    size_t ldk, ldq, ldr;
    const float *w; /* [W0; W1], 2 d rows */
    size_t ldw;
};

/* What a layer's gradient reads and writes besides; dk += weight[t] dout[i] where dout is not NULL. */
struct fth_attention_grad {
    const float *wt; /* w transposed, n rows */
    size_t ldwt;
    const float *y, *dy, *weight, *dout;
    size_t ldy, lddy, ld_weight, lddo;
    float *dk, *dq, *dr;
    size_t lddk, lddq, lddr;
    float *dw; /* [2 d][n], of these examples */
};

/* What follows in a unit of two layers: h = act(y w + b), weight = h v + bias, out = sum weight k. */
struct fth_attention_unit {
    size_t n; /* columns of h */
    const float *w, *b, *v;
    size_t ldw;
    float bias;
    float *h, *weight, *out;
    size_t ldh, ld_weight, ldo;
};

/* Its gradient besides the layer's (whose dy is worked out; weight and dout must be there). */
struct fth_attention_unit_grad {
    size_t n;
    const float *wt, *h, *v; /* wt: w transposed, n rows */
    size_t ldwt, ldh;
    float *dw, *db, *dv, *dbias; /* of these examples; dw [columns of y][n] */
};

enum { FTH_ATTENTION_CHUNK = 24 }; /* positions whose sums are there at a time, at most */

/* Floats of scratch that these kernels need; `rows`: an example's positions at most; n2: columns of h. */
static inline size_t fth_attention_padded(size_t n) {
    return (n + 15) / 16 * 16;
}
static inline size_t fth_attention_scratch(size_t d, size_t n) {
    return (3 * d + FTH_ATTENTION_CHUNK) * fth_attention_padded(n);
}
static inline size_t fth_attention_grad_scratch(size_t d, size_t n, size_t rows) {
    return 3 * n * fth_attention_padded(d) + rows * fth_attention_padded(n);
}
static inline size_t fth_attention_unit_scratch(size_t d, size_t n, size_t n2) {
    return fth_attention_scratch(d, n) + (n + FTH_ATTENTION_CHUNK) * fth_attention_padded(n2);
}
static inline size_t fth_attention_unit_grad_scratch(size_t d, size_t n, size_t n2, size_t rows) {
    return fth_attention_grad_scratch(d, n, 2 * rows) + 2 * n2 * fth_attention_padded(n) +
           rows * fth_attention_padded(n2) + fth_attention_padded(rows);
}

/* One time step of m examples of a recurrent layer of n units. Row i of r, h and c is an example's; x, states, kept
 * and score have a row a position, where the example's is rows[i].
 *
 * GRU (Zhou et al., AAAI 2019, eqs. 2 to 5; with scores AUGRU, eqs. 15 and 16; s is 1 without them):
 *   x: candidate, update, reset (what the inputs give, + bias)     r: update, reset, candidate (from h)
 *   u = sigmoid(x_u + r_u)   v = sigmoid(x_v + r_v)   g = tanh(x_g + v r_g)   h += s u (g - h)
 *   kept: g, u, v, r_g
 * LSTM (Hochreiter and Schmidhuber 1997, with forget gates):
 *   x (+ bias), r: input, forget, candidate, output
 *   i, f, o = sigmoid(x + r)   g = tanh(x_g + r_g)   c = f c + i g   h = o tanh(c)
 *   kept: i, f, g, o, c */
struct fth_recurrent {
    size_t m, n;
    const uint32_t *rows;
    const uint32_t *next; /* positions of the next step, whose memory is fetched ahead */
    size_t n_next;        /* at most m; the examples that have one */
    const float *x, *r, *score; /* score: NULL or one number a position */
    const float *bias;          /* a row like x's */
    int x_by_step;              /* row i of x is the example's, not rows[i] */
    size_t ldx, ldr;
    float *h, *c; /* in and out; c: LSTM */
    size_t ldh, ldc;
    float *states, *kept; /* states: h once more; x may lie over kept's first columns, position by position */
    size_t lds, ldk;
};

/* Its gradient: dh (and dc) come from the steps behind and go to the steps before, all but what goes through the
 * recurrent weights, which is the product of dr with them. By position: kept, states, dy, and what is written:
 *   gates    GRU: gradients of x_g, x_u, x_v, r_g      LSTM: of i, f, g, o before their functions; may be `kept`
 *   before   the state before the step, zeros in the first one
 *   dscore   where scores are
 * dr holds the gradient of r once more, row i the example's. */
struct fth_recurrent_grad {
    size_t m, n;
    const uint32_t *rows, *previous; /* previous: the position before; NULL: the first step */
    const uint32_t *earlier;         /* the one before that, to be fetched; NULL: the first two steps */
    const float *kept, *states, *dy, *score;
    size_t ldk, lds, lddy;
    float *dh, *dc;
    size_t lddh, lddc;
    float *gates, *before, *dr, *dscore;
    size_t ldg, ldb, lddr;
};
/* Self-attention within segments of ragged rows (Vaswani et al. 2017, eq. 1), head by head: head h owns columns
 * [h d, + d) of q, k, v and of what comes out, y = softmax(scale q k^T) v. */
struct fth_self_attention {
    size_t m, heads, d; /* segments */
    const uint32_t *offsets;
    float scale; /* above 0 */
    const float *q, *k, *v;
    size_t ldx; /* of q, k, v */
};

/* Queries whose weights are in scratch at a time, and floats of scratch; `rows`: positions of a segment at most. */
#define FTH_SELF_ATTENTION_QUERIES 32
static inline size_t fth_self_attention_scratch(size_t d, size_t rows) {
    return (d + FTH_SELF_ATTENTION_QUERIES) * fth_attention_padded(rows);
}
static inline size_t fth_self_attention_grad_scratch(size_t d, size_t rows) {
    return 2 * fth_self_attention_scratch(d, rows);
}

struct fth_text_hash; /* kernels/text_key.h */

struct fth_kernels {
#define FTH_KERNEL(name, returns, args) returns(*name) args;
#include "kernels/kernels.def"
#undef FTH_KERNEL
};

/* The table for this CPU (fth_cpu_get()->isa); never NULL; thread-safe. */
const struct fth_kernels *fth_kernels_get(void);

/* The table of one instruction set: where a group has no code for it, the entries are the next lower
 * set's. NULL when this CPU cannot run it (scalar always can). For tests and benches. */
const struct fth_kernels *fth_kernels_for(fth_isa isa);

/* Which instruction set the entry `index` (order of kernels.def) of a table comes from, and its name:
 * for `fathom info`. */
size_t fth_kernels_count(void);
const char *fth_kernel_name(size_t index);
fth_isa fth_kernel_isa(const struct fth_kernels *table, size_t index);

#endif
