/* The report of fovea-generate (run.h): tokens per second and the speed at which this machine reads memory, what cut
 * answers off, and a hash of all logits. */
#include "run.h"

#include "plural.h"
#include "read_speed.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

static void on_threads(const void *ctx, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)fovea_parallel(ctx, count, task, arg);
}

/* The largest number of bytes that this process had in memory; 0: unknown. */
static double peak_memory(void) {
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) != 0)
        return 0;
#ifdef __APPLE__
    return (double)use.ru_maxrss;
#else
    return (double)use.ru_maxrss * 1024;
#endif
}

static void cut_off(const run *r) {
    char of[64] = "";
    if (r->prompts > 1)
        snprintf(of, sizeof of, "%" PRId64 " of %" PRId64 " answers ", r->cut_by_tokens, r->prompts);
    if (r->cut_by_tokens > 0)
        printf("cut off  %safter %" PRId64 " tokens; --tokens allows more\n", of, r->opts->tokens);
    if (r->prompts > 1)
        snprintf(of, sizeof of, "%" PRId64 " of %" PRId64 " answers ", r->cut_by_room, r->prompts);
    if (r->cut_by_room > 0)
        printf("cut off  %sbecause the context of %" PRId64 " tokens is full; --context makes room for more\n", of,
               r->room);
}

void report(const run *r) {
    const double peak = peak_memory(); /* before memory is timed, which takes its own */
    const double speed = peak_read_speed(r->info.threads, on_threads, r->ctx);
    printf("\n\n");
    cut_off(r);
    printf("%s, %d thread%s, %s, weights %s, keys %s, values %s\n", fovea_isa_name(r->info.isa), r->info.threads,
           plural(r->info.threads), options_dtype_name(r->opts->dtype), options_weights_name(r->opts, r->m),
           options_dtype_name(r->opts->cache), options_dtype_name(r->opts->values));
    if (r->ranks != NULL)
        printf("ranks    %d; what follows is of the first\n", r->ranks->ranks);
    printf("load     %.2f seconds\n", r->loading);
    printf("prefill  %" PRId64 " tokens, %.1f per second\n", r->prompt, (double)r->prompt / r->prefill);
    if (r->decode > 0)
        printf("decode   %" PRId64
               " tokens, %.1f per second; %.1f GB/s, %.0f%% of the %.1f GB/s that memory is read at\n",
               r->decoded, (double)r->decoded / r->decode, r->decode_bytes / r->decode * 1e-9,
               100.0 * r->decode_bytes / r->decode / speed, speed * 1e-9);
    int64_t tokens = 0;
    for (int64_t i = 0; i < r->sequences; i++)
        tokens += session_length(r->s, i);
    printf("cache    %" PRId64 " bytes for %" PRId64 " tokens\n", session_cache_bytes(r->s), tokens);
    if (peak > 0)
        printf("memory   %.1f MB at its peak\n", peak * 1e-6);
    printf("logits   hash %016" PRIx64 "\n", r->hash);
}
