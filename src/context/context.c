/* Context creation: which tier, how many threads, and a sentence that says why. */
#include "context/context.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "threads/threads.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fovea_isa_name(fovea_isa isa) { return fv_isa_word((fv_isa)isa); }

void fovea_context_options_init(fovea_context_options *options) {
    if (options)
        *options = (fovea_context_options){.struct_size = sizeof *options};
}

void fovea_info_init(fovea_info *info) {
    if (info)
        *info = (fovea_info){.struct_size = sizeof *info};
}

/* Adds to text[size], cutting what does not fit. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 3, 4)))
#endif
static void
append(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* The tier that FOVEA_ISA names, 0 if it is unset or empty. */
static fovea_status cap_of_environment(fv_isa *cap) {
    const char *word = getenv("FOVEA_ISA");
    *cap = FV_ISA_none;
    if (!word || !*word)
        return FOVEA_OK;
    char known[64] = "";
    for (int isa = FV_ISA_scalar; isa < FV_ISA_COUNT; isa++) {
        if (strcmp(word, fv_isa_word((fv_isa)isa)) == 0) {
            *cap = (fv_isa)isa;
            return FOVEA_OK;
        }
        append(known, sizeof known, "%s%s", *known ? ", " : "", fv_isa_word((fv_isa)isa));
    }
    return fv_fail(FOVEA_ERROR_ENVIRONMENT, "FOVEA_ISA=\"%.40s\" is not a tier; known: %s", word, known);
}

static void choose_isa(fovea_context *ctx, fv_isa wanted, fv_isa environment) {
    ctx->isa = ctx->cpu.isa;
    append(ctx->reason, sizeof ctx->reason, "%s has %s", ctx->cpu.name[0] ? ctx->cpu.name : "this CPU",
           fv_isa_word(ctx->isa));
    static const char *const levels[] = {"dotprod", "i8mm", "bf16"}; /* in the order of FV_LEVEL_... */
    const char *before = " with ";
    for (int i = 0; i < 3; i++)
        if (ctx->cpu.levels >> i & 1) {
            append(ctx->reason, sizeof ctx->reason, "%s%s", before, levels[i]);
            before = ", ";
        }
    if (ctx->cpu.missing[0])
        append(ctx->reason, sizeof ctx->reason, " (not more: %s)", ctx->cpu.missing);
    const struct {
        fv_isa cap;
        const char *by;
    } caps[] = {{wanted, "the options"}, {environment, "FOVEA_ISA"}};
    for (int i = 0; i < 2; i++)
        if (caps[i].cap && fv_isa_capped(ctx->isa, caps[i].cap) != ctx->isa) {
            ctx->isa = fv_isa_capped(ctx->isa, caps[i].cap);
            append(ctx->reason, sizeof ctx->reason, ", capped at %s by %s", fv_isa_word(ctx->isa), caps[i].by);
        }
}

static void choose_threads(fovea_context *ctx, int wanted) {
    const int affinity = fv_cpu_affinity(), quota = fv_cpu_quota("");
    const int allowed = quota > 0 && quota < affinity ? quota : affinity;
    if (ctx->parallel_for)
        ctx->threads = wanted > 0 ? wanted : allowed;
    else if (!fv_parallel_own())
        ctx->threads = 1;
    else
        ctx->threads = wanted > 0 && wanted < allowed ? wanted : allowed;
    append(ctx->reason, sizeof ctx->reason, "; %d thread%s: ", ctx->threads, ctx->threads == 1 ? "" : "s");
    if (wanted > 0)
        append(ctx->reason, sizeof ctx->reason, "%d asked for, ", wanted);
    append(ctx->reason, sizeof ctx->reason, "%d CPU%s in the affinity mask, ", affinity, affinity == 1 ? "" : "s");
    if (ctx->cpu.fastest.count > 0 && ctx->cpu.fastest.count < affinity)
        append(ctx->reason, sizeof ctx->reason, "%d of them of the fastest kind, ", ctx->cpu.fastest.count);
    if (quota > 0)
        append(ctx->reason, sizeof ctx->reason, "a cgroup quota of %d", quota);
    else
        append(ctx->reason, sizeof ctx->reason, "no cgroup quota");
    if (ctx->parallel_for)
        append(ctx->reason, sizeof ctx->reason, ", in the caller's pool");
    else if (!fv_parallel_own())
        append(ctx->reason, sizeof ctx->reason, ", built without OpenMP");
}

fovea_status fovea_context_create(const fovea_context_options *options, fovea_context **ctx) {
    if (!ctx)
        return fv_fail(FOVEA_ERROR_NULL, "ctx is NULL: there is nowhere to put the context");
    *ctx = NULL;
    fovea_context_options defaults;
    fovea_context_options_init(&defaults);
    if (!options)
        options = &defaults;
    if (options->struct_size != sizeof *options)
        return fv_fail(FOVEA_ERROR_VERSION, "fovea_context_options has struct_size %zu, this library (%s) knows %zu",
                       options->struct_size, FOVEA_VERSION_STRING, sizeof *options);
    if ((int)options->isa < 0 || (int)options->isa >= FV_ISA_COUNT)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "isa %d is not a tier", (int)options->isa);
    if (options->threads < 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "threads %d is negative (0: all allowed)", options->threads);
    fv_isa environment;
    const fovea_status status = cap_of_environment(&environment);
    if (status != FOVEA_OK)
        return status;
    fovea_context *made = calloc(1, sizeof *made);
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a context (%zu bytes)", sizeof *made);
    made->parallel_for = options->parallel_for;
    made->pool = options->pool;
    fv_cpu_detect(&made->cpu);
    choose_isa(made, (fv_isa)options->isa, environment);
    choose_threads(made, options->threads);
    const char *debug = getenv("FOVEA_DEBUG");
    made->debug = debug && strcmp(debug, "1") == 0;
    char log_problem[384] = "";
    fovea_status loaded = fv_tuning_use_file(options->tuning_file, &made->cpu, made->isa, made->threads, &made->tuning);
    if (loaded == FOVEA_OK)
        loaded = fv_shape_log_open(&made->log, log_problem, sizeof log_problem);
    if (loaded != FOVEA_OK) {
        fovea_context_destroy(made);
        return loaded;
    }
    if (made->debug)
        fprintf(stderr, "fovea %s: %s: %s\nfovea tuning: %s%s%s\n", FOVEA_VERSION_STRING, fv_isa_word(made->isa),
                made->reason, made->tuning.text, log_problem[0] ? "\nfovea: " : "", log_problem);
    *ctx = made;
    return FOVEA_OK;
}

void fovea_context_destroy(fovea_context *ctx) {
    if (!ctx)
        return;
    fovea_tuning_destroy(ctx->tuning.tuning);
    fv_shape_log_close(ctx->log);
    free(ctx);
}

fovea_status fovea_context_info(const fovea_context *ctx, fovea_info *info) {
    if (!ctx || !info)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "info" : "ctx");
    if (info->struct_size != sizeof *info)
        return fv_fail(FOVEA_ERROR_VERSION, "fovea_info has struct_size %zu, this library (%s) knows %zu",
                       info->struct_size, FOVEA_VERSION_STRING, sizeof *info);
    info->isa = (fovea_isa)ctx->isa;
    info->threads = ctx->threads;
    info->l1d_bytes = ctx->cpu.l1d;
    info->l2_bytes = ctx->cpu.l2;
    snprintf(info->cpu, sizeof info->cpu, "%s", ctx->cpu.name);
    snprintf(info->reason, sizeof info->reason, "%s", ctx->reason);
    info->tuning_status = ctx->tuning.status;
    info->tuning_rows = ctx->tuning.rows;
    snprintf(info->tuning, sizeof info->tuning, "%s", ctx->tuning.text);
    return FOVEA_OK;
}
