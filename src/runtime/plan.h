/* Planning and running a graph on this machine.
 *
 * The planner cuts the graph into phases. In a tile phase one worker carries a tile of examples through
 * all the phase's nodes while the tile's values stay in its own scratch; in a whole-batch phase the nodes'
 * tasks are shared out over the workers. A value lives in scratch when one tile phase makes and reads it,
 * else in a buffer for the whole batch. Tile size and tasks depend on the machine's cores, never on the number of
 * workers: every worker count gives the same bits. How many tiles a worker carries together, a span, does depend on
 * it (`fth_op.spans`): products read their weights once for all of them.
 *
 *   (whole)   what is made of parameters alone (attention_weights); rarely there
 *   (tiles)   embedding, linear, ..., bce, ..., gradients of the data
 *   (whole)   blocks of the weight gradients with their updates, sums over tiles, rows
 *   ...       more pairs where an operation needs the whole batch (batch norm, clipping)
 *
 * Threads: create and run from one thread; running uses the pool. Nothing is allocated and no system call
 * is made in fth_plan_run but the pool's waiting. */
#ifndef FTH_RUNTIME_PLAN_H
#define FTH_RUNTIME_PLAN_H

#include "base/perf.h"
#include "base/thread.h"
#include "core/batch.h"
#include "graph/op.h"
#include "graph/rows.h"
#include "runtime/parameters.h"

typedef struct fth_plan fth_plan;

struct fth_plan_options {
    uint32_t max_batch;         /* examples */
    uint32_t tile;              /* examples; 0: fth_plan_tile's rule */
    uint32_t span;              /* most tiles that a worker takes together (tests); 0: where products take tiles
                                 * (kernels/tiles.h) as many as these want and each worker gets, else 1 */
    const uint32_t *group_max;  /* [n_groups] most positions an example has; borrowed during create */
    uint32_t n_groups;
    int training;               /* 0: forward nodes only */
    int precision;              /* fth_precision */
    const struct fth_tuning *tuning;       /* NULL: built in; borrowed for the plan's life */
    const struct fth_optimizer *optimizer; /* dense */
    /* Told during create of every matrix product's shape (`fathom tune`); NULL: nobody asks. */
    void (*on_product)(void *ctx, const struct fth_gemm_shape *shape);
    void *on_product_ctx;
    uint32_t workers;
    uint32_t cores;             /* the machine's: into how small tiles and tasks work is cut; 0: as on up to two */
    uint32_t row_update_tasks;  /* of the embedding rows (graph/rows.h); 0 without rows */
    size_t row_update_scratch;
};

/* 64 examples (measured best; up to a sixteenth of the batch where fth_gemm_cut asks for more; on more than eight cores 32 of
 * a batch below 1024), fewer (down to 8) where the graph has values for the positions of examples that carry many: about
 * 1024 positions where nodes hand such values on to each other, so that they stay in the L2 cache (2048 with recurrent
 * layers, of which a time step is a product of a tile's examples); 4096 where they are only kept (attention_unit), so that
 * sums over tiles have few parts.
 * More than 128 only where what layers read and make of them stays below 5 MB. At least 32, and a multiple of it, where
 * products take tiles (kernels/tiles.h). Passes that do not round do not change it.
 * precision: fth_precision; batch: the most examples of one; cores: as in the options. */
uint32_t fth_plan_tile(const fth_graph *graph, const uint32_t *group_max, int precision, uint32_t batch, uint32_t cores);
/* Tiles that a worker takes together where products take `wanted` examples at once: as many as that makes, however small
 * the batch, if no worker gets more than its share. */
uint32_t fth_plan_span(uint32_t wanted, uint32_t tile, uint32_t batch, uint32_t workers);

/* Graph and parameters are borrowed for the plan's life. Owned: fth_plan_destroy. */
fth_status fth_plan_create(const fth_graph *graph, fth_parameters *parameters,
                           const struct fth_plan_options *options, fth_plan **out, fth_error *err);
void fth_plan_destroy(fth_plan *plan); /* NULL-safe */

/* One run over a batch of 1 to max_batch examples. */
struct fth_step {
    const struct fth_batch *batch;
    uint32_t mean_over; /* the loss's gradient is that of the examples' sum divided by this; 0: by their number */
    const struct fth_rows *rows; /* NULL in graphs without embeddings; prepared for this batch */
    const struct fth_opt_args *opt, *opt_no_decay; /* training */
    uint64_t seed, step;
    const struct fth_filler *filler; /* of the pauses at phases' ends; NULL: none */
};
void fth_plan_run(fth_plan *plan, fth_pool *pool, const struct fth_step *step);

/* A value's memory after a run: FTH_WHOLE values, the logit, and whatever crosses phases.
 * NULL for values that only ever lived in scratch. */
const float *fth_plan_value(const fth_plan *plan, fth_id value, uint32_t *ld);

/* Wall time of the runs so far, by kind of phase: forward and data gradients (tile phases, and whole-batch ones of forward
 * nodes alone), and weight gradients and updates (the others). Nanoseconds; always counted. */
void fth_plan_times(const fth_plan *plan, uint64_t *activations, uint64_t *weights);

/* Where the time goes, node by node. Counting costs two clock readings per node and tile; off by default. */
struct fth_node_profile {
    const struct fth_node *node;
    uint32_t phase;
    uint64_t ns;          /* summed over workers and runs */
    uint64_t counters[FTH_PERF_COUNTERS]; /* the same; zeros without perf */
    struct fth_cost cost; /* summed over runs */
};
/* on: also clears. perf: an open one a worker, borrowed until off, or NULL; each node then costs two more
 * system calls. */
void fth_plan_profile(fth_plan *plan, int on, const fth_perf *perf);
uint32_t fth_plan_nodes(const fth_plan *plan);
void fth_plan_node_profile(const fth_plan *plan, uint32_t index, struct fth_node_profile *out);

/* The phases with their nodes, where values live, and bytes. */
void fth_plan_print(const fth_plan *plan, struct fth_text *out);

#endif
