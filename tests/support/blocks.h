/* Blocks of cells made by hand, as a reader would make them. */
#ifndef FTH_TEST_BLOCKS_H
#define FTH_TEST_BLOCKS_H

#include "core/batch.h"

/* Lines end in '\n' (the last too); cells are split by `delimiter`, no quoting. Every line must have the
 * same number of cells. Owned: fth_block_destroy. */
struct fth_block *test_block_cells(const char *text, char delimiter);

/* The same from cells of any bytes: line i, column c is cells[i * columns + c], of text[0..length). */
struct fth_block *test_block_raw(const char *text, size_t length, const struct fth_cell *cells,
                                 uint32_t lines, uint32_t columns);

/* Lines of "label field:index:value ..." (libffm) or "label index:value ..." (libsvm). */
struct fth_block *test_block_entries(const char *text);

#endif
