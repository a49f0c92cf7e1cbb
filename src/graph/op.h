/* What an operation is: one const struct fth_op each (ops/<name>.c), listed once in ops/ops.def. The single
 * place that says its name, arity, shape rule, gradient, cost and kernels. */
#ifndef FTH_GRAPH_OP_H
#define FTH_GRAPH_OP_H

#include "graph/graph.h"

struct fth_rows;     /* graph/rows.h */
struct fth_kernels;  /* kernels/kernels.h: only ops/ looks inside */
struct fth_opt_args; /* kernels/kernels.h */
struct fth_optimizer; /* optim/optim.h */
struct fth_tuning;
struct fth_gemm_shape; /* kernels/gemm.h */
struct fth_keys;       /* core/batch.h */

/* FTH_PER_TILE: every example's rows depend on that example alone (or, for FTH_TILES outputs, on the
 * tile): one worker runs it tile by tile, between other per-tile nodes, data staying in cache.
 * FTH_WHOLE_BATCH: needs all tiles done; runs as a list of independent tasks over the workers. */
typedef enum fth_granularity { FTH_PER_TILE, FTH_WHOLE_BATCH } fth_granularity;

/* A value's rows as a running node sees them: the tile's, or the neighbouring tiles' (per tile; fth_op.spans), or all
 * (whole batch). FTH_TILES: a row for each of these tiles. */
struct fth_view {
    float *data;             /* NULL: absent optional input, all-ones weights, tiles that no node reads, or a parameter in
                                panels alone */
    uint32_t rows, columns, ld;
    int tiles;               /* 0, or the way in which `data` lies in tiles (kernels/tiles.h) */
    const uint32_t *offsets; /* FTH_POSITIONS: [examples + 1], absolute positions; row 0 of `data` is
                                position offsets[0] */
    /* parameters: */
    float *transposed;       /* [columns][ld_transposed], or in panels where the value says so, kept equal by
                                updates; NULL when nobody reads it */
    uint32_t ld_transposed;
    float *panels;           /* where the value says so: `data` in panels, kept equal by updates */
    int precision;           /* of what lies in tiles or panels */
    float *const *slots;     /* the optimizer's, each laid out like data */
};

struct fth_run {
    const struct fth_node *node;
    const struct fth_view *in, *out; /* [n_inputs], [n_outputs] */
    uint32_t example0, examples;     /* of the tile or tiles; whole batch: 0 and the batch's number */
    uint32_t batch;                  /* examples of the whole batch */
    uint32_t mean_over;              /* what the loss's gradient is divided by (fth_step) */
    uint32_t tile, n_tiles;          /* the first of them; of the whole batch */
    uint32_t task;                   /* whole batch: which task */
    const uint32_t *position0;       /* [groups] first position of the tile or tiles in each ragged group */
    const struct fth_session_rows *sessions; /* [the graph's] of the whole batch */
    const struct fth_keys *fields;   /* [fields] of the whole batch: their keys */
    int training;
    uint64_t seed, step;             /* step: 1 in the first step */
    const struct fth_rows *rows;     /* embedding rows of this batch */
    const struct fth_opt_args *opt;  /* the step's dense optimizer arguments */
    const struct fth_opt_args *opt_no_decay; /* the same without l2 and weight decay */
    void *prepared;                  /* what `prepare` made, read-only here */
    void *scratch;                   /* this worker's, 64-byte aligned, as many bytes as prepare asked for */
};

/* What a node is told when a plan is made. */
struct fth_prepare {
    const struct fth_graph *graph;
    const struct fth_node *node;
    const struct fth_view *in, *out; /* data NULL; rows are the most there can be; columns, ld final */
    uint32_t tile;                   /* examples a tile */
    uint32_t batch;                  /* the most examples a batch has */
    uint32_t cores;                  /* the machine's, for which work is cut into tasks; 0: as on up to two */
    int training;                    /* 0: the plan evaluates */
    int precision;                   /* fth_precision of kernels/gemm.h */
    const struct fth_tuning *tuning;
    const struct fth_optimizer *optimizer; /* the dense one */
    /* Told of every matrix product that is made; NULL: nobody asks. */
    void (*on_product)(void *ctx, const struct fth_gemm_shape *shape);
    void *on_product_ctx;
    uint32_t row_update_tasks;       /* embedding rows (graph/rows.h): tasks of an update, its scratch */
    size_t row_update_scratch;
    size_t scratch_bytes;            /* out: per worker */
    uint32_t tasks;                  /* out: whole batch: how many tasks (fixed; by cores, never by threads) */
    void *prepared;                  /* out: owned by the plan from when it is set, ended with op->release */
};

struct fth_cost {
    double flops;       /* for the given numbers */
    double bytes;       /* read + written, each value once */
};

struct fth_op {
    const char *name;
    uint32_t min_inputs, max_inputs, n_outputs;
    fth_granularity granularity;
    int spans;              /* may run several neighbouring tiles at once: a row has the same bits beside any others */
    int inputs_transposed;  /* bit i: input i is a parameter read by its transposed copy */
    int inputs_in_panels;   /* bit i: where input i is a parameter in panels, its rows are neither read nor written */
    int fp32;               /* its matrix products are fp32 in every precision */
    /* Checks the inputs' shapes and makes the outputs (fth_graph_output). */
    fth_status (*shape)(fth_graph *graph, struct fth_node *node, fth_error *err);
    /* Appends backward nodes. d_outputs[i]: gradient of output i or FTH_NONE. Sets d_inputs[i] for
     * inputs that need one (value.needs_gradient). NULL: no gradient goes through. A parameter's gradient
     * is FTH_WHOLE of its shape or FTH_TILES [tiles, rows * columns]. */
    fth_status (*gradient)(fth_graph *graph, const struct fth_node *node, const fth_id *d_outputs,
                           fth_id *d_inputs, fth_error *err);
    /* The embedding op alone: rows are trained, so its output needs a gradient. */
    int trains_rows;
    /* The loss alone: backward begins here, its gradient rule needs no d_outputs. */
    int begins_backward;
    /* FLOPs are made for rows alone whose label and weight are above 0: `cost` counts all rows. */
    int only_positive;
    /* Optional. */
    fth_status (*prepare)(struct fth_prepare *prepare, fth_error *err);
    void (*release)(void *prepared);
    /* FLOPs and bytes for `examples` examples with `positions` ragged positions in all. */
    void (*cost)(const fth_graph *graph, const struct fth_node *node, double examples, double positions,
                 struct fth_cost *out);
    void (*print)(const struct fth_node *node, struct fth_text *out); /* attributes; NULL none */
    void (*run)(const struct fth_run *run); /* one tile, with `spans` some, or one task */
};

/* What autodiff itself writes where gradients of one value meet: the sum of two equal shapes; the same for
 * parameter gradients (FTH_WHOLE or FTH_TILES); and columns put side by side into zeros, pieces that
 * overlap being added (gradients of views). */
extern const struct fth_op fth_op_add, fth_op_add_whole, fth_op_add_columns;

/* add_whole: of the parameter */
struct fth_add_whole_attributes {
    uint32_t rows, columns;
};
/* add_columns: input i is added to columns [offsets[i], + its columns) of `columns`. */
struct fth_add_columns_attributes {
    uint32_t columns;
    uint32_t offsets[];
};

#endif
