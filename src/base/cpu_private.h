/* Parts of cpu detection that tests feed with text. */
#ifndef FTH_BASE_CPU_PRIVATE_H
#define FTH_BASE_CPU_PRIVATE_H

#include "base/cpu.h"

/* Takes from the instruction sets that were found what is above `limit`, FATHOM_MAX_ISA's value or NULL; an unknown
 * value is ignored, with a warning to the log. */
void fth_cpu_clamp(struct fth_cpu *found, const char *limit);

/* CPUs that a cgroup's cpu.max ("max 100000", "150000 100000": microseconds of CPU time in each period)
 * allows, rounded up; UINT32_MAX for no limit or text that is not understood. */
uint32_t fth_cpu_quota(const char *cpu_max);
/* Bytes that a cgroup's memory.max ("max", "1073741824") allows; UINT64_MAX likewise. */
uint64_t fth_cpu_memory_limit(const char *memory_max);
/* The least that `read` makes of the file `name`'s first line, on the way from the cgroup (version 2; "/" or "/a/b") to the
 * root; UINT64_MAX where there is no such file. */
uint64_t fth_cpu_cgroup_least(const char *root, const char *group, const char *name, uint64_t (*read)(const char *text));

#endif
