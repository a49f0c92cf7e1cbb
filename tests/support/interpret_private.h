/* What the files of the plain executor share: its memory, and its embedding rows as ops reach them. */
#ifndef FTH_TESTS_INTERPRET_PRIVATE_H
#define FTH_TESTS_INTERPRET_PRIVATE_H

#include "core/batch.h"
#include "interpret.h"

struct matrix {
    float *data, *transposed, *panels, *slots[FTH_MAX_SLOTS];
    uint32_t rows, columns, ld, ld_transposed;
};

struct planned {
    struct fth_prepare prepare;
    struct fth_view *views;
    void *scratch;
};

struct interpret {
    fth_graph *graph;
    struct interpret_options options;
    struct matrix *values; /* of root values; views have no memory */
    struct matrix *rows;   /* of lookups */
    struct planned *nodes;
    struct fth_rows table;
    struct fth_session_rows *sessions;
    struct fth_keys fields[INTERPRET_FIELDS];
};

/* The rows' functions, over `it`. */
struct fth_rows interpret_rows_table(struct interpret *it);

#endif
