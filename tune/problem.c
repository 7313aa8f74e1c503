/* Problems: operands for a shape, and the time of a plan on them (tune.h).
 *
 * Operands lie in one arena that is filled once: numbers of ordinary size. Attentions of few rows read each set of it in
 * turn, so that keys and values come from memory as they do in a program that decodes; others compute the same operands
 * again and again.
 */
#include "parallel.h"
#include "registry.h"
#include "size.h"
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN = 1 << 18, MOST_SETS = 4096 };

static float *arena;
static int64_t arena_bytes;

/* Beyond the last cache twice, as it reports itself: a guest may have all of it to itself. But at most what may be taken. */
static int64_t cold_bytes(const fovea_context *ctx) {
    static int64_t bytes; /* decided once: an arena that grew would move under who uses it */
    const int64_t wanted = fv_max(2 * ctx->cpu.l3_reported, (int64_t)64 << 20);
    if (bytes == 0)
        bytes = fv_min(fv_min(wanted, tune_memory_allowed()), (int64_t)768 << 20);
    return bytes;
}

static bool have_arena(int64_t bytes) {
    if (bytes <= arena_bytes)
        return true;
    free(arena);
    arena_bytes = fv_round_up(bytes, PATTERN * (int64_t)sizeof(float));
    arena = aligned_alloc(4096, (size_t)arena_bytes);
    if (!arena) {
        arena_bytes = 0;
        return false;
    }
    uint64_t state = 1;
    for (int i = 0; i < PATTERN; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        arena[i] = (float)(int64_t)(state >> 40) * 0x1p-23f - 1;
    }
    for (int64_t at = PATTERN; at < arena_bytes / (int64_t)sizeof(float); at += PATTERN)
        memcpy(arena + at, arena, PATTERN * sizeof(float));
    return true;
}

void tune_problem_end(void) {
    free(arena);
    arena = NULL;
    arena_bytes = 0;
}

static int64_t take(int64_t *at, int64_t batch, int64_t heads, int64_t tokens, int64_t channels) {
    int64_t count = 0;
    if (!fv_multiply(batch, heads, &count) || !fv_multiply(count, tokens, &count))
        count = INT64_MAX;
    return fv_reserve(at, count, channels * (int64_t)sizeof(float));
}

bool tune_problem_make(const fovea_context *ctx, const fovea_attention_desc *desc, tune_problem *problem,
                       char error[256]) {
    const fovea_attention_desc *d = desc;
    *problem = (tune_problem){.ctx = ctx, .desc = *desc, .executions = 1};
    int64_t key[FV_TUNING_KEYS], at = 0, out_bytes = 0;
    const int64_t q = take(&at, d->batch, d->q_heads, d->q_len, d->head_dim);
    const int64_t k = take(&at, d->batch, d->kv_heads, d->kv_len, d->head_dim);
    const int64_t v = take(&at, d->batch, d->kv_heads, d->kv_len, d->value_dim);
    take(&out_bytes, d->batch, d->q_heads, d->q_len, d->value_dim);
    if (at < 0 || out_bytes < 0 || at > tune_memory_allowed()) {
        snprintf(error, 256, "the shape needs more memory than may be taken (%lld MiB)",
                 (long long)(tune_memory_allowed() >> 20));
        return false;
    }
    problem->sets = 1;
    if (fv_tuning_of_attention(desc, key) == FV_TUNING_attention_few)
        problem->sets = (int)fv_min(fv_max(cold_bytes(ctx) / at, 1), MOST_SETS);
    problem->args = calloc((size_t)problem->sets, sizeof *problem->args);
    float *out = problem->args ? aligned_alloc(FV_ALIGNMENT, (size_t)out_bytes) : NULL;
    const int64_t whole = problem->sets > 1 ? cold_bytes(ctx) : at;
    if (!out || !have_arena(fv_max(whole, at * problem->sets))) {
        free(out);
        free(problem->args);
        snprintf(error, 256, "no memory for the operands");
        return false;
    }
    for (int i = 0; i < problem->sets; i++) {
        fovea_attention_args *args = &problem->args[i];
        char *base = (char *)arena + i * at;
        fovea_attention_args_init(args);
        args->q = fovea_tensor_bhtd(base + q, FOVEA_DTYPE_F32, d->batch, d->q_heads, d->q_len, d->head_dim);
        args->k = fovea_tensor_bhtd(base + k, FOVEA_DTYPE_F32, d->batch, d->kv_heads, d->kv_len, d->head_dim);
        args->v = fovea_tensor_bhtd(base + v, FOVEA_DTYPE_F32, d->batch, d->kv_heads, d->kv_len, d->value_dim);
        args->out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, d->batch, d->q_heads, d->q_len, d->value_dim);
    }
    return true;
}

void tune_problem_free(tune_problem *problem) {
    if (problem->args)
        free(problem->args[0].out.data);
    free(problem->args);
    free(problem->workspace);
    problem->args = NULL;
    problem->workspace = NULL;
}

fovea_attention_plan *tune_problem_plan(tune_problem *problem, const fv_attention_choice *choice) {
    fovea_attention_plan *plan;
    if (fv_attention_plan_create_chosen(problem->ctx, &problem->desc, choice, &plan) != FOVEA_OK)
        return NULL;
    const size_t size = fovea_attention_plan_workspace_size(plan);
    if (size > problem->workspace_size) {
        free(problem->workspace);
        problem->workspace = malloc(size);
        problem->workspace_size = problem->workspace ? size : 0;
        if (!problem->workspace) {
            fovea_attention_plan_destroy(plan);
            return NULL;
        }
        memset(problem->workspace, 0, size); /* its pages are there before they are timed */
    }
    return plan;
}

double tune_problem_time(tune_problem *problem, const fovea_attention_plan *plan) {
    /* Anywhere: were it in step with the order of a block, a candidate would meet the same operands each time. */
    problem->random = problem->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    problem->next = (int)((problem->random >> 33) % (uint64_t)problem->sets);
    const double start = tune_now();
    for (int i = 0; i < problem->executions; i++) {
        if (fovea_attention_execute(plan, &problem->args[problem->next], problem->workspace, problem->workspace_size) !=
            FOVEA_OK)
            return -1;
        problem->next = (problem->next + 1) % problem->sets;
    }
    return (tune_now() - start) / problem->executions;
}

/* ------------------------------------------------------------------------------------------------------- bounds -- */

typedef struct bound {
    const fv_kernel *kernel;
    const float *memory;
    int64_t floats; /* of a task */
    float sink[256];
} bound;

enum { PEAK_ROUNDS = 20000, RUNS = 48 };

static void peak_task(void *arg, int64_t task) {
    bound *b = arg;
    b->sink[task % 256] = b->kernel->run.peak_f32(PEAK_ROUNDS);
}

static void read_task(void *arg, int64_t task) {
    bound *b = arg;
    b->sink[task % 256] = (float)b->kernel->run.finite_f32(1, b->floats, b->memory + task * b->floats, b->floats);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The quickest tenth of short runs that nobody interrupted, on all threads; each run step floats further on. */
static double quick_time(const fovea_context *ctx, bound *b, int64_t step, void (*task)(void *arg, int64_t index)) {
    double times[RUNS];
    int n = 0;
    for (int i = 0; i < RUNS; i++, b->memory += step) {
        const long before = tune_involuntary();
        const double start = tune_now();
        fv_parallel(ctx, ctx->threads, task, b);
        times[n] = tune_now() - start;
        n += tune_involuntary() == before;
    }
    qsort(times, (size_t)n, sizeof *times, ascending);
    return n ? times[n / 10] : INFINITY;
}

double tune_peak(const fovea_context *ctx) {
    bound b = {.kernel = fv_kernel_best(FV_OP_peak, ctx->isa)};
    const double flops = 2.0 * b.kernel->mr * b.kernel->nr * PEAK_ROUNDS * ctx->threads;
    return flops / quick_time(ctx, &b, 0, peak_task);
}

double tune_bandwidth(const fovea_context *ctx) {
    const int64_t bytes = cold_bytes(ctx);
    if (!have_arena(bytes))
        return 0;
    bound b = {.kernel = fv_kernel_best(FV_OP_finite, ctx->isa), .memory = arena};
    const int64_t step = bytes / RUNS / (int64_t)sizeof(float);
    b.floats = step / ctx->threads;
    return (double)(b.floats * (int64_t)sizeof(float) * ctx->threads) / quick_time(ctx, &b, step, read_task);
}
