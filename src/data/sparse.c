/* Lines of entries: see sparse.h. Tokens are short (5 to 15 bytes), so a plain loop over the bytes
 * of a line reads the digits in the same pass that finds the token's end. */
#include "data/sparse.h"

#include <string.h>

#include "base/number.h"
#include "base/text.h"

struct sparse_line {
    const char *text;      /* of the block */
    const char *at, *stop; /* what is left of the line, without its ending and comment */
    const char *start;
    uint64_t number;
};

static fth_status refuse(struct fth_block *block, const struct sparse_line *line, const char *at,
                         const char *reason, const char *token_end) {
    char quoted[80];
    fth_text_quote(quoted, sizeof quoted, at, (size_t)(token_end - at));
    fth_block_refuse(block, line->number, (uint64_t)(at - line->start) + 1, "%s, not '%s'", reason,
                     quoted);
    return FTH_OK;
}

static void skip_spaces(struct sparse_line *line) {
    while (line->at < line->stop && fth_is_space(*line->at))
        line->at++;
}

static const char *token_end(const struct sparse_line *line) {
    const char *p = line->at;
    while (p < line->stop && !fth_is_space(*p))
        p++;
    return p;
}

/* Digits up to `end` or a colon; 1 when there is at least one and the number is at most `limit`. */
static int read_number(const char **at, const char *end, uint64_t limit, uint64_t *out) {
    const char *p = *at;
    uint64_t value = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return 0;
    if (p == *at || value > limit)
        return 0;
    *at = p;
    *out = value;
    return 1;
}

/* The most frequent values are small whole numbers. */
static int read_value(const char *at, const char *end, float *out) {
    if (end - at == 1 && *at >= '0' && *at <= '9') {
        *out = (float)(*at - '0');
        return 1;
    }
    return fth_number_parse(at, (size_t)(end - at), out) == FTH_NUMBER_OK;
}

/* One entry at line->at, which ends at `end`. 0: refused. */
static int read_entry(struct fth_block *block, struct sparse_line *line, const char *end,
                      int fields, struct fth_entry *out) {
    const char *p = line->at;
    uint64_t field = 0;
    if (fields && (!read_number(&p, end, UINT32_MAX, &field) || p == end || *p++ != ':')) {
        refuse(block, line, line->at, "expected field:index:value with a field of 0 or more", end);
        return 0;
    }
    if (!read_number(&p, end, UINT64_MAX, &out->index) || p == end || *p++ != ':') {
        refuse(block, line, line->at,
               fields ? "expected field:index:value with an index of 0 or more"
                      : "expected index:value with an index of 0 or more",
               end);
        return 0;
    }
    if (!read_value(p, end, &out->value)) {
        refuse(block, line, p, "expected a finite number", end);
        return 0;
    }
    out->field = (uint32_t)field;
    return 1;
}

/* The line's entries behind the label; *n_entries is where the next one goes. 0: refused. */
static fth_status read_entries(struct fth_block *block, struct sparse_line *line, int fields,
                               size_t *n_entries, int *ok, fth_error *err) {
    *ok = 0;
    for (skip_spaces(line); line->at < line->stop; skip_spaces(line)) {
        const char *end = token_end(line);
        if (end - line->at > 4 && memcmp(line->at, "qid:", 4) == 0) {
            const char *p = line->at + 4;
            uint64_t query;
            if (!read_number(&p, end, UINT64_MAX, &query) || p != end)
                return refuse(block, line, line->at, "expected qid: and a number", end);
            line->at = end;
            continue;
        }
        if (*n_entries >= UINT32_MAX)
            return fth_fail(err, FTH_E_LIMIT,
                            "a block cannot hold more entries; lower data.block_bytes");
        FTH_TRY(fth_block_reserve_entries(block, *n_entries + 1, err));
        if (!read_entry(block, line, end, fields, &block->entries[*n_entries]))
            return FTH_OK;
        ++*n_entries;
        line->at = end;
    }
    *ok = 1;
    return FTH_OK;
}

/* text[start, stop) without its ending; `next` is one past the ending. */
static fth_status read_line(const struct fth_parser *parser, struct fth_block *block,
                            struct sparse_line *line, uint32_t next, int fields, fth_error *err) {
    uint32_t row = block->n_lines;
    const char *nul = memchr(line->start, 0, (size_t)(line->stop - line->start));
    const char *comment = memchr(line->start, '#', (size_t)(line->stop - line->start));
    if (nul) {
        block->n_data++;
        fth_block_refuse(block, line->number, (uint64_t)(nul - line->start) + 1,
                         "a NUL byte; data lines are text");
        return FTH_OK;
    }
    if (comment)
        line->stop = comment;
    skip_spaces(line);
    if (line->at == line->stop) {
        if (parser->skip_blank || comment)
            return FTH_OK;
        block->n_data++;
        fth_block_refuse(block, line->number, 1,
                         "a blank line; set data.csv.skip_blank to leave them out");
        return FTH_OK;
    }
    const char *label = line->at, *label_end = token_end(line);
    if (parser->labels_optional && memchr(label, ':', (size_t)(label_end - label)))
        label_end = label;
    size_t n_entries = row ? block->entry_start[row] : 0;
    int ok = 0;
    if (memchr(label, ':', (size_t)(label_end - label))) {
        refuse(block, line, label, "expected a label first", label_end);
    } else {
        line->at = label_end;
        FTH_TRY(read_entries(block, line, fields, &n_entries, &ok, err));
    }
    if (ok) {
        uint32_t start = (uint32_t)(line->start - line->text);
        FTH_TRY(fth_parser_add_line(block, start, next, line->number, err));
        block->labels[row] =
            (struct fth_cell){(uint32_t)(label - line->text), (uint32_t)(label_end - label)};
        block->entry_start[row + 1] = (uint32_t)n_entries;
    }
    block->n_data++;
    return FTH_OK;
}

fth_status fth_sparse_parse(const struct fth_parser *parser, struct fth_block *block, int fields,
                            fth_error *err) {
    fth_parser_begin(block);
    FTH_TRY(fth_block_reserve_lines(block, 1, err));
    block->entry_start[0] = 0;
    const char *text = block->text, *end = text + block->text_length, *at = text;
    for (uint64_t number = block->first_line; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline ? newline + 1 : end, *stop = newline ? newline : end;
        if (stop > at && stop[-1] == '\r')
            stop--;
        struct sparse_line line = {text, at, stop, at, number};
        FTH_TRY(read_line(parser, block, &line, (uint32_t)(next - text), fields, err));
        at = next;
    }
    return FTH_OK;
}
