/* Blocks of a matrix in panels: see panels.h. */
#include "kernels/panels.h"

#include <string.h>

#include "kernels/gemm_bf16.h"
#include "kernels/kernels.h"

struct fth_panels_place fth_panels_at(const struct fth_panels_target *target, uint32_t row, uint32_t column) {
    struct fth_panels panels = fth_panels_of(target->columns);
    uint32_t index = column / panels.width;
    if (index >= panels.count)
        index = panels.count - 1;
    int last = index == panels.count - 1;
    uint32_t first = index * panels.width, end = last ? target->columns : first + panels.width;
    uint32_t ld = last ? panels.ld_last : panels.width;
    float *panel = target->panels + (size_t)first * target->rows;
    return (struct fth_panels_place){panel + (size_t)row * ld + (column - first), ld, end - column};
}

void fth_panels_row(const struct fth_panels_target *target, uint32_t row, float *out) {
    for (uint32_t column = 0; column < target->columns;) {
        struct fth_panels_place p = fth_panels_at(target, row, column);
        memcpy(out + column, p.start, p.columns * sizeof *out);
        column += p.columns;
    }
}

void fth_panels_store(const struct fth_panels_target *target, uint32_t row, uint32_t column, uint32_t height,
                      uint32_t width, const float *block, size_t ld) {
    if (target->precision != FTH_FP32) {
        fth_panels_store_bf16(target, row, column, height, width, block, ld);
        return;
    }
    for (uint32_t done = 0; done < width;) {
        struct fth_panels_place p = fth_panels_at(target, row, column + done);
        uint32_t columns = p.columns < width - done ? p.columns : width - done;
        for (uint32_t r = 0; r < height; r++)
            memcpy(p.start + (size_t)r * p.ld, block + r * ld + done, columns * sizeof *block);
        done += columns;
    }
}

void fth_panels_store_transposed(const struct fth_panels_target *target, uint32_t row, uint32_t column,
                                 uint32_t height, uint32_t width, const float *block, size_t ld) {
    if (target->precision != FTH_FP32) {
        fth_panels_store_transposed_bf16(target, row, column, height, width, block, ld);
        return;
    }
    for (uint32_t done = 0; done < height;) {
        struct fth_panels_place p = fth_panels_at(target, column, row + done);
        uint32_t columns = p.columns < height - done ? p.columns : height - done;
        fth_kernels_get()->transpose(columns, width, block + done * ld, ld, p.start, p.ld);
        done += columns;
    }
}
