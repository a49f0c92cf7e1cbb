/* Training graphs of every model, for tests of passes and runtime: plain fields, a pooled ragged one and a
 * history, with dropout, batch norm and clipping where the model has them. */
#ifndef FTH_TESTS_ZOO_H
#define FTH_TESTS_ZOO_H

#include "graph/graph.h"

enum { ZOO_DENSE = 3, ZOO_GROUPS = 1, ZOO_GROUP_MAX = 5 };

struct zoo_options {
    const char *model;
    int plain;              /* no dropout, no batch norm */
    const char *attention_activation; /* din; NULL: the others' */
    float clip_norm;
    int precision;          /* of matrix products (fth_precision) */
    int no_passes;          /* none at all */
    const char *without;    /* one pass that is left out; NULL: none */
};

/* Model, loss, backward, updates; verified. Owned: fth_graph_destroy. */
fth_graph *zoo_graph(const struct zoo_options *options);

#endif
