/* What the tuner reads of cgroups: of a folder that is made here, as Linux has it with version 2 and with version 1. */
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

static void check_memory(const char *what, int64_t want) {
    const int64_t got = tune_memory_left(root);
    test_check(got == want, "%s: %lld bytes left, not %lld", what, (long long)got, (long long)want);
}

static void test_memory(void) {
    test_folder_begin(root);
    check_memory("nothing is known", (int64_t)1 << 30);
    put("proc/meminfo", "MemTotal: 100 kB\nMemFree: 20 kB\nMemAvailable:    50 kB\n");
    check_memory("no cgroup", 50 << 10);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/b/memory.current", "9000\n");
    check_memory("version 2 without a limit", 50 << 10);
    put("sys/fs/cgroup/a/b/memory.max", "40000\n");
    check_memory("version 2", 31000);
    put("sys/fs/cgroup/a/memory.max", "10000\n");
    put("sys/fs/cgroup/a/memory.current", "9500\n");
    check_memory("version 2, and the group above", 500);
    put("sys/fs/cgroup/a/memory.current", "10001\n");
    check_memory("more than there may be", 0);
    test_folder_end(root);

    test_folder_begin(root);
    put("proc/meminfo", "MemAvailable:    50 kB\n");
    put("proc/self/cgroup", "4:cpu,memory2:/x\n3:hugetlb,memory:/docker/c\n0::/\n");
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "7000\n");
    check_memory("version 1 without a limit", 50 << 10);
    put("sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes", "30000\n");
    put("sys/fs/cgroup/memory/docker/c/memory.usage_in_bytes", "7000\n");
    check_memory("version 1", 23000);
    test_folder_end(root);
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
    test_memory();
    return test_end();
}
