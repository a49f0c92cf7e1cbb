/* base/thread: every worker and task exactly once, results visible, queue order and closing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"

static const uint32_t sizes[] = {1, 2, 3, 8, 17};

struct run {
    uint32_t size;
    uint32_t calls[64];      /* one writer each: plain, so that a missing barrier is a race to TSan */
    uint64_t input, sums[64];
};

static void count_call(void *arg, uint32_t worker) {
    struct run *run = arg;
    assert_true(worker < run->size);
    run->calls[worker]++;
    run->sums[worker] += run->input;
}

static void run_calls_every_worker_once(void **state) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fth_pool *pool;
        struct run run = {.size = sizes[s]};
        uint64_t expected = 0;
        assert_int_equal(fth_pool_create(sizes[s], &pool, NULL), FTH_OK);
        assert_int_equal(fth_pool_size(pool), sizes[s]);
        for (uint32_t i = 1; i <= 500; i++) {
            run.input = i;
            expected += i;
            fth_pool_run(pool, count_call, &run);
            for (uint32_t w = 0; w < sizes[s]; w++) {
                assert_int_equal(run.calls[w], i);
                assert_int_equal(run.sums[w], expected);
            }
            /* Every now and then long enough for the workers to fall asleep. */
            if (i % 100 == 0)
                nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
        fth_pool_destroy(pool);
    }
}

static void sleep_if_other(void *arg, uint32_t worker) {
    if (worker != 0)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* Jobs so short that workers come late, each gone from memory when it has ended: who comes is in and out before, at most
 * once, and sees what was written for it. */
static void sharing_calls_who_comes(void **state) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fth_pool *pool;
        uint64_t come = 0;
        assert_int_equal(fth_pool_create(sizes[s], &pool, NULL), FTH_OK);
        for (uint32_t i = 1; i <= 5000 || (come == 0 && sizes[s] > 1); i++) {
            struct run run = {.size = sizes[s], .input = i};
            fth_pool_share(pool, count_call, &run);
            assert_int_equal(run.calls[0], 1);
            for (uint32_t w = 0; w < sizes[s]; w++) {
                assert_true(run.calls[w] <= 1);
                assert_int_equal(run.sums[w], run.calls[w] * i);
                come += w > 0 && run.calls[w];
            }
            memset(&run, 0xff, sizeof run);
            if (i % 1000 == 0) /* between them one that all have to come to, and time to fall asleep */
                fth_pool_run(pool, sleep_if_other, NULL);
        }
        fth_pool_destroy(pool);
    }
}

struct late {
    atomic_uint begun, ended;
};

static void begin_and_end(void *arg, uint32_t worker) {
    struct late *late = arg;
    atomic_fetch_add(&late->begun, 1);
    nanosleep(&(struct timespec){.tv_nsec = worker ? 300000 : 100000}, NULL); /* who calls waits for others to come */
    atomic_fetch_add(&late->ended, 1);
}

/* Who has come has left when the call returns, and who wakes up afterwards stays outside. */
static void sharing_ends_when_it_returns(void **state) {
    fth_pool *pool;
    uint32_t come = 0;
    assert_int_equal(fth_pool_create(8, &pool, NULL), FTH_OK);
    for (int i = 0; i < 100 || (come < 100 && i < 10000); i++) {
        struct late late = {0, 0};
        fth_pool_share(pool, begin_and_end, &late);
        uint32_t begun = atomic_load(&late.begun), ended = atomic_load(&late.ended);
        come += begun - 1;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* time for the others to wake up and fall asleep */
        assert_int_equal(ended, begun);
        assert_int_equal(atomic_load(&late.begun), begun);
    }
    fth_pool_destroy(pool);
    if (come < 100)
        skip(); /* one processor: nobody came */
}

static void do_nothing(void *arg, uint32_t worker) {}

/* A worker may be on its way to a shared job that is over, and find the pool's end in its place. */
static void a_pool_ends_while_workers_are_late(void **state) {
    alarm(120); /* if it does not */
    for (int i = 0; i < 500; i++) {
        fth_pool *pool;
        assert_int_equal(fth_pool_create(17, &pool, NULL), FTH_OK);
        for (int k = 0; k < 3; k++)
            fth_pool_share(pool, do_nothing, NULL);
        fth_pool_destroy(pool);
    }
    alarm(0);
}

static void note_free_signals(void *arg, uint32_t worker) {
    uint32_t *free_signals = arg;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (worker != 0)
        free_signals[worker] = !sigismember(&blocked, SIGINT) || !sigismember(&blocked, SIGTERM);
}

static void signals_stay_with_the_programs_threads(void **state) {
    fth_pool *pool;
    uint32_t free_signals[4] = {0, 7, 7, 7};
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(fth_pool_create(4, &pool, NULL), FTH_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
    fth_pool_run(pool, note_free_signals, free_signals);
    for (uint32_t w = 1; w < 4; w++)
        assert_int_equal(free_signals[w], 0);
    fth_pool_destroy(pool);
}

static void *stack_bytes(void *arg) {
    pthread_attr_t attributes;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstacksize(&attributes, arg);
        pthread_attr_destroy(&attributes);
    }
    return NULL;
}

/* Kernels keep tables on the stack: where threads' stacks are small by default, ours are not. */
static void stacks_have_room(void **state) {
    pthread_attr_t attributes;
    pthread_t thread;
    size_t bytes = 0, usual;
    assert_int_equal(pthread_getattr_default_np(&attributes), 0);
    assert_int_equal(pthread_attr_getstacksize(&attributes, &usual), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    assert_int_equal(fth_thread_create(&thread, stack_bytes, &bytes), 0);
    pthread_join(thread, NULL);
    assert_int_equal(pthread_attr_setstacksize(&attributes, usual), 0);
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
    assert_true(bytes >= 1 << 20);
}

struct tasks {
    uint32_t n, size;
    uint32_t *done;
};

static void do_task(void *arg, uint32_t task, uint32_t worker) {
    struct tasks *tasks = arg;
    assert_true(task < tasks->n && worker < tasks->size);
    tasks->done[task]++;
}

static void for_runs_every_task_once(void **state) {
    static const uint32_t counts[] = {0, 1, 2, 7, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fth_pool *pool;
        assert_int_equal(fth_pool_create(sizes[s], &pool, NULL), FTH_OK);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            uint32_t done[1000] = {0};
            struct tasks tasks = {counts[c], sizes[s], done};
            for (uint32_t round = 1; round <= 20; round++) {
                fth_pool_for(pool, counts[c], do_task, &tasks);
                for (uint32_t i = 0; i < 1000; i++)
                    assert_int_equal(done[i], i < counts[c] ? round : 0);
            }
        }
        fth_pool_destroy(pool);
    }
}

#define PIECES 100000u /* far more than a round has time for */

struct filled {
    struct tasks tasks;
    atomic_uint pieces; /* taken */
};

static int take_piece(void *arg, uint32_t worker) {
    struct filled *filled = arg;
    assert_true(worker < filled->tasks.size);
    nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    return atomic_fetch_add(&filled->pieces, 1) + 1 < PIECES;
}

/* The last task waits until another worker takes pieces, while this one still has a task. */
static void wait_for_pieces(void *arg, uint32_t task, uint32_t worker) {
    struct filled *filled = arg;
    do_task(&filled->tasks, task, worker);
    while (task + 1 == filled->tasks.n && filled->tasks.size > 1 && atomic_load(&filled->pieces) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
}

static void pauses_are_filled(void **state) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fth_pool *pool;
        assert_int_equal(fth_pool_create(sizes[s], &pool, NULL), FTH_OK);
        for (uint32_t round = 0; round < 20; round++) {
            uint32_t done[100] = {0};
            struct filled filled = {.tasks = {100, sizes[s], done}};
            fth_pool_for_filled(pool, 100, wait_for_pieces, &filled, &(struct fth_filler){take_piece, &filled});
            for (uint32_t i = 0; i < 100; i++)
                assert_int_equal(done[i], 1);
            /* No piece where there is nobody to wait for, and none more when there is not any longer. */
            assert_int_equal(filled.pieces > 0, sizes[s] > 1);
            assert_true(filled.pieces < PIECES);
        }
        fth_pool_destroy(pool);
    }
}

static void sizes_of_zero_are_refused(void **state) {
    fth_pool *pool;
    fth_queue *queue;
    fth_error err = {0};
    assert_int_equal(fth_pool_create(0, &pool, &err), FTH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "of 0 workers: must be 1 to"));
    assert_int_equal(fth_pool_create(FTH_MAX_WORKERS + 1, &pool, &err), FTH_E_ARGUMENT);
    assert_int_equal(fth_queue_create(0, &queue, &err), FTH_E_ARGUMENT);
    fth_pool_destroy(NULL);
    fth_queue_destroy(NULL);
}

enum { ITEMS = 2000 };

struct producer {
    fth_queue *queue;
    int items[ITEMS];
    int refused;
};

static void *produce(void *arg) {
    struct producer *p = arg;
    for (int i = 0; i < ITEMS; i++) {
        p->items[i] = i;
        if (!fth_queue_push(p->queue, &p->items[i]))
            p->refused++;
    }
    fth_queue_close(p->queue);
    return NULL;
}

/* What is pushed first comes before all others, wherever the ring begins. */
static void queue_takes_in_front(void **state) {
    fth_queue *queue;
    int things[4];
    void *item;
    assert_int_equal(fth_queue_create(3, &queue, NULL), FTH_OK);
    for (int round = 0; round < 7; round++) {
        assert_int_equal(fth_queue_push(queue, &things[0]), 1);
        assert_int_equal(fth_queue_push(queue, &things[1]), 1);
        assert_int_equal(fth_queue_push_first(queue, &things[2]), 1);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(fth_queue_try_pop(queue, &item), 1);
            assert_ptr_equal(item, &things[(k + 2) % 3]);
        }
        assert_int_equal(fth_queue_try_pop(queue, &item), 0);
        assert_int_equal(fth_queue_push(queue, &things[3]), 1); /* the ring begins elsewhere */
        assert_int_equal(fth_queue_pop(queue, &item), 1);
        assert_ptr_equal(item, &things[3]);
    }
    fth_queue_close(queue);
    assert_int_equal(fth_queue_push_first(queue, &things[0]), 0);
    fth_queue_destroy(queue);
}

static void queue_keeps_order_and_drains(void **state) {
    static const uint32_t capacities[] = {1, 2, 7};
    for (size_t c = 0; c < 3; c++) {
        struct producer *p = calloc(1, sizeof *p);
        pthread_t thread;
        void *item;
        assert_int_equal(fth_queue_create(capacities[c], &p->queue, NULL), FTH_OK);
        assert_int_equal(pthread_create(&thread, NULL, produce, p), 0);
        for (int i = 0; i < ITEMS; i++) {
            assert_int_equal(fth_queue_pop(p->queue, &item), 1);
            assert_ptr_equal(item, &p->items[i]);
            assert_int_equal(*(int *)item, i);
        }
        assert_int_equal(fth_queue_pop(p->queue, &item), 0);
        pthread_join(thread, NULL);
        assert_int_equal(p->refused, 0);
        assert_int_equal(fth_queue_push(p->queue, item), 0);
        fth_queue_close(p->queue);
        fth_queue_destroy(p->queue);
        free(p);
    }
}

static void closing_wakes_a_waiting_producer(void **state) {
    struct producer *p = calloc(1, sizeof *p);
    pthread_t thread;
    void *item;
    assert_int_equal(fth_queue_create(3, &p->queue, NULL), FTH_OK);
    assert_int_equal(pthread_create(&thread, NULL, produce, p), 0);
    assert_int_equal(fth_queue_pop(p->queue, &item), 1);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    fth_queue_close(p->queue);
    pthread_join(thread, NULL);
    assert_true(p->refused >= ITEMS - 4);
    /* What was taken before is still handed out. */
    int left = 0;
    while (fth_queue_pop(p->queue, &item))
        left++;
    assert_int_equal(left + 1 + p->refused, ITEMS);
    fth_queue_destroy(p->queue);
    free(p);
}

static void *push_one(void *queue) {
    static int item;
    fth_queue_push(queue, &item);
    return NULL;
}

/* Every place that gets free is one for a producer that waits, also where none of them has come yet to take the first. */
static void every_free_place_wakes_a_producer(void **state) {
    fth_queue *queue;
    pthread_t threads[4];
    void *item = NULL;
    assert_int_equal(fth_queue_create(4, &queue, NULL), FTH_OK);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++)
            assert_int_equal(fth_queue_push(queue, &item), 1);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, push_one, queue), 0);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* time to begin to wait */
        for (int i = 0; i < 4; i++)
            assert_int_equal(fth_queue_pop(queue, &item), 1);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < 4; i++)
            assert_int_equal(fth_queue_try_pop(queue, &item), 1);
    }
    fth_queue_destroy(queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_calls_every_worker_once),
        cmocka_unit_test(sharing_calls_who_comes),
        cmocka_unit_test(sharing_ends_when_it_returns),
        cmocka_unit_test(a_pool_ends_while_workers_are_late),
        cmocka_unit_test(signals_stay_with_the_programs_threads),
        cmocka_unit_test(stacks_have_room),
        cmocka_unit_test(for_runs_every_task_once),
        cmocka_unit_test(pauses_are_filled),
        cmocka_unit_test(sizes_of_zero_are_refused),
        cmocka_unit_test(queue_keeps_order_and_drains),
        cmocka_unit_test(queue_takes_in_front),
        cmocka_unit_test(closing_wakes_a_waiting_producer),
        cmocka_unit_test(every_free_place_wakes_a_producer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
