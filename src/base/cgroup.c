/* Control groups: see base/cgroup.h.
 *
 *   /proc/self/cgroup   0::/path              version 2, in /sys/fs/cgroup/path: cpu.max, memory.max
 *                       4:cpu,cpuacct:/path   version 1, in /sys/fs/cgroup/cpu/path: cpu.cfs_quota_us, cpu.cfs_period_us,
 *                       5:memory:/path        in /sys/fs/cgroup/memory/path: memory.limit_in_bytes
 *
 * In a container a path may be the host's, which is not there: its own group is the root then. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The first line of a group's file; 0 where there is none. */
static int read_line(const char *folder, const char *name, char line[64]) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = n < (int)sizeof path ? fopen(path, "re") : NULL;
    if (!file)
        return 0;
    int there = fgets(line, 64, file) != NULL;
    fclose(file);
    return there;
}

static void limit_cores(struct fth_cgroup *out, long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return;
    long long cores = quota / period + (quota % period != 0);
    if (cores < out->cores)
        out->cores = (uint32_t)cores;
}

static void look(const char *folder, struct fth_cgroup *out) {
    char line[64], second[64];
    long long quota, period;
    unsigned long long bytes;
    if (read_line(folder, "cpu.max", line) && sscanf(line, "%lld %lld", &quota, &period) == 2)
        limit_cores(out, quota, period);
    if (read_line(folder, "cpu.cfs_quota_us", line) && read_line(folder, "cpu.cfs_period_us", second) &&
        sscanf(line, "%lld", &quota) == 1 && sscanf(second, "%lld", &period) == 1)
        limit_cores(out, quota, period);
    if ((read_line(folder, "memory.max", line) || read_line(folder, "memory.limit_in_bytes", line)) &&
        sscanf(line, "%llu", &bytes) == 1 && bytes < out->memory)
        out->memory = bytes;
}

/* A group and all above it, up to the root of its hierarchy, `n` bytes long. */
static void look_upwards(char *folder, size_t n, struct fth_cgroup *out) {
    for (;;) {
        look(folder, out);
        char *slash = strrchr(folder + n, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

static int has_controller(const char *list, size_t n, const char *name) {
    size_t length = strlen(name);
    for (size_t at = 0; at < n; at += strcspn(list + at, ",:") + 1)
        if (strcspn(list + at, ",:") == length && !strncmp(list + at, name, length))
            return 1;
    return 0;
}

void fth_cgroup_find(const char *root, struct fth_cgroup *out) {
    static const char *const controllers[] = {"", "cpu", "memory"}; /* "": version 2 */
    char path[PATH_MAX], line[PATH_MAX];
    *out = (struct fth_cgroup){UINT32_MAX, UINT64_MAX};
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        const char *list = strchr(line, ':'), *group = list ? strchr(++list, ':') : NULL;
        size_t n = group ? (size_t)(group++ - list) : 0;
        for (size_t i = 0; group && i < sizeof controllers / sizeof *controllers; i++) {
            if (n ? !has_controller(list, n, controllers[i]) : i > 0)
                continue;
            int base = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s", root, n ? "/" : "", controllers[i]);
            int all = base + snprintf(path + base, sizeof path - (size_t)base, "%.*s", (int)strcspn(group, "\n"), group);
            if (all < (int)sizeof path)
                look_upwards(path, (size_t)base, out);
        }
    }
    fclose(file);
}
