/* The CPUs of this process, and the system's description of them, made up in a folder: kinds of cores by capacity, and
 * what caches a core has. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cpu/cpu.h"
#include "folder.h"
#include "fovea/fovea.h"
#include "test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[TEST_FOLDER];

/* Writes a file of a CPU's folder; name may have folders in it. */
static void put(int cpu, const char *name, const char *content) {
    char path[256];
    snprintf(path, sizeof path, "cpu%d/%s", cpu, name);
    test_folder_put(folder, path, content);
}

static void put_cache(int cpu, int index, const char *level, const char *type, const char *size, const char *map) {
    const char *const names[] = {"level", "type", "size", "shared_cpu_map"};
    const char *const contents[] = {level, type, size, map};
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "cache/index%d/%s", index, names[i]);
        if (contents[i])
            put(cpu, name, contents[i]);
    }
}

static void check_cache(const char *what, int cpu, int level, int64_t want) {
    const int64_t got = fv_cpu_cache(folder, cpu, level);
    test_check(got == want, "%s: %lld bytes instead of %lld", what, (long long)got, (long long)want);
}

static void test_caches(void) {
    put_cache(0, 0, "1\n", "Instruction\n", "32K\n", "1\n");
    put_cache(0, 1, "1\n", "Data\n", "64K\n", "00000001\n");
    put_cache(0, 2, "2\n", "Unified\n", "2048K\n", "00000000,0000000f\n");
    put_cache(0, 3, "3\n", "Unified\n", "4M\n", NULL);
    check_cache("the data cache, not that of instructions", 0, 1, 64 << 10);
    check_cache("a share of what four cores have", 0, 2, 512 << 10);
    check_cache("megabytes, sharing not told", 0, 3, 4 << 20);
    check_cache("no such level", 0, 4, 0);
    check_cache("no such CPU", 7, 1, 0);
    put_cache(1, 0, "1\n", "Data\n", NULL, NULL);
    check_cache("no size", 1, 1, 0);
    put_cache(1, 0, "1\n", "Data\n", "much\n", "0\n");
    check_cache("no number", 1, 1, 0);
}

static bool bound; /* --bound */

/* The CPUs of this process: those of the calling thread, or of the parent where OpenMP has bound the thread to its
 * place. */
static bool cpus_of_process(cpu_set_t *set) {
    const pid_t process = bound ? getppid() : 0;
    if ((!bound || process > 0) && sched_getaffinity(process, sizeof *set, set) == 0)
        return true;
    test_skip("the parent's CPUs cannot be seen, or there are more than a cpu_set_t holds");
    return false;
}

static void nothing(void *arg, int64_t index) { (void)arg, (void)index; }

/* Bound threads (OMP_PROC_BIND) are as many as others: before OpenMP's first region, and after it. */
static void test_affinity(void) {
    cpu_set_t set;
    if (!cpus_of_process(&set))
        return;
    const int want = CPU_COUNT(&set);
    for (int i = 0; i < 2; i++) {
        const int got = fv_cpu_affinity();
        test_check(got == want, "%d CPUs instead of %d, %s a parallel region", got, want, i == 0 ? "before" : "after");
        fovea_context *ctx;
        if (!test_check(fovea_context_create(NULL, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail()))
            return;
        fovea_parallel(ctx, 2, nothing, NULL);
        fovea_context_destroy(ctx);
    }
}

static void test_kinds(void) {
    cpu_set_t set;
    int cpus[CPU_SETSIZE], count = 0;
    if (!cpus_of_process(&set))
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus[count++] = cpu;
    fv_fastest fastest;
    fv_cpu_fastest(folder, &fastest);
    test_check(fastest.count == count && fastest.first == cpus[0], "no capacities: %d CPUs from %d", fastest.count,
               fastest.first);
    for (int i = 0; i < count; i++)
        put(cpus[i], "cpu_capacity", "446\n");
    fv_cpu_fastest(folder, &fastest);
    test_check(fastest.count == count && fastest.first == cpus[0], "one kind: %d CPUs from %d", fastest.count,
               fastest.first);
    if (count < 2) {
        test_skip("kinds of cores: one CPU in the affinity mask");
        return;
    }
    put(cpus[count - 1], "cpu_capacity", "1024\n");
    fv_cpu_fastest(folder, &fastest);
    test_check(fastest.count == 1 && fastest.first == cpus[count - 1], "the last is faster: %d CPUs from %d",
               fastest.count, fastest.first);
    put(cpus[0], "cpu_capacity", "1024\n");
    fv_cpu_fastest(folder, &fastest);
    test_check(fastest.count == 2 && fastest.first == cpus[0], "the first and the last are faster: %d CPUs from %d",
               fastest.count, fastest.first);
}

/* Caches as hypervisors describe them: the whole socket's last level on two CPUs, nothing at all, nonsense. */
static void test_sane(void) {
    const int64_t kib = 1 << 10, mib = 1 << 20;
    static const struct {
        const char *what;
        int64_t cores, l1d, l2, l3;         /* in KiB, as reported */
        int64_t want_l1d, want_l2, want_l3; /* in KiB */
    } cases[] = {{"as it is", 8, 48, 2048, 32768, 48, 2048, 32768},
                 {"480 MiB on two CPUs", 2, 48, 2048, 480 << 10, 48, 2048, 64 << 10},
                 {"nothing is said", 2, 0, 0, 0, 32, 512, 0},
                 {"less than nothing", 2, -48, -2048, -1, 32, 512, 0},
                 {"too small to be", 2, 1, 16, 16, 32, 512, 0},
                 {"too large to be", 2, 48 << 10, 2048 << 10, 1 << 30, 32, 512, 64 << 10},
                 {"a last level smaller than the second", 2, 32, 1024, 512, 32, 1024, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fv_cpu cpu = {.cores = cases[i].cores, .l1d = cases[i].l1d * kib, .l2 = cases[i].l2 * kib};
        cpu.l3_reported = cases[i].l3 * kib;
        fv_cpu_sane_caches(&cpu);
        test_check(cpu.l1d == cases[i].want_l1d * kib && cpu.l2 == cases[i].want_l2 * kib &&
                       cpu.l3 == cases[i].want_l3 * kib,
                   "%s: %lld KiB, %lld KiB, %lld MiB", cases[i].what, (long long)(cpu.l1d / kib),
                   (long long)(cpu.l2 / kib), (long long)(cpu.l3 / mib));
        test_check(cpu.l3_reported == cases[i].l3 * kib, "%s: what was reported is lost", cases[i].what);
    }
}

/* Both versions of cgroups, and groups within groups. */
static void test_quota(void) {
    static const struct {
        const char *what, *groups, *file, *content, *period, *outer;
        int want;
    } cases[] = {{"version 2", "0::/a/b\n", "a/b/cpu.max", "250000 100000\n", NULL, NULL, 2},
                 {"less than a CPU", "0::/a/b\n", "a/b/cpu.max", "50000 100000\n", NULL, NULL, 1},
                 {"no limit", "0::/a/b\n", "a/b/cpu.max", "max 100000\n", NULL, NULL, 0},
                 {"the group above", "0::/a/b\n", "a/b/cpu.max", "900000 100000\n", NULL, "300000 100000\n", 3},
                 {"version 1", "4:cpu,cpuacct:/c\n", "cpu/c/cpu.cfs_quota_us", "400000\n", "100000\n", NULL, 4},
                 {"the other order", "4:cpuacct,cpu:/c\n", "cpu/c/cpu.cfs_quota_us", "500000\n", "100000\n", NULL, 5},
                 {"no cpu", "4:cpuset,cpuacct:/c\n", "cpu/c/cpu.cfs_quota_us", "500000\n", "100000\n", NULL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "sys/fs/cgroup/%s", cases[i].file);
        test_folder_put(folder, "proc/self/cgroup", cases[i].groups);
        test_folder_put(folder, path, cases[i].content);
        test_folder_put(folder, "sys/fs/cgroup/a/cpu.max", cases[i].outer ? cases[i].outer : "max 100000\n");
        test_folder_put(folder, "sys/fs/cgroup/cpu/c/cpu.cfs_period_us", cases[i].period ? cases[i].period : "0\n");
        const int got = fv_cpu_quota(folder);
        test_check(got == cases[i].want, "%s: a quota of %d CPUs instead of %d", cases[i].what, got, cases[i].want);
    }
    test_check(fv_cpu_quota("/nowhere") == 0, "no /proc: a quota");
}

static char root[TEST_FOLDER];

static void put_file(const char *name, const char *text) { test_folder_put(root, name, text); }

static void check_memory(const char *what, int64_t want) {
    const int64_t got = fv_cpu_memory(root);
    test_check(got == want, "%s: %lld bytes left, not %lld", what, (long long)got, (long long)want);
}

/* Likewise, and what the system says of all memory. */
static void test_memory(void) {
    test_folder_begin(root);
    check_memory("nothing is known", (int64_t)1 << 30);
    put_file("proc/meminfo", "MemTotal: 100 kB\nMemFree: 20 kB\nMemAvailable:    50 kB\n");
    check_memory("no cgroup", 50 << 10);
    put_file("proc/self/cgroup", "0::/a/b\n");
    put_file("sys/fs/cgroup/a/b/memory.max", "max\n");
    put_file("sys/fs/cgroup/a/b/memory.current", "9000\n");
    check_memory("version 2 without a limit", 50 << 10);
    put_file("sys/fs/cgroup/a/b/memory.max", "40000\n");
    check_memory("version 2", 31000);
    put_file("sys/fs/cgroup/a/memory.max", "10000\n");
    put_file("sys/fs/cgroup/a/memory.current", "9500\n");
    check_memory("version 2, and the group above", 500);
    put_file("sys/fs/cgroup/a/memory.current", "10001\n");
    check_memory("more than there may be", 0);
    test_folder_end(root);

    test_folder_begin(root);
    put_file("proc/meminfo", "MemAvailable:    50 kB\n");
    put_file("proc/self/cgroup", "4:cpu,memory2:/x\n3:hugetlb,memory:/docker/c\n0::/\n");
    put_file("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
    put_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put_file("sys/fs/cgroup/memory/memory.usage_in_bytes", "7000\n");
    check_memory("version 1 without a limit", 50 << 10);
    put_file("sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes", "30000\n");
    put_file("sys/fs/cgroup/memory/docker/c/memory.usage_in_bytes", "7000\n");
    check_memory("version 1", 23000);
    test_folder_end(root);
}

int main(int argc, char **argv) {
    test_option options[] = {
        {"--bound", NULL, "OMP_PROC_BIND is set, and the parent has the same CPUs (ctest has)", NULL},
        {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "cpu_topology", options);
    bound = test_option_value(options, "--bound") != NULL;
    test_folder_begin(folder);
    test_affinity(); /* first: no region yet */
    test_sane();
    test_caches();
    test_kinds();
    test_quota();
    test_memory();
    test_folder_end(folder);
    return test_end();
}
