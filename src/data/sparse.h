/* What libsvm and libffm have in common: "label [field:]index:value ...", spaces or tabs between, a
 * comment behind '#'. qid:N, as ranking data has it, is accepted behind the label and left out. */
#ifndef FTH_DATA_SPARSE_H
#define FTH_DATA_SPARSE_H

#include "data/parser.h"

/* `fields`: entries are field:index:value. */
fth_status fth_sparse_parse(const struct fth_parser *parser, struct fth_block *block, int fields,
                            fth_error *err);

#endif
