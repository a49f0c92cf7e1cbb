/* Dense parameters and states: their memory, first values and optimizer slots.
 *
 * A parameter is a matrix with padded rows (base/memory.h), its slots laid out alike, and, where a node
 * reads the transposed form, a transposed copy that every update keeps equal; where the graph asks for
 * panels (kernels/panels.h), a copy in panels, the transposed one being in panels, too. Where all nodes
 * work on fp32 panels, these are no copy: there are no rows. Parameters outlive plans:
 * the training plan and the evaluation plan share them. Written only by update nodes; between updates any
 * number of workers read. */
#ifndef FTH_RUNTIME_PARAMETERS_H
#define FTH_RUNTIME_PARAMETERS_H

#include "config/config.h"
#include "graph/graph.h"
#include "optim/optim.h"

struct fth_parameter {
    const char *name; /* borrowed from the graph */
    fth_id value;
    fth_role role; /* FTH_ROLE_PARAMETER or FTH_ROLE_STATE */
    int later;     /* a checkpoint may lack it (graph.h) */
    uint32_t rows, columns, ld, ld_transposed;
    float *data;       /* [rows][ld]; NULL: in panels alone */
    float *transposed; /* [columns][ld_transposed], or in panels, or NULL */
    float *panels;     /* or NULL */
    int precision;     /* of what lies in panels */
    uint32_t n_slots;  /* 0 for states */
    const char *slot_names[FTH_MAX_SLOTS];
    float *slots[FTH_MAX_SLOTS];
};

typedef struct fth_parameters {
    struct fth_parameter *items;
    uint32_t n;
    size_t bytes;       /* of all the matrices, for budgets and reports */
    int32_t *of_value;  /* [values of the graph] index into items, -1 for other values */
    void *region;
    size_t region_bytes;
} fth_parameters;

/* Memory for every parameter and state of the graph; first values are draws of (seed, name, element).
 * The graph is borrowed for the parameters' life. Owned: fth_parameters_destroy. */
fth_status fth_parameters_create(const fth_graph *graph, const struct fth_optimizer *optimizer,
                                 const struct fth_optimizer_config *config, uint64_t seed,
                                 fth_parameters **out, fth_error *err);
void fth_parameters_destroy(fth_parameters *parameters); /* NULL-safe */

/* Where training begins: the weights become those of rows[rows][columns], the slots what they are before the first step. */
void fth_parameter_begin(struct fth_parameter *parameter, const float *rows, const struct fth_optimizer *optimizer,
                         const struct fth_optimizer_config *config);
/* All weights become those of rows[rows][ld], the copies as well. */
void fth_parameter_set(struct fth_parameter *parameter, const float *rows, uint32_t ld);
/* The weights of rows [first, + n), wherever they lie: out[n][columns]. */
void fth_parameter_get(const struct fth_parameter *parameter, uint32_t first, uint32_t n, float *out);

#endif
