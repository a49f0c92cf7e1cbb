/* A training under way: train.c goes from step to step, keep.c evaluates and saves between them. */
#ifndef FTH_TRAIN_LOOP_PRIVATE_H
#define FTH_TRAIN_LOOP_PRIVATE_H

#include "train/session_private.h"

/* What one fth_session_train keeps in hand. */
struct fth_loop {
    struct fth_session *session;
    const struct fth_callbacks *callbacks;
    fth_training *result;
    uint64_t begun, counted; /* counted: up to when times.total is right */
    /* steps */
    fth_reader *reader;
    fth_feature_program *program; /* for the training files' columns */
    fth_feature_pass *pass;
    fth_plan *plan;
    struct fth_filler filler; /* the reader's */
    uint64_t last_report;
    double loss_sum; /* since the last progress report */
    uint64_t loss_steps;
    uint64_t examples_begun;
    int whole_epoch;      /* this call has read the epoch from its beginning */
    uint64_t epoch_begun; /* position.examples_seen there */
    uint64_t steps_here;  /* made by this call */
    int told_rate, told_memory;
    /* evaluations and checkpoints */
    int has_held_out, evaluated;
    uint64_t evaluated_step; /* of the last evaluation */
    uint64_t last_save;
    int saved, best_unsaved;
    uint64_t saved_step;
    enum fth_evaluation_due saved_due; /* as saved */
    int lock; /* on checkpoint.dir; -1: none */
};

/* Before a callback, too, which may ask for fth_session_report. */
void fth_loop_count_time(struct fth_loop *loop);

/* An evaluation on held-out data, which may stop the training early. What was trained is not lost where the data cannot be
 * read: it is saved, and the checkpoint knows what is still due. */
fth_status fth_loop_evaluate(struct fth_loop *loop, enum fth_evaluation_due due, fth_error *err);
/* The evaluation that the run before this one left to it. */
fth_status fth_loop_make_up(struct fth_loop *loop, fth_error *err);

/* Nothing without checkpoint.dir, or where the state is on disk already. */
fth_status fth_loop_save(struct fth_loop *loop, fth_error *err);
/* Where nothing is left to do: what a killed save left unfinished goes, if checkpoint.dir is this session's and no other
 * run has it. */
void fth_loop_tidy(const struct fth_session *session);
/* By steps or minutes, or as the best model of all. */
fth_status fth_loop_save_if_due(struct fth_loop *loop, fth_error *err);

/* warn.c: tables that near their limit, or the machine's; at its end, a training of a few large batches. */
void fth_loop_warn_memory(struct fth_loop *loop);
void fth_loop_warn_few_steps(const struct fth_loop *loop);

#endif
