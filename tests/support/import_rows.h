/* Rows into a pack, as a checkpoint's are restored by one worker: all shards, tables by their own numbers. */
#ifndef FTH_TESTS_IMPORT_ROWS_H
#define FTH_TESTS_IMPORT_ROWS_H

#include "embedding/embedding.h"

/* arrays: as fth_embedding_import_shards takes them. */
fth_status import_rows(fth_embedding *embedding, uint32_t pack, uint64_t n, const struct fth_row_arrays *arrays,
                       fth_error *err);

#endif
