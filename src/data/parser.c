/* What the parsers share: see parser.h. */
#include "data/parser.h"

#include <string.h>

#include "base/hash.h"
#include "base/names.h"

void fth_parser_init(const struct fth_data_config *config, struct fth_parser *out) {
    static const struct fth_parser_kind *const kinds[] = {
#define FTH_READER(name, format) [format] = &fth_parser_##name,
#include "data/readers.def"
#undef FTH_READER
    };
    *out = (struct fth_parser){
        .kind = kinds[config->format],
        .delimiter = config->delimiter ? config->delimiter : "", /* formats but csv have none */
        .strip = config->strip,
        .skip_blank = config->skip_blank,
        .quotes = config->quotes,
        .escape = config->escape && *config->escape ? (unsigned char)*config->escape : -1,
        .comment = config->comment ? config->comment : "",
        .n_columns = config->format == FTH_FORMAT_CRITEO ? FTH_CRITEO_COLUMNS : 0,
        .drawn_by = FTH_NO_NAME,
        .kernels = fth_kernels_get(),
    };
    out->comment_length = strlen(out->comment);
    out->delimiter_length = (uint32_t)strlen(out->delimiter);
}

fth_status fth_parser_parse(const struct fth_parser *parser, struct fth_block *block, uint32_t *scratch,
                            fth_error *err) {
    FTH_TRY(parser->kind->parse(parser, block, scratch, err));
    for (uint32_t row = 0; parser->drawn_by != FTH_NO_NAME && row < block->n_lines; row++) {
        struct fth_cell cell = block->cells[(size_t)row * block->n_columns + parser->drawn_by];
        block->drawn_by[row] = fth_hash_bytes(block->text + cell.offset, cell.length, 0);
    }
    return FTH_OK;
}

size_t fth_parser_last_newline(const struct fth_parser *parser, const char *text, size_t n, size_t limit,
                               uint32_t *scratch) {
    const char *newline = memrchr(text, '\n', n < limit ? n : limit);
    if (!newline && n > limit)
        newline = memchr(text + limit, '\n', n - limit);
    return newline ? (size_t)(newline - text) + 1 : 0;
}

const char *fth_parser_line_end(const struct fth_parser *parser, const char *text, size_t n) {
    const char *newline = memchr(text, '\n', n);
    while (newline && fth_is_escaped(parser, text, newline))
        newline = memchr(newline + 1, '\n', (size_t)(text + n - newline - 1));
    return newline;
}

void fth_parser_begin(struct fth_block *block) {
    block->n_lines = 0;
    block->n_data = 0;
    block->n_columns = 0;
    block->n_bad = 0;
    block->first_bad_line = 0;
    block->first_bad.code = FTH_OK;
    block->first_bad.message[0] = 0;
}

fth_status fth_parser_add_line(struct fth_block *block, uint32_t start, uint32_t end, uint64_t line,
                               fth_error *err) {
    uint32_t row = block->n_lines;
    if (row == block->lines_capacity)
        FTH_TRY(fth_block_reserve_lines(block, (size_t)row + 1, err));
    block->line_start[row] = start;
    block->line_end[row] = end;
    block->line_number[row] = line;
    block->example_number[row] = block->first_example + block->n_data;
    block->n_lines = row + 1;
    return FTH_OK;
}
