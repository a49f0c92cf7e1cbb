/* A session: a model being trained, evaluated or used, made from a configuration or a checkpoint.
 *
 * Threads: a session belongs to one thread; fth_session_interrupt alone may be called from anywhere, also
 * from a signal handler. Callbacks run on the session's thread, which needs a stack of 1 MiB, as the session's own
 * threads have. From a callback the session may be looked at, evaluated, used to predict and saved; not trained, not
 * destroyed.
 *
 * Where a function fails, what its `out` points to is as it was, unless said otherwise. A session uses one thread of OpenBLAS,
 * and sets that for the process (openblas_set_num_threads). */
#ifndef FATHOM_SESSION_H
#define FATHOM_SESSION_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fathom/config.h"
#include "fathom/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fth_session fth_session;

typedef enum fth_purpose {
    FTH_FOR_ALL,
    FTH_FOR_SHAPE,    /* no data is read: graph, features and digest, no more */
    FTH_FOR_TRAINING, /* a checkpoint.dir with another run's checkpoints is refused before data is read */
} fth_purpose;

/* A new model. The configuration is copied. Reads the head of the training data where it needs it (column names, learned
 * boundaries): else files that are not there are missed by fth_session_train. Owned: fth_session_destroy. */
FTH_API fth_status fth_session_create(const fth_config *config, fth_purpose purpose, fth_session **out,
                                      fth_error *err);
/* From a checkpoint (one step-* folder or a checkpoint.dir, whose newest is taken). The configuration is the
 * checkpoint's own with `overrides` applied; overrides that change shapes, or how quantiles and vocabularies were
 * learned, are refused by name, those by which examples that were trained on are held out, and another precision, are
 * warned of. A training that stopped early goes on with other data.train, at the beginning of the next epoch. Owned:
 * fth_session_destroy. */
FTH_API fth_status fth_session_open(const char *checkpoint, const char *const *overrides,
                                    size_t n_overrides, fth_session **out, fth_error *err);
/* The same to evaluate and predict alone: the tables' optimizer slots are left on the disk (with Adagrad about half of a
 * table, with Adam two thirds). Training, saving, the next epoch and the digest then fail with FTH_E_ARGUMENT. Owned:
 * fth_session_destroy. */
FTH_API fth_status fth_session_open_to_predict(const char *checkpoint, const char *const *overrides,
                                               size_t n_overrides, fth_session **out, fth_error *err);
FTH_API void fth_session_destroy(fth_session *session); /* NULL-safe */

/* What is left of the epoch in which the checkpoint stands is given up: training goes on with the first line of the next one,
 * which train.epochs has to count, too. Early stopping begins to count anew. Nothing else changes where an epoch begins.
 * The checkpoint learns of it with the next save.
 * FTH_E_ARGUMENT: the session is training. */
FTH_API fth_status fth_session_next_epoch(fth_session *session, fth_error *err);

/* The configuration in force; borrowed for the session's life. */
FTH_API const fth_config *fth_session_config(const fth_session *session);
/* train.log_every: steps between progress lines where there is no terminal. */
FTH_API uint64_t fth_session_log_every(const fth_session *session);
/* Path of the checkpoint opened or last saved, NULL when there is none; borrowed until the next save. */
FTH_API const char *fth_session_checkpoint(const fth_session *session);

/* Progress, about ten times a second and at the end of each epoch. */
typedef struct fth_progress {
    uint64_t step, epoch, epochs, max_steps;
    uint64_t examples;       /* trained on since the session began */
    double loss;             /* mean since the last report */
    double seconds;          /* of training since the session began */
    double epoch_fraction;   /* 0..1 of this epoch's bytes, negative when unknown (standard input) */
    double learning_rate;
    uint64_t memory_bytes;   /* dense parameters and tables */
    uint64_t lines_bad;
} fth_progress;

typedef struct fth_callbacks {
    void *ctx;
    void (*progress)(void *ctx, const fth_progress *progress);
    void (*evaluated)(void *ctx, uint64_t step, const fth_evaluation *evaluation, int best);
    void (*saving)(void *ctx, uint64_t step); /* a checkpoint is about to be: what goes with it is to be there first */
    void (*saved)(void *ctx, uint64_t step, const char *path);
    /* every step's loss, in order (loss curves); may be NULL like the others */
    void (*loss)(void *ctx, uint64_t step, double loss);
} fth_callbacks;

typedef struct fth_training {
    uint64_t steps, examples, epochs;
    double final_loss;            /* mean over the last steps */
    int stopped_early, interrupted;
    int already_finished;         /* there was nothing left to do: nothing was done, nothing saved */
    int evaluated;                /* `last` and `best` are set; best: of best_step, all NAN where that was before the
                                     session was opened; of the last one where best_step is 0, as none was defined */
    fth_evaluation last, best;
    uint64_t best_step;
    uint64_t lines_bad;           /* malformed ones of these steps */
} fth_training;

/* Trains to the end of the configured epochs or steps (from where the checkpoint stands), saving as
 * configured. FTH_E_INTERRUPTED does not come from here: an interrupted run saves (if checkpoint.dir is set),
 * sets result->interrupted and returns FTH_OK. Data that cannot be read (FTH_E_DATA, FTH_E_IO) and rows
 * without room (FTH_E_LIMIT, FTH_E_MEMORY) end it, too, and what was trained until then is saved;
 * FTH_E_NUMERIC of a step does not save, that of an evaluation does. FTH_E_CHECKPOINT: checkpoint.dir holds another run's
 * checkpoints (fth_session_open goes on from them), or another run saves there now. FTH_E_ARGUMENT: called from one of its
 * own callbacks. Where the last save failed, calling it again makes it up. `callbacks` and `result` may be NULL; result
 * is filled as far as training came whatever is returned, its evaluations borrow from the session. */
FTH_API fth_status fth_session_train(fth_session *session, const fth_callbacks *callbacks,
                                     fth_training *result, fth_error *err);
/* Asks a training, an evaluation or a prediction of this session to stop: the one that runs, or else the next one.
 * A training stops after the step in progress, or in its wait for a pipe's next bytes, its evaluation behind the batch in
 * progress (a run that goes on from the checkpoint makes it anew); the others likewise, with FTH_E_INTERRUPTED.
 * Async-signal-safe. */
FTH_API void fth_session_interrupt(fth_session *session);

/* Evaluates on files (globs as in data.train); n == 0: data.test, else data.valid or the held-out part. What `out`
 * points to is the session's until it evaluates again. */
FTH_API fth_status fth_session_evaluate(fth_session *session, const char *const *files, size_t n,
                                        fth_evaluation *out, fth_error *err);

/* One probability a data line, in order, to `out` (of several tasks one each with commas between, in the configuration's
 * order), each as by "%.9g\n", but with a digit more, up to 17, for each nine that it begins with; a malformed line
 * (on_bad_line: skip) gives "nan", and so does one for which the model has no number, which is logged as a warning.
 * Labels are not needed. path: a file or a glob, "-" is standard input. Written batch by batch (train.batch_size), in the
 * end flushed. *lines (not NULL): how many were written, also when it fails; what had not been flushed then is left to
 * `out`. */
FTH_API fth_status fth_session_predict(fth_session *session, const char *path, FILE *out,
                                       uint64_t *lines, fth_error *err);

/* The same of text[0..n), which holds what such a file would (of csv the header line, too, unless data.csv.header is off;
 * it may be compressed), into memory: out[line * tasks + task], NAN where a file gets "nan". capacity: how many numbers
 * `out` has room for; FTH_E_LIMIT where there are more. A call prepares all anew (about a millisecond, more where side files
 * are read): ask for many lines at once. */
FTH_API fth_status fth_session_predict_text(fth_session *session, const char *text, size_t n, double *out,
                                            size_t capacity, uint64_t *lines, fth_error *err);

/* Writes a checkpoint into `dir`, which is made if need be, as DIR/step-N. keep: of the checkpoints there up to this one
 * the newest `keep` stay, 0 all; later ones neither count nor go. FTH_E_CHECKPOINT: another state of this step is there,
 * or a run saves there now; any failure leaves what was there. Into another directory than checkpoint.dir it is a copy:
 * training goes on, saves and resumes as if there were none. */
FTH_API fth_status fth_session_save(fth_session *session, const char *dir, int64_t keep,
                                    fth_error *err);

/* 16 hexadecimal digits over everything that training depends on. */
FTH_API fth_status fth_session_digest(fth_session *session, char out[17], fth_error *err);

/* The planned graph as text or Graphviz DOT. Owned: free(). */
FTH_API fth_status fth_session_graph(fth_session *session, int dot, char **out, fth_error *err);
/* Its features: each one's steps from text on, which of them are one pass over it, and why others are not. Owned:
 * free(). */
FTH_API fth_status fth_session_features(fth_session *session, char **out, fth_error *err);

/* Where the time of training went so far: a table for people. Owned: free(). */
FTH_API fth_status fth_session_report(const fth_session *session, char **out, fth_error *err);

#ifdef __cplusplus
}
#endif
#endif
