/* What the control groups of this process allow it, of both versions: a container's limits. Any thread. */
#ifndef FTH_BASE_CGROUP_H
#define FTH_BASE_CGROUP_H

#include <stdint.h>

struct fth_cgroup {
    uint32_t cores;  /* CPU time in CPUs, rounded up; UINT32_MAX: no limit */
    uint64_t memory; /* bytes; UINT64_MAX: no limit */
};

/* The smallest limits on the way from the process's groups to their roots, as `root`/proc and `root`/sys say ("": the
 * machine's; tests have files of their own). What cannot be read limits nothing. */
void fth_cgroup_find(const char *root, struct fth_cgroup *out);

#endif
