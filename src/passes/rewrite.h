/* What passes do to a node list. Only passes/ includes this. */
#ifndef FTH_PASSES_REWRITE_H
#define FTH_PASSES_REWRITE_H

#include "graph/graph.h"

/* Nodes that read the value or a view of it; *last is one of them. */
uint32_t fth_rewrite_readers(const fth_graph *graph, fth_id value, struct fth_node **last);
/* 1 when some value is a view of it. */
int fth_rewrite_has_views(const fth_graph *graph, fth_id value);
/* 1 when the node is a parameter's update, or a part of one, of its own; not fused with where its gradient comes from. */
int fth_rewrite_updates(const struct fth_node *node);
/* Position of a node in graph->nodes. */
uint32_t fth_rewrite_find(const fth_graph *graph, const struct fth_node *node);
/* Takes the node at `index` out of the list; its outputs lose their producer. */
void fth_rewrite_remove(fth_graph *graph, uint32_t index);
/* `gone`, of one output, is taken out; the node makes that output instead of its own first one. */
void fth_rewrite_take_over(fth_graph *graph, struct fth_node *node, const struct fth_node *gone);
/* Moves the last node (just appended) to `index`. */
void fth_rewrite_move_last(fth_graph *graph, uint32_t index);

/* Moves the node at `from` to the place `to`; the others keep their order. */
void fth_rewrite_move(fth_graph *graph, uint32_t from, uint32_t to);
/* Whether the node makes the value or a view of it; root is no view. */
int fth_rewrite_writes(const fth_graph *graph, const struct fth_node *node, fth_id root);
/* The value and its views become views of `into`, which is no view, from `column` on. */
void fth_rewrite_home(fth_graph *graph, fth_id value, fth_id into, uint32_t column);
/* Whether node `at` may write over the value, which it reads: nodes behind it read no number of it, and it is no
 * input and not the logit. */
int fth_rewrite_may_overwrite(const fth_graph *graph, fth_id value, uint32_t at);

#endif
