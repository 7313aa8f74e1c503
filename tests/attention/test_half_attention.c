/* Attention of bfloat16 and float16, alone and mixed: the bits of float32 on the same numbers, out rounded once at the
 * end, and what else is asked for. Random problems of all kinds, on all contexts, some in another rounding mode;
 * float32 is computed by the scalar tier. Keys piece by piece. */
#include "attention_case.h"
#include "context/context.h"
#include "dispatch/dispatch.h"
#include "extra_outputs.h"
#include "half_pair.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 300, WORK = 300000, TYPES = HALF_PAIR_TYPES };

static const fovea_dtype *const types = half_pair_types;

static case_contexts contexts;
static int64_t ordinary, all; /* outputs that prove something */

/* An input of a type, and the same numbers in float32: both with the strides of the given one, gaps included. */
typedef struct input_pair {
    fovea_tensor half, wide;
} input_pair;

static input_pair input_pair_of(const fovea_tensor *t, fovea_dtype dtype) {
    input_pair made = {*t, *t};
    const half_pair x = half_pair_alloc(tensor_elements(t), dtype);
    made.half.dtype = dtype;
    made.half.data = x.half;
    made.wide.data = x.wide;
    if (tensor_elements(t) > 0) {
        memcpy(x.wide, t->data, (size_t)tensor_elements(t) * sizeof *x.wide);
        half_pair_round(&x, tensor_elements(t));
    }
    return made;
}

/* Elements of out against those of float32, rounded; and the gaps between them. */
static void compare_out(const fovea_tensor *got, const fovea_tensor *want, const char *text) {
    const int64_t n = tensor_elements(want);
    const size_t size = (size_t)fv_dtype_size(got->dtype);
    unsigned char *expected = must_alloc(n + 1, sizeof(float)), one[4];
    memset(expected, 0xa5, (size_t)n * size);
    for (int64_t b = 0; b < want->shape[0]; b++)
        for (int64_t h = 0; h < want->shape[1]; h++)
            for (int64_t t = 0; t < want->shape[2]; t++)
                for (int64_t c = 0; c < want->shape[3]; c++) {
                    const float *from = tensor_row(want, b, h, t) + c;
                    convert_elements(1, from, FOVEA_DTYPE_F32, one, got->dtype);
                    memcpy(expected + (from - (const float *)want->data) * (int64_t)size, one, size);
                    ordinary += isfinite(*from) && *from != 0.0f;
                    all++;
                }
    test_check(memcmp(expected, got->data, (size_t)n * size) == 0, "%s: out differs from float32's", text);
    free(expected);
}

static void check_on(const fovea_context *ctx, const char *where, const attention_case *c,
                     const fovea_attention_args *args, const fovea_attention_desc *desc, const outputs *want,
                     const extra_outputs *rest_wanted, const char *text) {
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_args own = *args;
    extra_outputs scores;
    fovea_tensor out = got->out;
    char sentence[768];
    snprintf(sentence, sizeof sentence, "%s, %s", text, where);
    out.dtype = desc->out_dtype;
    memset(out.data, 0xa5, (size_t)(tensor_elements(&out) * fv_dtype_size(out.dtype)));
    own.out = out;
    own.lse = got->lse;
    own.weights = got->weights;
    if (rest_wanted) {
        ask_for_all(&scores, desc, &own);
        scores.scores.kind = rest_wanted->scores.kind;
    }
    attention_case said = *c;
    said.desc = *desc;
    mask_words words = case_said(ctx, &said, &own);
    if (attention_runs(ctx, &words.desc, &words.args)) {
        compare_out(&out, &want->out, sentence);
        const int64_t rest = got->lse.data ? tensor_elements(&got->lse) : 0,
                      weights = got->weights.data ? tensor_elements(&got->weights) : 0;
        test_check(rest == 0 || memcmp(got->lse.data, want->lse.data, (size_t)rest * sizeof(float)) == 0,
                   "%s: another lse", sentence);
        test_check(weights == 0 || memcmp(got->weights.data, want->weights.data, (size_t)weights * sizeof(float)) == 0,
                   "%s: other weights", sentence);
        if (rest_wanted)
            test_same(scores.memory, rest_wanted->memory, scores.floats, "%s: other scores or statistics", sentence);
    }
    if (rest_wanted)
        free(scores.memory);
    mask_words_free(&words);
    outputs_free(got);
}

/* One problem with some types for q, k, v and out. */
static void check_case(const attention_case *c, rng *r, const fovea_dtype type[4]) {
    inputs *in = inputs_make(c, r);
    const fovea_tensor *values = &in->args.v;
    char line[512], text[640];
    if (tensor_elements(values) > 0 && rng_below(r, 2)) /* rows that do not see it must not show it */
        tensor_row(values, rng_below(r, values->shape[0]), rng_below(r, values->shape[1]),
                   rng_below(r, values->shape[2]))[0] = rng_below(r, 2) ? NAN : INFINITY;
    snprintf(text, sizeof text, "types %d %d %d %d: %s", (int)type[0], (int)type[1], (int)type[2], (int)type[3],
             case_text(c, line, sizeof line));
    const input_pair q = input_pair_of(&in->args.q, type[0]), k = input_pair_of(&in->args.k, type[1]),
                     v = input_pair_of(&in->args.v, type[2]);
    outputs *want = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, want);
    fovea_attention_desc desc = c->desc;
    args.q = q.wide;
    args.k = k.wide;
    args.v = v.wide;
    extra_outputs scores, *rest = c->lse ? &scores : NULL; /* sums of keys need lse */
    if (rest) {
        ask_for_all(rest, &desc, &args);
        rest->scores.kind = (fovea_score_kind)rng_below(r, FOVEA_SCORES_WEIGHTS + 1);
    }
    if (attention_runs(contexts.scalar, &desc, &args)) {
        desc.dtype = type[0];
        desc.k_dtype = type[1] == type[0] ? 0 : type[1];
        desc.v_dtype = type[2] == type[0] ? 0 : type[2];
        desc.out_dtype = type[3];
        args.q = q.half;
        args.k = k.half;
        args.v = v.half;
        check_on(contexts.scalar, "scalar", c, &args, &desc, want, rest, text);
        check_on(contexts.one, "one thread", c, &args, &desc, want, rest, text);
        check_on(contexts.three, "three threads", c, &args, &desc, want, rest, text);
    }
    half_pairs_free();
    if (rest)
        free(rest->memory);
    outputs_free(want);
    inputs_free(in);
}

static void test_random(void) {
    for (int64_t n = 0, count = test_scaled(CASES); n < count; n++) {
        char name[32];
        snprintf(name, sizeof name, "half %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, WORK);
        case_random_scores(&c, &r);
        if (rng_below(&r, 4) != 0)
            c.values = VALUES_RANDOM;
        fovea_dtype type[4];
        for (int i = 0; i < 4; i++)
            type[i] = types[rng_below(&r, TYPES)];
        if (rng_below(&r, 2))
            type[1] = type[2] = type[3] = type[0] = types[1 + rng_below(&r, 2)];
        fesetround(n % 8 == 0 ? FE_DOWNWARD : n % 8 == 4 ? FE_UPWARD : FE_TONEAREST);
        check_case(&c, &r, type);
        fesetround(FE_TONEAREST);
    }
}

/* Long enough for blocks of many rows, for split rows, and for decode. */
static void test_long(void) {
    static const int64_t sizes[][5] = {
        {1, 2, 200, 600, 40}, {2, 4, 1, 3000, 40}, {1, 1, 400, 400, 48}, {1, 8, 7, 520, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 1; t < TYPES; t++) {
            const int64_t *s = sizes[i];
            attention_case c = case_plain(s[0], s[1], s[1] / 2 > 0 ? s[1] / 2 : 1, s[2], s[3], s[4], s[4] - 8);
            rng r = rng_stream(test_seed(), "long");
            const fovea_dtype type[4] = {types[t], types[t], types[t], types[t]};
            c.desc.causal = i % 2 ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_BOTTOM_RIGHT;
            check_case(&c, &r, type);
        }
}

/* Keys piece by piece into a state: what the last call finishes with is float32's of one call, rounded once. */
static void test_pieces(void) {
    enum { KEYS = 900, PIECE = 256 };
    static const int64_t q_lens[] = {1, 40};
    for (int n = 0; n < 2 * (TYPES - 1); n++) {
        attention_case c = case_plain(2, 4, 2, q_lens[n % 2], KEYS, 16, 24);
        rng r = rng_stream(test_seed(), "pieces");
        c.desc.has_sinks = 1;
        c.desc.softcap = 3;
        inputs *in = inputs_make(&c, &r);
        const fovea_dtype type = types[1 + n / 2];
        const input_pair q = input_pair_of(&in->args.q, type), k = input_pair_of(&in->args.k, type),
                         v = input_pair_of(&in->args.v, type);
        outputs *want = outputs_make(&c, c.layout), *got = outputs_make(&c, c.layout);
        fovea_attention_args whole = case_args(in, want), args = case_args(in, got);
        whole.q = q.wide;
        whole.k = k.wide;
        whole.v = v.wide;
        args.q = q.half;
        fovea_attention_desc piece = c.desc;
        fovea_attention_plan *plan;
        piece.dtype = type;
        piece.kv_len = PIECE;
        bool ok = attention_runs(contexts.scalar, &c.desc, &whole) &&
                  test_check(fovea_attention_plan_create(contexts.three, &piece, &plan) == FOVEA_OK, "%s",
                             fovea_error_detail());
        if (!ok)
            return;
        const size_t size = fovea_attention_plan_state_size(plan);
        void *memory = must_alloc((int64_t)size, 1);
        check_status("state", fovea_attention_state_init(plan, memory, size, &args.state), FOVEA_OK, NULL);
        fovea_attention_plan_destroy(plan);
        args.out.dtype = type;
        memset(args.out.data, 0xa5, (size_t)(tensor_elements(&args.out) * fv_dtype_size(type)));
        const fovea_tensor out = args.out, lse = args.lse;
        for (int64_t first = 0; ok && first < KEYS; first += PIECE) {
            piece.kv_len = KEYS - first < PIECE ? KEYS - first : PIECE;
            args.k = fovea_tensor_tokens(k.half, first, piece.kv_len);
            args.v = fovea_tensor_tokens(v.half, first, piece.kv_len);
            args.first_key = first;
            args.out.data = first + PIECE < KEYS ? NULL : out.data;
            args.lse.data = first + PIECE < KEYS ? NULL : lse.data;
            ok = attention_runs(contexts.three, &piece, &args);
        }
        compare_out(&out, &want->out, "pieces");
        test_check(memcmp(lse.data, want->lse.data, (size_t)tensor_elements(&lse) * sizeof(float)) == 0,
                   "pieces: another lse");
        free(memory);
        half_pairs_free();
        outputs_free(want);
        outputs_free(got);
        inputs_free(in);
    }
}

static void test_errors(void) {
    fovea_attention_desc d = case_plain(1, 1, 1, 2, 2, 4, 4).desc;
    fovea_attention_plan *plan;
    float room[64] = {0};
    d.k_dtype = FOVEA_DTYPE_BOOL;
    check_status("keys of booleans", fovea_attention_plan_create(contexts.one, &d, &plan), FOVEA_ERROR_DTYPE,
                 "k_dtype");
    d.k_dtype = FOVEA_DTYPE_BF16;
    if (!test_check(fovea_attention_plan_create(contexts.one, &d, &plan) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = args.k = args.v = fovea_tensor_bhtd(room, FOVEA_DTYPE_F32, 1, 1, 2, 4);
    args.out = fovea_tensor_bhtd(room + 32, FOVEA_DTYPE_F32, 1, 1, 2, 4);
    check_status("keys of floats", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_DTYPE, "k|BF16");
    fovea_attention_plan_destroy(plan);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "half_attention", NULL);
    contexts = contexts_make();
    test_random();
    test_long();
    test_pieces();
    test_errors();
    test_check(ordinary > all / 2, "only %" PRId64 " of %" PRId64 " outputs are ordinary numbers", ordinary, all);
    contexts_free(&contexts);
    return test_end();
}
