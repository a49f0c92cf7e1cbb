/* Timing the loops of peaks_<isa>.c on a number of threads at once.
 *
 * A round lies between two barriers, so its time is that of the slowest thread, and rates are the
 * work of all divided by it. Threads: the functions may not run beside anything that is to be
 * measured. */
#include "kernels/peaks.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/thread.h"
#include "kernels/peaks_private.h"

#define REGION_BYTES ((size_t)512 << 20)
#define ROUNDS 5
#define GATHER_ROWS ((size_t)2 << 20) /* a thread and round: far more lines than a cache holds */
#define LIST (GATHER_ROWS + FTH_PEAKS_PREFETCH)

struct run {
    const struct fth_peak_loops *loops;
    uint32_t threads, dim;
    void (*round)(struct run *run, uint32_t thread);
    size_t turns;   /* fma */
    float *region;  /* REGION_BYTES */
    uint32_t *rows; /* gather: threads lists of LIST numbers */
    double best;    /* seconds; written by thread 0 */
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { WAIT, GO, LEAVE } gate; /* guarded by mutex: nobody enters the barrier unless all can */
};

struct member {
    pthread_t thread;
    struct run *run;
    uint32_t index;
};

static const struct fth_peak_loops *loops_of_cpu(void) {
    static const struct fth_peak_loops *const loops[FTH_ISA_COUNT] = {
        [FTH_ISA_SCALAR] = &fth_peak_loops_scalar,
        [FTH_ISA_AVX2] = &fth_peak_loops_avx2,
        [FTH_ISA_AVX512] = &fth_peak_loops_avx512,
    };
    return loops[fth_cpu_get()->isa];
}

/* Keeps a result alive; the value is of no interest. */
static void keep(float x) {
    volatile float sink = x;
    (void)sink;
}

static void time_rounds(struct run *run, uint32_t thread) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&run->barrier);
        uint64_t start = fth_now_ns();
        run->round(run, thread);
        pthread_barrier_wait(&run->barrier);
        double took = (double)(fth_now_ns() - start) * 1e-9;
        if (thread == 0 && (round == 0 || took < run->best))
            run->best = took;
    }
}

static void *member_main(void *arg) {
    struct member *m = arg;
    struct run *run = m->run;
    pthread_mutex_lock(&run->mutex);
    while (run->gate == WAIT)
        pthread_cond_wait(&run->changed, &run->mutex);
    int go = run->gate == GO;
    pthread_mutex_unlock(&run->mutex);
    if (go)
        time_rounds(run, m->index);
    return NULL;
}

/* The caller is thread 0. Sets run->best. */
static fth_status run_rounds(struct run *run, fth_error *err) {
    struct member *members = fth_alloc(run->threads, sizeof *members);
    if (!members || pthread_barrier_init(&run->barrier, NULL, run->threads) != 0) {
        fth_free(members);
        return fth_fail(err, FTH_E_MEMORY, "measuring peaks: out of memory");
    }
    pthread_mutex_init(&run->mutex, NULL);
    pthread_cond_init(&run->changed, NULL);
    run->gate = WAIT;
    uint32_t started = 1;
    for (; started < run->threads; started++) {
        members[started].run = run;
        members[started].index = started;
        if (fth_thread_create(&members[started].thread, member_main, &members[started]) != 0)
            break;
    }
    int all = started == run->threads;
    pthread_mutex_lock(&run->mutex);
    run->gate = all ? GO : LEAVE;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->mutex);
    if (all)
        time_rounds(run, 0);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(members[i].thread, NULL);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->mutex);
    pthread_barrier_destroy(&run->barrier);
    fth_free(members);
    return all ? FTH_OK
               : fth_fail(err, FTH_E_MEMORY,
                          "measuring peaks: only %u of %u threads could be started", started,
                          run->threads);
}

static fth_status check_threads(uint32_t threads, fth_error *err) {
    if (threads == 0 || threads > FTH_PEAKS_THREADS)
        return fth_fail(err, FTH_E_ARGUMENT, "measuring peaks: %u threads; 1 to %u are possible",
                        threads, FTH_PEAKS_THREADS);
    return FTH_OK;
}

/* A region whose every page is there: first touch must not fall into a round. */
static fth_status region_alloc(float **out, fth_error *err) {
    float *region = fth_region_alloc(REGION_BYTES);
    if (!region)
        return fth_fail(err, FTH_E_MEMORY, "measuring peaks: no %zu MiB to be had",
                        REGION_BYTES >> 20);
    for (size_t i = 0; i < REGION_BYTES / sizeof *region; i += 1024)
        region[i] = 1.0f;
    *out = region;
    return FTH_OK;
}

/* A thread's part of `total` floats, a multiple of 64 of them. */
static size_t part(const struct run *run, size_t total) {
    return total / run->threads / 64 * 64;
}

static void fma_round(struct run *run, uint32_t thread) {
    keep(run->loops->fma(run->turns, 0.5f));
}

fth_status fth_peak_fma(uint32_t threads, double *gflops, fth_error *err) {
    FTH_TRY(check_threads(threads, err));
    struct run run = {.loops = loops_of_cpu(), .threads = threads, .round = fma_round};
    /* As many turns as one thread does in about 50 ms; the clock rises meanwhile. */
    run.turns = 1024;
    for (double took = 0.0; took < 0.025;) {
        run.turns *= 2;
        uint64_t start = fth_now_ns();
        fma_round(&run, 0);
        took = (double)(fth_now_ns() - start) * 1e-9;
    }
    FTH_TRY(run_rounds(&run, err));
    *gflops = 1e-9 * run.loops->flop_per_turn * (double)run.turns * threads / run.best;
    return FTH_OK;
}

void fth_peak_fma_burst(double operations) {
    const struct fth_peak_loops *loops = loops_of_cpu();
    keep(loops->fma((size_t)(operations / loops->flop_per_turn) + 1, 0.5f));
}

static void read_round(struct run *run, uint32_t thread) {
    size_t n = part(run, REGION_BYTES / sizeof(float));
    keep(run->loops->read(run->region + thread * n, n));
}

static void copy_round(struct run *run, uint32_t thread) {
    size_t half = REGION_BYTES / sizeof(float) / 2, n = part(run, half);
    run->loops->copy(run->region + thread * n, run->region + half + thread * n, n);
}

static fth_status stream(uint32_t threads, void (*round)(struct run *, uint32_t), double *gigabytes,
                         fth_error *err) {
    FTH_TRY(check_threads(threads, err));
    struct run run = {.loops = loops_of_cpu(), .threads = threads, .round = round};
    FTH_TRY(region_alloc(&run.region, err));
    fth_status status = run_rounds(&run, err);
    if (status == FTH_OK)
        *gigabytes = 1e-9 * (double)(part(&run, REGION_BYTES) * threads) / run.best;
    fth_region_free(run.region, REGION_BYTES);
    return status;
}

fth_status fth_peak_read(uint32_t threads, double *gigabytes, fth_error *err) {
    return stream(threads, read_round, gigabytes, err);
}

fth_status fth_peak_copy(uint32_t threads, double *gigabytes, fth_error *err) {
    return stream(threads, copy_round, gigabytes, err);
}

static void gather_round(struct run *run, uint32_t thread) {
    _Alignas(64) float sum[FTH_PEAKS_MAX_DIM] = {0};
    run->loops->gather(run->region, run->dim, run->rows + thread * LIST, GATHER_ROWS, sum);
    keep(sum[0]);
}

fth_status fth_peak_gather(uint32_t threads, uint32_t dim, double *megarows, fth_error *err) {
    FTH_TRY(check_threads(threads, err));
    if (dim == 0 || dim > FTH_PEAKS_MAX_DIM)
        return fth_fail(err, FTH_E_ARGUMENT,
                        "measuring peaks: rows of %u floats; 1 to %u are possible", dim,
                        FTH_PEAKS_MAX_DIM);
    struct run run = {
        .loops = loops_of_cpu(), .threads = threads, .dim = dim, .round = gather_round};
    fth_status status = FTH_OK;
    run.rows = fth_alloc(threads * LIST, sizeof *run.rows);
    if (!run.rows)
        status = fth_fail(err, FTH_E_MEMORY, "measuring peaks: out of memory");
    else
        status = region_alloc(&run.region, err);
    if (status == FTH_OK) {
        uint64_t rows = REGION_BYTES / sizeof(float) / dim;
        for (size_t i = 0; i < threads * LIST; i++)
            run.rows[i] = (uint32_t)((fth_hash_mix(i + 1) >> 32) * rows >> 32);
        status = run_rounds(&run, err);
    }
    if (status == FTH_OK)
        *megarows = 1e-6 * (double)GATHER_ROWS * threads / run.best;
    if (run.region)
        fth_region_free(run.region, REGION_BYTES);
    fth_free(run.rows);
    return status;
}
