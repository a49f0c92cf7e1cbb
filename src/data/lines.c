/* Blocks of whole lines: see lines.h.
 *
 *   block k   |carry of k-1|......bytes read......\n|..carry..|
 *   block k+1                                       |..carry..|.....bytes read.....\n|.|
 *
 * Text is read straight into the block; only what stands behind its last line ending is copied. */
#include "data/lines.h"

#include <string.h>

#include "data/set_private.h"

#define NOW_LINES 128

struct fth_lines {
    fth_data_set *set;
    int wake;
    size_t block_bytes;
    fth_source *source; /* NULL: between files */
    uint32_t file;
    int ended;             /* the source is at its end */
    int now;               /* nothing may wait */
    uint64_t offset, line; /* of the next block's first byte */
    char *carry; /* text that was read and stands behind the last block: [carry_at, carry_n) */
    size_t carry_at, carry_n, carry_capacity;
    uint32_t scratch[FTH_PARSE_SCRATCH];
};

fth_status fth_lines_create(fth_data_set *set, int wake, size_t block_bytes, fth_lines **out,
                            fth_error *err) {
    if (!set->again && set->used)
        return fth_fail(
            err, FTH_E_CONFIG,
            "standard input and pipes can be read only once; give files to read them again");
    fth_lines *lines = fth_alloc(1, sizeof *lines);
    if (!lines)
        return fth_fail(err, FTH_E_MEMORY, "no memory to read lines");
    set->used = 1;
    lines->set = set;
    lines->wake = wake;
    lines->block_bytes = block_bytes < FTH_LINE_LIMIT ? block_bytes : FTH_LINE_LIMIT;
    *out = lines;
    return FTH_OK;
}

void fth_lines_destroy(fth_lines *lines) {
    if (!lines)
        return;
    fth_source_close(lines->source);
    fth_free(lines->carry);
    fth_free(lines);
}

static void end_file(fth_lines *lines) {
    fth_source_close(lines->source);
    lines->source = NULL;
    lines->carry_at = lines->carry_n = 0;
    lines->ended = 0;
}

fth_status fth_lines_seek(fth_lines *lines, uint64_t file_index, uint64_t byte_offset,
                          uint64_t line, fth_error *err) {
    fth_data_set *set = lines->set;
    end_file(lines);
    if (file_index >= set->files.n)
        return fth_fail(err, FTH_E_DATA,
                        "data.train: training goes on in file number %llu, and there are %u now; restore those that are "
                        "gone",
                        (unsigned long long)file_index + 1, set->files.n);
    lines->file = (uint32_t)file_index;
    if (byte_offset == 0)
        return FTH_OK;
    const char *name = set->files.items[lines->file], *text;
    char before;
    size_t got, n;
    FTH_TRY(fth_data_set_open_raw(set, lines->file, lines->wake, &lines->source, err));
    FTH_TRY(fth_data_set_check(set, lines->file, lines->source, err));
    FTH_TRY(fth_source_skip(lines->source, byte_offset - 1, err));
    FTH_TRY(fth_source_read(lines->source, &before, 1, &got, err));
    FTH_TRY(fth_source_peek(lines->source, 1, &text, &n, err));
    int mark = byte_offset == 3 && before == '\xbf';
    if (got == 0 || (before != '\n' && n == 1 && !mark))
        return fth_fail(
            err, FTH_E_DATA,
            "%s: no line starts at byte %llu: the file is not the one that was read before", name,
            (unsigned long long)byte_offset);
    lines->offset = byte_offset;
    lines->line = line;
    return FTH_OK;
}

/* The text is read but not used up: before what is left of the carry that it began with. */
static fth_status keep_carry(fth_lines *lines, const char *text, size_t n, fth_error *err) {
    if (n == 0)
        return FTH_OK;
    if (n <= lines->carry_at) { /* it stands there, or there is room */
        lines->carry_at -= n;
        memmove(lines->carry + lines->carry_at, text, n);
        return FTH_OK;
    }
    size_t left = lines->carry_n - lines->carry_at, all = n + left;
    char *carry = lines->carry;
    if (all > lines->carry_capacity) {
        carry = fth_alloc(all, 2);
        if (!carry)
            return fth_fail(err, FTH_E_MEMORY, "no memory for a line of %zu bytes", n);
        lines->carry_capacity = 2 * all;
    }
    if (left)
        memmove(carry + n, lines->carry + lines->carry_at, left);
    memcpy(carry, text, n);
    if (carry != lines->carry) {
        fth_free(lines->carry);
        lines->carry = carry;
    }
    lines->carry_at = 0;
    lines->carry_n = all;
    return FTH_OK;
}

/* Up to `capacity` bytes: of the carry as long as there are, else read. 0: there are no more. */
static fth_status more(fth_lines *lines, char *text, size_t capacity, size_t *got, fth_error *err) {
    size_t left = lines->carry_n - lines->carry_at;
    *got = 0;
    if (!left && !lines->ended) {
        FTH_TRY(fth_source_read(lines->source, text, capacity, got, err));
        lines->ended = *got == 0;
    }
    if (!left)
        return FTH_OK;
    *got = left < capacity ? left : capacity;
    memcpy(text, lines->carry + lines->carry_at, *got);
    lines->carry_at += *got;
    return FTH_OK;
}

/* What is read without waiting is parsed at once by the same worker: smaller blocks then stay in its first caches, and
 * leave the others less to wait for at a round's end. Not where lines are long. */
static size_t target_bytes(const fth_lines *lines) {
    uint64_t line_bytes = lines->line ? lines->offset / lines->line : 0; /* the lines so far, on average */
    size_t least = lines->block_bytes / 4, wanted = (size_t)line_bytes * NOW_LINES;
    if (!lines->now || wanted > lines->block_bytes)
        return lines->block_bytes;
    return wanted > least ? wanted : least;
}

/* No whole line in text that is all there is of it, or as long as a line may be: the first LF's (a quoted cell that
 * goes over it is never closed: its line ends there, as csv.c has it), or without one all of the file's last line. 0: too
 * long. */
static size_t first_line(const struct fth_parser *parser, const char *text, size_t length, int at_end) {
    const char *newline = fth_parser_line_end(parser, text, length);
    if (newline)
        return (size_t)(newline - text) + 1;
    return at_end ? length : 0;
}

/* How many of the text's bytes are whole lines, as the parser has it; behind the file's last byte a line ends, too. */
static size_t whole_lines(fth_lines *lines, char *text, size_t length, size_t limit, int at_end) {
    const struct fth_parser *parser = &lines->set->parser;
    size_t n = length;
    if (at_end && length && text[length - 1] != '\n')
        text[n++] = '\n'; /* there is room */
    size_t whole = parser->kind->whole_lines(parser, text, n, limit, lines->scratch);
    if (!whole && (at_end || length >= FTH_LINE_LIMIT))
        whole = first_line(parser, text, length, at_end);
    return whole < length ? whole : length;
}

/* The block's text: whole lines, none at the end of the file. */
static fth_status fill(fth_lines *lines, struct fth_block *block, fth_error *err) {
    size_t limit = target_bytes(lines), target = limit, length = 0, whole = 0;
    int at_end = 0;
    /* No block stands on both sides of the cut. */
    uint64_t begin = lines->set->file_start ? lines->set->file_start[lines->file] + lines->offset : 0;
    if (lines->set->file_start && begin < lines->set->cut && lines->set->cut - begin < limit)
        limit = (size_t)(lines->set->cut - begin);
    block->text_length = 0;
    for (;;) {
        FTH_TRY(fth_block_reserve_text(block, target, err));
        while (length < target && !at_end) {
            size_t got;
            fth_status status = more(lines, block->text + length, target - length, &got, err);
            if (status == FTH_E_INTERRUPTED && lines->now)
                FTH_TRY(keep_carry(lines, block->text, length, err));
            FTH_TRY(status);
            at_end = got == 0;
            length += got;
        }
        block->text_length = length;
        whole = whole_lines(lines, block->text, length, limit, at_end);
        if (whole || at_end)
            break;
        if (length >= FTH_LINE_LIMIT)
            return fth_fail(err, FTH_E_DATA, "%s:%llu:1: a line of more than %zu MiB",
                            fth_data_set_message_name(lines->set, lines->file),
                            (unsigned long long)lines->line, FTH_LINE_LIMIT >> 20);
        target = target < FTH_LINE_LIMIT / 2 ? 2 * target : FTH_LINE_LIMIT;
    }
    FTH_TRY(keep_carry(lines, block->text + whole, length - whole, err));
    block->text_length = whole;
    block->text[whole] = 0;
    return FTH_OK;
}

fth_status fth_lines_next(fth_lines *lines, struct fth_block *block, int *got, fth_error *err) {
    fth_data_set *set = lines->set;
    for (*got = 0; lines->file < set->files.n; lines->file++) {
        if (!lines->source && lines->now)
            return FTH_E_INTERRUPTED;
        if (!lines->source) {
            FTH_TRY(fth_data_set_open(set, lines->file, lines->wake, &lines->source, &lines->offset,
                                      &lines->line, err));
            FTH_TRY(fth_data_set_check(set, lines->file, lines->source, err));
        }
        if (set->select == FTH_SELECT_HEAD &&
            set->file_start[lines->file] + lines->offset >= set->cut) {
            end_file(lines);
            lines->file = set->files.n;
            return FTH_OK;
        }
        FTH_TRY(fill(lines, block, err));
        if (block->text_length > 0) {
            block->file = fth_data_set_message_name(lines->set, lines->file);
            block->file_index = lines->file;
            block->first_line = lines->line;
            block->first_example = 0;
            block->byte_offset = lines->offset;
            block->byte_end = lines->offset + block->text_length;
            lines->offset = block->byte_end;
            lines->line += set->parser.kernels->count_byte(block->text, block->text_length, '\n');
            *got = 1;
            return FTH_OK;
        }
        end_file(lines);
    }
    return FTH_OK;
}

int fth_lines_can_now(const fth_lines *lines) {
    return lines->source && fth_source_can_now(lines->source);
}

int fth_lines_is_direct(const fth_lines *lines) {
    return lines->source && fth_source_is_direct(lines->source);
}

fth_status fth_lines_next_now(fth_lines *lines, struct fth_block *block, int *got, fth_error *err) {
    if (!fth_lines_can_now(lines))
        return FTH_E_INTERRUPTED;
    lines->now = 1;
    fth_source_set_now(lines->source, 1);
    fth_status status = fth_lines_next(lines, block, got, err);
    lines->now = 0;
    if (lines->source)
        fth_source_set_now(lines->source, 0);
    return status;
}
