/* The model zoo: each model is one file that only builds a graph from layers, listed once in models.def. */
#ifndef FTH_MODEL_MODEL_H
#define FTH_MODEL_MODEL_H

#include "config/config.h"
#include "graph/graph.h"

/* What a model knows of one categorical field of the batch (made by feature/, passed on by train/). */
struct fth_model_field {
    const char *name;    /* column */
    const char *table;
    uint32_t dim;
    uint64_t min_count;
    int32_t group;       /* FTH_NO_GROUP (-1) or ragged group */
    int pooling;         /* enum fth_pooling; for ragged fields that are not sequences */
    int sequence;        /* positions are kept (attention) */
    int weighted;
    uint64_t missing;    /* key of a missing value */
};

/* An indicator's inputs among the batch's floats. */
struct fth_model_indicator {
    const char *name;
    uint32_t first, width;
};

struct fth_model_inputs {
    uint32_t n_dense;
    const struct fth_model_field *fields;
    uint32_t n_fields;
    const struct fth_model_indicator *indicators;
    uint32_t n_indicators;
    const char *const *tasks; /* [n_tasks] names; NULL: one task without a name */
    uint32_t n_tasks;         /* 0 is 1 */
};

struct fth_model {
    const char *name;
    int several_tasks; /* the logit has a column a task; without it there may be one task */
    /* Appends nodes up to the logit [E, tasks] and sets graph->logit. Impossible inputs (DIN without a
     * sequence, DLRM dims that differ) are FTH_E_CONFIG with the configuration key and what would do. */
    fth_status (*build)(fth_graph *graph, const struct fth_model_config *config,
                        const struct fth_model_inputs *inputs, fth_error *err);
};

const struct fth_model *fth_model_find(const char *name); /* NULL when unknown */
const struct fth_model *const *fth_models(void);          /* NULL-terminated */

#endif
