/* base/cgroup: limits of both versions, as files say them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/cgroup.h"
#include "fault_io.h"
#include "io/io.h"

static char *root;

static void say(const char *name, const char *text) {
    char path[1024], folder[1024];
    fth_error err = {0};
    snprintf(path, sizeof path, "%s/%s", root, name);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(fth_io_make_dirs(fth_io_posix(), folder, &err), FTH_OK);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void limits_are(uint32_t cores, uint64_t memory) {
    struct fth_cgroup found;
    fth_cgroup_find(root, &found);
    assert_int_equal(found.cores, cores);
    assert_int_equal(found.memory, memory);
}

static int fresh(void **state) {
    root = scratch_create();
    return 0;
}

static int swept(void **state) {
    scratch_remove(root);
    return 0;
}

static void nothing_there_limits_nothing(void **state) {
    limits_are(UINT32_MAX, UINT64_MAX);
    say("proc/self/cgroup", "nonsense\n\n:\n::\n0::/\n");
    limits_are(UINT32_MAX, UINT64_MAX);
    say("sys/fs/cgroup/cpu.max", "");
    say("sys/fs/cgroup/memory.max", "max\n");
    limits_are(UINT32_MAX, UINT64_MAX);
}

static void quotas_round_up(void **state) {
    static const struct {
        const char *text;
        uint32_t cores;
    } cases[] = {{"max 100000\n", UINT32_MAX}, {"200000 100000\n", 2}, {"150000 100000\n", 2}, {"1000 100000\n", 1},
                 {"0 100000", UINT32_MAX},     {"100000 0", UINT32_MAX}, {"100000", UINT32_MAX}};
    say("proc/self/cgroup", "0::/a/b\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        say("sys/fs/cgroup/a/b/cpu.max", cases[i].text);
        limits_are(cases[i].cores, UINT64_MAX);
    }
}

static void the_smallest_on_the_way_holds(void **state) {
    say("proc/self/cgroup", "0::/a/b\n");
    say("sys/fs/cgroup/a/b/memory.max", "max\n");
    say("sys/fs/cgroup/a/memory.max", "3000000\n");
    say("sys/fs/cgroup/memory.max", "4000000\n");
    say("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    say("sys/fs/cgroup/cpu.max", "300000 100000\n");
    limits_are(3, 3000000);
    say("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    limits_are(2, 3000000);
}

static void version_1(void **state) {
    say("proc/self/cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/a\n3:cpuset:/c\n2:memory:/on/the/host\n0::/\n");
    say("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "100000\n"); /* of another hierarchy's group */
    say("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    say("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    say("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    say("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    limits_are(UINT32_MAX, 9223372036854771712u);
    say("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "250000\n");
    say("sys/fs/cgroup/memory/memory.limit_in_bytes", "157286400\n");
    limits_are(3, 157286400);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_there_limits_nothing, fresh, swept),
        cmocka_unit_test_setup_teardown(quotas_round_up, fresh, swept),
        cmocka_unit_test_setup_teardown(the_smallest_on_the_way_holds, fresh, swept),
        cmocka_unit_test_setup_teardown(version_1, fresh, swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
