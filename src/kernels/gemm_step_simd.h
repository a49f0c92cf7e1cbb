/* A tile of 16 x 16 of W whose optimizer's step is made: where it and its copies lie, a vector of its step, which is that of
 * cpu/optimize_simd.h to the bit, and fetching its lines. A template, in the names of cpu/simd_avx512.h; included by the
 * kernels that make steps alone (gemm_step_avx512.h, gemm_step_avx2.c). */
#ifndef FTH_KERNELS_GEMM_STEP_SIMD_H
#define FTH_KERNELS_GEMM_STEP_SIMD_H

#include <math.h>

#include "base/memory.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/optimize_lanes_simd.h"
#include "kernels/gemm.h"
#include "kernels/panels.h"

#define FTH_STEP_TILE 16u

/* A tile of W and of its copies. */
struct place {
    uint32_t rows, columns; /* rows 0: no tile */
    float *w, *slots[2], *panel, *transposed; /* copies: or NULL */
    size_t w_ld, panel_ld, transposed_ld;
    const float *gradient;
};

/* What is the same for all tiles of a block. */
struct stepping {
    fth_weight_step kind;
    struct fth_opt_args args; /* a copy, so that stores cannot change it */
    float rate, root;         /* Adam's */
    size_t ld, gradient_ld;   /* of the slots; of the gradient */
};

static inline struct stepping stepping_of(const struct fth_gemm_step *s, size_t gradient_ld) {
    struct stepping out = {.kind = s->kind, .args = *s->args, .ld = s->ld, .gradient_ld = gradient_ld};
    if (s->kind == FTH_STEP_ADAM) {
        out.rate = s->args->lr / s->args->correction1;
        out.root = sqrtf(s->args->correction2);
    }
    return out;
}

static inline uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline struct place place_of(const struct fth_gemm_step *s, uint32_t row, uint32_t rows, uint32_t column,
                             uint32_t columns) {
    size_t at = (size_t)row * s->ld + column;
    struct place place = {.rows = rows, .columns = columns};
    for (int i = 0; i < 2; i++)
        place.slots[i] = s->slots[i] ? s->slots[i] + at : NULL;
    if (s->panels.panels) {
        struct fth_panels_place straight = fth_panels_at(&s->panels, s->row + row, s->column + column);
        place.panel = straight.start;
        place.panel_ld = straight.ld;
    }
    place.w = s->w ? s->w + at : place.panel;
    place.w_ld = s->w ? s->ld : place.panel_ld;
    if (!s->w)
        place.panel = NULL;
    if (s->transposed.panels && s->transposed_ld) {
        place.transposed = s->transposed.panels + (s->column + column) * s->transposed_ld + s->row + row;
        place.transposed_ld = s->transposed_ld;
    } else if (s->transposed.panels) {
        struct fth_panels_place turned = fth_panels_at(&s->transposed, s->column + column, s->row + row);
        place.transposed = turned.start;
        place.transposed_ld = turned.ld;
    }
    return place;
}

/* The step of a vector of the tile, also into the copy that lies as W does and into `turn`, the tile's new values. */
static FTH_INLINE void step_vector(fth_weight_step kind, int part, vt t, const struct stepping *s, const struct place *p,
                                   uint32_t row, uint32_t column, float *turn) {
    const float *g = p->gradient + row * s->gradient_ld + column;
    size_t at = row * s->ld + column;
    float *w = p->w + row * p->w_ld + column;
    if (kind == FTH_STEP_SGD)
        sgd_lanes(part, t, w, g, &s->args);
    else if (kind == FTH_STEP_ADAGRAD)
        adagrad_lanes(part, t, w, p->slots[0] + at, g, &s->args);
    else
        adam_lanes(part, t, w, p->slots[0] + at, p->slots[1] + at, g, &s->args, s->rate, s->root);
    vf x = v_get(w, part, t);
    if (p->panel)
        v_put(p->panel + row * p->panel_ld + column, part, t, x);
    v_store(turn + row * FTH_STEP_TILE + column, x);
}

/* To be written: other cores have read the copies, too, and a store into a line that they share waits for them. */
static inline void fetch(const float *x) {
    __builtin_prefetch(x, 1);
}

/* Row `row` of the tile, if it has one, and of the copy that lies as W does. */
static FTH_INLINE void fetch_row(fth_weight_step kind, const struct place *p, uint32_t row, size_t ld) {
    if (row >= p->rows)
        return;
    fetch(p->w + row * p->w_ld);
    if (p->panel)
        fetch(p->panel + row * p->panel_ld);
    if (kind != FTH_STEP_SGD)
        fetch(p->slots[0] + row * ld);
    if (kind == FTH_STEP_ADAM)
        fetch(p->slots[1] + row * ld);
}

/* Columns [first, + n) of the tile, as far as it has them, in the transposed copy. */
static inline void fetch_turned(const struct place *p, uint32_t first, uint32_t n) {
    for (uint32_t i = first; p->transposed && p->rows && i < first + n && i < p->columns; i++) {
        const float *line = p->transposed + i * p->transposed_ld;
        fetch(line);
        if ((uintptr_t)line % FTH_CACHE_LINE) /* its part lies on two */
            fetch(line + p->rows - 1);
    }
}

#endif
