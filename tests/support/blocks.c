#include "blocks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static struct fth_block *make_lines(const char *text, size_t length, uint32_t lines) {
    struct fth_block *block = NULL;
    if (fth_block_create(&block, NULL) != FTH_OK)
        abort();
    block->text_length = length;
    block->text_capacity = length + 1;
    block->text = fth_alloc(block->text_capacity + FTH_TEXT_PADDING, 1);
    memcpy(block->text, text, length);
    block->file = "hand.csv";
    block->first_line = 1;
    block->byte_end = block->text_length;
    block->n_lines = lines;
    block->line_number = fth_alloc(block->n_lines + 1, sizeof *block->line_number);
    block->example_number = fth_alloc(block->n_lines + 1, sizeof *block->example_number);
    for (uint32_t i = 0; i < block->n_lines; i++) {
        block->line_number[i] = i + 1;
        block->example_number[i] = i;
    }
    return block;
}

static struct fth_block *make_block(const char *text) {
    uint32_t lines = 0;
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    return make_lines(text, strlen(text), lines);
}

struct fth_block *test_block_raw(const char *text, size_t length, const struct fth_cell *cells,
                                 uint32_t lines, uint32_t columns) {
    struct fth_block *block = make_lines(text, length, lines);
    size_t n = (size_t)lines * columns;
    block->n_columns = columns;
    block->cells = fth_alloc(n + 1, sizeof *block->cells);
    memcpy(block->cells, cells, n * sizeof *cells);
    return block;
}

struct fth_block *test_block_cells(const char *text, char delimiter) {
    struct fth_block *block = make_block(text);
    size_t first = strcspn(text, "\n"), k = 0;
    block->n_columns = 1;
    for (size_t i = 0; i < first; i++)
        block->n_columns += text[i] == delimiter;
    block->cells = fth_alloc((size_t)block->n_lines * block->n_columns + 1, sizeof *block->cells);
    uint32_t start = 0;
    for (uint32_t i = 0; text[i]; i++)
        if (text[i] == delimiter || text[i] == '\n') {
            block->cells[k++] = (struct fth_cell){start, i - start};
            start = i + 1;
        }
    if (k != (size_t)block->n_lines * block->n_columns)
        abort();
    return block;
}

struct fth_block *test_block_entries(const char *text) {
    struct fth_block *block = make_block(text);
    block->labels = fth_alloc(block->n_lines + 1, sizeof *block->labels);
    block->entry_start = fth_alloc(block->n_lines + 1, sizeof *block->entry_start);
    block->entries = fth_alloc(strlen(text), sizeof *block->entries);
    uint32_t n = 0, line = 0;
    for (const char *p = text; *p; line++) {
        size_t label = strcspn(p, " \n");
        block->labels[line] = (struct fth_cell){(uint32_t)(p - text), (uint32_t)label};
        block->entry_start[line] = n;
        for (p += label; *p != '\n';) {
            struct fth_entry *entry = &block->entries[n++];
            char *end;
            unsigned long long a = strtoull(p + 1, &end, 10), b = 0;
            double value = strtod(end + 1, &end);
            if (*end == ':') {
                b = (unsigned long long)value;
                value = strtod(end + 1, &end);
                *entry = (struct fth_entry){(uint32_t)a, (float)value, b};
            } else {
                *entry = (struct fth_entry){0, (float)value, a};
            }
            p = end;
        }
        p++;
    }
    block->entry_start[line] = n;
    return block;
}
