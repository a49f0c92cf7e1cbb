/* Delimited text after RFC 4180, any delimiter, with quotes or without (then QUOTED and CLOSED are never
 * reached). The scan kernel gives LFs, quotes and where a delimiter may begin (its first byte); a small
 * machine walks over them. The same machine finds where whole lines end (a quoted cell may hold LFs), reads
 * the header and makes the cells, so the three can never disagree.
 *
 *   OPEN     in an unquoted cell; a quote here begins a quoted cell when nothing (strip: only
 *            spaces) stands before it in the cell, else the line is malformed
 *   QUOTED   in a quoted cell; only a quote matters
 *   CLOSED   the last event was a quote in a quoted cell: one more right behind it is a quote in
 *            the cell's text, else the cell is over
 *   COMMENT  up to the next LF
 *
 * A malformed line that a quoted cell took over LFs is torn: it ends at the first of them, and what
 * follows is read anew, so that a stray quote costs its own line and none of those up to the next
 * quote. Read anew, a line with an even number of quotes ends at its LF; so nothing is read more
 * than three times.
 *
 * Cells without quotes, and quoted ones without anything to look at, need no state: a loop of their own takes them
 * (plain_cells), and the machine what is left.
 *
 * What is escaped, which the escapes right before it tell in any state, is no event. An escaped LF never
 * ends a line, not a torn one either: lines read anew begin where they would have ended without quotes. */
#include <string.h>

#include "data/parser.h"

enum csv_state { CSV_OPEN, CSV_QUOTED, CSV_CLOSED, CSV_COMMENT };
enum csv_event { CSV_NOTHING, CSV_CELL, CSV_LINE };

struct csv_walk {
    const struct fth_parser *parser;
    char *text;
    uint32_t length;
    enum csv_state state;
    int plain;            /* delimiters of one byte, and nothing else but quotes to look for */
    int fresh;            /* nothing of the line was seen yet */
    uint32_t line, cell;  /* where they begin */
    uint32_t open, close; /* of a quoted cell: first byte of its text, last quote seen */
    int doubled;          /* some cell of the line has quotes in its text */
    int quoted;           /* the cell in hand is */
    uint32_t newlines;    /* within the line */
    uint32_t torn_at, torn_by; /* the first of them that only a quote keeps in it, and that quote */
    uint32_t torn_lines;       /* newlines up to there; 0: none */
    const char *bad;      /* the line is malformed: why and where */
    uint32_t bad_at;
    struct fth_cell out; /* the cell that CSV_CELL or CSV_LINE tells of */
};

static void walk_bad(struct csv_walk *walk, uint32_t at, const char *why) {
    if (!walk->bad) {
        walk->bad = why;
        walk->bad_at = at;
    }
}

static int all_spaces(const char *text, uint32_t from, uint32_t to) {
    while (from < to && fth_is_space(text[from]))
        from++;
    return from == to;
}

static void walk_begin_line(struct csv_walk *walk, uint32_t at) {
    walk->line = walk->cell = at;
    walk->state = CSV_OPEN;
    walk->fresh = 1;
    walk->quoted = 0;
    walk->doubled = 0;
    walk->newlines = walk->torn_lines = 0;
    walk->bad = NULL;
}

static void walk_begin(struct csv_walk *walk, const struct fth_parser *parser, char *text, size_t n) {
    *walk = (struct csv_walk){.parser = parser, .text = text, .length = (uint32_t)n};
    walk->plain = parser->delimiter_length == 1 && parser->escape < 0 && !parser->strip && !parser->comment_length;
    walk_begin_line(walk, 0);
}

static int is_escaped(const struct csv_walk *walk, uint32_t at) {
    return fth_is_escaped(walk->parser, walk->text + walk->line, walk->text + at);
}

static int is_comment(const struct csv_walk *walk) {
    size_t n = walk->parser->comment_length;
    return n && walk->length - walk->line >= n &&
           memcmp(walk->text + walk->line, walk->parser->comment, n) == 0;
}

/* What to say of text behind a closing quote: data bases write \" for a quote, which closes the cell here. */
static const char *behind_quote(const struct csv_walk *walk) {
    return walk->close > walk->open && walk->text[walk->close - 1] == '\\' && walk->parser->escape != '\\'
               ? "text behind a closing quote; a quote that belongs to the text is doubled, or \\\" with escape: '\\'"
               : "text behind a closing quote; the delimiter must follow";
}

static void on_quote(struct csv_walk *walk, uint32_t at) {
    switch (walk->state) {
    case CSV_OPEN:
        if (walk->cell == at ||
            (walk->parser->strip && !walk->quoted && all_spaces(walk->text, walk->cell, at))) {
            walk->state = CSV_QUOTED;
            walk->quoted = 1;
            walk->open = at + 1;
        } else {
            walk_bad(walk, at,
                     at > walk->cell && walk->text[at - 1] == '\\' && walk->parser->escape < 0
                         ? "a quote within an unquoted cell; \\\" is text with escape: '\\'"
                         : "a quote within an unquoted cell; quote the whole cell and double it, or set quotes: false");
        }
        break;
    case CSV_QUOTED:
        walk->state = CSV_CLOSED;
        walk->close = at;
        break;
    case CSV_CLOSED:
        if (at == walk->close + 1) {
            walk->state = CSV_QUOTED;
            walk->doubled = 1;
        } else {
            walk_bad(walk, at, behind_quote(walk));
            walk->state = CSV_OPEN;
        }
        break;
    case CSV_COMMENT:
        break;
    }
}

/* The cell ends before `at`; at a line's end a CR does not belong to it. */
static void end_cell(struct csv_walk *walk, uint32_t at, int line_end) {
    uint32_t from = walk->cell, to = at;
    if (line_end && to > from && walk->text[to - 1] == '\r')
        to--;
    if (walk->quoted && walk->state == CSV_CLOSED) {
        uint32_t behind = walk->close + 1;
        if (!(walk->parser->strip ? all_spaces(walk->text, behind, to) : behind == to))
            walk_bad(walk, behind, behind_quote(walk));
        from = walk->open;
        to = walk->close;
    } else if (walk->parser->strip) {
        while (from < to && fth_is_space(walk->text[from]))
            from++;
        while (to > from && fth_is_space(walk->text[to - 1]))
            to--;
    }
    walk->out = (struct fth_cell){from, to - from};
    walk->cell = at + (line_end ? 1 : walk->parser->delimiter_length);
    walk->quoted = 0;
    walk->state = CSV_OPEN;
}

/* A delimiter of several bytes: whether all of them stand there, and are not a delimiter's before. */
static int is_delimiter(const struct csv_walk *walk, uint32_t at) {
    uint32_t n = walk->parser->delimiter_length;
    return n == 1 ||
           (at >= walk->cell && walk->length - at >= n && memcmp(walk->text + at, walk->parser->delimiter, n) == 0);
}

/* One delimiter's first byte, LF or quote at `at`. Where the text ends without LF, the end counts as one. After
 * CSV_LINE the caller begins the next line. */
static enum csv_event walk_step(struct csv_walk *walk, uint32_t at) {
    int end = at == walk->length;
    char c = end ? '\n' : walk->text[at];
    if (walk->fresh) {
        walk->fresh = 0;
        if (is_comment(walk))
            walk->state = CSV_COMMENT;
    }
    if (walk->parser->escape >= 0 && is_escaped(walk, at) && walk->state != CSV_COMMENT) {
        if (!end) {
            walk->newlines += c == '\n';
            return CSV_NOTHING;
        }
        walk_bad(walk, at - 1, "an escape with nothing behind it");
    }
    if (c == '"') {
        if (walk->parser->quotes)
            on_quote(walk, at);
        return CSV_NOTHING;
    }
    if (walk->state == CSV_QUOTED) {
        if (c == '\n' && !end && (walk->newlines++, !walk->torn_lines)) {
            walk->torn_at = at;
            walk->torn_by = walk->open - 1;
            walk->torn_lines = walk->newlines;
        }
        if (!end)
            return CSV_NOTHING;
        walk_bad(walk, walk->open - 1, "a quoted cell that is never closed");
    }
    if (walk->state == CSV_COMMENT)
        return c == '\n' ? CSV_LINE : CSV_NOTHING;
    if (c != '\n' && !is_delimiter(walk, at))
        return CSV_NOTHING;
    end_cell(walk, at, c == '\n');
    return c == '\n' ? CSV_LINE : CSV_CELL;
}

/* Whether up to the next quote the machine would only end cells. */
static int is_plain(const struct csv_walk *walk) {
    return walk->plain && walk->state == CSV_OPEN && !walk->torn_lines && !walk->bad;
}

/* A cell that begins at `begin`, where is_plain: without quotes, or quoted with no place between its quotes and nothing
 * behind them. How many of the n places (from `base` on) are its own, the last of which ends it; 0: it is for the machine. */
static inline size_t plain_cell(const char *text, uint32_t begin, uint32_t base, const uint32_t *places, size_t n,
                                struct fth_cell *cell) {
    uint32_t at = base + places[0];
    if (text[at] != '"') {
        uint32_t cut = text[at] == '\n' && at > begin && text[at - 1] == '\r';
        *cell = (struct fth_cell){begin, at - begin - cut};
        return 1;
    }
    if (at != begin || n < 3 || text[base + places[1]] != '"' || text[base + places[2]] == '"')
        return 0;
    uint32_t close = base + places[1], end = base + places[2];
    *cell = (struct fth_cell){begin + 1, close - begin - 1};
    return end == close + 1 || (end == close + 2 && text[end] == '\n' && text[close + 1] == '\r') ? 3 : 0;
}

/* After a step: the line in hand is torn. n: its cells so far; `at`: where the step was. */
static int is_torn(const struct csv_walk *walk, enum csv_event event, uint32_t n, uint32_t at) {
    uint32_t columns = walk->parser->n_columns;
    if (!walk->torn_lines)
        return 0;
    if (walk->bad)
        return 1;
    return event == CSV_LINE &&
           ((columns && n != columns) || memchr(walk->text + walk->line, 0, at - walk->line) != NULL);
}

/* "" becomes " where quotes are doubled, and escapes go: the text moves to the left within the cell. An escape that ends it
 * takes back the CR or space that was cut off behind it. What is left over must not hold an LF a second time: positions
 * count the LFs of a line. */
static uint32_t resolve(char *text, uint32_t from, uint32_t to, int doubled, int escape) {
    uint32_t out = from;
    for (uint32_t in = from; in < to; in++) {
        if ((doubled && text[in] == '"') || (unsigned char)text[in] == escape)
            in++;
        text[out++] = text[in];
    }
    memset(text + out, '"', to - out);
    return out - from;
}

/* The cells of a line that is as it should be. */
static void resolve_cells(const struct csv_walk *walk, struct fth_cell *cells, uint32_t n) {
    int escape = walk->parser->escape;
    uint32_t end = cells[n - 1].offset + cells[n - 1].length;
    int escapes = escape >= 0 && memchr(walk->text + walk->line, escape, end - walk->line) != NULL;
    for (uint32_t i = 0; (walk->doubled || escapes) && i < n; i++) {
        uint32_t from = cells[i].offset;
        int quoted = walk->parser->quotes && from > walk->line && walk->text[from - 1] == '"';
        if (quoted || escapes)
            cells[i].length = resolve(walk->text, from, from + cells[i].length, quoted, escape);
    }
}

static void separators(const struct fth_parser *parser, char out[3]) {
    out[0] = parser->delimiter[0];
    out[1] = '\n';
    out[2] = parser->quotes ? '"' : '\n';
}

static size_t csv_whole_lines(const struct fth_parser *parser, const char *text, size_t n, size_t limit,
                              uint32_t *scratch) {
    if ((!parser->quotes || !memchr(text, '"', n)) && (parser->escape < 0 || !memchr(text, parser->escape, n)))
        return fth_parser_last_newline(parser, text, n, limit, scratch);
    char set[3];
    separators(parser, set);
    struct csv_walk walk;
    walk_begin(&walk, parser, (char *)text, n); /* nothing is written: only cells are resolved */
    size_t whole = 0, next;
    uint32_t cells = 0;
    for (size_t base = 0; base < n; base = next) {
        size_t size = n - base < FTH_PARSE_CHUNK ? n - base : FTH_PARSE_CHUNK;
        size_t found = parser->kernels->scan(text + base, size, set, scratch);
        next = base + size;
        for (size_t k = 0, used; k < found; k += used) {
            struct fth_cell cell;
            size_t own = is_plain(&walk) ? plain_cell(text, walk.cell, (uint32_t)base, scratch + k, found - k, &cell) : 0;
            used = own ? own : 1;
            uint32_t at = (uint32_t)base + scratch[k + used - 1];
            enum csv_event event = own ? (text[at] == '\n' ? CSV_LINE : CSV_CELL) : walk_step(&walk, at);
            cells += event != CSV_NOTHING;
            int torn = is_torn(&walk, event, cells, at); /* no plain line is */
            if (own)
                walk.cell = at + 1;
            if (!torn && event != CSV_LINE)
                continue;
            size_t end = (torn ? walk.torn_at : (size_t)at) + 1;
            if (whole && end > limit)
                return whole;
            whole = end;
            cells = 0;
            walk_begin_line(&walk, (uint32_t)end);
            if (torn) {
                next = end;
                break;
            }
        }
    }
    return whole;
}

/* 1: the line in hand is no data (blank or a comment). `end`: offset of its LF. */
static int no_data(const struct csv_walk *walk, uint32_t n_cells, uint32_t end) {
    if (walk->state == CSV_COMMENT)
        return 1;
    if (!walk->parser->skip_blank || n_cells != 1 || walk->bad)
        return 0;
    uint32_t stop = end > walk->line && walk->text[end - 1] == '\r' ? end - 1 : end;
    return walk->parser->strip ? all_spaces(walk->text, walk->line, stop) : stop == walk->line;
}

struct csv_block {
    struct fth_block *block;
    uint64_t number;  /* physical line */
    uint32_t n;       /* cells of the line in hand */
    uint32_t surplus; /* where the first cell too many begins */
    int has_nul;      /* somewhere in the block */
};

static void count_cell(struct csv_block *csv, const struct csv_walk *walk, uint32_t begin) {
    uint32_t columns = csv->block->n_columns;
    if (csv->n < columns)
        csv->block->cells[(size_t)csv->block->n_lines * columns + csv->n] = walk->out;
    else if (csv->n == columns)
        csv->surplus = begin;
    csv->n++;
}

/* Of a torn line what stands in its own text is said, as nothing else may be in the block. */
static fth_status end_line(struct csv_block *csv, struct csv_walk *walk, uint32_t end, int torn,
                           fth_error *err) {
    struct fth_block *block = csv->block;
    uint32_t last = torn ? walk->torn_at : end, next = last < walk->length ? last + 1 : last, n = csv->n;
    const char *nul = csv->has_nul ? memchr(block->text + walk->line, 0, last - walk->line) : NULL;
    fth_status status = FTH_OK;
    if (no_data(walk, n, end))
        goto next_line;
    if (nul)
        fth_block_refuse(block, csv->number, (uint64_t)(nul - block->text) - walk->line + 1,
                         "a NUL byte; data lines are text");
    else if (torn && !(walk->bad && walk->bad_at < walk->torn_by))
        fth_block_refuse(block, csv->number, walk->torn_by - walk->line + 1,
                         "the quote opens a cell that goes over the line's end, and what comes of it is malformed; is it "
                         "a stray one?");
    else if (walk->bad)
        fth_block_refuse(block, csv->number, walk->bad_at - walk->line + 1, "%s", walk->bad);
    else if (n != block->n_columns)
        fth_block_refuse(block, csv->number,
                         (n > block->n_columns ? csv->surplus : end) - walk->line + 1,
                         "%u cells; a line has %u", n, block->n_columns);
    else {
        resolve_cells(walk, block->cells + (size_t)block->n_lines * block->n_columns, n);
        status = fth_parser_add_line(block, walk->line, next, csv->number, err);
    }
    block->n_data++;
next_line:
    csv->number += torn ? walk->torn_lines : walk->newlines + 1;
    csv->n = 0;
    walk_begin_line(walk, next);
    if (status == FTH_OK)
        status =
            fth_block_reserve_cells(block, ((size_t)block->n_lines + 1) * block->n_columns, err);
    return status;
}

/* *torn: the step showed that the line in hand is; the next one begins behind where it ends, before `at`. */
static fth_status csv_event(struct csv_block *csv, struct csv_walk *walk, uint32_t at, int *torn,
                            fth_error *err) {
    uint32_t begin = walk->cell;
    enum csv_event event = walk_step(walk, at);
    if (event != CSV_NOTHING && walk->state != CSV_COMMENT)
        count_cell(csv, walk, begin);
    *torn = is_torn(walk, event, csv->n, at);
    return *torn || event == CSV_LINE ? end_line(csv, walk, at, *torn, err) : FTH_OK;
}

/* What csv_event does, a cell a turn, up to one that is for the machine; *used: places until there. */
static fth_status plain_cells(struct csv_block *csv, struct csv_walk *walk, uint32_t base, const uint32_t *places, size_t n,
                              size_t *used, fth_error *err) {
    const char *text = walk->text;
    uint32_t columns = csv->block->n_columns;
    size_t k = 0, own = 1;
    while (k < n && own) {
        struct fth_cell *cells = csv->block->cells + (size_t)csv->block->n_lines * columns, cell;
        uint32_t begin = walk->cell, count = csv->n;
        int line = 0;
        while (k < n && !line && (own = plain_cell(text, begin, base, places + k, n - k, &cell))) {
            if (count < columns)
                cells[count] = cell;
            else if (count == columns)
                csv->surplus = begin;
            count++;
            k += own;
            begin = base + places[k - 1] + 1;
            line = text[begin - 1] == '\n';
        }
        walk->cell = begin;
        csv->n = count;
        if (line)
            FTH_TRY(end_line(csv, walk, begin - 1, 0, err));
    }
    *used = k;
    return FTH_OK;
}

static fth_status csv_parse(const struct fth_parser *parser, struct fth_block *block,
                            uint32_t *scratch, fth_error *err) {
    char set[3];
    size_t length = block->text_length;
    struct csv_walk walk;
    struct csv_block csv = {.block = block, .number = block->first_line};
    walk_begin(&walk, parser, block->text, length);
    separators(parser, set);
    fth_parser_begin(block);
    block->n_columns = parser->n_columns;
    csv.has_nul = memchr(block->text, 0, length) != NULL;
    FTH_TRY(fth_block_reserve_cells(block, block->n_columns, err));
    for (size_t base = 0, next; base < length; base = next) {
        size_t n = length - base < FTH_PARSE_CHUNK ? length - base : FTH_PARSE_CHUNK;
        size_t found = parser->kernels->scan(block->text + base, n, set, scratch);
        int torn = 0;
        for (size_t k = 0, used; k < found && !torn; k += used) {
            used = 0;
            if (is_plain(&walk))
                FTH_TRY(plain_cells(&csv, &walk, (uint32_t)base, scratch + k, found - k, &used, err));
            if (used)
                continue;
            FTH_TRY(csv_event(&csv, &walk, (uint32_t)base + scratch[k], &torn, err));
            used = 1;
        }
        next = torn ? walk.line : base + n;
        if (next == length && walk.line < length) {
            FTH_TRY(csv_event(&csv, &walk, (uint32_t)length, &torn, err));
            next = walk.line;
        }
    }
    return FTH_OK;
}

/* Carriage returns within a line that no line feed follows. */
static int has_returns_alone(const char *line, size_t n) {
    const char *at = line, *end = line + n;
    while ((at = memchr(at, '\r', (size_t)(end - at))) && at + 1 < end && at[1] == '\n')
        at++;
    return at && at + 1 < end;
}

fth_status fth_csv_header(const struct fth_parser *parser, const char *file, char *text, size_t n,
                          int at_end, struct fth_cell *cells, uint32_t *n_cells,
                          size_t *used, uint64_t *lines, fth_error *err) {
    struct csv_walk walk;
    uint32_t count = 0;
    *n_cells = 0;
    *used = 0;
    *lines = 0;
    walk_begin(&walk, parser, text, n);
    for (uint32_t at = 0; at <= n; at++) {
        int is_end = at == n;
        if (is_end && (!at_end || walk.line == n))
            return FTH_OK;
        if (!is_end && text[at] != *parser->delimiter && text[at] != '\n' && text[at] != '"')
            continue;
        enum csv_event event = walk_step(&walk, at);
        if (event == CSV_NOTHING)
            continue;
        if (walk.state != CSV_COMMENT) {
            if (count == FTH_COLUMN_LIMIT)
                return fth_fail(err, FTH_E_DATA, "%s:%llu:%u: the header has more than %u columns",
                                file, (unsigned long long)*lines + 1, at - walk.line + 1, FTH_COLUMN_LIMIT);
            cells[count++] = walk.out;
        }
        if (event != CSV_LINE)
            continue;
        if (walk.bad)
            return fth_fail(err, FTH_E_DATA, "%s:%llu:%u: header: %s", file,
                            (unsigned long long)*lines + 1, walk.bad_at - walk.line + 1, walk.bad);
        int data = !no_data(&walk, count, at);
        const char *nul = data ? memchr(text + walk.line, 0, at - walk.line) : NULL;
        if (nul)
            return fth_fail(err, FTH_E_DATA, "%s:%llu:%u: a NUL byte in the header; data files are text", file,
                            (unsigned long long)*lines + 1, (uint32_t)(nul - text) - walk.line + 1);
        if (data && is_end && has_returns_alone(text + walk.line, at - walk.line))
            return fth_fail(err, FTH_E_DATA,
                            "%s:%llu: its lines end in a carriage return alone (old Macs' do); data files have line feeds: "
                            "tr '\\r' '\\n' puts them in", file, (unsigned long long)*lines + 1);
        *lines += walk.newlines + 1;
        *used = is_end ? at : (size_t)at + 1;
        if (data) {
            resolve_cells(&walk, cells, count);
            *n_cells = count;
            return FTH_OK;
        }
        count = 0;
        walk_begin_line(&walk, at + 1);
    }
    return FTH_OK;
}

const struct fth_parser_kind fth_parser_csv = {
    .whole_lines = csv_whole_lines,
    .parse = csv_parse,
};
