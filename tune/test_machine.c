/* What the tuner reads of cgroups: of a folder that is made here, as Linux has it with version 2 and with version 1. */
#include "test.h"
#include "tune.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

volatile sig_atomic_t tune_stopped;

static char root[64];

/* Writes a file below root, and the folders above it. */
static void put(const char *path, const char *text) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(whole, 0755);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    test_check(file && fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s", whole);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *level) {
    (void)status, (void)kind, (void)level;
    return remove(path);
}

static void begin(void) {
    snprintf(root, sizeof root, "/tmp/fovea-test-XXXXXX");
    if (!mkdtemp(root))
        exit(TEST_FAILED);
}

static void end(void) { nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static void check_throttled(const char *what, long long want) {
    const long long got = tune_throttled(root);
    test_check(got == want, "%s: %lld periods throttled, not %lld", what, got, want);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tune_machine", NULL);
    begin();
    check_throttled("no cgroup at all", 0);
    put("/proc/self/cgroup", "0::/a/b\n");
    check_throttled("version 2 without counts", 0);
    put("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 7\n");
    check_throttled("version 2", 3);
    put("/sys/fs/cgroup/a/cpu.stat", "nr_periods 10\nnr_throttled 4\n");
    check_throttled("version 2, and the group above", 7);
    end();

    begin();
    put("/proc/self/cgroup", "12:cpuset:/a\n4:cpu,cpuacct:/docker/c\n1:name=systemd:/a\n");
    put("/sys/fs/cgroup/cpuset/a/cpu.stat", "nr_throttled 100\n");
    put("/sys/fs/cgroup/cpu/docker/c/cpu.stat", "nr_periods 10\nnr_throttled 5\nthrottled_time 7\n");
    check_throttled("version 1", 5);
    put("/proc/self/cgroup", "4:cpuacct,cpu:/docker/c\n0::/\n");
    check_throttled("version 1 in the other order, beside an empty version 2", 5);
    end();

    begin(); /* in a container the line has the host's folder, of which only the lowest is mounted */
    put("/proc/self/cgroup", "4:cpu:/docker/c\n");
    put("/sys/fs/cgroup/cpu/cpu.stat", "nr_periods 10\nnr_throttled 6\n");
    check_throttled("version 1 in a container", 6);
    end();
    return test_end();
}
