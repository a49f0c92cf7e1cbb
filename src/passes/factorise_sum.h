/* See factorise_sum.c. */
#ifndef FTH_PASSES_FACTORISE_SUM_H
#define FTH_PASSES_FACTORISE_SUM_H

#include "graph/graph.h"

/* The value that data_grad's output dx may be added to in place, which then lies where dx does, and the addition has
 * gone; FTH_NONE, and nothing changed, when there is none. *dx: the output from then on. */
fth_id fth_factorise_sum(fth_graph *graph, struct fth_node *data_grad, fth_id *dx);

#endif
