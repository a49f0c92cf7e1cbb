/* Parsers: a block's text to cells or entries. readers.def is the one list of them.
 *
 * Place on a batch's way: after lines.c, before feature/. A parser is read-only after
 * fth_parser_init; any number of threads use it, each with its own block and scratch.
 *
 * Common rules. A line ends with LF or CRLF (the last of a file may end with the file). Blank lines
 * are left out when skip_blank is set and malformed otherwise. A line with a NUL byte is malformed.
 * A malformed line is refused by fth_block_refuse and never becomes a row; it still has an example
 * number. */
#ifndef FTH_DATA_PARSER_H
#define FTH_DATA_PARSER_H

#include "config/config.h"
#include "core/batch.h"
#include "core/criteo.h"
#include "kernels/kernels.h"

/* Text looked through by one call of the scan kernel: its offsets stay in the first two cache
 * levels. */
#define FTH_PARSE_CHUNK 16384u
#define FTH_PARSE_SCRATCH (FTH_PARSE_CHUNK + 80u) /* offsets in a scratch array: one before the first, 64 behind the last */

struct fth_parser {
    const struct fth_parser_kind *kind;
    const char *delimiter; /* csv: borrowed from the configuration */
    uint32_t delimiter_length;
    int strip, skip_blank;
    int quotes; /* csv: they quote cells; else bytes like others */
    int escape; /* csv: the byte behind this one is text; -1: none */
    int labels_optional; /* libsvm, libffm: lines may begin behind the label, which is empty then */
    int labels_lack;     /* criteo: all lines do (fth_criteo_labels_lack) */
    const char *comment; /* borrowed from the configuration */
    size_t comment_length;
    uint32_t n_columns; /* csv: cells a line must have; 0: not known yet */
    uint32_t drawn_by;  /* column by which lines are held out; FTH_NO_NAME: by their numbers */
    const struct fth_kernels *kernels;
};

struct fth_parser_kind {
    /* How many bytes of text[0..n), which begins at a line's start, are whole lines; 0 when not one
     * is. Above `limit` only where the first line alone is. */
    size_t (*whole_lines)(const struct fth_parser *parser, const char *text, size_t n, size_t limit,
                          uint32_t *scratch);
    /* Fills the block's rows from text[0..text_length); text[text_length] is NUL. first_line, file
     * and first_example are set, and everything else but text is overwritten. May rewrite
     * cells in place. Fails only for want of memory. */
    fth_status (*parse)(const struct fth_parser *parser, struct fth_block *block, uint32_t *scratch,
                        fth_error *err);
};

#define FTH_READER(name, format) extern const struct fth_parser_kind fth_parser_##name;
#include "data/readers.def"
#undef FTH_READER

/* The parser of config->format. */
void fth_parser_init(const struct fth_data_config *config, struct fth_parser *out);
/* The kind's parse, and what lines are held out by while their cells are there. */
fth_status fth_parser_parse(const struct fth_parser *parser, struct fth_block *block, uint32_t *scratch,
                            fth_error *err);

/* ---- for parsers ---- */

/* whole_lines of formats whose lines end at every LF. */
size_t fth_parser_last_newline(const struct fth_parser *parser, const char *text, size_t n, size_t limit,
                               uint32_t *scratch);
/* Empties the block's rows. */
void fth_parser_begin(struct fth_block *block);
/* Appends a row: its number in block, place and example number. Cells and entries are the caller's.
 */
fth_status fth_parser_add_line(struct fth_block *block, uint32_t start, uint32_t end, uint64_t line,
                               fth_error *err);

static inline int fth_is_space(char c) {
    return c == ' ' || c == '\t';
}

/* Whether an escape stands before the byte, which is not before its line's start: of several every second one is one. */
static inline int fth_is_escaped(const struct fth_parser *parser, const char *line, const char *at) {
    const char *from = at;
    while (from > line && (unsigned char)from[-1] == parser->escape)
        from--;
    return (at - from) & 1;
}

/* The first LF of text[n], which begins at a line's start, that is not escaped; NULL: none. */
const char *fth_parser_line_end(const struct fth_parser *parser, const char *text, size_t n);

/* Whether the lines of a Criteo file, by its first bytes text[n] (at_end: that is all of it), have no label. */
int fth_criteo_labels_lack(const char *text, size_t n, int at_end);

/* ---- csv's header ---- */

#define FTH_COLUMN_LIMIT 65536u

/* Reads the first line that is no comment and not blank. `text` is rewritten like a block's. *used
 * and *lines: bytes and physical lines up to its end, also when it is not there yet (*n_cells 0:
 * text[0..n) has no such whole line; at_end tells that no more will come). cells: [FTH_COLUMN_LIMIT]. A
 * malformed header fails with FTH_E_DATA, "file:line:column". */
fth_status fth_csv_header(const struct fth_parser *parser, const char *file, char *text, size_t n,
                          int at_end, struct fth_cell *cells, uint32_t *n_cells,
                          size_t *used, uint64_t *lines, fth_error *err);

#endif
