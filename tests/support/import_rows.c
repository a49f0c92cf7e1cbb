#include "import_rows.h"

#include <stdlib.h>

#include "must.h"

fth_status import_rows(fth_embedding *embedding, uint32_t pack, uint64_t n, const struct fth_row_arrays *arrays,
                       fth_error *err) {
    uint32_t last = 0; /* numbers that the pack does not have, too: to be refused */
    for (uint64_t i = 0; i < n; i++)
        last = arrays->tables[i] > last ? arrays->tables[i] : last;
    struct fth_embedding_table *tables = malloc((last + (size_t)1) * sizeof *tables);
    assert_non_null(tables);
    for (uint32_t t = 0; t <= last; t++)
        tables[t] = (struct fth_embedding_table){pack, t};
    fth_status status = fth_embedding_import_shards(embedding, tables, UINT64_MAX, n, arrays, err);
    free(tables);
    return status == FTH_E_LIMIT ? fth_embedding_import_limit(embedding, err) : status;
}
