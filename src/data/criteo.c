/* The Criteo display advertising format: label, 13 integers, 26 categories, separated by tabs; an
 * empty cell is missing. One pass: the scan kernel gives the separators, a loop over them makes the
 * cells. */
#include <string.h>

#include "data/parser.h"

struct criteo_line {
    uint32_t start;   /* of the line */
    uint32_t cell;    /* start of the open cell */
    uint32_t n;       /* cells closed so far */
    uint32_t first;   /* column of the line's first cell: 1 where labels are lacking */
    uint32_t surplus; /* start of the cell that is one too many */
    int64_t nul;      /* offset of the first NUL byte, -1 none */
    uint64_t number;  /* physical line */
};

/* `end` is the offset of the LF, or of the text's end. */
static fth_status end_line(const struct fth_parser *parser, struct fth_block *block,
                           struct criteo_line *line, uint32_t end, fth_error *err) {
    uint32_t stop = end;
    if (stop > line->cell && block->text[stop - 1] == '\r')
        stop--;
    uint32_t n = line->n + 1, columns = FTH_CRITEO_COLUMNS - line->first;
    uint32_t next = end < block->text_length ? end + 1 : end;
    fth_status status = FTH_OK;
    if (n == 1 && stop == line->start && parser->skip_blank)
        goto next_line;
    if (line->nul >= 0) {
        fth_block_refuse(block, line->number, (uint64_t)line->nul - line->start + 1,
                         "a NUL byte; data lines are text");
    } else if (n != columns) {
        fth_block_refuse(block, line->number,
                         (n > columns ? line->surplus : stop) - line->start + 1,
                         "%u cells; a criteo line has %u (label, 13 integers, 26 categories)", n,
                         FTH_CRITEO_COLUMNS);
    } else {
        struct fth_cell *cells = block->cells + (size_t)block->n_lines * FTH_CRITEO_COLUMNS;
        if (line->first)
            cells[0] = (struct fth_cell){line->start, 0};
        cells[FTH_CRITEO_COLUMNS - 1] = (struct fth_cell){line->cell, stop - line->cell};
        status = fth_parser_add_line(block, line->start, next, line->number, err);
    }
    block->n_data++;
next_line:
    line->start = line->cell = next;
    line->n = 0;
    line->nul = -1;
    line->number++;
    if (status == FTH_OK)
        status =
            fth_block_reserve_cells(block, ((size_t)block->n_lines + 1) * FTH_CRITEO_COLUMNS, err);
    return status;
}

/* Whether all lines that begin with a chunk's first separator in hand and end in it are whole: 39 tabs and an LF each.
 * `ends` of its separators are no tabs; where as many lines end as they should, those are these, and the others tabs. */
static int only_whole_lines(const char *text, const uint32_t *offsets, size_t found, size_t ends) {
    if (found / FTH_CRITEO_COLUMNS < ends)
        return 0;
    for (size_t i = 1; i <= ends; i++)
        if (text[offsets[i * FTH_CRITEO_COLUMNS - 1]] != '\n')
            return 0;
    return 1;
}

/* The cells of such a line. offsets[-1] is the place before its first byte, which may lie in the chunk before: places
 * count modulo 2^32. */
static void whole_line(uint32_t base, const uint32_t *restrict offsets, struct fth_cell *restrict cells) {
    for (int32_t c = 0; c < (int32_t)FTH_CRITEO_COLUMNS; c++) {
        uint32_t start = offsets[c - 1] + 1;
        cells[c] = (struct fth_cell){base + start, offsets[c] - start};
    }
}

static fth_status parse_from(const struct fth_parser *parser, uint32_t first, struct fth_block *block,
                             uint32_t *scratch, fth_error *err) {
    static const char separators[3] = {'\t', '\n', '\0'};
    struct criteo_line line = {.first = first, .nul = -1, .number = block->first_line};
    size_t length = block->text_length;
    uint32_t *offsets = scratch + 1;
    fth_parser_begin(block);
    block->n_columns = FTH_CRITEO_COLUMNS;
    FTH_TRY(fth_block_reserve_cells(block, FTH_CRITEO_COLUMNS, err));
    for (size_t base = 0; base < length; base += FTH_PARSE_CHUNK) {
        size_t n = length - base < FTH_PARSE_CHUNK ? length - base : FTH_PARSE_CHUNK;
        const char *text = block->text + base;
        size_t found = parser->kernels->scan(text, n, separators, offsets);
        size_t ends = found - parser->kernels->count_byte(text, n, '\t');
        struct fth_cell *cells = block->cells + (size_t)block->n_lines * FTH_CRITEO_COLUMNS;
        int whole = -1; /* not known yet */
        offsets[-1] = line.start - (uint32_t)base - 1;
        for (size_t k = 0; k < found; k++) {
            if (line.n == 0 && whole < 0)
                whole = first == 0 && only_whole_lines(text, offsets + k, found - k, ends);
            if (line.n == 0 && whole && found - k >= FTH_CRITEO_COLUMNS) {
                whole_line((uint32_t)base, offsets + k, cells);
                k += FTH_CRITEO_COLUMNS - 1;
                line.cell = cells[FTH_CRITEO_COLUMNS - 1].offset;
                line.n = FTH_CRITEO_COLUMNS - 1;
            }
            uint32_t at = (uint32_t)base + offsets[k];
            char c = block->text[at];
            ends -= c != '\t';
            if (c == '\t') {
                if (line.n + first < FTH_CRITEO_COLUMNS - 1)
                    cells[line.n + first] = (struct fth_cell){line.cell, at - line.cell};
                else if (line.n + first == FTH_CRITEO_COLUMNS - 1)
                    line.surplus = at + 1;
                line.n++;
                line.cell = at + 1;
            } else if (c == '\n') {
                FTH_TRY(end_line(parser, block, &line, at, err));
                cells = block->cells + (size_t)block->n_lines * FTH_CRITEO_COLUMNS;
            } else if (line.nul < 0) {
                line.nul = at;
            }
        }
    }
    if (line.start < length)
        FTH_TRY(end_line(parser, block, &line, (uint32_t)length, err));
    return FTH_OK;
}

static fth_status criteo_parse(const struct fth_parser *parser, struct fth_block *block,
                               uint32_t *scratch, fth_error *err) {
    return parse_from(parser, parser->labels_lack ? 1 : 0, block, scratch, err);
}

/* Labels are lacking where more of the lines have a cell less than have all. */
int fth_criteo_labels_lack(const char *text, size_t n, int at_end) {
    uint32_t with = 0, without = 0;
    for (const char *end = text + n, *next; text < end; text = next + 1) {
        next = memchr(text, '\n', (size_t)(end - text));
        if (!next && !at_end)
            break;
        next = next ? next : end;
        uint32_t cells = 1;
        for (const char *p = text; p < next; p++)
            cells += *p == '\t';
        with += cells == FTH_CRITEO_COLUMNS;
        without += cells == FTH_CRITEO_COLUMNS - 1;
    }
    return without > with;
}

const struct fth_parser_kind fth_parser_criteo = {
    .whole_lines = fth_parser_last_newline,
    .parse = criteo_parse,
};
