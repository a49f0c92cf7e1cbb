/* Hardware counters of the pool's workers for `fathom bench --perf`: each worker opens its own. */
#include <stdio.h>

#include "train/bench_private.h"

struct opening {
    fth_perf *perf;
    fth_status *status;
    fth_error *errors;
};

static void open_mine(void *arg, uint32_t worker) {
    struct opening *opening = arg;
    opening->status[worker] = fth_perf_open(&opening->perf[worker], &opening->errors[worker]);
}

fth_status fth_bench_perf_open(fth_pool *pool, fth_perf **out, fth_error *err) {
    uint32_t n = fth_pool_size(pool), opened = 0;
    struct opening opening = {fth_alloc(n, sizeof(fth_perf)), fth_alloc(n, sizeof(fth_status)),
                              fth_alloc(n, sizeof(fth_error))};
    fth_status status = FTH_OK;
    if (!opening.perf || !opening.status || !opening.errors) {
        status = fth_fail(err, FTH_E_MEMORY, "no memory for counters");
        goto done;
    }
    fth_pool_run(pool, open_mine, &opening);
    for (opened = n; status == FTH_OK && n > 0; n--)
        if ((status = opening.status[n - 1]) != FTH_OK)
            *err = opening.errors[n - 1];
done:
    if (status != FTH_OK) {
        for (uint32_t w = 0; w < opened; w++)
            fth_perf_close(&opening.perf[w]);
        fth_free(opening.perf);
        opening.perf = NULL;
    }
    fth_free(opening.status);
    fth_free(opening.errors);
    *out = opening.perf;
    return status;
}

void fth_bench_perf_close(fth_perf *perf, fth_pool *pool) {
    for (uint32_t w = 0; perf && w < fth_pool_size(pool); w++)
        fth_perf_close(&perf[w]);
    fth_free(perf);
}
