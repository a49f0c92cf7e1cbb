/* Worker pool and bounded queue.
 *
 * A pool has `size` workers, the caller being worker 0. Workers spin for a short while
 * for the next job and then sleep on a futex; with more workers than CPUs they sleep at once.
 * Nothing is allocated after creation. */
#ifndef FTH_BASE_THREAD_H
#define FTH_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"

/* pthread_create with a stack that a matrix product of libxsmm fits into (it takes 150 KB), however low the limit is that
 * decides otherwise (ulimit -s). */
int fth_thread_create(pthread_t *thread, void *(*fn)(void *arg), void *arg);

typedef struct fth_pool fth_pool;

#define FTH_MAX_WORKERS 32767 /* workers */

/* size: 1 to FTH_MAX_WORKERS. Owned: fth_pool_destroy (NULL-safe; waits for the workers). */
fth_status fth_pool_create(uint32_t size, fth_pool **out, fth_error *err);
void fth_pool_destroy(fth_pool *pool);
uint32_t fth_pool_size(const fth_pool *pool);

/* Runs fn(arg, worker) once on every worker and returns when all have returned. Not reentrant. */
void fth_pool_run(fth_pool *pool, void (*fn)(void *arg, uint32_t worker), void *arg);

/* Runs fn(arg, worker) on the caller, and once on every other worker that comes before the caller's has returned; returns
 * when all these have. For work that whoever is there can do. */
void fth_pool_share(fth_pool *pool, void (*fn)(void *arg, uint32_t worker), void *arg);

/* Runs fn(arg, task, worker) for every task in [0, tasks), each exactly once, workers taking the next
 * task of their own run of them, so that a task of the same number finds its memory in the same core's
 * cache time after time, then of others'. Which worker runs a task is not determined: fn's result may
 * depend on `task` only; `worker` is for scratch memory. */
void fth_pool_for(fth_pool *pool, uint32_t tasks,
                  void (*fn)(void *arg, uint32_t task, uint32_t worker), void *arg);

/* The first task of a worker's run; where worker is size, how many tasks there are. */
static inline uint32_t fth_pool_first(uint32_t tasks, uint32_t size, uint32_t worker) {
    return (uint32_t)((uint64_t)worker * tasks / size);
}

/* Other work in small pieces: fn(arg, worker) does one and returns whether there was one. */
struct fth_filler {
    int (*fn)(void *arg, uint32_t worker); /* NULL: no work */
    void *arg;
};

/* The same; workers that find no task left take pieces of the filler's while others still have tasks. Who has begun a
 * piece ends it, and the others wait for that: none is begun before tasks have taken longer than a piece, on average (with
 * more workers than CPUs it is begun at once). NULL: none. With one worker, or one task, none is taken. */
void fth_pool_for_filled(fth_pool *pool, uint32_t tasks, void (*fn)(void *arg, uint32_t task, uint32_t worker),
                         void *arg, const struct fth_filler *filler);

/* A bounded first-in-first-out queue of pointers between threads. */
typedef struct fth_queue fth_queue;
fth_status fth_queue_create(uint32_t capacity, fth_queue **out, fth_error *err);
void fth_queue_destroy(fth_queue *queue); /* NULL-safe; items still inside are the caller's to free */
/* Waits while full. Returns 0 when the queue was closed (the item was not taken). */
int fth_queue_push(fth_queue *queue, void *item);
/* The same, in front of all others: of things that are used again, the one whose memory was used last. */
int fth_queue_push_first(fth_queue *queue, void *item);
/* Waits while empty. Returns 0 when closed and empty. */
int fth_queue_pop(fth_queue *queue, void **item);
/* Returns 0 when there is none now. */
int fth_queue_try_pop(fth_queue *queue, void **item);
void fth_queue_close(fth_queue *queue); /* wakes everybody; idempotent */

#endif
