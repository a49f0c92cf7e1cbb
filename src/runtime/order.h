/* In which order the tasks of a whole-batch phase are taken: those that take long first, dealt to the workers so that all
 * end at about the same time; the others behind them, in the order of their numbers. Weight gradients are cut into few
 * large blocks, and two of them at the end of one worker's run are waited for. Tasks tell in the first runs how long they
 * take, and again from time to time. No result depends on it: what a task makes, whoever runs it and when, has the same bits.
 *
 * Threads: between runs the caller's; in a run any number may read it, and each task's time is written by who runs it. */
#ifndef FTH_RUNTIME_ORDER_H
#define FTH_RUNTIME_ORDER_H

#include <stdint.h>

#include "base/error.h"

struct fth_order {
    uint32_t tasks, workers;
    uint32_t *task; /* [tasks] the one to be taken at this place of fth_pool_for's */
    uint64_t *ns;   /* [tasks] the least of the runs that were measured */
    struct fth_order_share {
        uint64_t ns;
        uint32_t next, end; /* places */
    } *shares; /* [workers] used while tasks are dealt */
    uint32_t runs;
    int measured; /* this run is */
};

/* Owned: fth_order_free (of zeros: nothing to do). Fails for want of memory. */
fth_status fth_order_make(uint32_t tasks, uint32_t workers, struct fth_order *out, fth_error *err);
void fth_order_free(struct fth_order *order);

/* Before and after each run. */
void fth_order_begin(struct fth_order *order);
void fth_order_end(struct fth_order *order);

static inline void fth_order_took(struct fth_order *order, uint32_t task, uint64_t ns) {
    if (ns < order->ns[task])
        order->ns[task] = ns;
}

#endif
