/* What attention_layer and attention_unit share: k, q and W = [W0; W1] as inputs `at`, `at` + 1 and `at` + 2. Only
 * ops/ includes this. */
#ifndef FTH_OPS_ATTENTION_H
#define FTH_OPS_ATTENTION_H

#include "ops/ops_private.h"

/* They fit each other and n columns out; the activation is one that its output tells the gradient of. */
fth_status fth_ops_need_attention(fth_graph *graph, const struct fth_node *node, uint32_t at, uint32_t n,
                                  fth_error *err);
struct fth_attention fth_ops_attention(const struct fth_run *run, uint32_t at, uint32_t n);

/* FLOPs of W for every example and of a position's product, both `products` times. */
void fth_ops_attention_cost(const fth_graph *graph, const struct fth_node *node, uint32_t weights,
                            double products, double examples, double positions, struct fth_cost *out);
void fth_ops_attention_print(const struct fth_node *node, struct fth_text *out);

#endif
