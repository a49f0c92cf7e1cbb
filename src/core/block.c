/* Growth of a block's arrays, and its malformed lines: see core/batch.h. Sizes double, so that a
 * block that is used again and again soon allocates nothing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "core/batch.h"

static int grow(void **array, size_t size, size_t old_count, size_t count) {
    void *fresh = fth_alloc(count, size);
    if (!fresh)
        return 0;
    if (*array)
        memcpy(fresh, *array, old_count * size);
    fth_free(*array);
    *array = fresh;
    return 1;
}

static size_t larger(size_t capacity, size_t need) {
    size_t doubled = capacity > SIZE_MAX / 2 ? SIZE_MAX : capacity * 2;
    return doubled > need ? doubled : need;
}

static fth_status no_memory(fth_error *err, size_t count, const char *what) {
    return fth_fail(err, FTH_E_MEMORY, "no memory for a block of %zu %s", count, what);
}

fth_status fth_block_reserve_text(struct fth_block *block, size_t bytes, fth_error *err) {
    if (bytes < block->text_capacity)
        return FTH_OK;
    if (bytes >= UINT32_MAX)
        return fth_fail(err, FTH_E_LIMIT, "a block of text cannot hold %zu bytes", bytes);
    void *text = block->text;
    if (!grow(&text, 1, block->text_length, bytes + 1 + FTH_TEXT_PADDING))
        return no_memory(err, bytes, "bytes");
    block->text = text;
    block->text_capacity = bytes + 1;
    return FTH_OK;
}

fth_status fth_block_reserve_lines(struct fth_block *block, size_t lines, fth_error *err) {
    size_t old = block->lines_capacity;
    if (lines <= old)
        return FTH_OK;
    size_t count = larger(old, lines);
    void *arrays[] = {block->line_start,  block->line_end,       block->entry_start,
                      block->line_number, block->example_number, block->labels,         block->drawn_by};
    static const size_t sizes[] = {sizeof(uint32_t), sizeof(uint32_t), sizeof(uint32_t),
                                   sizeof(uint64_t), sizeof(uint64_t), sizeof(struct fth_cell), sizeof(uint64_t)};
    int ok = count < SIZE_MAX;
    for (int a = 0; a < 7 && ok; a++)
        /* entry_start has one more. */
        ok = grow(&arrays[a], sizes[a], old ? old + (a == 2) : 0, count + (a == 2));
    block->line_start = arrays[0];
    block->line_end = arrays[1];
    block->entry_start = arrays[2];
    block->line_number = arrays[3];
    block->example_number = arrays[4];
    block->labels = arrays[5];
    block->drawn_by = arrays[6];
    if (!ok)
        return no_memory(err, count, "lines");
    block->lines_capacity = count;
    return FTH_OK;
}

fth_status fth_block_reserve_cells(struct fth_block *block, size_t cells, fth_error *err) {
    if (cells <= block->cells_capacity)
        return FTH_OK;
    size_t count = larger(block->cells_capacity, cells);
    void *array = block->cells;
    if (!grow(&array, sizeof *block->cells, block->cells_capacity, count))
        return no_memory(err, count, "cells");
    block->cells = array;
    block->cells_capacity = count;
    return FTH_OK;
}

fth_status fth_block_reserve_entries(struct fth_block *block, size_t entries, fth_error *err) {
    if (entries <= block->entries_capacity)
        return FTH_OK;
    size_t count = larger(block->entries_capacity, entries);
    void *array = block->entries;
    if (!grow(&array, sizeof *block->entries, block->entries_capacity, count))
        return no_memory(err, count, "entries");
    block->entries = array;
    block->entries_capacity = count;
    return FTH_OK;
}

void fth_block_refuse(struct fth_block *block, uint64_t line, uint64_t column, const char *format,
                      ...) {
    block->n_bad++;
    if (block->first_bad.code != FTH_OK && block->first_bad_line <= line)
        return;
    char reason[512];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    block->first_bad_line = line;
    fth_fail(&block->first_bad, FTH_E_DATA, "%s:%llu:%llu: %s", block->file ? block->file : "",
             (unsigned long long)line, (unsigned long long)column, reason);
}
