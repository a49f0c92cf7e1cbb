/* What the files with layers share. */
#ifndef FTH_OPS_LAYERS_PRIVATE_H
#define FTH_OPS_LAYERS_PRIVATE_H

#include "ops/layers.h"
#include "ops/ops.h"

/* Parameter or state "<layer>.<part>". */
fth_status fth_layers_parameter(fth_graph *graph, const char *layer, const char *part,
                                fth_role role, uint32_t rows, uint32_t columns, fth_param_init init,
                                float scale, int no_decay, fth_id *out, fth_error *err);
/* A copy of a value, refused when there is none of that id. */
fth_status fth_layers_value(fth_graph *graph, const char *layer, fth_id id, struct fth_value *out,
                            fth_error *err);

/* Batch normalisation without trained scale and shift; states "<layer>.running_mean",
 * ".running_variance". */
fth_status fth_layers_standardise(fth_graph *graph, const char *layer, fth_id x, fth_id *out,
                                  fth_error *err);

#endif
