/* The caller's floating-point modes: rounding, and flush-to-zero with denormals-are-zero (fp_control.h).
 *
 * They hold in all threads, whose own differ, and are left as they were. Under each of the four rounding modes, without
 * and with flush-to-zero:
 *   - 1, 2, 3 and 7 threads of OpenMP, of the library's pool and of a caller's give the same bits;
 *   - so do all tiers: the scalar tier, for which the compiler chose the instructions, is the oracle here as well.
 *
 * Problems are three that are sure to be shared between threads (rows split over segments, many blocks of rows, blocks
 * of a causal sequence), in which every mode must show in the results, and random ones, subnormal values and overflow
 * among them. */
#include "attention_case.h"
#include "context/context.h"
#include "fp_control.h"
#include "thread_pool.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdio.h>

typedef struct mode {
    const char *name;
    int rounding;
    bool flush;
} mode;

static const mode usual = {"the usual mode", FE_TONEAREST, false};
static const mode modes[] = {{"FE_UPWARD", FE_UPWARD, false},
                             {"FE_DOWNWARD", FE_DOWNWARD, false},
                             {"FE_TOWARDZERO", FE_TOWARDZERO, false},
                             {"flush to zero", FE_TONEAREST, true},
                             {"FE_UPWARD and flush to zero", FE_UPWARD, true},
                             {"FE_DOWNWARD and flush to zero", FE_DOWNWARD, true},
                             {"FE_TOWARDZERO and flush to zero", FE_TOWARDZERO, true}};
enum { MODES = sizeof modes / sizeof modes[0] };

static const int thread_counts[] = {1, 2, 3, 7};
enum { COUNTS = sizeof thread_counts / sizeof thread_counts[0], WAYS = 3 * COUNTS };

/* Ways to run the tier under test. */
static struct {
    fovea_context *ctx;
    thread_pool *threads;
    char text[32];
} ways[WAYS];
static fovea_context *scalar;

static void make_ways(void) {
    for (int i = 0; i < WAYS; i++) {
        const int count = thread_counts[i % COUNTS];
        static const char *const backends[] = {"default", "pool", "caller's"};
        ways[i].threads = i < 2 * COUNTS ? NULL : thread_pool_create(count);
        ways[i].ctx = i / COUNTS == 1 ? context_with_pool(count) : context_of(FOVEA_ISA_BEST, count, ways[i].threads);
        if (i < COUNTS)
            ways[i].ctx->threads.count =
                count; /* also where there are fewer CPUs, so that the library would take fewer */
        snprintf(ways[i].text, sizeof ways[i].text, "%d %s threads", count, backends[i / COUNTS]);
    }
    scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
}

static void free_ways(void) {
    for (int i = 0; i < WAYS; i++) {
        fovea_context_destroy(ways[i].ctx);
        if (ways[i].threads)
            thread_pool_destroy(ways[i].threads);
    }
    fovea_context_destroy(scalar);
}

static void set_mode(const mode *m) {
    fesetround(m->rounding);
    fp_flush(m->flush);
}

/* A case's outputs under a mode, which must still be set afterwards. */
static void run_under(const mode *m, const fovea_context *ctx, const attention_case *c, const inputs *in,
                      outputs *out) {
    fovea_attention_plan *plan;
    outputs_clear(out);
    if (!test_check(fovea_attention_plan_create(ctx, &c->desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail()))
        return;
    fovea_attention_args args = case_args(in, out);
    set_mode(m);
    fovea_status status = fovea_attention_execute(plan, &args, NULL, 0);
    const int rounding = fegetround();
    const bool flush = (fp_control() & FP_FLUSH) != 0;
    set_mode(&usual);
    test_check(status == FOVEA_OK, "%s: %s", m->name, fovea_error_detail());
    test_check(rounding == m->rounding && flush == m->flush, "%s: the mode was changed", m->name);
    fovea_attention_plan_destroy(plan);
}

/* All ways under all modes. shows: each mode must make a difference. */
static void check_case(const char *name, const attention_case *c, const inputs *in, bool shows) {
    char text[512];
    outputs *plain = outputs_make(c, c->layout), *want = outputs_make(c, c->layout), *got = outputs_make(c, c->layout);
    run_under(&usual, scalar, c, in, plain);
    for (int i = 0; i < MODES; i++) {
        const mode *m = &modes[i];
        if (m->flush && !FP_FLUSH)
            continue;
        run_under(m, scalar, c, in, want);
        if (shows)
            test_check(first_difference(want->memory, plain->memory, want->floats) >= 0,
                       "control: %s makes no difference to %s", m->name, name);
        for (int w = 0; w < WAYS; w++) {
            run_under(m, ways[w].ctx, c, in, got);
            outputs_same(got, want, "%s, %s instead of one of the scalar tier, %s (%s)", m->name, ways[w].text, name,
                         case_text(c, text, sizeof text));
        }
    }
    outputs_free(plain);
    outputs_free(want);
    outputs_free(got);
}

static void check_shared(const char *name, attention_case c) {
    rng r = rng_stream(test_seed(), name);
    inputs *in = inputs_make(&c, &r);
    for (int64_t i = 0; i < c.desc.batch * in->args.v.stride[0]; i += 2)
        ((float *)in->args.v.data)[i] *= 0x1p-130F; /* every other channel gives subnormal outputs */
    check_case(name, &c, in, true);
    inputs_free(in);
}

static void check_random(int64_t number) {
    char name[32];
    snprintf(name, sizeof name, "problem %" PRId64, number);
    rng r = rng_stream(test_seed(), name);
    attention_case c = case_random(&r, 100000);
    case_random_scores(&c, &r);
    if (number % 4 == 0)
        c.values = VALUES_SUBNORMAL;
    inputs *in = inputs_make(&c, &r);
    check_case(name, &c, in, false);
    inputs_free(in);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "fp_modes", NULL);
    make_ways();
    check_shared("split rows", case_plain(1, 4, 2, 1, 2000, 16, 16));
    check_shared("many blocks", case_plain(1, 4, 2, 90, 300, 16, 16));
    /* Whether a block sees one segment or several depends on its size, and so on threads and tier. */
    attention_case causal = case_plain(1, 2, 1, 400, 400, 16, 16);
    causal.desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    check_shared("causal blocks", causal);
    for (int64_t i = 0, count = test_scaled(24); i < count; i++)
        check_random(i);
    if (!FP_FLUSH)
        test_skip("flush-to-zero: cannot be set here");
    free_ways();
    return test_end();
}
