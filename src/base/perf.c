/* Counters of a thread: see perf.h. */
#include "base/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct fth_perf_event hardware[FTH_PERF_COUNTERS] = {
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "cycles"},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, "instructions"},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, "cache misses"},
};

static int open_event(const struct fth_perf_event *event, int group) {
    struct perf_event_attr attr = {.type = event->type,
                                   .size = sizeof attr,
                                   .config = event->config,
                                   .read_format = PERF_FORMAT_GROUP,
                                   .disabled = group < 0,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
}

fth_status fth_perf_open_events(const struct fth_perf_event *events, fth_perf *out, fth_error *err) {
    for (int i = 0; i < FTH_PERF_COUNTERS; i++)
        out->fd[i] = -1;
    for (int i = 0; i < FTH_PERF_COUNTERS; i++) {
        out->fd[i] = open_event(&events[i], out->fd[0]);
        if (out->fd[i] >= 0)
            continue;
        int refused = errno;
        fth_perf_close(out);
        return fth_fail(err, FTH_E_UNSUPPORTED, "the kernel does not count %s here: %s%s", events[i].name,
                        strerror(refused),
                        refused == EACCES || refused == EPERM
                            ? " (sysctl kernel.perf_event_paranoid of at most 2 would allow it)"
                            : "");
    }
    /* All at once: a counter that joins a group that runs already may stay at 0. */
    if (ioctl(out->fd[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) != 0) {
        int refused = errno;
        fth_perf_close(out);
        return fth_fail(err, FTH_E_UNSUPPORTED, "the kernel does not start counting here: %s", strerror(refused));
    }
    return FTH_OK;
}

fth_status fth_perf_open(fth_perf *out, fth_error *err) {
    return fth_perf_open_events(hardware, out, err);
}

void fth_perf_read(const fth_perf *perf, uint64_t out[FTH_PERF_COUNTERS]) {
    uint64_t values[1 + FTH_PERF_COUNTERS] = {0}; /* how many, then each */
    memset(out, 0, FTH_PERF_COUNTERS * sizeof *out);
    if (read(perf->fd[0], values, sizeof values) == (ssize_t)sizeof values)
        memcpy(out, values + 1, FTH_PERF_COUNTERS * sizeof *out);
}

void fth_perf_close(fth_perf *perf) {
    for (int i = 0; i < FTH_PERF_COUNTERS; i++) {
        if (perf->fd[i] >= 0)
            close(perf->fd[i]);
        perf->fd[i] = -1;
    }
}
