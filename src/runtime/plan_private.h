/* What planning (plan.c, placement.c) hands to running (run.c). */
#ifndef FTH_RUNTIME_PLAN_PRIVATE_H
#define FTH_RUNTIME_PLAN_PRIVATE_H

#include "runtime/order.h"
#include "runtime/plan.h"

enum fth_place_kind {
    FTH_PLACE_NONE,      /* not used by this plan; tiles that no node reads */
    FTH_PLACE_DENSE,     /* the batch's own memory */
    FTH_PLACE_LABEL,
    FTH_PLACE_WEIGHT,
    FTH_PLACE_PARAMETER,
    FTH_PLACE_BUFFER,    /* for the whole batch: region + offset */
    FTH_PLACE_SCRATCH,   /* a span's: the worker's scratch + offset */
};

struct fth_place {
    enum fth_place_kind kind;
    fth_id root;      /* the value at the end of the chain of views; itself when no view */
    uint32_t column;  /* of the root, where this value's columns start */
    uint32_t ld;
    size_t offset;    /* bytes; of the root */
};

struct fth_planned_node {
    const struct fth_node *node;
    uint32_t phase;
    struct fth_prepare prepare; /* tasks, scratch_bytes, prepared */
};

struct fth_phase {
    fth_granularity granularity;
    uint32_t first, count; /* in plan->nodes */
    struct fth_order order; /* whole batch: of all nodes' tasks together */
};

struct fth_worker {
    char *scratch;                 /* values of a span's tiles */
    uint32_t tile0;                /* the first of them */
    void *op_scratch;              /* what nodes asked for */
    struct fth_view *views;        /* [max inputs + outputs of a node] */
    uint32_t *position0;           /* [n_groups] */
    uint64_t *ns;                  /* [n_nodes] profile */
    uint64_t (*counters)[FTH_PERF_COUNTERS]; /* [n_nodes] the same */
};

struct fth_plan {
    const fth_graph *graph;
    fth_parameters *parameters;
    struct fth_plan_options options;
    uint32_t *group_max;           /* [n_groups] own copy */
    struct fth_session_rows *sessions; /* [the graph's] filled at the start of a run */
    uint32_t max_tiles, max_span;  /* of a batch; that a worker takes through a phase together */
    struct fth_planned_node *nodes; /* sorted by phase, then graph order */
    uint32_t n_nodes;
    struct fth_phase *phases;
    uint32_t n_phases;
    struct fth_place *places;      /* [n_values] */
    struct fth_worker *workers;
    uint32_t max_views;
    size_t scratch_bytes, op_scratch_bytes, buffer_bytes;
    char *buffers;
    uint64_t activations_ns, weights_ns; /* fth_plan_times */
    /* profile */
    int profiling;
    const fth_perf *perf; /* [workers] or NULL */
    struct fth_cost *costs; /* [n_nodes] */
    /* the run in progress, read by workers */
    const struct fth_step *step;
    uint32_t n_tiles, n_spans, phase_now;
};

/* Rows that a value has at most in so many tiles, or, of 0, in a whole batch. */
size_t fth_plan_rows(const struct fth_plan *plan, const struct fth_value *value, uint32_t tiles);

/* Most rows that an example can have in a ragged group; of sessions that keys end: one a position. */
uint32_t fth_plan_group_max(const fth_graph *graph, const uint32_t *group_max, int32_t group);

/* Decides every value's place; needs nodes and phases. */
fth_status fth_plan_place(struct fth_plan *plan, fth_error *err);

#endif
