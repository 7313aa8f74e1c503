/* Small helpers of fovea-bench: the machine's tier and peak, contexts, memory and random numbers. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "peak_run.h"
#include "read_speed.h"

void *bench_new(size_t size, const bench *functions, const char *words, const cli_key *keys, size_t count,
                bench_takes takes, char error[BENCH_ERROR_SIZE]) {
    enum { MOST_KEYS = 64 };
    int64_t isa = 0, threads = 1;
    cli_key all[MOST_KEYS + 3];
    assert(count <= MOST_KEYS);
    memcpy(all, keys, count * sizeof *keys);
    if (takes >= BENCH_TAKES_ISA)
        all[count++] = (cli_key){"isa", bench_isa_words, 0, 0, &isa};
    if (takes == BENCH_TAKES_THREADS)
        all[count++] = (cli_key){"threads", NULL, 1, 4096, &threads};
    all[count] = (cli_key){NULL, NULL, 0, 0, NULL};
    if (cli_read_words(words, all, error) < 0)
        return NULL;
    const fv_isa tier = bench_isa_resolve(isa, error);
    bench *self = tier ? calloc(1, size) : NULL;
    if (self == NULL)
        return NULL;
    *self = *functions;
    self->isa = (fovea_isa)tier;
    self->threads = (int)threads;
    return self;
}

void bench_name(bench *self, const char *format, ...) {
    const size_t used = strlen(self->name);
    va_list values;
    va_start(values, format);
    vsnprintf(self->name + used, BENCH_NAME_SIZE - used, format, values);
    va_end(values);
}

void bench_name_end(bench *self) {
    bench_name(self, "/isa:%s/threads:%d", fv_isa_word((fv_isa)self->isa), self->threads);
}

fv_target bench_target(char cpu[64]) {
    fv_cpu machine;
    fovea_context *context;
    fovea_context_facts info;
    if (fovea_context_create(NULL, &context) != FOVEA_OK) {
        fprintf(stderr, "fovea-bench: %s\n", fovea_error_detail());
        exit(2);
    }
    fovea_context_facts_init(&info);
    fovea_context_info(context, &info);
    fovea_context_destroy(context);
    if (cpu != NULL)
        memcpy(cpu, info.cpu, sizeof info.cpu);
    fv_cpu_detect(&machine);
    return fv_target_capped(machine.target, (fv_isa)info.isa);
}

const char *bench_context(fovea_isa isa, int threads, fovea_context **context) {
    fovea_context_options options;
    fovea_context_facts info;
    fovea_context_options_init(&options);
    fovea_context_facts_init(&info);
    options.isa = isa;
    options.threads = threads;
    if (fovea_context_create(&options, context) != FOVEA_OK || fovea_context_info(*context, &info) != FOVEA_OK)
        return fovea_error_detail();
    return info.threads == threads ? NULL : "fewer CPUs may be used than the case has threads";
}

fovea_arithmetic bench_arithmetic(fovea_arithmetic wanted, fv_isa isa, fovea_dtype dtype, int linear) {
    fovea_context_options options;
    fovea_context *context = NULL;
    fovea_context_facts info;
    if (wanted != FOVEA_ARITHMETIC_FASTEST)
        return wanted;
    fovea_context_options_init(&options);
    fovea_context_facts_init(&info);
    options.isa = (fovea_isa)isa;
    if (dtype == FOVEA_DTYPE_BF16 && fovea_context_create(&options, &context) == FOVEA_OK &&
        fovea_context_info(context, &info) == FOVEA_OK)
        wanted = linear ? info.fastest_linear : info.fastest_attention;
    fovea_context_destroy(context);
    return wanted == FOVEA_ARITHMETIC_FASTEST ? FOVEA_ARITHMETIC_EXACT : wanted;
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double bench_peak(fv_isa isa) {
    enum { RUNS = 12, ROUNDS = 100000 }; /* a run is about a millisecond: shorter than what else a machine does */
    static double best[FV_ISA_COUNT];
    for (int i = 0; i < RUNS; i++) {
        const double start = seconds(), flops = peak_run(isa, ROUNDS), rate = flops / (seconds() - start);
        best[isa] = rate > best[isa] ? rate : best[isa];
    }
    return best[isa];
}

double bench_peak_integers(fv_target target) {
    enum { RUNS = 12, ROUNDS = 100000 };
    static double best[FV_ISA_COUNT];
    for (int i = 0; i < RUNS; i++) {
        const double start = seconds(), work = peak_run_integers((int)target.isa, target.features, ROUNDS),
                     rate = work / (seconds() - start);
        best[target.isa] = rate > best[target.isa] ? rate : best[target.isa];
    }
    return best[target.isa];
}

static void on_threads(const void *context, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)fovea_parallel(context, count, task, arg);
}

double bench_read_speed(const fovea_context *context, int threads) {
    static int before;
    static double best;
    const double speed = peak_read_speed(threads, on_threads, context);
    best = threads == before && best > speed ? best : speed;
    before = threads;
    return best;
}

void *bench_alloc(int64_t bytes) {
    size_t lines = ((size_t)bytes + BENCH_CACHE_LINE - 1) / BENCH_CACHE_LINE;
    return aligned_alloc(BENCH_CACHE_LINE, (lines ? lines : 1) * BENCH_CACHE_LINE);
}

/* splitmix64: passes through every 64-bit state once, so any seed is a good one. */
uint64_t bench_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void bench_fill(float *data, int64_t n, float low, float high, uint64_t seed) {
    for (int64_t i = 0; i < n; i++)
        data[i] = low + (high - low) * (float)(bench_random(&seed) >> 40) * 0x1p-24f;
}

void *bench_numbers(int64_t n, fovea_dtype dtype, float low, float high, uint64_t seed) {
    float *floats = bench_alloc(n * (int64_t)sizeof *floats);
    if (floats != NULL)
        bench_fill(floats, n, low, high, seed);
    if (floats == NULL || dtype == FOVEA_DTYPE_F32)
        return floats;
    void *numbers = bench_alloc(n * fv_dtype_size(dtype));
    if (numbers != NULL && fovea_convert(n, floats, FOVEA_DTYPE_F32, numbers, dtype) != FOVEA_OK) {
        free(numbers);
        numbers = NULL;
    }
    free(floats);
    return numbers;
}
