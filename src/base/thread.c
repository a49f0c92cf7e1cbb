/* Worker pool: see base/thread.h.
 *
 * A job is an open door: `state` has its generation and, in the lower half, whether the door is closed, how many workers
 * have come in and how many are inside. The caller opens it with a new generation, does its share, closes it (at once, or
 * when all have come) and waits until nobody is inside. Workers come in and leave by changing the same word, and none
 * comes in behind a closed door. So a worker that does not run (other programs or guests have its processor) is waited
 * for only if it is inside. Either side looks at its half for a short while and then sleeps on it (futex). Whoever changes
 * a half wakes the other side only when that says it may be asleep:
 *
 *   sleeper:  sleeping = 1;  if (half unchanged) futex_wait(half)      (the kernel looks again)
 *   waker:    change half;   if (sleeping) futex_wake(half)
 *
 * All four steps are sequentially consistent, so one of the two always sees the other. `fn` and `arg` are
 * plain: written before the door opens, read inside, and not written again before it is closed and all have left. */
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
#define LONG_TASK_NS UINT64_C(100000) /* as long as a block of text is parsed */
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

/* The lower half of `state`. */
#define INSIDE UINT64_C(1) /* one worker */
#define COME (UINT64_C(1) << 16)
#define CLOSED (UINT64_C(1) << 31)
#define ALL_INSIDE (COME - 1)
#define ALL_COME (CLOSED - COME)
#define LOWER UINT64_C(0xffffffff)

struct fth_pool {
    _Alignas(FTH_CACHE_LINE) _Atomic uint64_t state;
    _Atomic uint32_t sleeping; /* workers that sleep on the generation, or are about to */
    _Atomic uint32_t caller_sleeping;
    _Atomic uint32_t stop;
    void (*fn)(void *arg, uint32_t worker);
    void *arg;
    _Alignas(FTH_CACHE_LINE) uint32_t size;
    uint32_t started;
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

enum half { STATE_LOWER, STATE_GENERATION };

/* The kernel's word of the half (little-endian). */
static void *word_of(fth_pool *pool, enum half half) { return (char *)&pool->state + half * sizeof(uint32_t); }

static void futex_wait(fth_pool *pool, enum half half, uint64_t state) {
    uint32_t expected = (uint32_t)(half == STATE_GENERATION ? state >> 32 : state);
    syscall(SYS_futex, word_of(pool, half), FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake_all(fth_pool *pool, enum half half) {
    syscall(SYS_futex, word_of(pool, half), FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void cpu_relax(void) { __builtin_ia32_pause(); }

/* Looks at the state until it differs from `known` in these bits or the time for spinning is over; returns what it saw. */
static uint64_t spin_while(fth_pool *pool, uint64_t bits, uint64_t known) {
    uint64_t state = atomic_load_explicit(&pool->state, memory_order_acquire);
    if (!pool->spin || ((state ^ known) & bits) != 0)
        return state;
    uint64_t end = fth_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_LOOK; i++) {
            cpu_relax();
            state = atomic_load_explicit(&pool->state, memory_order_acquire);
            if (((state ^ known) & bits) != 0)
                return state;
        }
    } while (fth_now_ns() < end);
    return state;
}

/* Returns when there is another generation than `known`'s. */
static uint64_t wait_for_job(fth_pool *pool, uint64_t known) {
    uint64_t state = spin_while(pool, ~LOWER, known);
    while (state >> 32 == known >> 32) {
        atomic_fetch_add(&pool->sleeping, 1);
        state = atomic_load(&pool->state);
        if (state >> 32 == known >> 32)
            futex_wait(pool, STATE_GENERATION, state);
        atomic_fetch_sub(&pool->sleeping, 1);
        state = atomic_load(&pool->state);
    }
    return state;
}

/* Whether the worker is inside; *state: as it was then, or closed. */
static int come_in(fth_pool *pool, uint64_t *state) {
    while (!(*state & CLOSED))
        if (atomic_compare_exchange_weak(&pool->state, state, *state + COME + INSIDE))
            return 1;
    return 0;
}

static void leave(fth_pool *pool) {
    uint64_t state = atomic_fetch_sub(&pool->state, INSIDE);
    if ((state & ALL_INSIDE) == INSIDE && atomic_load(&pool->caller_sleeping))
        futex_wake_all(pool, STATE_LOWER);
}

static void *worker_main(void *argument) {
    struct worker *self = argument;
    fth_pool *pool = self->pool;
    uint64_t state = CLOSED;
    while (!atomic_load(&pool->stop)) { /* of the generation seen last, which come_in may have been the first to see */
        state = wait_for_job(pool, state);
        if (come_in(pool, &state)) {
            pool->fn(pool->arg, self->index);
            leave(pool);
        }
    }
    return NULL;
}

static void open_door(fth_pool *pool, uint64_t lower) {
    uint64_t generation = (atomic_load_explicit(&pool->state, memory_order_relaxed) >> 32) + 1;
    atomic_store(&pool->state, generation << 32 | lower);
    if (atomic_load(&pool->sleeping))
        futex_wake_all(pool, STATE_GENERATION);
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
    if (size < 1 || size > FTH_MAX_WORKERS)
        return fth_fail(err, FTH_E_ARGUMENT, "a thread pool of %u workers: must be 1 to %u", size, FTH_MAX_WORKERS);
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
    atomic_init(&pool->state, CLOSED);
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
    open_door(pool, CLOSED);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    fth_free(pool->workers);
    fth_free(pool->ranges);
    fth_free(pool);
}

uint32_t fth_pool_size(const fth_pool *pool) { return pool->size; }

/* Until nobody is inside, and so many have come: while the door is open, all. */
static void wait_for_workers(fth_pool *pool, uint64_t come) {
    uint64_t state = atomic_load(&pool->state);
    if ((state & ALL_INSIDE) == 0 && (state & ALL_COME) >= come)
        return;
    uint64_t seen = state;
    do { /* a worker that comes or leaves is progress: a new spin for the rest */
        state = seen;
        if ((state & ALL_INSIDE) == 0 && (state & ALL_COME) >= come)
            break;
        seen = spin_while(pool, LOWER, state);
    } while (((seen ^ state) & LOWER) != 0);
    atomic_store(&pool->caller_sleeping, 1);
    while (((state = atomic_load(&pool->state)) & ALL_INSIDE) != 0 || (state & ALL_COME) < come)
        futex_wait(pool, STATE_LOWER, state);
    atomic_store(&pool->caller_sleeping, 0);
}

static void run(fth_pool *pool, void (*fn)(void *arg, uint32_t worker), void *arg, int all) {
    if (pool->size == 1) {
        fn(arg, 0);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    open_door(pool, 0);
    fn(arg, 0);
    if (all)
        wait_for_workers(pool, (pool->size - 1) * COME);
    atomic_fetch_or(&pool->state, CLOSED);
    wait_for_workers(pool, 0);
}

void fth_pool_run(fth_pool *pool, void (*fn)(void *arg, uint32_t worker), void *arg) { run(pool, fn, arg, 1); }

void fth_pool_share(fth_pool *pool, void (*fn)(void *arg, uint32_t worker), void *arg) { run(pool, fn, arg, 0); }

struct for_job {
    fth_pool *pool;
    void (*fn)(void *arg, uint32_t task, uint32_t worker);
    void *arg;
    const struct fth_filler *filler; /* NULL: none */
    uint32_t tasks;
    uint64_t start;
    _Atomic uint32_t working; /* workers inside that may still have tasks */
};

/* Whether tasks have taken so long on average that the last one is likely to take longer than a piece. */
static int is_long(const struct for_job *job) {
    return !job->pool->spin || (fth_now_ns() - job->start) * job->pool->size >= job->tasks * LONG_TASK_NS;
}

static void fill_in(struct for_job *job, uint32_t worker) {
    const struct fth_filler *filler = job->filler;
    atomic_fetch_sub_explicit(&job->working, 1, memory_order_relaxed);
    while (atomic_load_explicit(&job->working, memory_order_relaxed) > 0)
        if (!is_long(job))
            cpu_relax();
        else if (!filler->fn(filler->arg, worker))
            break;
}

static void run_tasks(void *argument, uint32_t worker) {
    struct for_job *job = argument;
    uint32_t size = job->pool->size;
    atomic_fetch_add(&job->working, 1);
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
    struct for_job job = {.pool = pool, .fn = fn, .arg = arg,
                          .filler = filler && filler->fn ? filler : NULL, .tasks = tasks, .start = fth_now_ns()};
    if (tasks <= 1 || pool->size == 1) {
        for (uint32_t task = 0; task < tasks; task++)
            fn(arg, task, 0);
        return;
    }
    for (uint32_t w = 0; w < pool->size; w++) {
        pool->ranges[w].end = fth_pool_first(tasks, pool->size, w + 1);
        atomic_store_explicit(&pool->ranges[w].next, fth_pool_first(tasks, pool->size, w), memory_order_relaxed);
    }
    fth_pool_share(pool, run_tasks, &job);
}
