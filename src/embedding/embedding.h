/* Embedding tables, packed: tables of one dimension and optimizer share a pack:
 * one index, one slab of rows, one operation a step for all their fields.
 *
 * A batch's way: fth_embedding_prepare finds (training: makes) the row of every key of the batch,
 * unique rows known as a side result; the step gathers from them (graph/rows.h); the update tasks
 * sum gradients per unique row in a fixed order and apply the row optimizer in one pass.
 *
 * Row r of a pack, contiguous:        | dim weights | slot 0 | slot 1 |   the same of every other table that is
 * looked up by the same keys (place.c); padded to a multiple of 4 floats, from 16 floats on to a cache line, to half
 * a line where its meta ends it (shard.h). In the padding or beside it: key, frequency, last step, table number.
 *
 * Invariants: a row's first value is a draw of (seed, table, key); row numbers decide nothing; the
 * order of rows in a checkpoint is the same at any thread count. Memory is reserved as address
 * space and backed on first touch; the bytes in use never pass memory_limit (FTH_E_LIMIT names
 * table and limit).
 *
 * Admission: a key of a table with min_count (the largest of its lookups') is a candidate, counted
 * and reading zeros, until its occurrences, those of the current batch included, reach min_count;
 * then it has a row for the whole of that batch, and its count so far is the row's frequency.
 *
 * Once all keys of a batch are known, and no batch is larger than those before, nothing is
 * allocated and the system is not called. New keys take memory when an index or list doubles; the
 * old and new index of a shard, a 64th of a pack, then live together for a moment beyond
 * memory_limit, as do the arrays of the batch itself.
 *
 * Threads: prepare runs on the pool and belongs to one thread; see graph/rows.h for the rest. */
#ifndef FTH_EMBEDDING_EMBEDDING_H
#define FTH_EMBEDDING_EMBEDDING_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/text.h"
#include "base/thread.h"
#include "config/config.h"
#include "core/batch.h"
#include "graph/graph.h"
#include "graph/rows.h"
#include "optim/optim.h"

typedef struct fth_embedding fth_embedding;

struct fth_embedding_options {
    const struct fth_lookup *lookups; /* borrowed during create only */
    uint32_t n_lookups;
    const struct fth_embedding_config *config;    /* copied */
    const struct fth_optimizer_config *optimizer; /* the sparse one; copied */
    const struct fth_optimizer_config *linear;    /* of linear terms (fth_lookup.zero_init); NULL: the same; copied */
    uint64_t seed;
    uint32_t max_batch;
    int packing; /* 0: every table a pack of its own (--without packing): the same rows */
    int norms;   /* gradient_squares is going to be asked for (clipping by norm) */
};

fth_status fth_embedding_create(const struct fth_embedding_options *options, fth_embedding **out,
                                fth_error *err);
void fth_embedding_destroy(fth_embedding *embedding); /* NULL-safe */

/* For people: which tables lie together, and which share rows. */
void fth_embedding_print(const fth_embedding *embedding, struct fth_text *out);

/* Finds the rows of the batch's keys. training: missing rows are made (subject to admission),
 * frequency and last step (= step) are kept (by the update tasks, which every prepared batch has to be given to; by
 * this where fth_rows.frequencies is asked, fth_lookup.counted); otherwise nothing changes and a key without a row
 * reads zeros. The batch is borrowed until the next prepare. After a failure no batch is prepared
 * (gathering writes nothing, update tasks do nothing) and the tables are whole: rows made before
 * it have frequency 0. */
fth_status fth_embedding_prepare(fth_embedding *embedding, fth_pool *pool,
                                 const struct fth_batch *batch, int training, uint64_t step,
                                 fth_error *err);
/* The step's optimizer arguments for the following updates; linear: of linear terms, NULL the same. */
void fth_embedding_set_args(fth_embedding *embedding, const struct fth_opt_args *args,
                            const struct fth_opt_args *linear);
/* For the runtime; borrowed until destroy. */
const struct fth_rows *fth_embedding_rows(fth_embedding *embedding);

/* ---- what is inside: checkpoints, inspect. Tables of one dimension and optimizer are shown as a pack, those that
 * share rows with others each on their own; a row's bytes beside the tables' floats count with the largest one. ---- */
struct fth_pack_info {
    uint32_t dim, n_slots, n_tables;
    const char *const *table_names;
    const char *const *slot_names;
    const uint32_t *slot_columns; /* dim, or 1 for rowwise slots */
    uint64_t rows;                /* admitted */
    uint64_t candidates;          /* keys counted but not yet admitted */
    uint64_t bytes;               /* in use: slab, metadata, index, candidates */
};
uint32_t fth_embedding_packs(const fth_embedding *embedding);
void fth_embedding_pack_info(const fth_embedding *embedding, uint32_t pack,
                             struct fth_pack_info *out);
/* Unique rows and keys looked up in the last prepare. */
void fth_embedding_last_batch(const fth_embedding *embedding, uint64_t *keys,
                              uint64_t *unique_rows);

/* Rows in checkpoint order, copied out column-wise: up to `max` from row `first` on; returns how
 * many. Between steps any number of threads may copy out. keys are the batch's keys. Any array may be NULL. weights [n][dim], slots[i]
 * [n][slot_columns[i]]. */
struct fth_row_arrays {
    uint64_t *keys;
    uint32_t *tables;
    float *weights;
    float *slots[FTH_MAX_SLOTS];
    uint64_t *frequency;
    uint64_t *last_step;
};
uint64_t fth_embedding_export(const fth_embedding *embedding, uint32_t pack, uint64_t first,
                              uint64_t max, const struct fth_row_arrays *arrays);
uint64_t fth_embedding_export_candidates(const fth_embedding *embedding, uint32_t pack,
                                         uint64_t first, uint64_t max, uint64_t *keys,
                                         uint32_t *tables, uint64_t *counts);
/* Adds rows, by one thread or by several, each with shards of its own: of the rows those whose keys are in shards whose
 * bits are set. Row i's table is tables[arrays->tables[i]]; keys and tables are needed. A row that is there already is
 * overwritten; where another array is NULL, a new row has its first values and an old one keeps its own. Importing in the
 * order of an export gives that order again. A batch that was prepared before is to be prepared again. Where the answer is
 * FTH_E_LIMIT, fth_embedding_import_limit says why, when all threads have ended. */
struct fth_embedding_table {
    uint32_t pack, table;
};
fth_status fth_embedding_import_shards(fth_embedding *embedding, const struct fth_embedding_table *tables, uint64_t shards,
                                       uint64_t n, const struct fth_row_arrays *arrays, fth_error *err);
fth_status fth_embedding_import_limit(const fth_embedding *embedding, fth_error *err);
/* Before so many keys, rows and candidates of a pack, are imported: its index need not grow again and again. */
void fth_embedding_reserve(fth_embedding *embedding, uint32_t pack, uint64_t keys);
/* Before training: memory and indices for so many rows, embedding.expected_rows, shared out among packs as tables are; the
 * pool touches pages until `stop` (or NULL) is not 0. What is there already stays. FTH_E_CONFIG: more than memory_limit or
 * the machine allows; nothing is done then. */
fth_status fth_embedding_expect(fth_embedding *embedding, fth_pool *pool, uint64_t rows, const atomic_int *stop,
                                fth_error *err);
uint32_t fth_embedding_shard(const fth_embedding *embedding, struct fth_embedding_table table, uint64_t key); /* 0 to 63 */
fth_status fth_embedding_import_candidates(fth_embedding *embedding, uint32_t pack, uint64_t n,
                                           const uint64_t *keys, const uint32_t *tables,
                                           const uint64_t *counts, fth_error *err);

#endif
