/* What passes do to a node list. Only passes/ includes this. */
#ifndef FTH_PASSES_REWRITE_H
#define FTH_PASSES_REWRITE_H

#include "graph/graph.h"

/* Nodes that read the value or a view of it; *last is one of them. */
uint32_t fth_rewrite_readers(const fth_graph *graph, fth_id value, struct fth_node **last);
/* 1 when some value is a view of it. */
int fth_rewrite_has_views(const fth_graph *graph, fth_id value);
/* Position of a node in graph->nodes. */
uint32_t fth_rewrite_find(const fth_graph *graph, const struct fth_node *node);
/* Takes the node at `index` out of the list; its outputs lose their producer. */
void fth_rewrite_remove(fth_graph *graph, uint32_t index);
/* Moves the last node (just appended) to `index`. */
void fth_rewrite_move_last(fth_graph *graph, uint32_t index);

#endif
