/* Feature programs, neighbouring columns of one number each: a line's cells, which lie side by side, to its
 * floats, which do, too. What cells.c does column by column, a few lines of all the columns at a time: the
 * same results, without walking through cells and floats a line apart. Runs on the lines of one chunk, on any
 * thread. */
#include "feature/program_private.h"

#include <string.h>

/* Whether the column's instruction does nothing but parse, transform and write. */
static int plain_number(const fth_feature_program *program, const struct fth_feature_numeric *numeric) {
    return numeric->separator.length == 0 && !numeric->joined && numeric->column < program->n_columns &&
           numeric->dense >= 0 && numeric->indicator < 0 && numeric->running < 0 && numeric->field < 0;
}

void fth_feature_join_numeric(fth_feature_program *program) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < program->n_instructions; k++) {
        struct fth_feature_instruction next = program->instructions[k];
        struct fth_feature_instruction *last = n ? &program->instructions[n - 1] : NULL;
        if (last && !(program->plain & FTH_PLAIN_NUMBERS) && last->op == FTH_FEATURE_NUMERIC &&
            next.op == FTH_FEATURE_NUMERIC && next.index == last->index + last->column && last->column < FTH_FEATURE_CHUNK) {
            const struct fth_feature_numeric *a = &program->numeric[next.index - 1], *b = a + 1;
            if (plain_number(program, a) && plain_number(program, b) && a->config == b->config &&
                b->column == a->column + 1 && b->dense == a->dense + 1) {
                last->column++;
                continue;
            }
        }
        program->instructions[n++] = next;
    }
    program->n_instructions = n;
}

/* Cells that the kernel does not know. */
static void parse_others(struct fth_feature_chunk *chunk, const struct fth_feature_numeric *numeric,
                         uint32_t first, uint32_t columns, uint32_t n, const uint8_t *other,
                         uint32_t *lengths, float *x) {
    const fth_feature_program *program = chunk->program;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t column = numeric->column + i % columns, line = first + i / columns;
        struct fth_feature_text cell = fth_feature_cell(chunk, line, column);
        if (fth_feature_is_missing(program, cell.bytes, cell.length))
            lengths[i] = 0;
        else if (other[i] && !fth_feature_number(chunk, line, cell, column, &x[i]))
            x[i] = 0;
    }
}

/* Lines [first, first + lines) of the chunk. */
static void run_lines(struct fth_feature_chunk *chunk, const struct fth_feature_numeric *numeric,
                      uint32_t columns, uint32_t first, uint32_t lines) {
    const fth_feature_program *program = chunk->program;
    const struct fth_block *block = chunk->block;
    uint64_t words[FTH_FEATURE_NUMBERS];
    uint32_t lengths[FTH_FEATURE_NUMBERS], n = lines * columns;
    float x[FTH_FEATURE_NUMBERS];
    uint8_t other[FTH_FEATURE_NUMBERS];
    for (uint32_t i = 0, at = 0; i < lines; i++) {
        const struct fth_cell *cells =
            block->cells + (size_t)chunk->lines[first + i] * block->n_columns + numeric->column;
        for (uint32_t c = 0; c < columns; c++, at++) {
            memcpy(&words[at], block->text + cells[c].offset, sizeof *words);
            lengths[at] = cells[c].length;
        }
    }
    fth_kernels_get()->decimals(n, words, lengths, x, other);
    if (program->config->features.missing.n || fth_feature_any(other, n))
        parse_others(chunk, numeric, first, columns, n, other, lengths, x);
    fth_kernels_get()->or_absent(n, lengths, 0, x);
    fth_feature_transform(program, numeric, x, n);
    fth_kernels_get()->or_absent(n, lengths, numeric->missing_value, x);
    float *out = chunk->out->dense + (size_t)(chunk->base + first) * chunk->out->dense_ld + numeric->dense;
    for (uint32_t i = 0; i < lines; i++)
        memcpy(out + (size_t)i * chunk->out->dense_ld, x + (size_t)i * columns, columns * sizeof *x);
}

void fth_feature_run_number_rows(struct fth_feature_chunk *chunk,
                                 const struct fth_feature_numeric *numeric, uint32_t columns) {
    uint32_t at_once = FTH_FEATURE_NUMBERS / columns;
    for (uint32_t first = 0; first < chunk->n; first += at_once)
        run_lines(chunk, numeric, columns, first,
                  chunk->n - first < at_once ? chunk->n - first : at_once);
}
