/* A made-up system with nodes of memory (nodes_system.h). */
#define _GNU_SOURCE /* sched_getaffinity, madvise */
#include "nodes_system.h"

#include "attention_case.h"
#include "folder.h"
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

char nodes_folder[TEST_FOLDER];
int caller_cpu;
atomic_bool refuse;
static int process_cpus = 8;
static _Thread_local cpu_set_t own_mask;
static _Thread_local bool bound; /* is the thread? */

enum { LOGGED = 4096 };
static struct {
    void *at;
    size_t bytes;
    int cpu;
} placed[LOGGED];
static atomic_int placed_count;
atomic_int binds[CPU_SETSIZE];
static pthread_t first_thread;

__attribute__((constructor)) static void remember(void) { first_thread = pthread_self(); }

static int first_cpu(const cpu_set_t *set) {
    int cpu = 0;
    while (cpu < CPU_SETSIZE && !CPU_ISSET((size_t)cpu, set))
        cpu++;
    return cpu;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);
int __wrap_sched_getcpu(void);
int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);
fv_openmp __wrap_fv_threads_of_openmp(void);

fv_openmp __wrap_fv_threads_of_openmp(void) { return (fv_openmp){true, 64, 64}; }

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    (void)pid;
    memset(set, 0, size);
    for (int cpu = 0; cpu < process_cpus; cpu++)
        if (!bound || CPU_ISSET((size_t)cpu, &own_mask))
            CPU_SET((size_t)cpu, set);
    return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
    cpu_set_t mask;
    (void)pid;
    CPU_ZERO(&mask);
    for (int cpu = 0; cpu < process_cpus && cpu < (int)size * 8; cpu++)
        if (CPU_ISSET((size_t)cpu, set))
            CPU_SET((size_t)cpu, &mask);
    if (refuse || CPU_COUNT(&mask) == 0) {
        errno = refuse ? EPERM : EINVAL;
        return -1;
    }
    bound = CPU_COUNT(&mask) < process_cpus;
    own_mask = mask;
    static _Thread_local bool counted; /* a thread that leaves the caller's CPU calls again */
    if (!pthread_equal(pthread_self(), first_thread) && !counted)
        binds[first_cpu(&mask)]++;
    counted = true;
    return 0;
}

int __wrap_sched_getcpu(void) { return bound ? first_cpu(&own_mask) : caller_cpu; }

int __wrap_madvise(void *at, size_t bytes, int advice) {
    if (advice == MADV_DONTNEED && placed_count < LOGGED) {
        const int i = placed_count++;
        placed[i].at = at, placed[i].bytes = bytes, placed[i].cpu = bound ? first_cpu(&own_mask) : -1;
    }
    return __real_madvise(at, bytes, advice);
}

void make_up(const topology *t) {
    placed_count = 0;
    memset(binds, 0, sizeof binds);
    test_folder_begin(nodes_folder);
    if (t->online)
        test_folder_put(nodes_folder, "online", t->online);
    if (t->memory)
        test_folder_put(nodes_folder, "has_memory", t->memory);
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "node%d/cpulist", i);
        if (t->cpus[i])
            test_folder_put(nodes_folder, name, t->cpus[i]);
    }
    process_cpus = t->mask;
    caller_cpu = 0;
}

const topology topologies[TOPOLOGIES] = {
    {"two", "0-1\n", "0-1\n", {"0-3\n", "4-7\n"}, 8, "0:4 1:4"},
    {"interleaved", "0-1\n", NULL, {"0,2,4,6\n", "1,3,5,7\n"}, 8, "0:4 1:4"},
    {"uneven", "0-2\n", NULL, {"0\n", "1-5\n", "6,7"}, 8, "0:1 1:5 2:2"},
    {"four of a CPU", "0-3\n", NULL, {"0\n", "1\n", "2\n", "3\n"}, 4, "0:1 1:1 2:1 3:1"},
    {"no CPUs", "0-2\n", "0-2\n", {"0-3\n", "\n", "4-7\n"}, 8, "0:4 1:0 2:4"},
    {"no memory", "0-1\n", "0\n", {"0-3\n", "4-7\n"}, 8, "0:4 1:4m"},
    {"offline", "0,2\n", NULL, {"0-3\n", "8-9\n", "4-7\n"}, 8, "0:4 2:4"},
    {"outside the mask", "0-1\n", NULL, {"0-1,8-11\n", "2-3,12-99\n"}, 4, "0:2 1:2"},
    {"mask of one", "0-1\n", NULL, {"0-3\n", "4-7\n"}, 4, "0:4 1:0"},
    {"one", "0\n", "0\n", {"0-7\n"}, 8, "0:8"},
    {"no description", NULL, NULL, {NULL}, 8, ""},
    {"no list of CPUs", "0-1\n", NULL, {"0-3\n", NULL}, 8, ""},
    {"a CPU of no node", "0-1\n", NULL, {"0-3\n", "5-7\n"}, 8, ""},
    {"a CPU of two nodes", "0-1\n", NULL, {"0-4\n", "4-7\n"}, 8, "0:5 1:3"},
    {"words", "0-1\n", NULL, {"0-3\n", "four\n"}, 8, ""},
    {"backwards", "0-1\n", NULL, {"0-3\n", "7-4\n"}, 8, ""},
    {"negative", "0-1\n", NULL, {"0-3\n", "-4-7\n"}, 8, ""},
    {"a comma more", "0-1\n", NULL, {"0-3\n", "4-7,\n"}, 8, ""},
    {"a range of three", "0-1\n", NULL, {"0-3\n", "4-5-7\n"}, 8, ""},
    {"too large", "0-1\n", NULL, {"0-3\n", "4-99999999999999999999\n"}, 8, ""},
    {"nodes in words", "all\n", NULL, {"0-3\n", "4-7\n"}, 8, ""},
    {"nodes too large", "0-4096\n", NULL, {"0-3\n", "4-7\n"}, 8, ""},
    {"more nodes than can be", "0-99\n", NULL, {"0-3\n", "4-7\n"}, 8, "0:4 1:4"},
    {"empty", "", NULL, {"0-3\n", "4-7\n"}, 8, ""},
};

void end_system(void) {
    test_check(!bound, "the calling thread was left bound");
    bound = false;
    test_folder_end(nodes_folder);
}

fovea_context *make_context(fovea_threads_bind bind, fovea_threads_backend backend, fovea_status want) {
    fovea_context_options options;
    fovea_context *ctx;
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    cpu.quota = 0;
    fv_nodes_read(nodes_folder, &cpu.nodes);
    fovea_context_options_init(&options);
    options.threads_bind = bind;
    options.threads_backend = backend;
    check_status("context", fv_context_create_on(&cpu, &options, &ctx), want, "");
    return ctx;
}

int cpu_of(const void *at) {
    int cpu = -1;
    for (int i = 0; i < placed_count; i++)
        if ((const char *)at >= (char *)placed[i].at && (const char *)at < (char *)placed[i].at + placed[i].bytes)
            cpu = placed[i].cpu;
    return cpu;
}

int cpu_of_node(const fovea_context *ctx, int node) {
    return first_cpu((const cpu_set_t *)(const void *)ctx->cpu.nodes.node[node].set);
}
