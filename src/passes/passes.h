/* Passes: rewrites of a graph, one file each, listed once in passes.def in the order in which they run. Each is
 * a switch (`without: [name]`) that changes no bit of the result, or only the rounding where it says so; tests
 * run graphs with and without. */
#ifndef FTH_PASSES_PASSES_H
#define FTH_PASSES_PASSES_H

#include "graph/graph.h"

enum fth_pass_when {
    FTH_PASS_FORWARD,  /* after the model is built, before autodiff */
    FTH_PASS_TRAINING, /* on the whole training graph */
};

struct fth_pass {
    const char *name;
    enum fth_pass_when when;
    int rounding; /* 1: sums run in another order, so results differ in their last bits */
    fth_status (*run)(fth_graph *graph, fth_error *err);
};

const struct fth_pass *const *fth_passes(void); /* NULL-terminated, in order */

/* Names that `without` accepts: all passes, and the switches that other parts read (tables, features). */
const char *const *fth_pass_names(void); /* NULL-terminated */

fth_status fth_passes_run(fth_graph *graph, enum fth_pass_when when, const char *const *without,
                          uint32_t n_without, fth_error *err);

#endif
