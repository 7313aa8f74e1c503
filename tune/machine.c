/* What the tuner sees of the machine: clocks, memory, and what disturbs (tune.h). Where Linux's files are missing, counts
 * are 0 and limits absent. */
#include "registry.h"
#include "tune.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double tune_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

long tune_involuntary(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* The number after a word that begins a line of a file; missing if there is none. */
static long long number_in(const char *path, const char *word, long long missing) {
    FILE *file = fopen(path, "re");
    char line[512];
    long long number = missing;
    while (file && number == missing && fgets(line, sizeof line, file))
        if (strncmp(line, word, strlen(word)) == 0)
            number = atoll(line + strlen(word));
    if (file)
        fclose(file);
    return number;
}

/* The folder of this process's cgroup, version 2; "" if it is not known. */
static const char *cgroup(void) {
    static char folder[512];
    static bool looked;
    FILE *file = looked ? NULL : fopen("/proc/self/cgroup", "re");
    char line[480];
    looked = true;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", line + 3);
        }
    if (file)
        fclose(file);
    return folder;
}

static long long in_cgroup(const char *name, const char *word, long long missing) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cgroup(), name);
    return cgroup()[0] ? number_in(path, word, missing) : missing;
}

/* The eighth number of the first line of /proc/stat. */
static long long steal(void) {
    FILE *file = fopen("/proc/stat", "re");
    long long ticks = 0;
    if (file && fscanf(file, "cpu %*d %*d %*d %*d %*d %*d %*d %lld", &ticks) != 1)
        ticks = 0;
    if (file)
        fclose(file);
    return ticks;
}

tune_noise tune_noise_now(void) {
    return (tune_noise){tune_involuntary(), steal(), in_cgroup("cpu.stat", "nr_throttled ", 0)};
}

int64_t tune_memory_allowed(void) {
    const int64_t kib = number_in("/proc/meminfo", "MemAvailable:", 1 << 20);
    int64_t bytes = kib * 1024;
    const int64_t most = in_cgroup("memory.max", "", 0), used = in_cgroup("memory.current", "", 0);
    if (most > used && most - used < bytes)
        bytes = most - used;
    return bytes / 4;
}

/* The share of a tenth of a second that the process did not get, and how evenly the same work went. */
static void print_steadiness(const fovea_context *ctx) {
    enum { RUNS = 40 };
    const fv_kernel *kernel = fv_kernel_best(FV_OP_peak, ctx->isa);
    static volatile float sink;
    double least = INFINITY, all = 0;
    const tune_noise before = tune_noise_now();
    for (int i = 0; i < RUNS; i++) {
        const double start = tune_now();
        sink = kernel->run.peak_f32(50000);
        const double seconds = tune_now() - start;
        least = seconds < least ? seconds : least;
        all += seconds;
    }
    (void)sink;
    const tune_noise after = tune_noise_now();
    const double excess = all / RUNS / least - 1;
    printf("steady    %s: the same work took %.1f %% longer on average than at best, %ld involuntary switches, %lld "
           "ticks stolen, %lld periods throttled\n",
           excess < 0.03   ? "yes"
           : excess < 0.25 ? "not quite"
                           : "no",
           100 * excess, after.involuntary - before.involuntary, after.steal - before.steal,
           after.throttled - before.throttled);
}

void tune_machine_print(const fovea_context *ctx) {
    const fv_cpu *cpu = &ctx->cpu;
    const int quota = fv_cpu_quota();
    printf("machine   %s, stepping %" PRId64 ", tier %s\n", cpu->name, cpu->stepping, fv_isa_word(ctx->isa));
    printf("caches    %" PRId64 " KiB, %" PRId64 " KiB, %" PRId64 " MiB", cpu->l1d / 1024, cpu->l2 / 1024,
           cpu->l3 >> 20);
    if (cpu->l3_reported > cpu->l3)
        printf(" (of the %" PRId64 " MiB it reports: more than its CPUs can count on)", cpu->l3_reported >> 20);
    printf("\ncores     %" PRId64 ", %d allowed to this process, ", cpu->cores, fv_cpu_affinity());
    if (quota > 0)
        printf("a cgroup quota of %d", quota);
    else
        printf("no cgroup quota");
    printf("; %d thread%s\nmemory    %" PRId64 " MiB may be taken\n", ctx->threads, ctx->threads == 1 ? "" : "s",
           tune_memory_allowed() >> 20);
    print_steadiness(ctx);
}

fovea_context *tune_context(const tune_options *options) {
    fovea_context_options wanted;
    fovea_context *ctx;
    fovea_context_options_init(&wanted);
    wanted.isa = options->isa;
    wanted.threads = options->threads;
    wanted.tuning_file = "";
    if (fovea_context_create(&wanted, &ctx) != FOVEA_OK) {
        fprintf(stderr, "fovea-tune: %s\n", fovea_error_detail());
        return NULL;
    }
    if (options->isa != FOVEA_ISA_BEST && (fovea_isa)ctx->isa != options->isa)
        fprintf(stderr, "fovea-tune: tier %s is not to be had here: %s\n", fovea_isa_name(options->isa), ctx->reason);
    else if (options->threads > 0 && ctx->threads != options->threads)
        fprintf(stderr, "fovea-tune: %d threads are not to be had here: %s\n", options->threads, ctx->reason);
    else
        return ctx;
    fovea_context_destroy(ctx);
    return NULL;
}
