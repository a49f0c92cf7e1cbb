/* libffm: "label field:index:value ...". */
#include "data/sparse.h"

static fth_status libffm_parse(const struct fth_parser *parser, struct fth_block *block,
                               uint32_t *scratch, fth_error *err) {
    return fth_sparse_parse(parser, block, 1, err);
}

const struct fth_parser_kind fth_parser_libffm = {
    .whole_lines = fth_parser_last_newline,
    .parse = libffm_parse,
};
