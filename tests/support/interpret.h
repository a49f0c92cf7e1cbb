/* A plain executor for tests: every value has memory for the whole batch, nodes run in order, tile
 * by tile or task by task, on one thread. It stands beside the real runtime as the reference, and
 * lets ops be tested alone.
 *
 * All memory starts as NaN and padding columns must still be NaN after a run, so reading what
 * nobody wrote and writing where nobody may shows. Embedding rows are plain arrays: a lookup
 * without pooling has a row of its own for every example (or position); a pooled one for every
 * position, pooling being a sum. */
#ifndef FTH_TESTS_INTERPRET_H
#define FTH_TESTS_INTERPRET_H

#include "graph/op.h"
#include "graph/rows.h"
#include "kernels/gemm.h"
#include "optim/optim.h"

#define INTERPRET_GROUPS 2
#define INTERPRET_FIELDS 16 /* `keys` are so many more than positions or examples */

struct interpret_options {
    uint32_t examples, tile, cores; /* as a plan's */
    const uint32_t *offsets[INTERPRET_GROUPS]; /* [examples + 1], from 0; NULL: no such group */
    const uint64_t *keys;                      /* of any sessions' field, one a position */
    const struct fth_keys *fields;             /* the batch's; NULL: field f has `keys` from number f on */
    const struct fth_optimizer *optimizer;     /* NULL: sgd */
    struct fth_opt_args opt, opt_no_decay;
    uint64_t seed, step;
    int evaluate; /* forward only, as in evaluation */
    int weights;  /* sample weights are given (interpret_value of graph->weight) */
    uint32_t mean_over; /* that the loss is the mean of; 0: the examples */
};

struct interpret;

/* Refused prepares and shapes fail the cmocka test. Owned: interpret_destroy. */
struct interpret *interpret_create(fth_graph *graph, const struct interpret_options *options);
void interpret_destroy(struct interpret *it);

/* Element (row, column) of a value (parameters, inputs, anything a node has written), a slot of a
 * parameter, or a lookup's row. */
float *interpret_at(struct interpret *it, fth_id value, uint32_t row, uint32_t column);
float *interpret_slot_at(struct interpret *it, fth_id value, uint32_t slot, uint32_t row,
                         uint32_t column);
float *interpret_row_at(struct interpret *it, uint32_t lookup, uint32_t row, uint32_t column);
/* Rows a value or a lookup has in this batch. */
uint32_t interpret_rows(const struct interpret *it, fth_id value);
uint32_t interpret_lookup_rows(const struct interpret *it, uint32_t lookup);
/* Makes the copies (transposed, panels) equal to the parameters (after writing to those); tells whether they
 * are. */
void interpret_refresh(struct interpret *it);
int interpret_transposed_equal(const struct interpret *it);

/* Its embedding rows as the runtime reaches them; borrowed. */
const struct fth_rows *interpret_table(const struct interpret *it);

/* The step's number for the next run. */
void interpret_set_step(struct interpret *it, uint64_t step);

/* Runs the nodes of all stages up to `last`, and checks that padding was left alone. */
void interpret_run(struct interpret *it, fth_stage last);

/* Numbers to fill values with, which depend on a name and a place alone. */
float interpret_number(const char *name, uint32_t row, uint32_t column);

/* Whether an op of this name has run in this process. */
int interpret_has_run(const char *op);

#endif
