/* Blocks of a matrix in panels of bf16 (panels.h): rounded as products round (gemm_bf16.h), so that a product
 * reads what it would have packed itself, bit for bit.
 *
 * Blocks whose borders lie between words go through the packing kernels; any others, and all where the CPU has no
 * AVX512-BF16, one half of a word at a time, so that tasks whose blocks meet within a word write
 * different bytes of it. Threads: as panels.h. */
#include <math.h>
#include <string.h>

#include "kernels/gemm_bf16.h"
#include "kernels/gemm_private.h"
#include "kernels/kernels.h"
#include "kernels/panels.h"

#define SIDE 16u
#define DEPTH 128u /* numbers of a row turned at a time */

struct words {
    uint32_t *start; /* of X[row][column]'s pair */
    uint32_t ld, columns;
    size_t part;
    uint32_t parts;
};

static struct words words_at(const struct fth_panels_target *target, uint32_t row, uint32_t column) {
    struct fth_panels panels = fth_panels_cut(target->columns, fth_panels_strip());
    uint32_t index = column / panels.width;
    if (index >= panels.count)
        index = panels.count - 1;
    int last = index == panels.count - 1;
    uint32_t first = index * panels.width, end = last ? target->columns : first + panels.width;
    uint32_t ld = last ? panels.ld_last : panels.width;
    uint32_t *panel = (uint32_t *)(void *)target->panels + (size_t)first * fth_panels_pairs(target->rows);
    return (struct words){panel + (size_t)(row / 2) * ld + (column - first), ld, end - column,
                          fth_panels_words(target->rows, target->columns), fth_gemm_parts((fth_precision)target->precision)};
}

/* As the instruction: a subnormal number is 0. */
static uint16_t rounded(float x) {
    return fth_bf16_from_float(fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x);
}

static void store_one(const struct fth_panels_target *target, uint32_t row, uint32_t column, float x) {
    struct words at = words_at(target, row, column);
    for (uint32_t i = 0; i < at.parts; i++) {
        uint16_t part = rounded(x);
        memcpy((char *)(at.start + i * at.part) + 2 * (row & 1), &part, sizeof part);
        x -= fth_bf16_to_float(part);
    }
}

/* Whether [first, first + n) of `all` begins and ends between groups of `group`, or at the end. */
static int whole(uint32_t first, uint32_t n, uint32_t all, uint32_t group) {
    return first % group == 0 && (n % group == 0 || first + n == all);
}

void fth_panels_store_bf16(const struct fth_panels_target *target, uint32_t row, uint32_t column, uint32_t height,
                           uint32_t width, const float *block, size_t ld) {
    if (!fth_cpu_get()->avx512_bf16 || !whole(row, height, target->rows, 2) ||
        !whole(column, width, target->columns, SIDE)) {
        for (uint32_t r = 0; r < height; r++)
            for (uint32_t c = 0; c < width; c++)
                store_one(target, row + r, column + c, block[r * ld + c]);
        return;
    }
    for (uint32_t done = 0; done < width;) {
        struct words at = words_at(target, row, column + done);
        uint32_t columns = at.columns < width - done ? at.columns : width - done;
        struct fth_bf16_pack pack = {.x = block + done, .ldx = ld, .n = columns, .k = height,
                                     .depth = (height + 1) / 2 * 2, .out = at.start, .ldo = at.ld,
                                     .width = (columns + SIDE - 1) / SIDE * SIDE, .part = at.part, .parts = at.parts};
        fth_bf16_pack_pairs(&pack);
        done += columns;
    }
}

/* Up to SIDE rows of the block become columns of words. */
static void turn_rows(const struct fth_panels_target *target, uint32_t row, uint32_t column, uint32_t rows,
                      uint32_t width, const float *block, size_t ld) {
    enum { LD = DEPTH / 2 + SIDE };
    uint32_t words[FTH_GEMM_PARTS * SIDE * LD];
    for (uint32_t done = 0; done < width; done += DEPTH) {
        uint32_t k = width - done < DEPTH ? width - done : DEPTH;
        struct words at = words_at(target, column + done, row);
        struct fth_bf16_pack pack = {.x = block + done, .ldx = ld, .n = rows, .k = k, .depth = (k + 1) / 2 * 2,
                                     .out = words, .ldo = LD, .part = SIDE * LD, .parts = at.parts};
        fth_bf16_pack_rows(&pack);
        for (uint32_t i = 0; i < at.parts; i++)
            fth_kernels_get()->transpose(rows, pack.depth / 2, (const float *)(const void *)(words + i * pack.part), LD,
                                         (float *)(void *)(at.start + i * at.part), at.ld);
    }
}

void fth_panels_store_transposed_bf16(const struct fth_panels_target *target, uint32_t row, uint32_t column,
                                      uint32_t height, uint32_t width, const float *block, size_t ld) {
    if (!fth_cpu_get()->avx512_bf16 || !whole(column, width, target->rows, 2)) {
        for (uint32_t r = 0; r < height; r++)
            for (uint32_t c = 0; c < width; c++)
                store_one(target, column + c, row + r, block[r * ld + c]);
        return;
    }
    for (uint32_t done = 0; done < height;) {
        uint32_t left = words_at(target, column, row + done).columns, rows = height - done;
        rows = rows < left ? rows : left;
        rows = rows < SIDE ? rows : SIDE;
        turn_rows(target, row + done, column, rows, width, block + done * ld, ld);
        done += rows;
    }
}
