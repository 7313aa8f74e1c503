/* What a row may see, and what happens to what it may not: section 5 of the design.
 *
 *   empty     rows without keys, of every origin: out +0, lse -inf, weights +0
 *   poison    NaN, infinities and arbitrary bits in keys, values and queries that a row does not attend to change no
 *             bit of it; NaN in those that it does attend to gives NaN exactly there (the control)
 *   scores    +inf and NaN scores give a NaN row, -inf scores are legal
 *   canonical all NaN written are 0x7fc00000, all zeros +0 */
#include "attention_case.h"
#include "pool.h"
#include "reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static fovea_context *ctx;

static float element(const fovea_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c) {
    return tensor_row(t, b, h, i)[c];
}

/* Every output value is a legal one: no -0, no NaN but the one. */
static bool canonical(const outputs *out) {
    for (int64_t i = 0; i < out->floats; i++) {
        uint32_t bits = float_bits(out->memory[i]);
        if (bits == 0x80000000 || (float_is_nan(out->memory[i]) && bits != CANONICAL_NAN))
            return false;
    }
    return true;
}

static void set_row(float *row, int64_t n, float value) {
    for (int64_t i = 0; i < n; i++)
        row[i] = value;
}

/* Whether row (b, h, i) of all outputs is that of a row without keys, or one of NaN. */
static bool row_is_empty(const attention_case *c, const outputs *out, int64_t b, int64_t h, int64_t i) {
    bool ok = float_bits(element(&out->lse, b, h, i, 0)) == float_bits(-INFINITY);
    for (int64_t n = 0; n < c->desc.value_dim; n++)
        ok = ok && float_bits(element(&out->out, b, h, i, n)) == 0;
    for (int64_t j = 0; c->weights && j < c->desc.kv_len; j++)
        ok = ok && float_bits(element(&out->weights, b, h, i, j)) == 0;
    return ok;
}

static bool row_is_nan(const attention_case *c, const inputs *in, const outputs *out, int64_t b, int64_t h, int64_t i) {
    bool ok = float_bits(element(&out->lse, b, h, i, 0)) == CANONICAL_NAN;
    for (int64_t n = 0; n < c->desc.value_dim; n++)
        ok = ok && float_bits(element(&out->out, b, h, i, n)) == CANONICAL_NAN;
    for (int64_t j = 0; c->weights && j < c->desc.kv_len; j++)
        ok = ok && float_bits(element(&out->weights, b, h, i, j)) ==
                       (reference_attends(&c->desc, &in->args, b, h, i, j) ? (uint32_t)CANONICAL_NAN : 0);
    return ok;
}

static bool row_same(const attention_case *c, const outputs *x, const outputs *y, int64_t b, int64_t h, int64_t i) {
    return first_difference(tensor_row(&x->out, b, h, i), tensor_row(&y->out, b, h, i), c->desc.value_dim) < 0 &&
           float_bits(element(&x->lse, b, h, i, 0)) == float_bits(element(&y->lse, b, h, i, 0)) &&
           (!c->weights ||
            first_difference(tensor_row(&x->weights, b, h, i), tensor_row(&y->weights, b, h, i), c->desc.kv_len) < 0);
}

static int64_t attended_keys(const attention_case *c, const inputs *in, int64_t b, int64_t h, int64_t i) {
    int64_t n = 0;
    for (int64_t j = 0; j < c->desc.kv_len; j++)
        n += reference_attends(&c->desc, &in->args, b, h, i, j);
    return n;
}

/* ------------------------------------------------------------------------------------------------------ empty -- */

/* Runs a case and expects exactly `empty` rows without keys, which must look so, and others that do not. */
static void check_empty(const char *name, attention_case c, const int64_t *q_lens, const int64_t *kv_lens,
                        const int64_t *q_offsets, int64_t empty) {
    rng r = rng_stream(test_seed(), name);
    const fovea_attention_desc *d = &c.desc;
    c.q_lens = q_lens != NULL;
    c.kv_lens = kv_lens != NULL;
    c.q_offsets = q_offsets != NULL;
    c.weights = true;
    inputs *in = inputs_make_given(&c, &r, q_lens, kv_lens, q_offsets);
    outputs *out = outputs_make(&c, LAYOUT_ODD);
    int64_t found = 0, wrong = 0;
    if (case_run(ctx, NULL, &c, in, out)) {
        for (int64_t b = 0; b < d->batch; b++)
            for (int64_t h = 0; h < d->q_heads; h++)
                for (int64_t i = 0; i < d->q_len; i++) {
                    bool none = attended_keys(&c, in, b, h, i) == 0;
                    found += none;
                    wrong += row_is_empty(&c, out, b, h, i) != none;
                }
        test_check(found == empty, "%s: %" PRId64 " rows without keys, not %" PRId64, name, found, empty);
        test_check(wrong == 0, "%s: %" PRId64 " rows are wrongly empty or not", name, wrong);
        test_check(canonical(out), "%s: -0 or a foreign NaN", name);
    }
    inputs_free(in);
    outputs_free(out);
}

static void test_empty(void) {
    static const int64_t zero_five[] = {0, 5}, minus_three[] = {-3, 0}, far[] = {100, 3}, three_seven[] = {3, 7};
    attention_case c = case_plain(2, 2, 1, 7, 5, 4, 6);
    check_empty("no empty row", c, NULL, NULL, NULL, 0);
    check_empty("kv_lens 0", c, NULL, zero_five, NULL, 14);
    check_empty("q_lens 3", c, three_seven, NULL, NULL, 8);
    check_empty("kv_lens 0 and q_lens 3", c, three_seven, zero_five, NULL, 14);

    attention_case causal = c;
    causal.desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    check_empty("top left", causal, NULL, NULL, NULL, 0);
    causal.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT; /* 7 queries, 5 keys: the first two see none */
    check_empty("bottom right", causal, NULL, NULL, NULL, 8);
    check_empty("bottom right, lengths", causal, three_seven, zero_five, NULL, 14 + 4);
    causal.desc.causal = FOVEA_CAUSAL_OFFSET;
    check_empty("offset -3", causal, NULL, NULL, minus_three, 6);

    attention_case window = c;
    window.desc.window_left = 0;
    window.desc.window_right = 0; /* the diagonal: queries 5 and 6 see none */
    check_empty("window 0", window, NULL, NULL, NULL, 8);
    check_empty("window at offset 100 and 3", window, NULL, NULL, far, 14 + 10);
    window.desc.window_left = -1;
    check_empty("window right at -3", window, NULL, NULL, minus_three, 6);

    attention_case masked = c;
    masked.mask_density = 0;
    masked.desc.mask = FOVEA_MASK_BOOLEAN;
    check_empty("mask of zeros", masked, NULL, NULL, NULL, 28);
    masked.desc.mask = FOVEA_MASK_ADDITIVE;
    check_empty("mask of -inf", masked, NULL, NULL, NULL, 28);

    check_empty("no keys", case_plain(2, 2, 1, 7, 0, 4, 6), NULL, NULL, NULL, 28);
    attention_case one = case_plain(1, 4, 2, 1, 700, 8, 8); /* the path of split rows */
    static const int64_t zero[] = {0};
    check_empty("one query, kv_lens 0", one, NULL, zero, NULL, 4);
    one.desc.mask = FOVEA_MASK_ADDITIVE;
    one.mask_density = 0;
    check_empty("one query, mask of -inf", one, NULL, NULL, NULL, 4);
}

/* ----------------------------------------------------------------------------------------------------- poison -- */

enum { POISON_K, POISON_V, POISON_Q, POISON_KINDS };

/* The float to poison with; attended rows are checked only for NaN, whose effect is known. */
static float random_poison(rng *r, bool nan_only) {
    switch (nan_only ? 0 : rng_below(r, 5)) {
    case 0: return bits_float(0xff800001U + (uint32_t)rng_below(r, 0x7ffffe)); /* NaN of any payload and kind */
    case 1: return INFINITY;
    case 2: return -INFINITY;
    case 3: return 3e38F;
    default: return rng_pattern(r);
    }
}

/* Puts poison into one row of k, v or q, runs, and compares each row of the outputs with the clean ones. seen counts
 * rows that kept and rows that lost their bits. */
static void poison_once(const attention_case *c, inputs *in, const outputs *clean, outputs *out, rng *r,
                        const char *text, int64_t seen[2]) {
    const fovea_attention_desc *d = &c->desc;
    int64_t group = d->q_heads / d->kv_heads;
    int which = (int)rng_below(r, POISON_KINDS);
    const fovea_tensor *t = which == POISON_K ? &in->args.k : which == POISON_V ? &in->args.v : &in->args.q;
    int64_t b = rng_below(r, d->batch), h = rng_below(r, t->shape[1]);
    int64_t most =
        which == POISON_Q ? (in->q_lens ? in->q_lens[b] : d->q_len) : (in->kv_lens ? in->kv_lens[b] : d->kv_len);
    if (most == 0)
        return;
    int64_t token = rng_below(r, most), channel = rng_below(r, t->shape[3]);
    int64_t attending = 0;
    for (int64_t qh = which == POISON_Q ? 0 : h * group; which != POISON_Q && qh < (h + 1) * group; qh++)
        for (int64_t i = 0; i < d->q_len; i++)
            attending += reference_attends(d, &in->args, b, qh, i, token);
    float *row = tensor_row(t, b, h, token), value = random_poison(r, which == POISON_Q || attending > 0);
    float *saved = must_alloc(t->shape[3], sizeof *saved);
    memcpy(saved, row, (size_t)t->shape[3] * sizeof *row);
    bool one = rng_below(r, 2); /* one channel or all */
    if (one)
        row[channel] = value;
    else
        set_row(row, t->shape[3], value);

    outputs_clear(out);
    int64_t wrong = 0, at[3] = {0};
    if (case_run(ctx, NULL, c, in, out))
        for (int64_t bb = 0; bb < d->batch; bb++)
            for (int64_t qh = 0; qh < d->q_heads; qh++)
                for (int64_t i = 0; i < d->q_len; i++) {
                    bool touched =
                        bb == b &&
                        (which == POISON_Q ? qh == h && i == token && attended_keys(c, in, b, qh, i)
                                           : qh / group == h && reference_attends(d, &in->args, b, qh, i, token));
                    bool ok;
                    if (!touched)
                        ok = row_same(c, out, clean, bb, qh, i);
                    else if (which != POISON_V)
                        ok = row_is_nan(c, in, out, bb, qh, i);
                    else { /* NaN in the poisoned channels, all else as it was */
                        ok = float_bits(element(&out->lse, bb, qh, i, 0)) ==
                             float_bits(element(&clean->lse, bb, qh, i, 0));
                        for (int64_t n = 0; n < d->value_dim; n++)
                            ok = ok && float_bits(element(&out->out, bb, qh, i, n)) ==
                                           (!one || n == channel ? (uint32_t)CANONICAL_NAN
                                                                 : float_bits(element(&clean->out, bb, qh, i, n)));
                    }
                    seen[touched]++;
                    if (!ok && wrong++ == 0)
                        at[0] = bb, at[1] = qh, at[2] = i;
                }
    test_check(wrong == 0,
               "%08" PRIx32 " in %s[%" PRId64 "][%" PRId64 "][%" PRId64 "][%" PRId64 "%s]: %" PRId64
               " rows wrong, the first [%" PRId64 "][%" PRId64 "][%" PRId64 "], which %s (%s)",
               float_bits(value),
               which == POISON_K   ? "k"
               : which == POISON_V ? "v"
                                   : "q",
               b, h, token, channel, one ? "" : " and all", wrong, at[0], at[1], at[2],
               which != POISON_Q && reference_attends(d, &in->args, at[0], at[1], at[2], token)
                   ? "attends to such a key"
                   : "should not care",
               text);
    test_check(canonical(out), "-0 or a foreign NaN after poisoning (%s)", text);
    memcpy(row, saved, (size_t)t->shape[3] * sizeof *row);
    free(saved);
}

static void test_poison(void) {
    int64_t seen[2] = {0, 0}, count = test_scaled(250);
    for (int64_t n = 0; n < count; n++) {
        char name[32], text[600];
        snprintf(name, sizeof name, "poison %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 150000);
        if (c.desc.kv_len == 0)
            continue;
        c.values = VALUES_RANDOM; /* scores that differ little: no weight underflows, NaN in an attended value shows */
        c.lse = true;
        int at = snprintf(text, sizeof text, "%s: ", name);
        case_text(&c, text + at, sizeof text - (size_t)at);
        inputs *in = inputs_make(&c, &r);
        outputs *clean = outputs_make(&c, c.layout), *out = outputs_make(&c, c.layout);
        if (case_run(ctx, NULL, &c, in, clean))
            for (int i = 0; i < 6; i++)
                poison_once(&c, in, clean, out, &r, text, seen);
        inputs_free(in);
        outputs_free(clean);
        outputs_free(out);
    }
    printf("poison: %" PRId64 " rows kept their bits, %" PRId64 " became NaN\n", seen[0], seen[1]);
    test_check(seen[0] > 0 && seen[1] > 0, "poison proves nothing");
}

/* ----------------------------------------------------------------------------------------------------- scores -- */

/* What a special score does to every row: NaN, a row without weights, or a row as any other. */
typedef enum { TO_NAN, TO_EMPTY, TO_FINITE } effect;

/* One sequence, kv_len keys, additive mask; sets the mask at key to bias and checks all rows. Boundary keys, so that
 * every place of vectors and segments is met. */
static void check_bias(int64_t q_len, int64_t key, float bias, effect expected) {
    attention_case c = case_plain(1, 2, 2, q_len, 520, 8, 8);
    c.desc.mask = FOVEA_MASK_ADDITIVE;
    c.mask_density = 1;
    c.weights = true;
    rng r = rng_stream(test_seed(), "bias");
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, LAYOUT_BHTD);
    for (int64_t row = 0; row < 2 * q_len; row++)
        ((float *)in->args.mask.data)[row * 520 + key] = bias;
    case_run(ctx, NULL, &c, in, out);
    int64_t wrong = 0;
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < q_len; i++) {
            bool finite = isfinite(element(&out->out, 0, h, i, 0)) && isfinite(element(&out->lse, 0, h, i, 0));
            wrong += expected == TO_NAN ? !row_is_nan(&c, in, out, 0, h, i) : !finite;
        }
    test_check(wrong == 0 && canonical(out), "bias %g at key %" PRId64 ", q_len %" PRId64 ": %" PRId64 " rows wrong",
               (double)bias, key, q_len, wrong);
    inputs_free(in);
    outputs_free(out);
}

/* Scores from q and k themselves: q = 2^64 everywhere, k per key: 0, or a value that makes the score what is wanted. */
static void check_product(const char *what, int64_t q_len, float k_all, int64_t key, float k_one, effect expected) {
    attention_case c = case_plain(1, 1, 1, q_len, 520, 3, 5);
    c.weights = true;
    c.desc.has_scale = 1;
    c.desc.scale = 1;
    rng r = rng_stream(test_seed(), what);
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, LAYOUT_BHTD);
    set_row(in->args.q.data, q_len * 3, 0x1p64F);
    set_row(in->args.k.data, 520 * 3, k_all);
    if (key >= 0)
        set_row(tensor_row(&in->args.k, 0, 0, key), 3, k_one);
    case_run(ctx, NULL, &c, in, out);
    int64_t wrong = 0;
    for (int64_t i = 0; i < q_len; i++)
        wrong += expected == TO_NAN     ? !row_is_nan(&c, in, out, 0, 0, i)
                 : expected == TO_EMPTY ? !row_is_empty(&c, out, 0, 0, i)
                                        : !isfinite(element(&out->out, 0, 0, i, 4)) ||
                                              (key >= 0 && element(&out->weights, 0, 0, i, key) != 0);
    test_check(wrong == 0 && canonical(out), "%s, key %" PRId64 ", q_len %" PRId64 ": %" PRId64 " rows wrong", what,
               key, q_len, wrong);
    inputs_free(in);
    outputs_free(out);
}

static void test_scores(void) {
    static const int64_t keys[] = {0, 1, 15, 16, 254, 255, 256, 257, 511, 512, 519}, q_lens[] = {1, 9};
    const float nan = bits_float(0xffc12345);
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < 11; i++) {
            check_bias(q_lens[n], keys[i], INFINITY, TO_NAN);
            check_bias(q_lens[n], keys[i], nan, TO_NAN);
            check_bias(q_lens[n], keys[i], 3e38F, TO_FINITE);
            check_bias(q_lens[n], keys[i], -3e38F, TO_FINITE);
            check_bias(q_lens[n], keys[i], -200, TO_FINITE);
            check_product("a score of +inf", q_lens[n], 0, keys[i], 0x1p64F, TO_NAN);
            check_product("a score of -inf", q_lens[n], 0, keys[i], -0x1p64F, TO_FINITE);
            check_product("a score of +inf after scores of -inf", q_lens[n], -0x1p64F, keys[i], 0x1p64F, TO_NAN);
            check_product("a NaN score after scores of -inf", q_lens[n], -0x1p64F, keys[i], nan, TO_NAN);
        }
        check_product("all scores -inf", q_lens[n], -0x1p64F, -1, 0, TO_EMPTY);
        check_product("all scores +inf", q_lens[n], 0x1p64F, -1, 0, TO_NAN);
        check_product("scores of 1e19 below zero", q_lens[n], -0.5F, -1, 0, TO_FINITE);
    }
}

/* The first segment sees nothing but -inf scores, the second has scores far below zero: 0 must not stand for a maximum
 * of -inf longer than it should. And values of -0, whose sum is -0, and which out may not show. */
static void test_corners(void) {
    static const int64_t q_lens[] = {1, 6};
    for (int n = 0; n < 2; n++) {
        attention_case c = case_plain(1, 1, 1, q_lens[n], 300, 1, 2);
        c.desc.has_scale = 1;
        c.desc.scale = 1;
        c.weights = true;
        rng r = rng_stream(test_seed(), "corners");
        inputs *in = inputs_make(&c, &r);
        outputs *out = outputs_make(&c, LAYOUT_BHTD);
        set_row(in->args.q.data, q_lens[n], 0x1p64F);
        set_row(in->args.k.data, 256, -0x1p64F);
        set_row((float *)in->args.k.data + 256, 44, -500 * 0x1p-64F);
        set_row(in->args.v.data, 600, 3);
        case_run(ctx, NULL, &c, in, out);
        for (int64_t i = 0; i < q_lens[n]; i++) {
            float lse = element(&out->lse, 0, 0, i, 0), value = element(&out->out, 0, 0, i, 1);
            test_check(fabsf(value - 3) < 1e-5F && fabs((double)lse - (-500 + log(44.0))) < 1e-4,
                       "scores of -500 after a segment of -inf: out %g, lse %g", (double)value, (double)lse);
        }
        set_row(in->args.v.data, 600, -0.0F);
        case_run(ctx, NULL, &c, in, out);
        test_check(canonical(out) && element(&out->out, 0, 0, 0, 0) == 0, "values of -0 give an output of -0");
        set_row(in->args.v.data, 600, 0);
        set_row(tensor_row(&in->args.v, 0, 0, 299), 2, -0x1p-149F); /* times its weight of 1/44 it is -0 */
        case_run(ctx, NULL, &c, in, out);
        test_check(canonical(out) && element(&out->out, 0, 0, 0, 0) == 0, "an output that underflows from below is -0");
        inputs_free(in);
        outputs_free(out);
    }
}

/* A scale of 0 is one: all keys weigh the same. */
static void test_scale_zero(void) {
    attention_case c = case_plain(1, 1, 1, 40, 256, 5, 3);
    c.desc.has_scale = 1;
    c.desc.scale = 0;
    c.weights = true;
    rng r = rng_stream(test_seed(), "scale 0");
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, LAYOUT_BHTD);
    int64_t wrong = case_run(ctx, NULL, &c, in, out) ? 0 : 1;
    for (int64_t i = 0; i < 40; i++)
        for (int64_t j = 0; j < 256; j++)
            wrong += fabsf(element(&out->weights, 0, 0, i, j) * 256 - 1) > 1e-6F;
    test_check(wrong == 0, "scale 0: %" PRId64 " weights are not 1/256", wrong);
    inputs_free(in);
    outputs_free(out);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "masks", NULL);
    pool *p = pool_create(2);
    ctx = context_of(FOVEA_ISA_BEST, 2, p);
    test_empty();
    test_poison();
    test_scores();
    test_corners();
    test_scale_zero();
    fovea_context_destroy(ctx);
    pool_destroy(p);
    return test_end();
}
