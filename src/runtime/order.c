/* The order of a phase's tasks: see runtime/order.h. Threads: as there. */
#include "runtime/order.h"

#include "base/memory.h"
#include "base/thread.h"

#define EVERY 256u  /* of so many runs */
#define MEASURED 4u /* are measured, behind the first, which touches memory for the first time */
#define LONG 16u    /* more than one part in so many of a worker's share is long */

void fth_order_free(struct fth_order *order) {
    fth_free(order->task);
    fth_free(order->ns);
    fth_free(order->shares);
}

fth_status fth_order_make(uint32_t tasks, uint32_t workers, struct fth_order *out, fth_error *err) {
    struct fth_order order = {.tasks = tasks,
                              .workers = workers,
                              .task = fth_alloc((size_t)tasks + 1, sizeof *order.task),
                              .ns = fth_alloc((size_t)tasks + 1, sizeof *order.ns),
                              .shares = fth_alloc(workers, sizeof *order.shares)};
    if (!order.task || !order.ns || !order.shares) {
        fth_order_free(&order);
        return fth_fail(err, FTH_E_MEMORY, "no memory to plan the graph");
    }
    for (uint32_t i = 0; i < tasks; i++)
        order.task[i] = i;
    *out = order;
    return FTH_OK;
}

void fth_order_begin(struct fth_order *order) {
    uint32_t run = order->runs++ % EVERY;
    order->measured = order->workers > 1 && run >= 1 && run <= MEASURED;
    if (run == 1)
        for (uint32_t i = 0; i < order->tasks; i++)
            order->ns[i] = UINT64_MAX;
}

#define DEALT UINT64_MAX

static uint32_t longest(const struct fth_order *order) {
    uint32_t found = 0;
    for (uint32_t i = 1; i < order->tasks; i++)
        if (order->ns[found] == DEALT || (order->ns[i] != DEALT && order->ns[i] > order->ns[found]))
            found = i;
    return found;
}

/* Of the workers that have places left the one with the least to do. */
static struct fth_order_share *least(const struct fth_order *order) {
    struct fth_order_share *found = NULL;
    for (uint32_t w = 0; w < order->workers; w++) {
        struct fth_order_share *share = &order->shares[w];
        if (share->next < share->end && (!found || share->ns < found->ns))
            found = share;
    }
    return found;
}

static void give(struct fth_order *order, struct fth_order_share *share, uint32_t task) {
    order->task[share->next++] = task;
    share->ns += order->ns[task];
    order->ns[task] = DEALT;
}

void fth_order_end(struct fth_order *order) {
    if (!order->measured || order->runs % EVERY != MEASURED + 1)
        return;
    uint64_t all = 0;
    for (uint32_t i = 0; i < order->tasks; i++)
        all += order->ns[i];
    for (uint32_t w = 0; w < order->workers; w++)
        order->shares[w] = (struct fth_order_share){.next = fth_pool_first(order->tasks, order->workers, w),
                                                    .end = fth_pool_first(order->tasks, order->workers, w + 1)};
    uint64_t part = all / order->workers / LONG;
    for (uint32_t i = 0; i < order->tasks; i++) {
        uint32_t task = longest(order);
        if (order->ns[task] == DEALT || order->ns[task] <= part)
            break;
        give(order, least(order), task);
    }
    for (uint32_t i = 0, w = 0; i < order->tasks; i++) {
        if (order->ns[i] == DEALT)
            continue;
        while (order->shares[w].next == order->shares[w].end)
            w++;
        give(order, &order->shares[w], i);
    }
}
