/* What a session is made of; only train/ includes this.
 *
 * A batch's way through it: data/reader gives a batch (feature/ applied) -> embedding prepares its rows ->
 * runtime/plan runs forward, backward and update -> every so often evaluation, checkpoint. */
#ifndef FTH_TRAIN_SESSION_PRIVATE_H
#define FTH_TRAIN_SESSION_PRIVATE_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/reader.h"
#include "embedding/embedding.h"
#include "fathom/session.h"
#include "feature/program.h"
#include "graph/graph.h"
#include "kernels/gemm.h"
#include "runtime/plan.h"

/* Wall time of the training thread, by what it did (nanoseconds). */
struct fth_session_times {
    uint64_t room;       /* taking the memory of expected rows */
    uint64_t wait;       /* for the next batch: reading and parsing not hidden behind training */
    uint64_t parse;      /* reading's rounds on the training threads */
    uint64_t lookup;     /* finding the batch's rows */
    uint64_t step;       /* forward, backward, updates; split by phase in the plan */
    uint64_t evaluate;
    uint64_t checkpoint;
    uint64_t total;
};

/* What moves a task's logit as a whole (fth_layer_output_bias); parameter FTH_NONE: nothing does. */
struct fth_output_bias {
    fth_id parameter;
    uint32_t column;
};

struct fth_session {
    fth_config *config;
    int training;   /* fth_session_train is running */
    int shape_only; /* nothing was learned from data: only the graph is of use */
    int weights_only; /* tables have no optimizer slots */
    /* data */
    const char *const *columns; /* csv, criteo: names in cell order; borrowed from the set or the config */
    size_t n_columns;
    struct fth_strings labels; /* columns, of several tasks; in the configuration's arena */
    fth_data_set *train_set; /* NULL until training data is needed */
    uint64_t *file_starts;   /* [files + 1] bytes before each training file; NULL: not known */
    fth_feature_program *program;
    fth_side_table **side_tables; /* [features.n_derived], of joins; NULL until lines are read */
    /* model */
    fth_graph *graph;
    struct fth_output_bias *output_biases; /* [tasks], in the graph's arena */
    const struct fth_optimizer *dense_optimizer;
    fth_parameters *parameters;
    fth_embedding *embedding; /* NULL: a model without tables */
    fth_tuning *tuning;       /* NULL: built in */
    /* machine */
    fth_pool *pool;
    fth_plan *train_plan, *eval_plan; /* made when first needed */
    /* where training stands: what a checkpoint holds besides tensors */
    uint64_t step;
    struct fth_position position; /* feature_state owned by the session */
    fth_evaluation *evaluations;  /* [FTH_EVALUATIONS][tasks] */
    double best_metric;
    uint64_t best_step, evaluations_without_better;
    uint64_t held_out_seen;  /* data.valid's files at the last evaluation, hashed; 0 none */
    uint64_t best_evaluated; /* the step that evaluations[FTH_EVALUATION_BEST] are of; 0 none */
    int stopped_early;
    enum fth_evaluation_due evaluation_due; /* and not made */
    double earlier_seconds; /* trained before this session (resumed) */
    /* what the order of a shuffle block that was begun follows from */
    uint64_t begun_seed;
    int64_t begun_shuffle;
    char made_by[24]; /* the version of Fathom that wrote the checkpoint that was opened; "" none, or saved since */
    int same_dir; /* checkpoint.dir is the checkpoint's own setting */
    struct fth_data_file *data; /* [n_data] as the checkpoint that was opened knows them; in the configuration's arena */
    uint32_t n_data;
    struct fth_difference other; /* by which training goes on otherwise than the checkpoint's did; key "": as it did */
    char *checkpoint_path; /* the training's own */
    int unsaved;           /* steps were made since then */
    char *copy_path;       /* saved since then, into another directory; NULL none */
    atomic_int interrupted;
    int wake; /* eventfd that ends a wait for a pipe's next bytes; -1 none */
    /* reports */
    int warned; /* of vocabularies in which hardly a text is found */
    int warned_moved;
    uint8_t *labels_seen; /* [tasks] 1: a 0 was there, 2: a 1 */
    uint64_t labels_noted; /* examples that these are of */
    int labels_warned;
    uint8_t *indicators_seen; /* of each indicator: 1: a value was there */
    uint8_t *lists_seen; /* [n_groups] 1: a list of several values was there */
    struct fth_session_times times;
    uint64_t examples, keys, unique_rows;
    uint64_t parse_ns, read_ns, bytes_read, direct_bytes;
};

/* resume.c: overrides against the checkpoint's own configuration. Refused (FTH_E_CONFIG): those of keys that say what its
 * weights mean. */
fth_status fth_resume_check_meaning(const fth_config *own, const fth_config *now, const char *checkpoint,
                                    fth_error *err);
/* Warns where what is held out now was trained on before. */
void fth_resume_warn_held_out(const fth_config *own, const fth_config *now, const char *checkpoint);
/* Warns where products were of another precision: it decides the bits, and more, of what is learned from here on. */
void fth_resume_warn_precision(const fth_config *own, const fth_config *now, const char *checkpoint);

/* Whether data.train stands for the files that it did when the checkpoint was saved, by their names, sizes, times. */
int fth_resume_trains_on_same(const struct fth_session *session, const fth_config *before);
/* Whether the same examples are held out, by the configurations. */
int fth_resume_holds_out_same(const fth_config *before, const fth_config *now);
/* Warns, once, where lines are held out by their numbers and files that the checkpoint knows have other lines before
 * them now. */
void fth_resume_warn_moved(struct fth_session *session, const fth_data_set *set);

/* Whether files that the checkpoint was trained on are other ones now. */
int fth_resume_data_changed(const struct fth_session *session);
/* Whether the next example is the first of an epoch. */
int fth_resume_epoch_begins(const struct fth_session *session);
/* Where it does not: what is left of the epoch is given up, and 1 returned. Early stopping begins to count anew. */
int fth_resume_begin_epoch(struct fth_session *session);
/* Before training: warns where it goes on within an epoch whose files are not those that were read before. */
void fth_resume_warn_data(const struct fth_session *session);

/* join.c: gives the program its side tables, which are read when they are first needed. */
fth_status fth_session_join(struct fth_session *session, fth_feature_program *program, fth_error *err);
void fth_session_drop_joins(struct fth_session *session);

/* base_rate.c: finds them in the graph that the model has built. */
fth_status fth_session_find_output_biases(struct fth_session *session, fth_error *err);
/* Before the first step, on its batch: model.base_rate. */
fth_status fth_session_begin_at_base_rate(struct fth_session *session, const struct fth_batch *batch, fth_error *err);

/* numbers.c: warns of columns of large numbers, by the first batch. */
void fth_session_warn_numbers(const struct fth_batch *batch);

/* vocabulary.c: reads the vocabulary files of the session's program. */
fth_status fth_session_vocabularies(struct fth_session *session, fth_error *err);
/* After lines have run through the program: warns, once a session, of vocabularies in which hardly a text was found. */
void fth_session_warn(struct fth_session *session, const fth_feature_program *program);

/* labels.c: warns at the end of the first epoch, once a session, of a task whose labels were all alike. program: that the
 * epoch was read by. */
void fth_session_note_labels(struct fth_session *session, const struct fth_batch *batch);
void fth_session_warn_labels(struct fth_session *session, const fth_feature_program *program);
void fth_session_warn_evaluated(const struct fth_session *session, const fth_evaluation *all);

/* indicators.c: warns, beside the labels, of those of which no value was met. */
void fth_session_note_indicators(struct fth_session *session, const struct fth_batch *batch);
void fth_session_warn_indicators(const struct fth_session *session);

/* lists.c: likewise of lists of which none has several values, or which all are in brackets. */
void fth_session_note_lists(struct fth_session *session, const struct fth_batch *batch);
void fth_session_warn_lists(const struct fth_session *session, const fth_feature_program *program);

/* build.c: program -> graph -> parameters, embedding, pool. */
fth_status fth_session_build(struct fth_session *session, fth_error *err);
/* Examples of a tile on a machine of so many cores, 0: this one. */
uint32_t fth_session_tile(const struct fth_session *session, uint32_t cores);
void fth_session_plan_options(const struct fth_session *session, int training,
                              struct fth_plan_options *out);
/* Before the first step of training: memory for embedding.expected_rows. */
fth_status fth_session_make_room(struct fth_session *session, fth_error *err);
/* Makes the plan if it is not there. */
fth_status fth_session_plan(struct fth_session *session, int training, fth_plan **out, fth_error *err);
/* Whether an optimisation is switched on (config `without`). */
int fth_session_with(const struct fth_config *config, const char *name);

#define FTH_DIVERGED_ADVICE                                                                                         \
    "a smaller learning rate (optimizer.dense.lr, optimizer.sparse.lr), train.clip_norm, or log1p, clip or "        \
    "standardise on large numeric columns would help"

/* step.c: one training step on a batch; counts it, but not where the data stands. filler: as in struct fth_step. */
fth_status fth_session_step(struct fth_session *session, fth_plan *plan, const struct fth_batch *batch,
                            const struct fth_filler *filler, double *loss, fth_error *err);

/* read.c: columns of the data, the training set, learning from its head, programs for other files.
 * FROM_DATA: a header's, where there is one. FROM_CONFIG: data.csv.columns, or where there is a header those that the
 * configuration names. FROM_NAMES: these always, as files that a checkpoint is to predict may lack label, weight and
 * query, whatever data.csv.columns says of them. */
enum fth_columns_from { FTH_COLUMNS_FROM_DATA, FTH_COLUMNS_FROM_CONFIG, FTH_COLUMNS_FROM_NAMES };
fth_status fth_session_columns(struct fth_session *session, enum fth_columns_from from, fth_error *err);
fth_status fth_session_train_set(struct fth_session *session, fth_error *err);
/* Warns of a file that data.train names twice, or that data.valid names, too. The training set is open. */
void fth_session_warn_files(struct fth_session *session);
fth_status fth_session_learn(struct fth_session *session, fth_error *err);
/* How much of the epoch's bytes lie behind the position, 0..1; -1 where that is not known (compressed files,
 * pipes). */
double fth_session_epoch_fraction(const struct fth_session *session);
/* With the session's seed and labels; an interruption ends its waits. */
fth_status fth_session_open_set(struct fth_session *session, const struct fth_data_set_options *options,
                                fth_data_set **out, fth_error *err);
/* A program for a set's columns with the session's learned state. labels 0: for prediction. */
fth_status fth_session_program_for(struct fth_session *session, const fth_data_set *set, int labels,
                                   fth_feature_program **out, fth_error *err);

/* What the session's evaluations are of. */
enum { FTH_EVALUATION_ASKED, FTH_EVALUATION_LAST, FTH_EVALUATION_BEST, FTH_EVALUATIONS };
static inline uint32_t fth_session_tasks(const struct fth_config *config) {
    return config->n_tasks ? config->n_tasks : 1;
}
/* All tasks' evaluations of one of these, hung together; the session's. */
fth_evaluation fth_session_evaluation(const struct fth_session *session, int which);

/* session.c: refuses a session that is for its shape only. */
fth_status fth_session_needs_data(const struct fth_session *session, fth_error *err);
/* evaluate.c: whether the file can be read once only: "-", or no regular one that is there. */
int fth_session_is_pipe(const char *path);
/* session.c: refuses a session that only evaluates and predicts. */
fth_status fth_session_needs_slots(const struct fth_session *session, fth_error *err);
/* session.c: before anything waits for it: of an epoch after `before` the pipe has no more. */
fth_status fth_session_check_piped(const fth_config *config, uint64_t before, fth_error *err);

/* evaluate.c: the held-out part, as the training position's statistics see it. */
int fth_session_has_held_out(const struct fth_session *session);
/* Whether data.valid's files open and have the columns, before anything is trained; pipes are left alone. */
fth_status fth_session_check_held_out(struct fth_session *session, fth_error *err);
/* FTH_E_INTERRUPTED: the session was, between two batches. */
fth_status fth_session_evaluate_held_out(struct fth_session *session, fth_evaluation *out,
                                         fth_error *err);

/* forward.c: the model over data. `labels`: they are read. Close whatever open returns; `out`: zeros. */
struct fth_forward {
    struct fth_session *session; /* borrowed */
    fth_data_set *set;
    fth_feature_program *program;
    fth_feature_pass *pass;
    fth_reader *reader;
    struct fth_filler filler; /* the reader's */
};
/* A batch and its logits [n][ld], a column a task. */
typedef fth_status fth_forward_use(void *ctx, const struct fth_batch *batch, const float *logits, uint32_t ld,
                                   fth_error *err);
fth_status fth_forward_open(struct fth_session *session, const struct fth_data_set_options *options,
                            int labels, struct fth_forward *out, fth_error *err);
fth_status fth_forward_batches(struct fth_forward *forward, fth_forward_use *use, void *ctx,
                               fth_error *err);
void fth_forward_close(struct fth_forward *forward);

/* directory.c: whether the session's own checkpoint lies in `dir`, however the two are written. */
int fth_session_owns_directory(const struct fth_session *session, const char *dir);
/* checkpoint.dir, if one is set, is made, locked (*lock is a file to be closed after training; left as it is where there
 * is no directory) and refused where it holds another run's checkpoints. */
fth_status fth_session_take_directory(struct fth_session *session, int *lock, fth_error *err);
/* Before a save: locks what is at its path now, where that is another directory. */
fth_status fth_session_keep_directory(const struct fth_session *session, int *lock, fth_error *err);
/* Whether the training saves into `dir`, or nowhere. */
int fth_session_saves_into(const struct fth_session *session, const char *dir);
/* For one save into `dir`: made and locked likewise, unless a training of the session has it. */
fth_status fth_session_lock_directory(const struct fth_session *session, const char *dir, int *lock, fth_error *err);
/* Refuses what fth_session_take_directory would refuse now, and changes nothing. */
fth_status fth_session_ask_directory(const struct fth_session *session, fth_error *err);

/* train.c: whether all epochs or steps are done, or training stopped early. */
int fth_session_is_finished(const struct fth_session *session);

/* train.c: behind what a request to stop was for (training, evaluation, prediction), not before, so that one that came
 * early is heard. Within a training it is the training's. */
void fth_session_interrupt_heard(struct fth_session *session);

/* session.c: bytes of dense parameters and tables. */
uint64_t fth_session_model_bytes(const struct fth_session *session);

/* save.c */
/* The checkpoint that the session has gone on from, and has not trained since, gets its state as it is now, unless settings
 * are others than that run's. *changed: whether it had another. */
fth_status fth_session_amend(struct fth_session *session, int *changed, fth_error *err);
/* keep, best, replace: as fth_checkpoint_save's. */
fth_status fth_session_write(struct fth_session *session, const char *dir, int64_t keep, uint64_t best, int replace,
                             fth_error *err);
fth_status fth_session_restore(struct fth_session *session, fth_checkpoint *checkpoint, fth_error *err);
/* Copies a batch's position (and its feature state) as the session's. */
fth_status fth_session_set_position(struct fth_session *session, const struct fth_position *position,
                                    fth_error *err);


#endif
