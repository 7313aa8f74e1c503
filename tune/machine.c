/* The machine as the tuner sees it, apart from the facts of its context: clocks and disturbances. Where Linux's files
 * are missing, counts are 0. */
#include "machine.h"
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "peak_run.h"
#include "plural.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void clock_rest(double seconds) {
    const double whole = floor(seconds);
    nanosleep(&(struct timespec){.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)}, NULL);
}

static long involuntary(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* The number after a word that begins a line of a file; 0 if there is none. */
static long long number_in(const char *path, const char *word) {
    FILE *file = fopen(path, "re");
    char line[512];
    long long number = 0;
    while (file && number == 0 && fgets(line, sizeof line, file))
        if (strncmp(line, word, strlen(word)) == 0)
            number = atoll(line + strlen(word));
    if (file)
        fclose(file);
    return number;
}

/* The cpu.stat files in which throttling is counted. */
typedef struct stat_files {
    char path[8][600];
    int count;
} stat_files;

static void add_stat(fv_cgroup *group, void *arg) {
    stat_files *files = arg;
    const char *path = fv_cgroup_file(group, "cpu.stat");
    if (files->count < 8 && strlen(path) < sizeof files->path[0] && access(path, R_OK) == 0)
        strcpy(files->path[files->count++], path);
}

static long long throttled_in(const stat_files *files) {
    long long periods = 0;
    for (int i = 0; i < files->count; i++)
        periods += number_in(files->path[i], "nr_throttled ");
    return periods;
}

long long tune_throttled(const char *root) {
    stat_files files = {.count = 0};
    fv_cgroups_each(root, "cpu", add_stat, &files);
    return throttled_in(&files);
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

static tune_noise noise_now(void) {
    static stat_files files;
    static bool looked;
    if (!looked)
        fv_cgroups_each("", "cpu", add_stat, &files);
    looked = true;
    return (tune_noise){involuntary(), steal(), throttled_in(&files)};
}

tune_instruments tune_instrument = {clock_now, clock_rest, involuntary, noise_now, NULL};

double tune_now(void) { return tune_instrument.now(); }
void tune_rest(double seconds) { tune_instrument.rest(seconds); }
long tune_involuntary(void) { return tune_instrument.involuntary(); }
tune_noise tune_noise_now(void) { return tune_instrument.noise(); }

int64_t tune_memory_allowed(const fovea_context *ctx) { return ctx->cpu.memory / 4; }

tune_steadiness tune_measure_steadiness(const fovea_context *ctx) {
    enum { RUNS = 40 };
    double least = INFINITY, all = 0;
    const tune_noise before = tune_noise_now();
    for (int i = 0; i < RUNS; i++) {
        const double start = tune_now();
        const double flops = peak_run(ctx->target.isa, 50000), time = (tune_now() - start) / flops;
        least = time < least ? time : least;
        all += time;
    }
    const tune_noise after = tune_noise_now();
    return (tune_steadiness){.excess = fmax(all / RUNS / least - 1, 0),
                             .noise = {after.involuntary - before.involuntary, after.steal - before.steal,
                                       after.throttled - before.throttled}};
}

bool tune_is_busy(const tune_steadiness *s) { return s->excess > 2; }

static void print_steadiness(const tune_steadiness *s) {
    printf("steady    %s: the same work took %.1f%% longer on average than at best, %ld involuntary switches, %lld "
           "ticks stolen, %lld periods throttled\n",
           s->excess < 0.03   ? "yes"
           : s->excess < 0.25 ? "not quite"
                              : "no",
           100 * s->excess, s->noise.involuntary, s->noise.steal, s->noise.throttled);
}

void tune_machine_print(const fovea_context *ctx, const tune_steadiness *steady) {
    const fv_cpu *cpu = &ctx->cpu;
    const int quota = cpu->quota;
    printf("machine   %s, stepping %" PRId64 ", tier %s\n", cpu->name, cpu->stepping, fv_isa_word(ctx->target.isa));
    printf("caches    %" PRId64 " KiB, %" PRId64 " KiB, %" PRId64 " MiB", cpu->l1d / 1024, cpu->l2 / 1024,
           cpu->l3 >> 20);
    if (cpu->l3_reported > cpu->l3)
        printf(" (of the %" PRId64 " MiB it reports: more than its CPUs can count on)", cpu->l3_reported >> 20);
    printf("\ncores     %" PRId64 ", %d allowed to this process, ", cpu->cores, cpu->affinity);
    if (quota > 0)
        printf("a cgroup quota of %d", quota);
    else
        printf("no cgroup quota");
    printf("; %d thread%s\nmemory    %" PRId64 " MiB available\n", ctx->threads.count, plural(ctx->threads.count),
           tune_memory_allowed(ctx) >> 20);
    print_steadiness(steady);
}

fovea_context *tune_context(const tune_options *options) {
    fovea_context_options context_options;
    fovea_context *ctx;
    fovea_context_options_init(&context_options);
    context_options.isa = options->isa;
    context_options.threads = options->threads;
    context_options.threads_backend = FOVEA_THREADS_POOL; /* as programs of ours */
    context_options.tuning_file = "";
    if (fovea_context_create(&context_options, &ctx) != FOVEA_OK) {
        fprintf(stderr, "fovea-tune: %s\n", fovea_error_detail());
        return NULL;
    }
    if (options->isa != FOVEA_ISA_BEST && (fovea_isa)ctx->target.isa != options->isa)
        fprintf(stderr, "fovea-tune: tier %s is unavailable on this system: %s\n", fovea_isa_name(options->isa),
                ctx->reason);
    else if (options->threads > 0 && ctx->threads.count != options->threads)
        fprintf(stderr, "fovea-tune: %d thread%s %s unavailable on this system: %s\n", options->threads,
                plural(options->threads), options->threads == 1 ? "is" : "are", ctx->reason);
    else
        return ctx;
    fovea_context_destroy(ctx);
    return NULL;
}
