/* Which keys a row may see, and what happens to those that it may not: section 5 of the design.
 *
 *   empty     rows without keys, of every origin: out +0, lse -inf, weights +0
 *   poison    NaN, infinities and arbitrary bits in keys, values and queries that a row does not attend to change no
 *             bit of it; NaN in those that it does attend to gives NaN exactly there (the control)
 *   distant   work depends on the keys that are visible, not on how many lie between
 *   packed    a prepared mask, where sequences begin at multiples of 64 that are none of 256
 *   canonical all NaN written are 0x7fc00000, all zeros +0
 * Special scores: test_special_scores.c. */
#include "attention_case.h"
#include "mask_rows.h"
#include "reference.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static fovea_context *ctx;

/* ------------------------------------------------------------------------------------------------------ empty -- */

/* Sets every element of a tensor of float32 to -inf. */
static void all_minus_infinity(const fovea_tensor *t) {
    for (int64_t b = 0; t->data && b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t i = 0; i < t->shape[2]; i++)
                set_row(tensor_row(t, b, h, i), t->shape[3], -INFINITY);
}

/* Biases, if there are any, are -inf for the key of every row. Runs a case and expects exactly `empty` rows without
 * keys, which must look so, and others that do not. */
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
    all_minus_infinity(&in->args.bias);
    all_minus_infinity(&in->args.relative);
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

    masked.desc.mask = FOVEA_MASK_BOOLEAN;
    masked.mask_repeats[1] = masked.mask_repeats[2] = true; /* which key padding must */
    for (int kind = FOVEA_MASK_BITS; kind <= FOVEA_MASK_PREPARED; kind++) {
        masked.say_mask = (fovea_mask_kind)kind;
        check_empty("mask of another kind that selects nothing", masked, NULL, NULL, NULL, 28);
        check_empty("and lengths", masked, three_seven, zero_five, NULL, 28);
    }
    attention_case biased = c;
    biased.desc.has_bias = 1;
    check_empty("bias of -inf", biased, NULL, NULL, NULL, 28);
    biased.desc.mask = FOVEA_MASK_BOOLEAN;
    biased.desc.softcap = 2;
    check_empty("bias of -inf beside a mask", biased, NULL, NULL, NULL, 28);
    attention_case relative = c;
    relative.relative_entries = 21;
    relative.desc.relative_buckets = 32;
    relative.desc.relative_max_distance = 128;
    relative.desc.relative_height = relative.desc.relative_width = 4;
    for (int kind = FOVEA_RELATIVE_TOEPLITZ; kind <= FOVEA_RELATIVE_WINDOW_2D; kind++) {
        relative.desc.relative = (fovea_relative)kind;
        check_empty("relative biases of -inf", relative, NULL, NULL, NULL, 28);
    }

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
        if (n % 2)
            case_random_scores(&c, &r);
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

/* ---------------------------------------------------------------------------------------------------- distant -- */

typedef enum distant {
    DISTANT_RANGES, /* each row sees the first and the last 300 keys */
    DISTANT_ROWS,   /* the first row sees the first ones, the last row the last ones */
    DISTANT_BLOCKS,
    DISTANT_WINDOW, /* rows see the last 300 keys */
    DISTANT_COUNT
} distant;

enum { DISTANT_SEEN = 300, DISTANT_Q = 3, DISTANT_DIM = 16, DISTANT_VIEW = 40, DISTANT_BLOCK = 50 };

typedef struct distant_result {
    float out[DISTANT_Q * DISTANT_DIM], lse[DISTANT_Q], view[DISTANT_Q * DISTANT_VIEW];
    float entropy[DISTANT_Q], max_weight[DISTANT_Q];
} distant_result;

/* All keys are one in memory. The view is of the first keys, or of the last. Returns how many tiles were visited. */
static int64_t run_distant(distant way, int64_t keys, fovea_score_kind kind, bool first, distant_result *r) {
    static float q[DISTANT_Q * DISTANT_DIM], k[DISTANT_DIM], v[DISTANT_DIM];
    const int64_t last = keys - DISTANT_SEEN, none = way == DISTANT_ROWS ? 0 : DISTANT_SEEN, offset = keys - DISTANT_Q;
    const int64_t ranges[DISTANT_Q][4] = {
        {0, DISTANT_SEEN, last, last + none}, {0, none, last, last + none}, {0, none, last, keys}};
    const int64_t starts[] = {0, 4, 6}, end = keys / DISTANT_BLOCK - 1, blocks[] = {0, 3, end - 4, end, 1, end};
    attention_case c = case_plain(1, 1, 1, DISTANT_Q, keys, DISTANT_DIM, DISTANT_DIM);
    fovea_attention_desc *d = &c.desc;
    d->mask = way == DISTANT_WINDOW ? FOVEA_MASK_NONE : way == DISTANT_BLOCKS ? FOVEA_MASK_BLOCKS : FOVEA_MASK_RANGES;
    d->mask_block_rows = 2;
    d->mask_block_keys = DISTANT_BLOCK;
    d->causal = way == DISTANT_WINDOW ? FOVEA_CAUSAL_OFFSET : FOVEA_CAUSAL_NONE;
    d->window_left = way == DISTANT_WINDOW ? DISTANT_SEEN : -1;
    for (int i = 0; i < DISTANT_Q * DISTANT_DIM; i++)
        q[i] = (float)(i % 11) - 5.0f;
    for (int i = 0; i < DISTANT_DIM; i++) {
        k[i] = (float)(i % 7) * 0.1f;
        v[i] = (float)i;
    }
    fovea_attention_args args;
    fovea_attention_scores scores;
    fovea_attention_summary summary;
    fovea_attention_stats stats;
    fovea_attention_args_init(&args);
    fovea_attention_scores_init(&scores);
    fovea_attention_summary_init(&summary);
    fovea_attention_stats_init(&stats);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, 1, DISTANT_Q, DISTANT_DIM);
    args.k = (fovea_tensor){k, FOVEA_DTYPE_F32, {1, 1, keys, DISTANT_DIM}, {0, 0, 0, 1}, NULL};
    args.v = (fovea_tensor){v, FOVEA_DTYPE_F32, {1, 1, keys, DISTANT_DIM}, {0, 0, 0, 1}, NULL};
    args.out = fovea_tensor_bhtd(r->out, FOVEA_DTYPE_F32, 1, 1, DISTANT_Q, DISTANT_DIM);
    args.lse = fovea_tensor_bhtd(r->lse, FOVEA_DTYPE_F32, 1, 1, DISTANT_Q, 1);
    if (way == DISTANT_BLOCKS) {
        args.mask = fovea_tensor_bhtd((void *)(uintptr_t)starts, FOVEA_DTYPE_I64, 1, 1, 1, 3);
        args.mask_blocks = blocks;
        args.mask_block_count = 6;
    } else if (way != DISTANT_WINDOW)
        args.mask = fovea_tensor_bhtd((void *)(uintptr_t)ranges, FOVEA_DTYPE_I64, 1, 1, DISTANT_Q, 4);
    args.q_offsets = way == DISTANT_WINDOW ? &offset : NULL;
    scores.kind = kind;
    scores.first_key = first ? 0 : keys - DISTANT_VIEW;
    scores.out = fovea_tensor_bhtd(r->view, FOVEA_DTYPE_F32, 1, 1, DISTANT_Q, DISTANT_VIEW);
    summary.entropy = fovea_tensor_bhtd(r->entropy, FOVEA_DTYPE_F32, 1, 1, DISTANT_Q, 1);
    summary.max_weight = fovea_tensor_bhtd(r->max_weight, FOVEA_DTYPE_F32, 1, 1, DISTANT_Q, 1);
    args.scores = &scores;
    args.summary = &summary;
    args.stats = &stats;
    test_check(attention_once(ctx, d, &args) == FOVEA_OK, "execute: %s", fovea_error_detail());
    return stats.visited_tiles;
}

/* Keys that rows see at both ends of 2^40: what depended on those between would not end. The bits are those of few
 * keys. With 2^24, blocks are split over their keys. */
static void test_distant(void) {
    const int64_t many[] = {(int64_t)1 << 24, (int64_t)1 << 40};
    for (int n = 0; n < 2 * 2 * DISTANT_COUNT * 4; n++) {
        const int64_t keys =
            many[n % 2] / 6400 * 6400 + 1024; /* ends are alike on the grids of segments and of blocks */
        const distant way = (distant)(n / 4 % DISTANT_COUNT);
        const fovea_score_kind kind = (fovea_score_kind)(n / 4 / DISTANT_COUNT);
        const bool first = n / 2 % 2;
        distant_result want, got;
        memset(&want, 0, sizeof want);
        memset(&got, 0, sizeof got);
        const int64_t tiles = run_distant(way, 6400 + 1024, kind, first, &want);
        test_check(run_distant(way, keys, kind, first, &got) == tiles,
                   "distant keys, way %d, %" PRId64 " keys: other tiles are visited", way, keys);
        test_same((const float *)&got, (const float *)&want, sizeof got / sizeof(float),
                  "distant keys, way %d, %" PRId64 " keys, scores %d of the %s keys", way, keys, kind,
                  first ? "first" : "last");
    }
}

/* ----------------------------------------------------------------------------------------------------- packed -- */

static bool packed_sees(int pattern, int64_t i, int64_t j) {
    return pattern == 0   ? (i / 64 + j / 128) % 2 == 0
           : pattern == 1 ? j <= i
           : pattern == 2 ? j % 300 < 5 || (j <= i && i - j < 40)
                          : (7 * i + 5 * j) % 3 == 0;
}

/* Words of a prepared mask, not its bits, are shifted there. The bits are those of the boolean mask. */
static void test_packed(void) {
    enum { TOKENS = 832, SEQUENCES = 3 };
    static const int64_t ends[SEQUENCES + 1] = {0, 64, 448, TOKENS};
    attention_case c = case_plain(1, 1, 1, TOKENS, TOKENS, 8, 8);
    c.desc.mask = FOVEA_MASK_BOOLEAN;
    rng r = rng_stream(test_seed(), "packed");
    inputs *in = inputs_make(&c, &r);
    outputs *out[2] = {outputs_make(&c, LAYOUT_BHTD), outputs_make(&c, LAYOUT_BHTD)};
    fovea_attention_desc d = c.desc;
    d.packed = 1;
    d.batch = SEQUENCES;
    d.q_len = d.kv_len = 384;
    for (int pattern = 0; pattern < 4; pattern++) {
        uint8_t *mask = in->args.mask.data;
        for (int64_t i = 0; i < TOKENS * TOKENS; i++)
            mask[i] = packed_sees(pattern, i / TOKENS, i % TOKENS);
        for (int prepared = 0; prepared < 2; prepared++) {
            fovea_attention_args args = case_args(in, out[prepared]);
            fovea_mask *of = NULL;
            args.q_cu_seqlens = args.kv_cu_seqlens = ends;
            if (prepared) {
                fovea_mask_desc m;
                fovea_mask_desc_init(&m);
                m.kind = FOVEA_MASK_BOOLEAN;
                m.q_len = m.kv_len = TOKENS;
                m.mask = args.mask;
                check_status("a mask", fovea_mask_create(ctx, &m, &of), FOVEA_OK, NULL);
                args.prepared = of;
                args.mask.data = NULL;
            }
            d.mask = prepared ? FOVEA_MASK_PREPARED : FOVEA_MASK_BOOLEAN;
            check_status("packed", attention_once(ctx, &d, &args), FOVEA_OK, NULL);
            fovea_mask_destroy(of);
        }
        outputs_same(out[1], out[0], "a prepared mask of packed sequences, pattern %d", pattern);
    }
    inputs_free(in);
    outputs_free(out[0]);
    outputs_free(out[1]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "masks", NULL);
    thread_pool *p = thread_pool_create(2);
    ctx = context_of(FOVEA_ISA_BEST, 2, p);
    test_empty();
    test_poison();
    test_distant();
    test_packed();
    fovea_context_destroy(ctx);
    thread_pool_destroy(p);
    return test_end();
}
