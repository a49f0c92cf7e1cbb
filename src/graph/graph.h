/* The graph: values and nodes. Models build the forward part from layers (ops/layers.h), autodiff writes
 * the backward and the updates into the same graph, passes rewrite it, runtime/ plans and runs it.
 *
 * Values are float matrices; what their rows stand for is the extent. Nothing here knows kernels,
 * memory or threads. A graph belongs to one thread until it is planned; after that it is read-only.
 *
 * Invariants (fth_graph_verify checks them): node order is topological; every value has at most one
 * producer; shapes are what the op's shape rule gives; a view lies inside its parent. */
#ifndef FTH_GRAPH_GRAPH_H
#define FTH_GRAPH_GRAPH_H

#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"
#include "base/text.h"

struct fth_keys; /* core/batch.h */

typedef int32_t fth_id; /* index of a value or a node; -1 none */
#define FTH_NONE (-1)

typedef enum fth_extent {
    FTH_EXAMPLES,  /* [examples of the batch, columns] */
    FTH_POSITIONS, /* [positions of ragged group `group`, columns]: offsets, no padding */
    FTH_TILES,     /* [tiles, columns]: one partial sum a tile, reduced later in a fixed order */
    FTH_WHOLE,     /* [rows, columns], whatever the batch */
} fth_extent;

typedef enum fth_role {
    FTH_ROLE_NORMAL,
    FTH_ROLE_DENSE,     /* input: the batch's floats */
    FTH_ROLE_LABEL,     /* input: [examples, tasks] */
    FTH_ROLE_WEIGHT,    /* input: [examples, tasks]; its data is NULL when all weights are 1 */
    FTH_ROLE_PARAMETER, /* trained, saved */
    FTH_ROLE_STATE,     /* not trained, saved (running statistics) */
} fth_role;

static inline int fth_role_is_saved(fth_role role) {
    return role == FTH_ROLE_PARAMETER || role == FTH_ROLE_STATE;
}

typedef enum fth_param_init {
    FTH_PARAM_ZERO,
    FTH_PARAM_CONSTANT, /* init_scale everywhere */
    FTH_PARAM_UNIFORM,  /* [-init_scale, init_scale) */
    FTH_PARAM_NORMAL,   /* deviation init_scale */
} fth_param_init;

struct fth_value {
    fth_id id;
    const char *name;       /* parameters: unique, as in checkpoints: "deep.0.weight" */
    fth_extent extent;
    fth_role role;
    int32_t group;          /* FTH_POSITIONS: ragged group of the batch */
    uint32_t rows;          /* FTH_WHOLE */
    uint32_t columns;
    fth_id producer;        /* node, or FTH_NONE for inputs, parameters and plain views */
    fth_id view_of;         /* FTH_NONE, or the value (never itself a view) whose columns
                               [view_column, + columns) this is */
    uint32_t view_column;
    int needs_gradient;     /* a parameter or embedding is upstream */
    fth_id gradient;        /* set by autodiff; FTH_NONE when there is none */
    fth_param_init init;    /* parameters and state */
    float init_scale;
    int panels;             /* parameters that matrix products read: kept in panels, too (kernels/panels.h); 0, or
                               1 + the graph's precision */
    int tiles;              /* the numbers of `columns` columns rounded to bf16 in this way (kernels/tiles.h); 0: floats */
    int no_decay;           /* parameters that L2 and weight decay leave alone (biases, norms) */
    int later;              /* parameters that older checkpoints of the model lack: restored, they keep their first values */
};

/* Where a node stands in the step. */
typedef enum fth_stage { FTH_FORWARD, FTH_BACKWARD, FTH_UPDATE } fth_stage;

struct fth_op; /* graph/op.h */

struct fth_node {
    fth_id id;
    const struct fth_op *op;
    const char *name;      /* for printing: the layer's */
    fth_stage stage;
    int training_only;     /* skipped when evaluating although it is FTH_FORWARD */
    uint32_t n_inputs, n_outputs;
    fth_id *inputs;        /* FTH_NONE where an optional input is absent */
    fth_id *outputs;
    const void *attributes; /* the op's own struct, in the graph's arena; NULL none */
};

/* One use of an embedding table: which field's keys, which table, how its rows are pooled. Collected in
 * the graph; train/ makes the packs of embedding/ from them. */
struct fth_lookup {
    uint32_t field;     /* of the batch */
    const char *table;  /* two lookups of one table name share rows and must agree in dim */
    uint32_t dim;
    int pooling;        /* enum fth_pooling of kernels.h; none: one key an example, or positions kept */
    int32_t group;      /* FTH_NO_GROUP (-1) or the field's ragged group */
    int weighted;       /* the field has values */
    uint64_t min_count; /* admission */
    int zero_init;      /* rows start at zero (linear terms) */
    int counted;        /* training wants rows' frequencies (fth_rows.frequencies): one key an example */
    int numbered;       /* training wants the batch's unique rows (fth_unique_rows): one key an example,
                           no values */
};

/* Sessions: the positions of a ragged group cut into pieces, which are the rows of a ragged group of their own
 * (number FTH_SESSIONS + index). A run of positions with equal keys of `field` (without one: an example's positions)
 * that is longer than `length` is cut, so that its last pieces are whole. */
struct fth_sessions {
    int32_t group;   /* what is cut */
    int32_t field;   /* of the batch, its keys in that group; -1 none */
    uint32_t length; /* positions of a session at most; at least 1 */
};
#define FTH_SESSIONS (1 << 24)

/* Sessions of a batch's examples: example i has sessions [offsets[i], offsets[i + 1]), session s the positions
 * [starts[s], starts[s + 1]). */
struct fth_session_rows {
    uint32_t *offsets; /* [examples + 1] */
    uint32_t *starts;  /* [sessions + 1], at most a session a position; a region of start_bytes */
    size_t start_bytes;
};

typedef struct fth_graph fth_graph;
struct fth_graph {
    fth_arena *arena; /* owns everything below */
    struct fth_value *values;
    uint32_t n_values, values_capacity;
    struct fth_node **nodes; /* in execution order; passes may take nodes out and put others in */
    uint32_t n_nodes, nodes_capacity;
    fth_id next_node; /* id of the next new node; ids stay when passes reorder or remove nodes */
    struct fth_lookup *lookups;
    uint32_t n_lookups, lookups_capacity;
    struct fth_names tables; /* the first lookup of each */
    struct fth_sessions *sessions;
    uint32_t n_sessions, sessions_capacity;
    fth_id dense, label, weight; /* inputs, FTH_NONE until asked for */
    uint32_t n_dense;
    uint32_t n_tasks;            /* labels an example, 1 unless set before the first layer */
    const float *task_weights;   /* [n_tasks] of the tasks' losses; NULL: all 1. Borrowed */
    fth_id logit;                /* [examples, tasks], set by the model */
    /* user and item [examples, k], set by a model whose loss is a softmax over the batch's items; sampled: the
     * counted lookup of the item, -1 none. Else user is FTH_NONE. */
    struct {
        fth_id user, item;
        int32_t sampled;
    } softmax;
    fth_id loss;                 /* FTH_WHOLE [1, 1]: mean loss of the batch, set by the loss layer */
    fth_id *losses;              /* further losses, [examples, 1] (their mean over the batch counts) or FTH_WHOLE
                                    [1, 1], added to the loss by the loss layer */
    uint32_t n_losses, losses_capacity;
    fth_stage stage;             /* stamped on new nodes */
    int norm_updates;            /* set before updates are appended: the optimizer wants norms of whole parameters */
    int precision;               /* of matrix products (fth_precision of kernels/gemm.h); 0: fp32 */
    int skip_zeros;              /* set by the pass of that name */
};

fth_status fth_graph_create(uint32_t n_dense, fth_graph **out, fth_error *err);
void fth_graph_destroy(fth_graph *graph); /* NULL-safe */

/* The batch's floats [examples, n_dense], labels, sample weights. */
fth_status fth_graph_input(fth_graph *graph, fth_role role, fth_id *out, fth_error *err);
/* A parameter or state [rows, columns]. The name must be new. */
fth_status fth_graph_parameter(fth_graph *graph, fth_role role, const char *name, uint32_t rows,
                               uint32_t columns, fth_param_init init, float scale, fth_id *out,
                               fth_error *err);
/* Columns [column, column + columns) of a value, same rows. All columns: the value itself. A view of a
 * view is a view of its root. Parameters have no views. */
fth_status fth_graph_view(fth_graph *graph, fth_id value, uint32_t column, uint32_t columns, fth_id *out,
                          fth_error *err);
fth_status fth_graph_lookup(fth_graph *graph, const struct fth_lookup *lookup, uint32_t *out,
                            fth_error *err);
/* The group of these sessions (the same for the same again). */
fth_status fth_graph_sessions(fth_graph *graph, const struct fth_sessions *sessions, int32_t *group,
                              fth_error *err);
/* Cuts a batch's positions (n examples, their offsets in the group; the field's keys or NULL). */
void fth_sessions_cut(const struct fth_sessions *sessions, const uint32_t *offsets, uint32_t n,
                      const struct fth_keys *keys, const struct fth_session_rows *out);
/* Appends a node; the op's shape rule makes the outputs (`outputs` receives op-many ids). Attributes are
 * copied (attribute_bytes). An input of FTH_NONE is an absent optional one. */
fth_status fth_graph_node(fth_graph *graph, const struct fth_op *op, const char *name,
                          const fth_id *inputs, uint32_t n_inputs, const void *attributes,
                          size_t attribute_bytes, fth_id *outputs, fth_error *err);
/* For shape rules: a new output value of the node. */
fth_status fth_graph_output(fth_graph *graph, struct fth_node *node, uint32_t index, fth_extent extent,
                            int32_t group, uint32_t rows, uint32_t columns, fth_error *err);

/* One more of graph->losses; any factor is in it already. Its op begins backward (op.h) or stands behind one that
 * does. */
fth_status fth_graph_add_loss(fth_graph *graph, fth_id loss, fth_error *err);

struct fth_value *fth_graph_value(fth_graph *graph, fth_id value);

/* The sessions of a group; NULL for the batch's own groups. */
static inline const struct fth_sessions *fth_graph_sessions_of(const fth_graph *graph, int32_t group) {
    return group >= FTH_SESSIONS ? &graph->sessions[group - FTH_SESSIONS] : NULL;
}

/* Writes the backward nodes for graph->loss: each op's gradient rule is called in reverse order, several
 * gradients of one value are added (ops' "add"). Parameters and embeddings end with value.gradient set
 * (embedding nodes: on their output). */
fth_status fth_graph_differentiate(fth_graph *graph, fth_error *err);

/* Checks every invariant above; the message names the node. */
fth_status fth_graph_verify(fth_graph *graph, fth_error *err);

/* The value whose memory a value lies in (itself, unless it is a view), and its first column there. */
static inline fth_id fth_graph_root(const fth_graph *graph, fth_id value) {
    fth_id of = graph->values[value].view_of;
    return of == FTH_NONE ? value : of;
}
static inline uint32_t fth_graph_column(const fth_graph *graph, fth_id value) {
    const struct fth_value *v = &graph->values[value];
    return v->view_of == FTH_NONE ? 0 : v->view_column;
}

/* The node that makes the value, or of a view what it is a view of; NULL for inputs and parameters, and for values that
 * several nodes make together. */
struct fth_node *fth_graph_producer(const fth_graph *graph, fth_id value);

/* One line a node: outputs with shapes, op, attributes, inputs. */
void fth_graph_print(const fth_graph *graph, struct fth_text *out);
void fth_graph_print_dot(const fth_graph *graph, struct fth_text *out);

#endif
