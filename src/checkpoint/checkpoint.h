/* Checkpoints: one instant of training, on disk.
 *
 * DIR (checkpoint.dir)
 *   step-000000001200/            one checkpoint; complete as soon as it has this name
 *     manifest.json               format version, program version, digest, files with sizes and checksums, step,
 *                                 position, feature state, early stopping, seed, tuning digest
 *     config.yaml                 the full resolved configuration
 *     dense.safetensors           parameters and states, and their optimizer slots: "<name>", "<name>/<slot>"
 *     pack-0.safetensors          a pack's rows: keys, tables, weights, slots, frequency, last_step, candidates
 *     pack-0.1.safetensors ...    further shards where a pack is large
 *   .step-000000001300.tmp/       one being written; removed by the next save
 *
 * Saving writes beside, fsyncs every file and the folder, renames, fsyncs the parent, and only then removes
 * what is older than the last `keep`. kill -9 at any moment leaves the last whole one. Loading verifies every
 * checksum before anything is changed. The digest covers what training depends on (weights, slots, rows,
 * position, step), not file names or time: two checkpoints with one digest go on with the same bits.
 *
 * Threads: one at a time, but for a source's pool; no other thread may change the session meanwhile. */
#ifndef FTH_CHECKPOINT_CHECKPOINT_H
#define FTH_CHECKPOINT_CHECKPOINT_H

#include <jansson.h>

#include "base/thread.h"
#include "config/config.h"
#include "core/batch.h"
#include "embedding/embedding.h"
#include "io/io.h"
#include "runtime/parameters.h"

/* A training file as it was when it was read. */
struct fth_data_file {
    const char *name; /* NULL: not known */
    int known;        /* bytes and modified are: it was read, and is no pipe */
    uint64_t bytes;
    int64_t modified; /* seconds */
};

/* An evaluation of the held-out data that was due at the checkpoint's step and was not made: it failed, or was interrupted.
 * A run that goes on makes it first. */
enum fth_evaluation_due {
    FTH_DUE_NOTHING,
    FTH_DUE_RESULT,  /* the one behind the last step, for the result alone */
    FTH_DUE_DECISION /* one that early stopping counts */
};

/* What a checkpoint holds besides tensors. Strings and arrays are owned by whoever filled the struct:
 * for fth_checkpoint_open, the checkpoint. */
struct fth_checkpoint_state {
    uint64_t step;                  /* finished */
    uint64_t seed;
    struct fth_position position;   /* feature_state not saved here but in `features` */
    const char *config_yaml;
    json_t *features;               /* fth_feature_state_save */
    double best_metric;             /* early stopping: best value so far (NAN: none yet) */
    uint64_t best_step;
    uint64_t evaluations_without_better;
    int stopped_early;
    enum fth_evaluation_due evaluation_due;
    int finished;                   /* all epochs are done */
    double train_seconds;           /* wall time of training so far; not in the digest */
    uint64_t tuning_digest;         /* fth_tuning_digest */
    uint32_t cores;                 /* the machine's, by which tiles are cut; 0: an older checkpoint does not say */
    const char *isa;                /* instruction set that trained; not in the digest */
    const char *program;            /* version that wrote it (read only); not in the digest */
    struct fth_data_file *data;     /* [n_data] of an epoch, in their order; not in the digest. Older ones have none */
    uint32_t n_data;
};

/* Whose checkpoint it is. Rows are hashed and made ready for writing by the pool's workers, which have nothing else to do
 * meanwhile. */
struct fth_checkpoint_source {
    const fth_parameters *parameters;
    const fth_embedding *embedding; /* NULL: a model without tables */
    fth_pool *pool;
};

/* Writes DIR/step-<step> and keeps the `keep` newest (0: all) and the one of step `best`. *path_out (owned: free; may be
 * NULL) is the new checkpoint's path, set wherever there is one: also where it fails behind the rename (the folder's
 * fsync), so that what is there may not last. A full disk or any other failure leaves no partial checkpoint under a final
 * name, the earlier ones untouched, and an error that names the file, the reason and the last whole checkpoint. Where
 * another state of the step is there: FTH_E_CHECKPOINT, or with `replace` that one and all later ones, of a run that was
 * given up, become step-N.replaced-1 and so on, which nobody takes for a checkpoint, and a warning says so. One of the
 * step that cannot be read becomes that, too. */
fth_status fth_checkpoint_save(const struct fth_io *io, const char *dir, int64_t keep, uint64_t best, int replace,
                               const struct fth_checkpoint_source *source, const struct fth_checkpoint_state *state,
                               char **path_out, fth_error *err);

/* Removes what a save that was killed has left: unfinished folders, no checkpoint. What stays is warned of, once. */
void fth_checkpoint_tidy(const struct fth_io *io, const char *dir);

/* Gives the checkpoint in folder `path`, whose tensors are the source's, another state of its step: what a run that went
 * on from it decided or found out before it trained. Only the manifest is written anew, at one instant; the configuration
 * stays. *changed: whether there was anything to write. */
fth_status fth_checkpoint_amend(const struct fth_io *io, const char *path, const struct fth_checkpoint_source *source,
                                const struct fth_checkpoint_state *state, int *changed, fth_error *err);

typedef struct fth_checkpoint fth_checkpoint;

/* Opens and verifies (every file's checksum) a checkpoint: `path` is one step-* folder, or a checkpoint.dir
 * whose newest is taken. Damaged, truncated or foreign: FTH_E_CHECKPOINT says which file, what is wrong, and
 * names the newest earlier one that is whole, if there is one. Owned: fth_checkpoint_close (NULL-safe). */
fth_status fth_checkpoint_open(const struct fth_io *io, const char *path, fth_checkpoint **out,
                               fth_error *err);
void fth_checkpoint_close(fth_checkpoint *checkpoint);

/* Opens it for `fn`. Where `fn` cannot read a file and there is a later one in this checkpoint.dir (a run saves there and
 * removes what it read), that is opened and `fn` called again. */
fth_status fth_checkpoint_read(const struct fth_io *io, const char *path,
                               fth_status (*fn)(void *ctx, fth_checkpoint *checkpoint, fth_error *err), void *ctx,
                               fth_error *err);

/* Path (owned: free) and step of the newest step-* folder in DIR, NULL when there is none or no DIR. */
fth_status fth_checkpoint_newest(const struct fth_io *io, const char *dir, char **out, uint64_t *step, fth_error *err);

const char *fth_checkpoint_path(const fth_checkpoint *checkpoint);
const struct fth_checkpoint_state *fth_checkpoint_state(const fth_checkpoint *checkpoint);
/* 16 hexadecimal digits. */
const char *fth_checkpoint_digest(const fth_checkpoint *checkpoint);

/* The digest that a checkpoint of this state would have, without writing one. */
fth_status fth_checkpoint_digest_of(const struct fth_checkpoint_source *source, const struct fth_checkpoint_state *state,
                                    char out[17], fth_error *err);

/* Copies everything into parameters and embedding made from the checkpoint's configuration (or one that
 * differs only in what does not change shapes). A tensor that is missing, left over or of another shape is
 * refused by name before anything is written. weights_only: rows' slots are not read, whatever they are, and
 * the embedding has none. Rows are read by the pool's workers. */
fth_status fth_checkpoint_restore(fth_checkpoint *checkpoint, fth_pool *pool, fth_parameters *parameters,
                                  fth_embedding *embedding, int weights_only, fth_error *err);

/* Tables, rows, dimensions, bytes, norms, the `top` rows by frequency: a report for people. Owned: free(). */
fth_status fth_checkpoint_report(fth_checkpoint *checkpoint, uint32_t top, char **out, fth_error *err);

#endif
