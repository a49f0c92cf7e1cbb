/* Hardware counters of a thread (perf_event_open), where the kernel and the machine offer them.
 *
 * Threads: open counts the calling thread; reading may happen from any thread. A read is one system call. */
#ifndef FTH_BASE_PERF_H
#define FTH_BASE_PERF_H

#include <stdint.h>

#include "base/error.h"

enum fth_perf_counter {
    FTH_PERF_CYCLES,
    FTH_PERF_INSTRUCTIONS,
    FTH_PERF_CACHE_MISSES, /* of the last level, as the CPU defines it */
    FTH_PERF_COUNTERS
};

typedef struct fth_perf {
    int fd[FTH_PERF_COUNTERS];
} fth_perf;

/* One event as perf_event_open(2) names it. */
struct fth_perf_event {
    uint32_t type;
    uint64_t config;
    const char *name;
};

/* Begins to count cycles, instructions and cache misses of the calling thread in user mode. FTH_E_UNSUPPORTED with
 * the reason when the kernel refuses (no counters in this virtual machine, kernel.perf_event_paranoid, a
 * container's filter). Close in any case but an error. */
fth_status fth_perf_open(fth_perf *out, fth_error *err);
/* The same with other events, FTH_PERF_COUNTERS of them. */
fth_status fth_perf_open_events(const struct fth_perf_event *events, fth_perf *out, fth_error *err);
/* Counts since opening; zeros when the kernel gives none. */
void fth_perf_read(const fth_perf *perf, uint64_t out[FTH_PERF_COUNTERS]);
void fth_perf_close(fth_perf *perf);

#endif
