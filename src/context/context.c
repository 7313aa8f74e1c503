/* Context creation: which tier, how many threads, and a sentence that says why. */
#include "context/context.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "threads/threads.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fovea_isa_name(fovea_isa isa) { return fv_isa_word((fv_isa)isa); }

/* Adds to text[size], cutting what does not fit. */
FV_PRINTF(3, 4)
static void append(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* The tier that FOVEA_ISA names, 0 if it is unset or empty. */
static fovea_status cap_of_environment(fv_isa *cap) {
    const char *word = fv_environment("FOVEA_ISA");
    *cap = FV_ISA_none;
    if (!word || !*word)
        return FOVEA_OK;
    *cap = fv_isa_named(word);
    if (*cap)
        return FOVEA_OK;
    char known[64] = "";
    for (int isa = FV_ISA_scalar; isa < FV_ISA_COUNT; isa++)
        append(known, sizeof known, "%s%s", *known ? ", " : "", fv_isa_word((fv_isa)isa));
    return fv_fail(FOVEA_ERROR_ENVIRONMENT, "FOVEA_ISA=\"%.40s\" is not a tier; known: %s", word, known);
}

static void append_target(fovea_context *ctx) {
    char features[FV_FEATURES_TEXT];
    append(ctx->reason, sizeof ctx->reason, "%s%s%s", fv_isa_word(ctx->target.isa),
           ctx->target.features ? " with " : "", fv_features_text(ctx->target.features, ", ", features));
}

static void select_target(fovea_context *ctx, fv_isa requested, fv_isa environment) {
    ctx->target = ctx->cpu.target;
    append(ctx->reason, sizeof ctx->reason, "%s has ", ctx->cpu.name[0] ? ctx->cpu.name : "this CPU");
    append_target(ctx);
    if (ctx->cpu.missing[0])
        append(ctx->reason, sizeof ctx->reason, " (not more: %s)", ctx->cpu.missing);
    if (ctx->cpu.no_tiles[0])
        append(ctx->reason, sizeof ctx->reason, " (no AMX: %s)", ctx->cpu.no_tiles);
    const struct {
        fv_isa cap;
        const char *by;
    } caps[] = {{requested, "the options"}, {environment, "FOVEA_ISA"}};
    for (int i = 0; i < 2; i++)
        if (caps[i].cap && fv_isa_capped(ctx->target.isa, caps[i].cap) != ctx->target.isa) {
            ctx->target = fv_target_capped(ctx->target, caps[i].cap);
            append(ctx->reason, sizeof ctx->reason, ", capped by %s at ", caps[i].by);
            append_target(ctx);
        }
}

/* Whose threads, where the caller brings no pool: by the environment, else by the options. */
static fovea_status select_backend(const fovea_context_options *options, fovea_threads_backend *backend) {
    static const char *const words[] = {[FOVEA_THREADS_OPENMP] = "openmp", [FOVEA_THREADS_POOL] = "pool"};
    const char *word = fv_environment("FOVEA_THREADS_BACKEND");
    const bool openmp = fv_threads_of_openmp().built;
    *backend = options->threads_backend;
    if (options->parallel_for)
        return *backend == FOVEA_THREADS_DEFAULT
                   ? FOVEA_OK
                   : fv_fail(FOVEA_ERROR_ARGUMENT, "parallel_for and threads_backend are both set: set one of them");
    if (word && *word) {
        *backend = FOVEA_THREADS_OPENMP;
        while (*backend <= FOVEA_THREADS_POOL && strcmp(word, words[*backend]) != 0)
            ++*backend;
        if (*backend > FOVEA_THREADS_POOL || (*backend == FOVEA_THREADS_OPENMP && !openmp))
            return fv_fail(FOVEA_ERROR_ENVIRONMENT, "FOVEA_THREADS_BACKEND=\"%.40s\" is %s; known: %spool", word,
                           *backend > FOVEA_THREADS_POOL ? "not a backend" : "not in this build of the library",
                           openmp ? "openmp, " : "");
    }
    if (*backend == FOVEA_THREADS_DEFAULT)
        *backend = openmp ? FOVEA_THREADS_OPENMP : FOVEA_THREADS_POOL;
    return *backend == FOVEA_THREADS_POOL || openmp
               ? FOVEA_OK
               : fv_fail(FOVEA_ERROR_UNSUPPORTED, "threads_backend is FOVEA_THREADS_OPENMP, but this library was built "
                                                  "without OpenMP: use FOVEA_THREADS_DEFAULT");
}

/* The smallest of what limits it. A caller's pool knows better than the system if it asks for a number, and OpenMP has
 * no say in it. */
static void select_threads(fovea_context *ctx, int requested, fovea_threads_backend backend) {
    const fv_openmp openmp = fv_threads_of_openmp();
    const int affinity = ctx->cpu.affinity, quota = ctx->cpu.quota;
    const bool pool = ctx->threads.parallel_for != NULL, system = !pool || requested == 0;
    const struct {
        bool counts;
        int most;
        const char *name;
    } limits[] = {
        {requested > 0, requested, "the options"}, /* of equal ones the first is named */
        {system, affinity, "the affinity mask"},
        {system && quota > 0, quota, "the cgroup quota"},
        {!pool && openmp.limit > 0, openmp.limit, "OMP_THREAD_LIMIT"},
        {!pool && openmp.most > 0, openmp.most, "OMP_NUM_THREADS or omp_set_num_threads()"},
    };
    const char *by = "";
    ctx->threads.count = INT_MAX;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].counts && limits[i].most < ctx->threads.count) {
            ctx->threads.count = limits[i].most;
            by = limits[i].name;
        }
    append(ctx->reason, sizeof ctx->reason, "; %d thread%s%s, limited by %s (", ctx->threads.count,
           fv_plural(ctx->threads.count),
           pool                              ? " in the caller's pool"
           : backend == FOVEA_THREADS_OPENMP ? " of OpenMP"
                                             : " of the context's pool",
           by);
    if (requested > 0)
        append(ctx->reason, sizeof ctx->reason, "%d asked for, ", requested);
    append(ctx->reason, sizeof ctx->reason, "%d CPU%s in the affinity mask, ", affinity, fv_plural(affinity));
    if (ctx->cpu.fastest.count > 0 && ctx->cpu.fastest.count < affinity)
        append(ctx->reason, sizeof ctx->reason, "%d of them of the fastest kind, ", ctx->cpu.fastest.count);
    if (quota > 0)
        append(ctx->reason, sizeof ctx->reason, "a cgroup quota of %d", quota);
    else
        append(ctx->reason, sizeof ctx->reason, "no cgroup quota");
    if (!pool && openmp.built)
        append(ctx->reason, sizeof ctx->reason, ", OpenMP would use %d",
               openmp.most < openmp.limit ? openmp.most : openmp.limit);
    append(ctx->reason, sizeof ctx->reason, ")");
}

fovea_status fovea_context_create(const fovea_context_options *options, fovea_context **ctx) {
    FV_HOLD_EXCEPTIONS();
    FV_HOLD_CANCELLATION();
    return fv_context_create_on(NULL, options, ctx);
}

fovea_status fv_context_create_on(const fv_cpu *cpu, const fovea_context_options *options, fovea_context **ctx) {
    if (!ctx)
        return fv_fail(FOVEA_ERROR_NULL, "ctx is NULL");
    *ctx = NULL;
    fovea_context_options own;
    fovea_context_options_init(&own);
    fovea_status status = FOVEA_OK;
    if (options)
        status = fv_struct_read(FV_STRUCT(fovea_context_options), options, &own);
    if (status != FOVEA_OK)
        return status;
    options = &own;
    status = fv_enum_check(FV_ENUM_isa, "isa", (int)options->isa);
    if (status == FOVEA_OK)
        status = fv_enum_check(FV_ENUM_threads_backend, "threads_backend", (int)options->threads_backend);
    if (status != FOVEA_OK)
        return status;
    if (options->pool_spin_us < 0 || options->pool_spin_us > 1000000)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "pool_spin_us is %d; it must be from 0 to 1000000 (0: the default)",
                       options->pool_spin_us);
    if (options->threads < 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "threads is %d; it must be at least 0 (0: no limit)", options->threads);
    if ((unsigned)options->threads_bind > FOVEA_BIND_NODES || options->reserved != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "threads_bind is %d, reserved %d; they must be a fovea_threads_bind and 0",
                       (int)options->threads_bind, options->reserved);
    fv_isa environment;
    fovea_arithmetic arithmetic;
    fovea_threads_backend backend;
    status = cap_of_environment(&environment);
    if (status == FOVEA_OK)
        status = fv_arithmetic_of_environment(&arithmetic);
    if (status == FOVEA_OK)
        status = select_backend(options, &backend);
    if (status != FOVEA_OK)
        return status;
    if (!fv_fma_rounds_once())
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "fma() of the C library rounds twice: build with FOVEA_SOFTWARE_FMA");
    fovea_context *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a context (%zu bytes)", sizeof *made);
    made->threads.parallel_for = options->parallel_for;
    made->threads.pool = options->pool;
    if (cpu)
        made->cpu = *cpu;
    else
        fv_cpu_detect(&made->cpu);
    made->arithmetic = arithmetic;
    select_target(made, (fv_isa)options->isa, environment);
    fv_ops_select(made->target, &made->ops);
    select_threads(made, options->threads, backend);
    const char *debug = fv_environment("FOVEA_DEBUG");
    made->debug = debug && strcmp(debug, "1") == 0;
    char log_problem[384] = "";
    fovea_status loaded = FOVEA_OK;
    if (backend == FOVEA_THREADS_POOL) {
        loaded = fovea_thread_pool_create(made->threads.count, options->pool_spin_us, &made->own_pool);
        made->threads.parallel_for = fovea_thread_pool_run;
        made->threads.pool = made->own_pool;
    }
    if (loaded == FOVEA_OK)
        loaded = fv_context_select_nodes(made, options->threads_bind);
    if (loaded == FOVEA_OK) {
        made->tuning = malloc(sizeof *made->tuning);
        loaded = made->tuning
                     ? fv_tuning_use_file(options->tuning_file, &made->cpu, made->target.isa, made->threads.count,
                                          made->tuning)
                     : fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a tuning (%zu bytes)", sizeof *made->tuning);
    }
    if (loaded == FOVEA_OK)
        loaded = fv_shape_log_open(&made->log, log_problem, sizeof log_problem);
    if (loaded != FOVEA_OK) {
        fovea_context_destroy(made);
        return loaded;
    }
    if (made->debug) {
        char nodes[256];
        fv_context_nodes_text(made, nodes, sizeof nodes);
        fprintf(stderr, "fovea %s, bits %d: %s: %s\nfovea tuning: %s\nfovea nodes: %s%s%s\n", FOVEA_VERSION_STRING,
                FOVEA_BITS_VERSION, fv_isa_word(made->target.isa), made->reason, made->tuning->text, nodes,
                log_problem[0] ? "\nfovea: " : "", log_problem);
    }
    *ctx = made;
    return FOVEA_OK;
}

void fovea_context_destroy(fovea_context *ctx) {
    FV_HOLD_CANCELLATION();
    if (!ctx)
        return;
    fovea_thread_pool_destroy(ctx->own_pool);
    fv_tuning_use_drop(ctx->tuning);
    fv_shape_log_close(ctx->log);
    free(ctx);
}

fovea_status fovea_context_info(const fovea_context *ctx, fovea_context_facts *info) {
    if (!ctx || !info)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "info" : "ctx");
    const fv_struct type = FV_STRUCT(fovea_context_facts);
    const fovea_status status = fv_struct_check(type, info);
    if (status != FOVEA_OK)
        return status;
    fovea_context_facts own;
    fovea_context_facts_init(&own);
    own.isa = (fovea_isa)ctx->target.isa;
    own.threads = ctx->threads.count;
    own.l1d_bytes = ctx->cpu.l1d;
    own.l2_bytes = ctx->cpu.l2;
    snprintf(own.cpu, sizeof own.cpu, "%s", ctx->cpu.name);
    snprintf(own.reason, sizeof own.reason, "%s", ctx->reason);
    fv_features_text(ctx->target.features, ", ", own.features);
    own.tuning_status = ctx->tuning->status;
    own.tuning_rows = ctx->tuning->rows;
    snprintf(own.tuning, sizeof own.tuning, "%s", ctx->tuning->text);
    own.fastest_attention = fv_arithmetic_fastest(ctx, FV_ARITHMETIC_OF_attention, true);
    own.fastest_linear = fv_arithmetic_fastest(ctx, FV_ARITHMETIC_OF_linear, true);
    own.node_count = fv_context_nodes(ctx);
    own.threads_bound = ctx->threads.nodes != NULL;
    fv_context_nodes_text(ctx, own.nodes, sizeof own.nodes);
    fv_struct_write(type, info, &own);
    return FOVEA_OK;
}

typedef struct claims {
    void (*task)(void *arg, int64_t index);
    void *arg;
    int64_t count;
    _Atomic int64_t next;
} claims;

static void claim(void *arg, int64_t index) {
    claims *c = arg;
    (void)index;
    for (int64_t i; (i = atomic_fetch_add(&c->next, 1)) < c->count;)
        c->task(c->arg, i);
}

fovea_status fovea_parallel(const fovea_context *ctx, int64_t count, void (*task)(void *arg, int64_t index),
                            void *arg) {
    if (!ctx || !task)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "task" : "ctx");
    if (count < 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "count %lld is negative", (long long)count);
    claims c = {.task = task, .arg = arg, .count = count};
    fv_parallel(&ctx->threads, fv_min(count, ctx->threads.count), &(fv_work){.task = claim, .arg = &c});
    return FOVEA_OK;
}
