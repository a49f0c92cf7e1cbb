/* A tile of 16 x 16 of W whose optimizer's step is made, where it and its copies lie, and fetching its lines. Included by
 * the kernels that make steps alone (gemm_step_avx512.h, gemm_step_avx2.c). */
#ifndef FTH_KERNELS_GEMM_STEP_H
#define FTH_KERNELS_GEMM_STEP_H

#include "base/memory.h"
#include "kernels/gemm.h"
#include "kernels/panels.h"

#define FTH_STEP_TILE 16u

/* A tile of W and of its copies. */
struct place {
    uint32_t rows, columns; /* rows 0: no tile */
    float *w, *slots[2], *panel, *transposed; /* copies: or NULL */
    size_t panel_ld, transposed_ld;
    const float *gradient; /* rows of `gradient_ld` */
};

static inline uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline struct place place_of(const struct fth_gemm_step *s, uint32_t row, uint32_t rows, uint32_t column,
                             uint32_t columns) {
    size_t at = (size_t)row * s->ld + column;
    struct place place = {.rows = rows, .columns = columns, .w = s->w + at};
    for (int i = 0; i < 2; i++)
        place.slots[i] = s->slots[i] ? s->slots[i] + at : NULL;
    if (s->panels.panels) {
        struct fth_panels_place straight = fth_panels_at(&s->panels, s->row + row, s->column + column);
        place.panel = straight.start;
        place.panel_ld = straight.ld;
    }
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

/* To be written: other cores have read the copies, too, and a store into a line that they share waits for them. By
 * hand: without -mprfchw the compilers' builtin asks for a line to be read. */
static inline void fetch(const float *x) {
    __asm__ volatile("prefetchw %0" : : "m"(*x));
}

/* Row `row` of the tile, if it has one, and of the copy that lies as W does. */
static inline __attribute__((always_inline)) void fetch_row(fth_weight_step kind, const struct place *p, uint32_t row, size_t ld) {
    if (row >= p->rows)
        return;
    fetch(p->w + row * ld);
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
