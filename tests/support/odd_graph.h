/* A graph that no model makes, with what passes must hold back from: activations of activations, values and weights that
 * several nodes read, a gradient that goes two ways, layers of one column, the same value twice in a concatenation,
 * crossings of another crossing, sums over rows of more than one number. */
#ifndef FTH_TESTS_ODD_GRAPH_H
#define FTH_TESTS_ODD_GRAPH_H

#include "model/model.h"

/* Over all fields' embeddings and the floats; sets the logit. */
fth_status odd_graph_build(fth_graph *graph, const struct fth_model_inputs *inputs, fth_error *err);
/* DCN-V2 with its crossings behind the deep part: the columns of the last layer's gradient that they read are not its
 * first. */
fth_status odd_crosses_build(fth_graph *graph, const struct fth_model_inputs *inputs, fth_error *err);

#endif
