/* The tuner's reading of cgroups, from a folder made here like Linux's with version 2 and with version 1. */
#include "folder.h"
#include "machine.h"
#include "test.h"

#include <signal.h>

volatile sig_atomic_t tune_stopped;

static char root[TEST_FOLDER];

static void put(const char *name, const char *text) { test_folder_put(root, name, text); }

static void check_throttled(const char *what, long long want) {
    const long long got = tune_throttled(root);
    test_check(got == want, "%s: %lld periods throttled, not %lld", what, got, want);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tune_machine", NULL);
    test_folder_begin(root);
    check_throttled("no cgroup at all", 0);
    put("proc/self/cgroup", "0::/a/b\n");
    check_throttled("version 2 without counts", 0);
    put("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 7\n");
    check_throttled("version 2", 3);
    put("sys/fs/cgroup/a/cpu.stat", "nr_periods 10\nnr_throttled 4\n");
    check_throttled("version 2, and the group above", 7);
    test_folder_end(root);

    test_folder_begin(root);
    put("proc/self/cgroup", "12:cpuset:/a\n4:cpu,cpuacct:/docker/c\n1:name=systemd:/a\n");
    put("sys/fs/cgroup/cpuset/a/cpu.stat", "nr_throttled 100\n");
    put("sys/fs/cgroup/cpu/docker/c/cpu.stat", "nr_periods 10\nnr_throttled 5\nthrottled_time 7\n");
    check_throttled("version 1", 5);
    put("proc/self/cgroup", "4:cpuacct,cpu:/docker/c\n0::/\n");
    check_throttled("version 1 in the other order, beside an empty version 2", 5);
    test_folder_end(root);

    test_folder_begin(root); /* in a container the line has the host's folder, of which only the lowest is mounted */
    put("proc/self/cgroup", "4:cpu:/docker/c\n");
    put("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 10\nnr_throttled 6\n");
    check_throttled("version 1 in a container", 6);
    test_folder_end(root);
    return test_end();
}
