/* Golden results: the same bits on every tier, compiler and architecture, of today and of the day they were stored.
 *
 *     test-golden                          computes the suite on the tier under test, and compares hashes with
 *                                          those of this version of the bits, golden/bits-N.inc
 *     test-golden --only 'attention 17'    one line of it
 *     test-golden --write FILE             makes them, on the scalar tier only
 *
 * The suite is attention problems of all kinds (attention_case.h), linear maps and layers (golden_layers.c), 16-bit
 * types and arithmetics (golden_types.c) and all else (golden_subjects.c), each with and without flush-to-zero.
 * fovea-check holds each kernel to its formula's bits. Its inputs come from GOLDEN_SEED, whatever --seed says, by
 * integer draws and operations that every IEEE machine rounds alike; they are hashed, too, so that a machine that makes
 * others does not accuse the library.
 *
 * New lines go to the end of the file. A line that a release had does not change while FOVEA_BITS_VERSION stays (test
 * bits-version). Whoever changes the arithmetic on purpose raises that and adds a file (docs/stability.md). Between x86
 * and Arm, flush-to-zero may differ where rounding makes a subnormal result the smallest normal number; this suite
 * meets no such result. */
#include "attention_case.h"
#include "fp_control.h"
#include "golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROBLEMS = 240, WORK = 500000 };

static test_option options[] = {
    {"--only", "NAME", "only that line", NULL},
    {"--other-libm", NULL, "fail if libm is right: a rough one was to be preloaded", NULL},
    {"--write", "FILE", "write the hashes instead of comparing with them", NULL},
    {NULL, NULL, NULL, NULL},
};

typedef struct golden_line {
    const char *name;
    uint64_t inputs, outputs, flushed; /* flushed: of the outputs under flush-to-zero */
} golden_line;

/* golden/bits-N.inc of this version of the bits. */
#define QUOTE_AS_IS(x) #x
#define QUOTE(x) QUOTE_AS_IS(x)
static const golden_line lines[] = {
/* clang-format off */
#include QUOTE(golden/bits-FOVEA_BITS_VERSION.inc)
    /* clang-format on */
};
enum { LINES = sizeof lines / sizeof lines[0] };

static FILE *written;     /* with --write */
static bool found[LINES]; /* lines that were computed */

/* --------------------------------------------------------------------------------------------------- comparison -- */

static bool wanted(const char *name) {
    const char *only = test_option_value(options, "--only");
    return only == NULL || strcmp(only, name) == 0;
}

static void compare(const char *name, bool flush, golden_hash got, const char *about) {
    int i = 0;
    while (i < LINES && strcmp(lines[i].name, name) != 0)
        i++;
    if (!test_check(i < LINES, "%s is not among the stored hashes", name))
        return;
    found[i] = true;
    const uint64_t want = flush ? lines[i].flushed : lines[i].outputs;
    if (test_check(got.inputs == lines[i].inputs, "%s: other inputs than when hashes were stored (%s); --only '%s'",
                   name, about, name))
        test_check(got.outputs == want,
                   "%s%s: outputs hash to %016" PRIx64 " instead of %016" PRIx64 " (%s); --only '%s'", name,
                   flush ? " under flush-to-zero" : "", got.outputs, want, about, name);
}

static void write_line(const char *name, golden_hash usual, golden_hash flushed) {
    fprintf(written, "{\"%s\", 0x%016" PRIx64 ", 0x%016" PRIx64 ", 0x%016" PRIx64 "},\n", name, usual.inputs,
            usual.outputs, flushed.outputs);
    test_check(usual.inputs == flushed.inputs, "%s: inputs made twice differ", name);
}

/* Writes a line, or compares with it. */
static void settle(const char *name, golden_hash usual, golden_hash flushed, const char *about) {
    if (written) {
        write_line(name, usual, flushed);
        return;
    }
    compare(name, false, usual, about);
    if (FP_FLUSH)
        compare(name, true, flushed, about);
}

/* ---------------------------------------------------------------------------------------------------- attention -- */

static uint64_t hash_tensor(uint64_t hash, const fovea_tensor *t) {
    if (t->data == NULL)
        return hash;
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t i = 0; i < t->shape[2]; i++)
                for (int64_t j = 0; j < t->shape[3]; j++) {
                    const int64_t at = b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + j * t->stride[3];
                    hash = t->dtype == FOVEA_DTYPE_BOOL ? fnv_byte(hash, ((const uint8_t *)t->data)[at])
                                                        : fnv_u32(hash, float_bits(((const float *)t->data)[at]));
                }
    return hash;
}

static uint64_t hash_lengths(uint64_t hash, const int64_t *lengths, int64_t n) {
    for (int64_t i = 0; lengths && i < n; i++)
        hash = fnv_u64(hash, (uint64_t)lengths[i]);
    return hash;
}

static uint64_t hash_inputs(const attention_case *c, const inputs *in) {
    const fovea_tensor *tensors[] = {&in->args.q, &in->args.k, &in->args.v, &in->args.mask};
    char text[512];
    uint64_t hash = fnv_text(FNV_START, case_text(c, text, sizeof text));
    for (int i = 0; i < 4; i++)
        hash = hash_tensor(hash, tensors[i]);
    hash = hash_lengths(hash, in->q_lens, c->desc.batch);
    hash = hash_lengths(hash, in->kv_lens, c->desc.batch);
    return hash_lengths(hash, in->q_offsets, c->desc.batch);
}

/* Numbers among the outputs that prove something: not 0, not infinite, not NaN, in at least a quarter of them. */
static bool mostly_ordinary(const outputs *out) {
    const float untouched = out->memory[0]; /* what gaps hold */
    int64_t ordinary = 0;
    for (int64_t i = 0; i < out->floats; i++)
        ordinary += out->memory[i] != 0 && isfinite(out->memory[i]) && out->memory[i] != untouched;
    return ordinary > out->floats / 4;
}

static int ordinary_problems, flushed_problems; /* for the controls */

/* All of the outputs' memory: the gaps between rows must be as they were. */
static golden_hash hash_run(const fovea_context *ctx, const attention_case *c, const inputs *in, bool flush) {
    golden_hash hash = {hash_inputs(c, in), FNV_START};
    outputs *out = outputs_make(c, c->layout);
    fp_flush(flush);
    case_run(ctx, NULL, c, in, out);
    fp_flush(false);
    for (int64_t i = 0; i < out->floats; i++)
        hash.outputs = fnv_u32(hash.outputs, float_bits(out->memory[i]));
    ordinary_problems += !flush && mostly_ordinary(out);
    outputs_free(out);
    return hash;
}

/* Kinds of problems, each of which the suite must have: a bit each in the set of those seen. */
static uint64_t kinds_of(const attention_case *c) {
    const fovea_attention_desc *d = &c->desc;
    const bool is[] = {d->q_len == 1,
                       d->kv_len > 2 * FV_SEGMENT,
                       d->q_heads > d->kv_heads,
                       d->q_heads == d->kv_heads,
                       d->batch > 1,
                       d->window_left >= 0,
                       d->window_right >= 0,
                       c->lse,
                       c->weights,
                       c->q_lens,
                       c->kv_lens,
                       c->q_offsets,
                       c->mask_repeats[0],
                       c->mask_repeats[1],
                       c->mask_repeats[2],
                       c->mask_repeats[3]};
    uint64_t kinds =
        (uint64_t)1 << d->causal | (uint64_t)16 << d->mask | (uint64_t)256 << c->layout | (uint64_t)4096 << c->values;
    for (int i = 0; i < 16; i++)
        kinds |= (uint64_t)is[i] << (20 + i);
    return kinds;
}

/* Every other problem is as random as they come, and so in part degenerate; those between see many keys. */
static attention_case draw_problem(int number, rng *r) {
    attention_case c = case_random(r, WORK);
    if (number % 2) {
        while (c.desc.q_len < 5 || c.desc.kv_len < 20)
            c = case_random(r, WORK);
        c.values = VALUES_RANDOM;
        c.mask_density = 0.9F;
        c.q_lens = c.kv_lens = false;
    } else if (number % 8 == 0) {
        c.values = VALUES_SUBNORMAL;
    }
    return c;
}

static const uint64_t ALL_KINDS = 0xf | 7 << 4 | 0xf << 8 | ((1 << VALUES_COUNT) - 1) << 12 | (uint64_t)0xffff << 20;

static void check_attention(const fovea_context *ctx) {
    uint64_t kinds = 0;
    for (int number = 0; number < PROBLEMS; number++) {
        char name[32], text[512];
        snprintf(name, sizeof name, "attention %d", number);
        rng r = rng_stream(GOLDEN_SEED, name);
        const attention_case c = draw_problem(number, &r);
        kinds |= kinds_of(&c);
        if (!wanted(name))
            continue;
        inputs *in = inputs_make(&c, &r);
        const golden_hash usual = hash_run(ctx, &c, in, false), flushed = hash_run(ctx, &c, in, true);
        flushed_problems += usual.outputs != flushed.outputs;
        settle(name, usual, flushed, case_text(&c, text, sizeof text));
        inputs_free(in);
    }
    if (test_option_value(options, "--only") == NULL) {
        test_check(ordinary_problems > PROBLEMS * 2 / 5, "control: only %d of %d problems give ordinary numbers",
                   ordinary_problems, PROBLEMS);
        test_check(flushed_problems > PROBLEMS / 12 || !FP_FLUSH,
                   "control: flush-to-zero shows in %d of %d problems only", flushed_problems, PROBLEMS);
    }
    test_check(kinds == ALL_KINDS, "the suite has problems of kinds %#" PRIx64 " only, not %#" PRIx64, kinds,
               ALL_KINDS);
}

/* Results that are counted from 0. */
static void check_numbered(const fovea_context *ctx, bool (*name_of)(int, char[32]),
                           golden_hash (*run)(const fovea_context *, int, bool), const char *about) {
    char name[32];
    for (int number = 0; name_of(number, name); number++)
        if (wanted(name))
            settle(name, run(ctx, number, false), run(ctx, number, true), about);
}

/* ----------------------------------------------------------------------------------------------------- controls -- */

/* One bit of one input, the lowest, changes both hashes, and nothing changed changes none. */
static void check_controls(const fovea_context *ctx) {
    attention_case c = case_plain(1, 2, 1, 7, 300, 16, 16);
    rng r = rng_stream(GOLDEN_SEED, "controls");
    inputs *in = inputs_make(&c, &r);
    c.weights = true;
    const golden_hash first = hash_run(ctx, &c, in, false), again = hash_run(ctx, &c, in, false);
    test_check(first.inputs == again.inputs && first.outputs == again.outputs, "control: the same hashes to another");
    float *q = in->args.q.data;
    *q = bits_float(float_bits(*q) ^ 1);
    const golden_hash other = hash_run(ctx, &c, in, false);
    test_check(other.inputs != first.inputs, "control: another input hashes to the same");
    test_check(other.outputs != first.outputs, "control: the outputs of another input hash to the same");
    inputs_free(in);
}

/* log(2) of the libm that this program meets. */
static void check_libm(void) {
    volatile double two = 2;
    test_check(fabs(log(two) - 0.6931471805599453) > 1e-4,
               "libm is right: tests/support/rough_libm.c is not preloaded");
}

static bool open_written(const char *path) {
    if (!test_check(test_isa() == FOVEA_ISA_SCALAR && FP_FLUSH != 0,
                    "--write: FOVEA_ISA=scalar makes the hashes, not %s", fovea_isa_name(test_isa())))
        return false;
    written = fopen(path, "w");
    if (!test_check(written != NULL, "--write: cannot write %s", path))
        return false;
    fprintf(written,
            "/* Golden results of the scalar tier: name; hash of inputs; of outputs; of outputs under flush-to-zero.\n"
            " * Made by FOVEA_ISA=scalar test-golden --write FILE (test_golden.c). */\n"
            "/* clang-format off */\n");
    return true;
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "golden", options);
    const char *path = test_option_value(options, "--write");
    if (path && !open_written(path))
        return test_end();
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 0, NULL);
    check_attention(ctx);
    check_numbered(ctx, golden_layer_name, golden_layer, "a linear map or a layer");
    check_numbered(ctx, golden_type_name, golden_type, "16-bit types");
    check_numbered(ctx, golden_subject_name, golden_subject, "neither attention nor a float map");
    check_controls(ctx);
    if (test_option_value(options, "--other-libm"))
        check_libm();
    fovea_context_destroy(ctx);
    for (int i = 0; i < LINES && !written && !test_option_value(options, "--only"); i++)
        test_check(found[i], "%s is stored, and nothing computed it", lines[i].name);
    if (!FP_FLUSH)
        test_skip("flush-to-zero: cannot be set here");
    if (written)
        test_check(fclose(written) == 0, "--write: cannot write %s", path);
    return test_end();
}
