/* libsvm and SVMlight: "label index:value ...". Indices need not increase. */
#include "data/sparse.h"

static fth_status libsvm_parse(const struct fth_parser *parser, struct fth_block *block,
                               uint32_t *scratch, fth_error *err) {
    return fth_sparse_parse(parser, block, 0, err);
}

const struct fth_parser_kind fth_parser_libsvm = {
    .whole_lines = fth_parser_last_newline,
    .parse = libsvm_parse,
};
