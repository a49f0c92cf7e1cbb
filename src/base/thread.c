/* Worker pool: see base/thread.h.
 *
 * A job is published by incrementing `generation`, its end by `remaining` reaching 0. Either side looks at
 * its word for a short while and then sleeps on it (futex). Whoever changes a word wakes the other side
 * only when that says it may be asleep:
 *
 *   sleeper:  sleeping = 1;  if (word unchanged) futex_wait(word)      (the kernel looks again)
 *   waker:    change word;   if (sleeping) futex_wake(word)
 *
 * All four steps are sequentially consistent, so one of the two always sees the other. `fn` and `arg` are
 * plain: written before `generation` changes, read after, and not written again before all workers
 * have left the job. */
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"

/* About as long as the serial part between two phases of a step; longer would starve other threads. */
#define SPIN_NS 50000
#define SPIN_LOOK 64
#define LEAST_STACK ((size_t)1 << 20)

struct worker {
    pthread_t thread;
    fth_pool *pool;
    uint32_t index;
};

/* A worker's run of the tasks: others take from it, too, once theirs is empty. */
struct fth_pool_range {
    _Alignas(FTH_CACHE_LINE) _Atomic uint64_t next; /* wider than a task number: it runs past `end` */
    uint64_t end;
};

struct fth_pool {
    _Alignas(FTH_CACHE_LINE) _Atomic uint32_t generation;
    _Atomic uint32_t sleeping;  /* workers that sleep on generation, or are about to */
    _Atomic uint32_t stop;
    void (*fn)(void *arg, uint32_t worker);
    void *arg;
    _Alignas(FTH_CACHE_LINE) _Atomic uint32_t remaining; /* workers still in the job */
    _Atomic uint32_t caller_sleeping;
    _Alignas(FTH_CACHE_LINE) _Atomic uint64_t wait_ns;
    uint32_t size, started;
    int spin;
    struct worker *workers; /* [size]; 0 is the caller and has no thread */
    struct fth_pool_range *ranges; /* [size], of the tasks of one fth_pool_for */
};

int fth_thread_create(pthread_t *thread, void *(*fn)(void *arg), void *arg) {
    pthread_attr_t attributes;
    size_t bytes = 0;
    int failed = pthread_attr_init(&attributes);
    if (failed)
        return failed;
    pthread_attr_getstacksize(&attributes, &bytes);
    if (bytes < LEAST_STACK)
        pthread_attr_setstacksize(&attributes, LEAST_STACK);
    failed = pthread_create(thread, &attributes, fn, arg);
    pthread_attr_destroy(&attributes);
    return failed;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void cpu_relax(void) { __builtin_ia32_pause(); }

/* Looks at *word until it differs from `value` or the time for spinning is over; returns what it saw. */
static uint32_t spin_while(const fth_pool *pool, _Atomic uint32_t *word, uint32_t value) {
    uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
    if (!pool->spin || seen != value)
        return seen;
    uint64_t end = fth_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_LOOK; i++) {
            cpu_relax();
            seen = atomic_load_explicit(word, memory_order_acquire);
            if (seen != value)
                return seen;
        }
    } while (fth_now_ns() < end);
    return seen;
}

static uint32_t wait_for_job(fth_pool *pool, uint32_t seen) {
    uint32_t generation = spin_while(pool, &pool->generation, seen);
    while (generation == seen) {
        atomic_fetch_add(&pool->sleeping, 1);
        if (atomic_load(&pool->generation) == seen)
            futex_wait(&pool->generation, seen);
        atomic_fetch_sub(&pool->sleeping, 1);
        generation = atomic_load(&pool->generation);
    }
    return generation;
}

static void *worker_main(void *argument) {
    struct worker *self = argument;
    fth_pool *pool = self->pool;
    uint32_t generation = 0;
    for (;;) {
        generation = wait_for_job(pool, generation);
        if (atomic_load(&pool->stop))
            return NULL;
        pool->fn(pool->arg, self->index);
        if (atomic_fetch_sub(&pool->remaining, 1) == 1 && atomic_load(&pool->caller_sleeping))
            futex_wake_all(&pool->remaining);
    }
}

/* Signals stay with the program's own threads: workers are started with all of them blocked. */
static fth_status start_workers(fth_pool *pool, fth_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    for (uint32_t i = 1; i < pool->size && !failed; i++) {
        pool->workers[i] = (struct worker){.pool = pool, .index = i};
        failed = fth_thread_create(&pool->workers[i].thread, worker_main, &pool->workers[i]);
        pool->started += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return fth_fail(err, FTH_E_MEMORY, "cannot start worker thread %u of %u: %s",
                        pool->started + 1, pool->size, strerror(failed));
    return FTH_OK;
}

fth_status fth_pool_create(uint32_t size, fth_pool **out, fth_error *err) {
    if (size < 1)
        return fth_fail(err, FTH_E_ARGUMENT, "a thread pool of 0 workers: at least 1 is needed");
    fth_pool *pool = fth_alloc(1, sizeof *pool);
    struct worker *workers = fth_alloc(size, sizeof *workers);
    struct fth_pool_range *ranges = fth_alloc(size, sizeof *ranges);
    if (!pool || !workers || !ranges) {
        fth_free(pool);
        fth_free(workers);
        fth_free(ranges);
        return fth_fail(err, FTH_E_MEMORY, "no memory for a pool of %u workers", size);
    }
    pool->size = size;
    pool->workers = workers;
    pool->ranges = ranges;
    pool->spin = size <= fth_cpu_get()->cores;
    fth_status status = start_workers(pool, err);
    if (status != FTH_OK) {
        fth_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return FTH_OK;
}

void fth_pool_destroy(fth_pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->stop, 1);
    atomic_fetch_add(&pool->generation, 1);
    futex_wake_all(&pool->generation);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    fth_free(pool->workers);
    fth_free(pool->ranges);
    fth_free(pool);
}

uint32_t fth_pool_size(const fth_pool *pool) { return pool->size; }

static void wait_for_workers(fth_pool *pool) {
    uint32_t left = atomic_load(&pool->remaining);
    if (left == 0)
        return;
    uint64_t start = fth_now_ns();
    /* Each worker that finishes changes the word, which is progress: a new spin for the rest. */
    for (uint32_t seen; left != 0 && (seen = spin_while(pool, &pool->remaining, left)) != left;)
        left = seen;
    if (left != 0) {
        atomic_store(&pool->caller_sleeping, 1);
        while ((left = atomic_load(&pool->remaining)) != 0)
            futex_wait(&pool->remaining, left);
        atomic_store(&pool->caller_sleeping, 0);
    }
    atomic_fetch_add_explicit(&pool->wait_ns, fth_now_ns() - start, memory_order_relaxed);
}

void fth_pool_run(fth_pool *pool, void (*fn)(void *arg, uint32_t worker), void *arg) {
    if (pool->size > 1) {
        pool->fn = fn;
        pool->arg = arg;
        atomic_store(&pool->remaining, pool->size - 1);
        atomic_fetch_add(&pool->generation, 1);
        if (atomic_load(&pool->sleeping))
            futex_wake_all(&pool->generation);
    }
    fn(arg, 0);
    if (pool->size > 1)
        wait_for_workers(pool);
}

struct for_job {
    fth_pool *pool;
    void (*fn)(void *arg, uint32_t task, uint32_t worker);
    void *arg;
    const struct fth_filler *filler; /* NULL: none */
    _Atomic uint32_t working;        /* workers that may still have tasks */
};

static void fill_in(struct for_job *job, uint32_t worker) {
    const struct fth_filler *filler = job->filler;
    atomic_fetch_sub_explicit(&job->working, 1, memory_order_relaxed);
    while (atomic_load_explicit(&job->working, memory_order_relaxed) > 0 && filler->fn(filler->arg, worker))
        ;
}

static void run_tasks(void *argument, uint32_t worker) {
    struct for_job *job = argument;
    uint32_t size = job->pool->size;
    for (uint32_t i = 0; i < size; i++) {
        struct fth_pool_range *range = &job->pool->ranges[(worker + i) % size];
        uint64_t task;
        while ((task = atomic_fetch_add_explicit(&range->next, 1, memory_order_relaxed)) <
               range->end)
            job->fn(job->arg, (uint32_t)task, worker);
    }
    if (job->filler)
        fill_in(job, worker);
}

void fth_pool_for(fth_pool *pool, uint32_t tasks,
                  void (*fn)(void *arg, uint32_t task, uint32_t worker), void *arg) {
    fth_pool_for_filled(pool, tasks, fn, arg, NULL);
}

void fth_pool_for_filled(fth_pool *pool, uint32_t tasks, void (*fn)(void *arg, uint32_t task, uint32_t worker),
                         void *arg, const struct fth_filler *filler) {
    struct for_job job = {.pool = pool, .fn = fn, .arg = arg, .working = pool->size,
                          .filler = filler && filler->fn ? filler : NULL};
    if (tasks <= 1 || pool->size == 1) {
        for (uint32_t task = 0; task < tasks; task++)
            fn(arg, task, 0);
        return;
    }
    for (uint64_t w = 0; w < pool->size; w++) {
        pool->ranges[w].end = (w + 1) * tasks / pool->size;
        atomic_store_explicit(&pool->ranges[w].next, w * tasks / pool->size, memory_order_relaxed);
    }
    fth_pool_run(pool, run_tasks, &job);
}

uint64_t fth_pool_wait_ns(const fth_pool *pool) {
    return atomic_load_explicit(&((fth_pool *)pool)->wait_ns, memory_order_relaxed);
}
