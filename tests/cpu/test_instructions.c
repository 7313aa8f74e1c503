/* Instructions of 16 bits against their emulators (kernels/probes): the hard cases of the start-up self-check, and
 * random ones. Exponents are drawn within a few of each other, so that sums cancel and round; in every fourth case
 * they are those of the smallest numbers. The conversions of F16C are those of kernels (widen_f16, narrow_f16).
 *
 *     test-instructions [--cases N]     N outputs of each instruction; default 400,000
 *
 * What this CPU lacks is counted as skipped; its emulator is held against float64 by all the same. */
#define _GNU_SOURCE /* syscall */
#include "cpu/self_check.h"
#include "dispatch/dispatch.h"
#include "probes/emulate.h"
#include "target.h"
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

/* Tiles are there once the process has asked. */
static bool may_use_tiles(void) {
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#else
static bool may_use_tiles(void) { return false; }
#endif

static test_option options[] = {
    {"--cases", "N", "outputs of each instruction (400000)", NULL},
    {NULL, NULL, NULL, NULL},
};

static const char *text_of(const fv_probe *probe, const fv_probe_case *x, char text[256]) {
    uint32_t got[FV_PROBE_OUTPUTS], want[FV_PROBE_OUTPUTS];
    int j = 0;
    probe->run(x->pairs, x->a, x->b, x->c, got);
    probe->emulate(x->pairs, x->a, x->b, x->c, want);
    while (j < FV_PROBE_OUTPUTS - 1 && got[j] == want[j])
        j++;
    snprintf(text, 256,
             "%" PRId64 " pairs, first %08" PRIx32 " and %08" PRIx32 ", added to %08" PRIx32 ": %08" PRIx32
             ", emulated %08" PRIx32,
             x->pairs, x->a[0], x->b[j], float_bits(x->c[j]), got[j], want[j]);
    return text;
}

/* An element of 16 bits: bfloat16 with an exponent from low to low + 7, or any bits at all. */
static uint32_t element(rng *r, uint32_t low) {
    const uint32_t bits = (uint32_t)rng_u64(r);
    return rng_below(r, 64) == 0 ? bits & 0xffff : (bits & 0x807f) | (low + (bits >> 8 & 7)) << 7;
}

static void random_case(rng *r, fv_probe_case *x) {
    const bool small = rng_below(r, 4) == 0;
    const uint32_t low = (uint32_t)(small ? rng_between(r, 0, 70) : rng_between(r, 110, 130)),
                   sum = small ? 2 * low : low;
    x->pairs = rng_between(r, 1, FV_PROBE_PAIRS);
    for (int64_t i = 0; i < x->pairs; i++)
        x->a[i] = element(r, low) | element(r, low) << 16;
    for (int64_t i = 0; i < x->pairs * FV_PROBE_OUTPUTS; i++)
        x->b[i] = element(r, low) | element(r, low) << 16;
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        const uint32_t bits = (uint32_t)rng_u64(r), exponent = sum < 127 && small ? (sum > 60 ? sum - 60 : 0) : sum;
        x->c[j] = bits_float(rng_below(r, 64) == 0 ? bits : (bits & 0x807fffff) | (exponent + (bits >> 24 & 7)) << 23);
    }
}

static void check_probe(const fv_probe *probe, int64_t outputs) {
    rng r = rng_stream(test_seed(), probe->instruction);
    fv_probe_case x;
    char text[256];
    int64_t differ = 0, cases = 0;
    for (int n = 0; fv_probe_hard_case(n, &x); n++)
        test_check(fv_probe_agrees(probe, &x), "%s, hard case %d: %s", probe->instruction, n, text_of(probe, &x, text));
    for (; cases * FV_PROBE_OUTPUTS < outputs; cases++) {
        random_case(&r, &x);
        if (!fv_probe_agrees(probe, &x) && differ++ < 3)
            test_check(false, "%s, case %" PRId64 ": %s", probe->instruction, cases, text_of(probe, &x, text));
    }
    test_check(differ == 0, "%s: %" PRId64 " of %" PRId64 " cases differ", probe->instruction, differ, cases);
    printf("%s: %" PRId64 " random outputs, %" PRId64 " cases differ\n", probe->instruction, cases * FV_PROBE_OUTPUTS,
           differ);
}

/* The self-check sees an instruction that does something else: each form that was ever suspected. */
static void low_first(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        float acc = c[j];
        for (int64_t t = 0; t < pairs; t++) {
            const uint32_t w = b[t * FV_PROBE_OUTPUTS + j];
            acc =
                emulate_step(emulate_step(acc, emulate_low(a[t]), emulate_low(w)), emulate_high(a[t]), emulate_high(w));
        }
        y[j] = float_bits(acc);
    }
}

static void rounded_once(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        float acc = c[j];
        for (int64_t t = 0; t < pairs; t++) {
            const uint32_t w = b[t * FV_PROBE_OUTPUTS + j];
            const double both = (double)emulate_flushed(emulate_high(a[t])) * (double)emulate_flushed(emulate_high(w)) +
                                (double)emulate_flushed(emulate_low(a[t])) * (double)emulate_flushed(emulate_low(w));
            acc = emulate_flushed((float)(both + (double)emulate_flushed(acc)));
        }
        y[j] = float_bits(acc);
    }
}

static void keeps_subnormals(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        float acc = c[j];
        for (int64_t t = 0; t < pairs; t++) {
            const uint32_t w = b[t * FV_PROBE_OUTPUTS + j];
            acc = fmaf(emulate_low(a[t]), emulate_low(w), fmaf(emulate_high(a[t]), emulate_high(w), acc));
        }
        y[j] = float_bits(acc);
    }
}

static void test_mutants(const fv_probe *probe) {
    static fv_probe_fn *const forms[] = {low_first, rounded_once, keeps_subnormals};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        fv_probe mutant = *probe;
        fv_probe_case x;
        int caught = 0;
        mutant.run = forms[i];
        for (int n = 0; fv_probe_hard_case(n, &x); n++)
            caught += !fv_probe_agrees(&mutant, &x);
        test_check(caught > 0, "the self-check does not see form %zu of %s", i, probe->instruction);
    }
}

/* The emulators where nothing is rounded: sums of small integers. */
static void test_exact(const fv_probe *probe) {
    rng r = rng_stream(test_seed(), "exact");
    for (int n = 0; n < 200; n++) {
        fv_probe_case x = {.pairs = rng_between(&r, 1, FV_PROBE_PAIRS)};
        int64_t sum[FV_PROBE_OUTPUTS], a[2 * FV_PROBE_PAIRS];
        uint32_t y[FV_PROBE_OUTPUTS];
        const bool f16 = strcmp(probe->instruction, "fmlal") == 0;
        for (int64_t i = 0; i < 2 * x.pairs; i++) {
            a[i] = rng_between(&r, -20, 20);
            const uint32_t bits = f16 ? half_narrow_f16((float)a[i]) : half_narrow_bf16((float)a[i]);
            x.a[i / 2] |= bits << i % 2 * 16;
        }
        for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
            sum[j] = rng_between(&r, -100, 100);
            x.c[j] = (float)sum[j];
            for (int64_t i = 0; i < 2 * x.pairs; i++) {
                const int64_t w = rng_between(&r, -20, 20);
                const uint32_t bits = f16 ? half_narrow_f16((float)w) : half_narrow_bf16((float)w);
                x.b[i / 2 * FV_PROBE_OUTPUTS + j] |= bits << i % 2 * 16;
                sum[j] += a[i] * w;
            }
        }
        probe->emulate(x.pairs, x.a, x.b, x.c, y);
        for (int j = 0; j < FV_PROBE_OUTPUTS; j++)
            test_check(bits_float(y[j]) == (float)sum[j], "%s emulated: %g instead of %" PRId64, probe->instruction,
                       (double)bits_float(y[j]), sum[j]);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "instructions", options);
    const char *given = test_option_value(options, "--cases");
    const int64_t outputs = given ? strtoll(given, NULL, 10) : 400000;
    const fv_target target = test_target();
    for (int i = 0; i < fv_probe_count; i++) {
        const fv_probe *probe = &fv_probes[i];
        const bool tiles = strcmp(probe->instruction, "tdpbf16ps") == 0,
                   converts = strncmp(probe->instruction, "vcvt", 4) == 0;
        char lacks[FV_FEATURES_TEXT];
        if (!converts)
            test_exact(probe);
        if (strcmp(probe->instruction, "vdpbf16ps") == 0)
            test_mutants(probe);
        if (!fv_target_has(target, probe->isa, probe->features))
            test_skip("%s: no %s here", probe->instruction,
                      fv_target_lacks(target, probe->isa, probe->features, lacks));
        else if (tiles && !may_use_tiles())
            test_skip("%s: the system gives no tiles", probe->instruction);
        else
            check_probe(probe, outputs);
    }
    return test_end();
}
