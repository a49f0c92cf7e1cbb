/* Whole trainings for tests, through the public API: a small data set made here, a configuration for each
 * model of the zoo, runs that are stopped and resumed, and the digest in which they end.
 *
 * Threads: the test's. Everything lies in a temporary folder (temp_path of data_support.h). */
#ifndef FTH_TESTS_RUNS_H
#define FTH_TESTS_RUNS_H

#include <jansson.h>

#include "fathom/session.h"

#define RUN_LINES 1500
#define RUN_EVALUATIONS 32

/* The data set's file (made at the first call): csv with a header; label, two numbers with missing ones, three
 * categories, a history of items and their categories, and a query. The label follows the features.
 * `gzip`: the same bytes, compressed. Static string. */
const char *run_data(int gzip);

/* A configuration for `model` that uses what makes training depend on order and position: shuffling, running
 * standardisation, learned quantiles, min_count, several epochs, a held-out part and, where the model has
 * them, dropout and batch norm. Names no checkpoint.dir. Static string, until the next call. */
const char *run_config(const char *model, const char *data);

struct run {
    const char *config;            /* YAML */
    const char *overrides[16];     /* ends with NULL */
    const char *dir;               /* checkpoint.dir; NULL: none */
    uint64_t stop_after;           /* interrupted when this step is done; 0: not */
    /* results */
    fth_status status;
    fth_error error;
    fth_training training;
    uint64_t evaluated[RUN_EVALUATIONS]; /* [n_evaluated] steps whose evaluation was made */
    uint32_t n_evaluated;
    char digest[17];
};

/* Trains from the beginning, or (resume) goes on from dir's newest checkpoint. Failures are in status. */
void run_train(struct run *run);
void run_resume(struct run *run);

/* The same, and the test fails with the message when the status is not FTH_OK. */
void run_train_ok(struct run *run);
void run_resume_ok(struct run *run);

/* A Wide & Deep of run_data(0) that trained into `dir` and was interrupted after this step, to be gone on with. */
struct run run_stopped(const char *dir, uint64_t after);
/* Going on is refused with this status and a message that has `part` in it, before a step is made. */
void run_refused(struct run *run, fth_status status, const char *part);

/* Writes a manifest that was changed to `path`, with the check value of what it says now. `manifest` is consumed. */
void run_write_manifest(const char *path, json_t *manifest);

/* Fails the test with the message where the call, which gives it to &err, does. */
#define OK(call)                         \
    do {                                 \
        fth_error err = {0};             \
        if ((call) != FTH_OK)            \
            fail_msg("%s", err.message); \
    } while (0)

/* A folder that does not exist yet, below the temporary one. Static until eight more calls. */
const char *run_new_dir(void);

#endif
