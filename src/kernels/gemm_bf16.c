/* Products in bf16: operands are rounded and packed into the caller's scratch and multiplied panel
 * by panel by this CPU's kernel (gemm_bf16.h).
 *
 *   NN, NT   for chunk of examples:  A packed by rows;   for panel of columns:  B's panel packed, C written
 *   TN       for chunk of examples:  A packed by pairs;  for panel of columns:  B's panel packed, C added to
 *
 * Where B lies in panels of bf16 (panels.h, NN), nothing of it is packed; nor of what lies in tiles (tiles.h).
 *
 * For a kernel that wants A by rows, pairs are turned. A panel of B is used as soon as it is packed, while it is in
 * cache. Threads: no state; scratch belongs to the caller. */
#include <stdio.h>

#include "kernels/gemm_bf16.h"
#include "kernels/gemm_private.h"
#include "kernels/kernels.h"
#include "kernels/panels.h"

#define WIDEST (FTH_PANEL + 16u)
#define TILES_CHUNK 256u

struct layout {
    uint32_t depth;      /* padded */
    size_t a_ld, a_part; /* words */
    size_t b_part;
    uint32_t parts;
};

static uint32_t up(uint32_t n, uint32_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static struct layout layout_of(const struct fth_gemm_shape *s, const struct fth_bf16_kernel *kernel) {
    struct layout l = {.parts = fth_gemm_parts(s->precision)};
    int tn = s->form == FTH_GEMM_TN, pairs = tn && !kernel->a_by_rows;
    l.depth = up(tn ? kernel->chunk : s->k, kernel->depth);
    l.a_ld = pairs ? up(s->m, 16) : up(l.depth / 2, 16) | 16;
    l.a_part = l.a_ld * (pairs ? l.depth / 2 : tn ? up(s->m, 16) : kernel->rows);
    if (s->tiles)
        l.a_part = 0;
    l.b_part = s->panels || (s->tiles && tn) ? 0 : (size_t)WIDEST * up(l.depth / 2, 16);
    return l;
}

/* Room for both operands, and for one that is turned. */
size_t fth_bf16_scratch(const struct fth_gemm_shape *s, const struct fth_bf16_kernel *kernel) {
    struct layout l = layout_of(s, kernel);
    size_t turned = s->form == FTH_GEMM_NN ? 0 : l.a_part > l.b_part ? l.a_part : l.b_part;
    return ((l.a_part + l.b_part + turned) * (size_t)l.parts) * sizeof(uint32_t);
}

/* words[j][i] to out[i][j], i < columns. */
static void turn(uint32_t rows, uint32_t columns, const uint32_t *words, size_t ld, uint32_t *out, size_t ldo) {
    fth_kernels_get()->transpose(rows, columns, (const float *)(const void *)words, ld, (float *)(void *)out, ldo);
}

static void turn_parts(uint32_t rows, uint32_t columns, const struct fth_bf16_pack *from, uint32_t *out,
                       size_t ldo, size_t part) {
    for (uint32_t i = 0; i < from->parts; i++)
        turn(rows, columns, from->out + i * from->part, from->ldo, out + i * part, ldo);
}

/* Columns [column, column + n) of B, examples from `first` on (TN). */
static void pack_b(const struct fth_gemm_shape *s, const struct fth_bf16_kernel *kernel,
                   const struct layout *l, const float *b, uint32_t first, uint32_t k, uint32_t column,
                   struct fth_bf16_panel *panel, uint32_t *out, uint32_t *turned) {
    struct fth_bf16_pack pack = {.n = panel->columns, .k = k, .depth = panel->depth, .ldx = s->ldb,
                                 .parts = l->parts};
    if (s->form == FTH_GEMM_NT) {
        pack.x = b + (size_t)column * s->ldb;
        pack.ldo = up(pack.depth / 2, 16);
        pack.out = turned;
        pack.part = pack.ldo * WIDEST;
        kernel->pack_rows(&pack);
        turn_parts(pack.n, pack.depth / 2, &pack, out, panel->ldb, l->b_part);
    } else {
        pack.x = b + (size_t)first * s->ldb + column;
        pack.ldo = pack.width = panel->ldb;
        pack.out = out;
        pack.part = l->b_part;
        kernel->pack_pairs(&pack);
    }
    panel->b = out;
    panel->b_part = l->b_part;
}

/* A and B as this file packs them, for AMX. */
static void steps_of_packed(struct fth_bf16_panel *panel) {
    panel->a_block = 16 * panel->a_row;
    panel->a_step = 16;
    panel->b_block = 16;
    panel->b_step = 16 * panel->ldb;
}

static void pack_a(const struct fth_gemm_shape *s, const struct fth_bf16_kernel *kernel,
                   const struct layout *l, const float *a, uint32_t first, uint32_t n, uint32_t k,
                   struct fth_bf16_panel *panel, uint32_t *out, uint32_t *turned) {
    struct fth_bf16_pack pack = {.x = a + (size_t)first * s->lda, .ldx = s->lda, .n = n, .k = k,
                                 .depth = panel->depth, .out = out, .ldo = l->a_ld,
                                 .width = l->a_ld, .part = l->a_part, .parts = l->parts};
    panel->a = out;
    panel->a_part = l->a_part;
    panel->a_row = l->a_ld;
    panel->a_pair = 1;
    if (s->form != FTH_GEMM_TN) {
        kernel->pack_rows(&pack);
    } else if (!kernel->a_by_rows) {
        panel->a_row = 1;
        panel->a_pair = l->a_ld;
        kernel->pack_pairs(&pack);
    } else {
        pack.out = turned;
        pack.ldo = pack.width = up(n, 16);
        pack.part = pack.ldo * (pack.depth / 2);
        kernel->pack_pairs(&pack);
        turn_parts(pack.depth / 2, n, &pack, out, l->a_ld, l->a_part);
    }
}

/* TN: what is packed after panel p of B, that is the next one, or the first one of the next examples. */
static void fetch_next(const struct fth_gemm_shape *s, struct fth_bf16_panel *panel, const float *b, uint32_t first,
                       uint32_t end, uint32_t rows, uint32_t p, uint32_t panels) {
    int last = p + 1 == panels;
    const float *next = b + (size_t)(last ? end : first) * s->ldb + (last ? 0 : (p + 1) * FTH_PANEL);
    panel->next = (const uint32_t *)(const void *)next;
    panel->ld_next = s->ldb;
    panel->next_rows = !last ? end - first : rows - end < end - first ? rows - end : end - first;
}

static void steps_of_rows(const struct fth_gemm_shape *s, struct fth_bf16_panel *panel) {
    panel->a_row = FTH_TILES_LINE;
    panel->a_block = FTH_TILES_LINE * (size_t)s->lda;
    panel->a_step = fth_tiles_step(s->precision);
    panel->a_part = FTH_TILES_WORDS;
}

/* TN of operands in tiles: nothing is packed. */
static void run_tiles(const struct fth_gemm_shape *s, const struct fth_bf16_kernel *kernel, uint32_t rows, const float *a,
                      const float *b, float *c) {
    struct fth_bf16_panel panel = {.rows = s->m,
                                   .columns = s->n,
                                   .parts = fth_gemm_parts(s->precision),
                                   .a_part = FTH_TILES_WORDS,
                                   .b_part = FTH_TILES_WORDS,
                                   .a_row = FTH_TILES_LINE,
                                   .a_block = fth_tiles_step(s->precision),
                                   .a_step = FTH_TILES_ROUND * (size_t)s->lda,
                                   .ldb = FTH_TILES_LINE,
                                   .b_block = fth_tiles_step(s->precision),
                                   .b_step = FTH_TILES_ROUND * (size_t)s->ldb,
                                   .c = c,
                                   .ldc = s->ldc,
                                   .a = (const uint32_t *)(const void *)a,
                                   .b = (const uint32_t *)(const void *)b};
    kernel->begin();
    for (uint32_t first = 0; first < rows; first += TILES_CHUNK) {
        uint32_t n = rows - first < TILES_CHUNK ? rows - first : TILES_CHUNK, pieces = (rows - first - n) / FTH_TILES_ROUND;
        pieces = pieces < TILES_CHUNK / FTH_TILES_ROUND ? pieces : TILES_CHUNK / FTH_TILES_ROUND;
        panel.depth = up(n, FTH_TILES_ROUND);
        panel.add = s->accumulate || first > 0;
        panel.ahead[0] = (struct fth_bf16_ahead){panel.a + TILES_CHUNK * (size_t)s->lda, panel.a_step, s->m, pieces};
        panel.ahead[1] = (struct fth_bf16_ahead){panel.b + TILES_CHUNK * (size_t)s->ldb, panel.b_step, s->n, pieces};
        kernel->panel(&panel);
        panel.a += TILES_CHUNK * (size_t)s->lda;
        panel.b += TILES_CHUNK * (size_t)s->ldb;
    }
    kernel->end();
}

void fth_bf16_run(const struct fth_gemm_shape *s, const struct fth_bf16_kernel *kernel, uint32_t rows,
                  const float *a, const float *b, float *c, void *scratch, const struct fth_gemm_finish *finish) {
    if (s->tiles && s->form == FTH_GEMM_TN) {
        run_tiles(s, kernel, rows, a, b, c);
        return;
    }
    struct layout l = layout_of(s, kernel);
    int tn = s->form == FTH_GEMM_TN;
    uint32_t *words_a = scratch, *words_b = words_a + l.a_part * (size_t)l.parts;
    uint32_t *turned = words_b + l.b_part * (size_t)l.parts;
    struct fth_panels panels = fth_panels_cut(s->n, FTH_PANEL);
    uint32_t chunk = tn ? kernel->chunk : kernel->rows;
    if (kernel->begin)
        kernel->begin();
    for (uint32_t first = 0; first < rows; first += chunk) {
        uint32_t n = rows - first < chunk ? rows - first : chunk, k = tn ? n : s->k;
        struct fth_bf16_panel panel = {.rows = tn ? s->m : n,
                                       .depth = up(k, kernel->depth),
                                       .parts = l.parts,
                                       .ldc = s->ldc,
                                       .add = s->accumulate || (tn && first > 0),
                                       .aside = finish ? finish->step : NULL,
                                       .ctx = finish ? finish->ctx : NULL};
        if (s->tiles)
            panel.a = (const uint32_t *)(const void *)a + (size_t)first * s->lda;
        else
            pack_a(s, kernel, &l, a, first, panel.rows, k, &panel, words_a, turned);
        for (uint32_t p = 0; p < panels.count; p++) {
            int last = p + 1 == panels.count;
            panel.columns = last ? panels.last : FTH_PANEL;
            panel.ldb = last ? panels.ld_last : FTH_PANEL;
            size_t place = !s->passing ? (size_t)p * FTH_PANEL : finish ? p % 2 * finish->second : 0;
            panel.c = c + (tn ? 0 : (size_t)first * s->ldc) + place;
            if (s->panels) {
                panel.b = (const uint32_t *)(const void *)b + (size_t)p * FTH_PANEL * fth_panels_pairs(k);
                panel.b_part = fth_panels_words(k, s->n);
                panel.ahead[0] = (struct fth_bf16_ahead){panel.b + FTH_PANEL * (size_t)fth_panels_pairs(k), 0,
                                                         4 * fth_panels_pairs(k), !last};
            } else {
                pack_b(s, kernel, &l, b, tn ? first : 0, k, p * FTH_PANEL, &panel, words_b, turned);
            }
            if (tn)
                fetch_next(s, &panel, b, first, first + n, rows, p, panels.count);
            steps_of_packed(&panel);
            if (s->panels && kernel->strip == FTH_TILES_LINE) {
                panel.ldb = FTH_TILES_LINE;
                panel.b_block = FTH_TILES_LINE * (size_t)fth_panels_pairs(k);
                panel.b_step = FTH_TILES_WORDS;
            }
            if (s->tiles)
                steps_of_rows(s, &panel);
            kernel->panel(&panel);
            if (finish && rows <= chunk)
                finish->done(finish->ctx, p * FTH_PANEL, panel.columns);
        }
    }
    if (kernel->end)
        kernel->end();
    if (finish && rows > chunk)
        finish->done(finish->ctx, 0, s->n);
}
