/* Problems: operands for a shape, and the time of a plan on them.
 *
 * Operands lie in one arena that is filled once: numbers of ordinary size. Attentions and linear maps of few rows
 * read each set of it in turn, so that keys, values and weights come from memory as they do in a program that
 * decodes, where keys and values are in the pages of a cache (problem_cache.c); others compute the same operands again
 * and again.
 */
#include "problem.h"
#include "classes.h"
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "machine.h"
#include "measure.h"
#include "read_speed.h"
#include "threads/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN = 1 << 18, MOST_SETS = 4096 };

static char *arena;
static int64_t arena_bytes;
static fovea_dtype arena_dtype; /* of its numbers */

/* At most half of the memory allowed: keys and values in pages need memory in addition to the arena. */
static int64_t cold_bytes(const fovea_context *ctx) {
    static int64_t bytes; /* decided once: an arena that grew would move under who uses it */
    const int64_t target = peak_cold_bytes(ctx->cpu.l3_reported);
    if (bytes == 0)
        bytes = fv_min(fv_min(target, tune_memory_allowed(ctx) / 2), (int64_t)768 << 20);
    return bytes;
}

static void fill_arena(fovea_dtype dtype) {
    static float pattern[PATTERN];
    const int64_t bytes = PATTERN * fv_dtype_size(dtype);
    uint64_t state = 1;
    for (int i = 0; i < PATTERN; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        pattern[i] = (float)(int64_t)(state >> 40) * 0x1p-23f - 1;
    }
    fovea_convert(PATTERN, pattern, FOVEA_DTYPE_F32, arena, dtype);
    for (int64_t at = bytes; at < arena_bytes; at += bytes)
        memcpy(arena + at, arena, (size_t)bytes);
    arena_dtype = dtype;
}

/* Problems that are there at one time have one type. */
static bool have_arena(int64_t bytes, fovea_dtype dtype) {
    if (bytes > arena_bytes) {
        free(arena);
        arena_bytes = fv_round_up(bytes, PATTERN * (int64_t)sizeof(float));
        arena = aligned_alloc(4096, (size_t)arena_bytes);
        arena_dtype = (fovea_dtype)0;
    }
    if (!arena) {
        arena_bytes = 0;
        return false;
    }
    if (arena_dtype != dtype)
        fill_arena(dtype);
    return true;
}

void tune_problem_end(void) {
    free(arena);
    arena = NULL;
    arena_bytes = 0;
}

static int64_t take(int64_t *at, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens, int64_t channels) {
    int64_t count = 0;
    if (!fv_multiply(batch, heads, &count) || !fv_multiply(count, tokens, &count))
        count = INT64_MAX;
    return fv_reserve(at, count, fv_dtype_bytes(dtype, channels));
}

/* Decides how many sets of operands there are (one or, if cold, enough to exceed all caches; an execution reads
 * read_bytes of one), and takes memory for them; false and a sentence if there is none. */
static bool make_sets(tune_problem *problem, fovea_dtype dtype, int64_t set_bytes, int64_t read_bytes,
                      int64_t out_bytes, char error[256]) {
    const int64_t allowed = tune_memory_allowed(problem->ctx);
    if (set_bytes < 0 || out_bytes < 0 || set_bytes > allowed) {
        snprintf(error, 256, "the shape needs more memory than is available (%lld MiB)", (long long)(allowed >> 20));
        return false;
    }
    const bool cold = tune_is_cold(problem->operation) && !tune_instrument.time; /* one set where nothing is executed */
    problem->set_bytes = set_bytes;
    problem->sets = cold ? (int)fv_min(fv_max(cold_bytes(problem->ctx) / read_bytes, 1), MOST_SETS) : 1;
    problem->out = aligned_alloc(FV_ALIGNMENT, (size_t)out_bytes);
    if (problem->out && have_arena(cold ? fv_max(cold_bytes(problem->ctx), set_bytes) : set_bytes, dtype))
        return true;
    snprintf(error, 256, "no memory for the operands");
    return false;
}

/* The mask of a shape that has one: documents, the same for all heads. */
static bool make_mask(tune_problem *problem, fovea_tensor *mask) {
    const fovea_attention_desc *d = &problem->shape.attention;
    if (!d->mask)
        return true;
    problem->ranges = malloc((size_t)d->q_len * 2 * sizeof *problem->ranges);
    for (int64_t i = 0; problem->ranges && i < d->q_len; i++) {
        const int64_t document = i * TUNE_DOCUMENTS / d->q_len;
        problem->ranges[2 * i] = document * d->kv_len / TUNE_DOCUMENTS;
        problem->ranges[2 * i + 1] = (document + 1) * d->kv_len / TUNE_DOCUMENTS;
    }
    *mask = fovea_tensor_bhtd(problem->ranges, FOVEA_DTYPE_I64, 1, 1, d->q_len, 2);
    return problem->ranges != NULL;
}

static bool make_attention(tune_problem *problem, char error[256]) {
    const fovea_attention_desc *d = &problem->shape.attention;
    int64_t at = 0, read_bytes = 0, out_bytes = 0;
    const int64_t q = take(&at, d->dtype, d->batch, d->q_heads, d->q_len, d->head_dim);
    /* Keys and values that a cache quantizes have the type of the queries. */
    const fovea_dtype k_dtype = fv_dtype_paged(d->k_dtype) ? d->dtype : d->k_dtype;
    const fovea_dtype v_dtype = fv_dtype_paged(d->v_dtype) ? k_dtype : d->v_dtype;
    const int64_t k = take(&at, k_dtype, d->batch, d->kv_heads, d->kv_len, d->head_dim);
    const int64_t v = take(&at, v_dtype, d->batch, d->kv_heads, d->kv_len, d->value_dim);
    take(&read_bytes, d->k_dtype, d->batch, d->kv_heads, d->kv_len, d->head_dim);
    take(&read_bytes, d->v_dtype, d->batch, d->kv_heads, d->kv_len, d->value_dim);
    take(&out_bytes, d->out_dtype, d->batch, d->q_heads, d->q_len, d->value_dim);
    fovea_tensor mask = {.data = NULL};
    if (!make_sets(problem, k_dtype, at, fv_max(read_bytes, 1), out_bytes, error) || !make_mask(problem, &mask))
        return false;
    problem->attention = calloc((size_t)problem->sets, sizeof *problem->attention);
    for (int i = 0; problem->attention && i < problem->sets; i++) {
        fovea_attention_args *args = &problem->attention[i];
        char *base = arena + i % (arena_bytes / at) * at; /* a cache copies them */
        fovea_attention_args_init(args);
        args->mask = mask;
        args->q = fovea_tensor_bhtd(base + q, d->dtype, d->batch, d->q_heads, d->q_len, d->head_dim);
        args->k = fovea_tensor_bhtd(base + k, k_dtype, d->batch, d->kv_heads, d->kv_len, d->head_dim);
        args->v = fovea_tensor_bhtd(base + v, v_dtype, d->batch, d->kv_heads, d->kv_len, d->value_dim);
        args->out = fovea_tensor_bhtd(problem->out, d->out_dtype, d->batch, d->q_heads, d->q_len, d->value_dim);
    }
    if (!problem->attention || !(tune_is_cold(problem->operation) || d->page_keys > 0) || d->kv_len == 0)
        return problem->attention != NULL;
    return tune_problem_cache(problem, error);
}

/* The map is packed from one row of weights that stands for all; executed are weights of the arena. */
static bool make_linear(tune_problem *problem, char error[256]) {
    const tune_shape *s = &problem->shape;
    const fovea_dtype dtype = tune_x_dtype(s);
    fovea_linear sizes;
    const bool made = tune_map_make(problem->ctx, s, &sizes);
    free(sizes.tuned);
    int64_t at = 0, out_bytes = 0;
    const int64_t x = take(&at, dtype, 1, 1, s->rows, s->in);
    const int64_t weights = fv_reserve(&at, fv_ceil_div(s->out, sizes.panel), fv_linear_panel_bytes(&sizes));
    take(&out_bytes, dtype, 1, 1, s->rows, s->out);
    if (!made || !make_sets(problem, dtype, at, at, out_bytes, error))
        return false;
    float *zeros = calloc((size_t)fv_max(s->in, s->out), sizeof *zeros);
    fovea_quantization quantization;
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.dtype = dtype;
    desc.in_features = s->in;
    tune_weights(s, zeros, &quantization, &desc.part.weight);
    const fovea_status status =
        zeros ? fovea_linear_create(problem->ctx, &desc, &problem->packed) : FOVEA_ERROR_OUT_OF_MEMORY;
    free(zeros);
    if (status != FOVEA_OK) {
        if (zeros)
            snprintf(error, 256, "%.250s", fovea_error_detail());
        return false;
    }
    problem->map = *problem->packed;
    problem->map.memory = arena + weights; /* any bits: scales that are NaN take no longer */
    problem->map.weights.data =
        arena + weights + ((const char *)problem->packed->weights.data - (const char *)problem->packed->memory);
    fovea_linear_args_init(&problem->linear);
    problem->linear.x = fovea_tensor_bhtd(arena + x, dtype, 1, 1, s->rows, s->in);
    problem->y = fovea_tensor_bhtd(problem->out, dtype, 1, 1, s->rows, s->out);
    problem->linear.y = &problem->y;
    return true;
}

bool tune_problem_make(const fovea_context *ctx, const tune_shape *shape, tune_problem *problem, char error[256]) {
    int64_t key[FV_TUNING_KEYS];
    *problem = (tune_problem){.ctx = ctx, .shape = *shape, .executions = 1};
    problem->operation = tune_shape_keys(shape, key);
    snprintf(error, 256, "no memory for the operands");
    if (shape->linear ? make_linear(problem, error) : make_attention(problem, error))
        return true;
    tune_problem_free(problem);
    return false;
}

void tune_problem_free(tune_problem *problem) {
    fovea_linear_destroy(problem->packed);
    fovea_kv_cache_destroy(problem->cache);
    free(problem->sequences);
    free(problem->attention);
    free(problem->ranges);
    free(problem->out);
    free(problem->workspace);
    problem->packed = NULL;
    problem->cache = NULL;
    problem->sequences = NULL;
    problem->attention = NULL;
    problem->ranges = NULL;
    problem->out = problem->workspace = NULL;
}

/* ------------------------------------------------------------------------------------------------------- plans -- */

bool tune_same_choice(const tune_choice *a, const tune_choice *b) {
    bool same = true;
    for (int i = 0; i < FV_TUNING_KNOBS; i++)
        same = same && a->knob[i].kernel == b->knob[i].kernel && a->knob[i].number == b->knob[i].number;
    return same;
}

bool tune_same_plan(const tune_plan *a, const tune_plan *b) { return tune_same_choice(&a->made, &b->made); }

void tune_plan_free(tune_plan *plan) {
    if (plan)
        fovea_attention_plan_destroy(plan->attention);
    free(plan);
}

/* Bytes of workspace; negative: there is no such plan. */
static int64_t decide(tune_problem *problem, const tune_choice *choice, tune_plan *plan) {
    const tune_shape *shape = &problem->shape;
    const int threads = problem->ctx->threads.count;
    if (shape->linear) {
        plan->linear =
            tune_linear_choice(problem->packed, problem->operation, threads, shape->rows, choice, &plan->made);
        return fv_linear_workspace(threads, fv_linear_lay_out(problem->packed, &plan->linear).bytes);
    }
    plan->attention = tune_attention_plan(problem->ctx, &shape->attention, problem->operation, choice, &plan->made);
    if (!plan->attention || fv_attention_sizes_large(plan->attention)) /* of a row, such sizes would not be taken */
        return -1;
    return (int64_t)fovea_attention_plan_workspace_size(plan->attention);
}

tune_plan *tune_problem_plan(tune_problem *problem, const tune_choice *choice) {
    tune_plan *plan = calloc(1, sizeof *plan);
    const int64_t size = plan ? decide(problem, choice, plan) : -1;
    if (size > (int64_t)problem->workspace_size) {
        free(problem->workspace);
        problem->workspace = malloc((size_t)size);
        problem->workspace_size = problem->workspace ? (size_t)size : 0;
        if (problem->workspace)
            memset(problem->workspace, 0, (size_t)size); /* its pages are there before they are timed */
    }
    if (size >= 0 && size <= (int64_t)problem->workspace_size)
        return plan;
    tune_plan_free(plan);
    return NULL;
}

static bool execute(tune_problem *problem, const tune_plan *plan) {
    const int set = problem->next;
    problem->next = (set + 1) % problem->sets;
    if (plan->attention)
        return fovea_attention_execute(plan->attention, &problem->attention[set], problem->workspace,
                                       problem->workspace_size) == FOVEA_OK;
    fovea_linear map = problem->map;
    map.weights.data = (const char *)map.weights.data + set * problem->set_bytes;
    map.memory = (char *)map.memory + set * problem->set_bytes;
    fv_linear_apply_chosen(problem->ctx, &map, &problem->linear, &plan->linear, problem->workspace);
    return true;
}

double tune_time_execution(tune_problem *problem, const tune_plan *plan) {
    /* Anywhere: were it in step with the order of a block, a candidate would meet the same operands each time. */
    problem->random = problem->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    problem->next = (int)((problem->random >> 33) % (uint64_t)problem->sets);
    const double start = tune_now();
    for (int i = 0; i < problem->executions; i++)
        if (!execute(problem, plan))
            return -1;
    return (tune_now() - start) / problem->executions;
}

double tune_problem_time(tune_problem *problem, const tune_plan *plan) {
    return tune_instrument.time ? tune_instrument.time(problem, plan) : tune_time_execution(problem, plan);
}
