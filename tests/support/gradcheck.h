/* Gradient checks: a small graph, its backward against finite differences, several tiles against
 * one, and a step of SGD against the gradients. */
#ifndef FTH_TESTS_GRADCHECK_H
#define FTH_TESTS_GRADCHECK_H

#include "interpret.h"
#include "ops/layers.h"
#include "ops/ops.h"

/* What a case builds on. */
struct gradcheck {
    fth_graph *graph;
    int32_t group;    /* where inputs have their rows: -1 examples, 0 positions of group 0 */
    uint32_t columns; /* of the inputs, as the case likes to read it */
    uint32_t dense;   /* floats of the batch */
    fth_error err;
};

struct gradcheck_shape {
    uint32_t examples, tile, columns;
    int32_t group;
};

/* A differentiable input [., columns]: an embedding whose rows are all its own. */
fth_id gradcheck_input(struct gradcheck *check, int32_t group, uint32_t columns);

/* Builds with `build`, which returns the value whose random projection is differentiated (or sets
 * graph->logit and returns FTH_NONE: then it is the loss). `kinks`: inputs stay away from 0. Fails
 * the cmocka test. */
void gradcheck_run(const char *name, fth_id (*build)(struct gradcheck *check),
                   const struct gradcheck_shape *shape);

/* Fails for an operation of ops.def that is of `program`'s, a test program's, and that it has not run yet. */
void gradcheck_all_ran(const char *program);

/* The value of that name, a parameter; the test fails when there is none. */
fth_id gradcheck_named(const fth_graph *graph, const char *name);

#define CHECK_OK(check, call)                                                                      \
    do {                                                                                           \
        if ((call) != FTH_OK)                                                                      \
            fail_msg("%s: %s", #call, (check)->err.message);                                       \
    } while (0)

#endif
