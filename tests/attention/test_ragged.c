/* Sequences of different lengths: wherever their queries and keys are, the same bits.
 *
 * A random problem of every kind, its sequences padded on the right, is computed by the scalar tier (test_reference.c
 * compares that with its formulas). Then each sequence is put elsewhere, and the tier under test must give the same
 * rows:
 *     alone    one call for each sequence
 *     left     padding before it
 *     start    likewise, told by starts alone: it ends where the tensor ends
 *     both     padding before and behind it, as much as is drawn
 *     packed   all on one token axis
 *     gaps     likewise, but the axis begins before the first and ends behind the last, and lengths leave out their
 *              ends
 * A boolean mask is also given as each other kind. Each feature is at each place, alone.
 * All that is no sequence's holds NaN (boolean masks: attend). Operands end, or begin, at a forbidden page. Whole
 * outputs are compared: padding is +0 (lse -inf); of packed sequences it is not written. */
#include "ragged.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t seen[FOVEA_MASK_PREPARED + 1]; /* runs with masks of each kind */

static void check_run(const fovea_context *ctx, const fv_attention_choice *choice, ragged *x, const attention_case *c,
                      const inputs *in, const outputs *want, const char *text) {
    static const fv_attention_choice defaults = {0};
    fovea_attention_plan *plan;
    mask_words w = ragged_said(ctx, x, c, in);
    fovea_status status = fv_attention_plan_create_chosen(ctx, &w.desc, choice ? choice : &defaults, &plan);
    if (test_check(status == FOVEA_OK, "plan: %s (%s, %s)", fovea_error_detail(), place_words[x->kind], text)) {
        ragged_clear(x);
        const size_t size = fovea_attention_plan_workspace_size(plan);
        guard *workspace = guard_alloc("workspace", size, GUARD_END);
        status = fovea_attention_execute(plan, &w.args, workspace->data, size);
        if (test_check(status == FOVEA_OK, "execute: %s (%s, mask %d, %s)", fovea_error_detail(), place_words[x->kind],
                       (int)w.desc.mask, text))
            ragged_check(x, want, text);
        guard_free(workspace);
        fovea_attention_plan_destroy(plan);
        seen[w.desc.mask]++;
    }
    mask_words_free(&w);
}

/* By the planner's choice and another, on one thread and three. */
static void check_place(const case_contexts *x, place_kind kind, const attention_case *c, const inputs *in,
                        const outputs *want, int64_t first, int64_t count, rng *r, const char *text) {
    ragged there;
    ragged_make(&there, kind, c, in, first, count, r);
    const fv_attention_choice choice = choice_random(r);
    const bool turn = rng_below(r, 2);
    check_run(turn ? x->one : x->three, NULL, &there, c, in, want, text);
    check_run(turn ? x->three : x->one, &choice, &there, c, in, want, text);
    ragged_free(&there);
}

static void check_places(const case_contexts *x, const attention_case *c, const inputs *in, rng *r, const char *text) {
    outputs *want = outputs_make(c, c->layout);
    if (case_run(x->scalar, NULL, c, in, want))
        for (int kind = 0; kind < PLACES; kind++) {
            if (kind != PLACE_ALONE)
                check_place(x, (place_kind)kind, c, in, want, 0, c->desc.batch, r, text);
            for (int64_t b = 0; kind == PLACE_ALONE && b < c->desc.batch; b++)
                check_place(x, PLACE_ALONE, c, in, want, b, 1, r, text);
        }
    outputs_free(want);
}

static void test_random(const case_contexts *x, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        char name[32], text[600];
        snprintf(name, sizeof name, "ragged %" PRId64, i);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 400000);
        case_random_scores(&c, &r);
        c.q_lens = c.kv_lens = true;
        const int at = snprintf(text, sizeof text, "--case %" PRId64 ": ", i);
        case_text(&c, text + at, sizeof text - (size_t)at);
        inputs *in = inputs_make(&c, &r);
        check_places(x, &c, in, &r, text);
        inputs_free(in);
    }
}

/* Each feature alone. */
static void test_features(const case_contexts *x) {
    static const int64_t q_lens[] = {9, 0, 70, 1}, kv_lens[] = {300, 40, 257, 600};
    int64_t number = 0;
    for (int i = 0; i < CASE_FEATURES; i++)
        for (int causal = 0; causal < 2; causal++) {
            if (!test_takes(number++))
                continue;
            char text[48];
            attention_case c = case_plain(4, 4, 2, 70, 600, 8, 12);
            snprintf(text, sizeof text, "feature %d%s", i, causal ? ", causal" : "");
            rng r = rng_stream(test_seed(), text);
            case_feature(&c, i);
            c.desc.causal = causal ? FOVEA_CAUSAL_TOP_LEFT : FOVEA_CAUSAL_NONE;
            c.q_lens = c.kv_lens = c.weights = true;
            inputs *in = inputs_make_given(&c, &r, q_lens, kv_lens, NULL);
            check_places(x, &c, in, &r, text);
            inputs_free(in);
        }
    for (int kind = 0; kind <= FOVEA_MASK_PREPARED; kind++)
        test_check(seen[kind] > 0 || test_scaled(100) < 100, "no mask of kind %d", kind);
}

/* A problem of these lengths. */
static void check_lengths(const case_contexts *x, attention_case c, const int64_t *q_lens, const int64_t *kv_lens,
                          const char *text) {
    rng r = rng_stream(test_seed(), text);
    c.q_lens = c.kv_lens = true;
    c.weights = true;
    inputs *in = inputs_make_given(&c, &r, q_lens, kv_lens, NULL);
    check_places(x, &c, in, &r, text);
    inputs_free(in);
}

static void test_chosen(const case_contexts *x) {
    static const int64_t ones[] = {1, 1, 1, 0, 1}, cached[] = {1500, 3, 256, 700, 0};
    attention_case c = case_plain(5, 8, 2, 1, 1500, 24, 40);
    check_lengths(x, c, ones, cached, "decoding");
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    c.desc.window_left = 300;
    check_lengths(x, c, ones, cached, "decoding, window");

    static const int64_t many_q[] = {1, 2, 0, 1, 1, 3, 1, 1}, many_kv[] = {256, 9, 70, 0, 2000, 300, 1, 513};
    c = case_plain(8, 4, 1, 3, 2000, 16, 8); /* enough for claims of several items */
    check_lengths(x, c, many_q, many_kv, "many");

    static const int64_t rows[] = {600, 1, 256, 257}, chunk[] = {230, 1, 30, 2};
    c = case_plain(4, 2, 1, 600, 600, 16, 33);
    check_lengths(x, c, rows, rows, "prefill");
    c.desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    check_lengths(x, c, rows, rows, "prefill, causal");
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    check_lengths(x, c, chunk, rows, "chunks");
}

/* Wrong places of packed sequences are refused before anything is written. */
static void test_refused(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "refused");
    const attention_case c = case_plain(3, 2, 1, 20, 30, 8, 8);
    inputs *in = inputs_make(&c, &r);
    ragged good;
    ragged_make(&good, PLACE_PACKED, &c, in, 0, 3, &r); /* 60 and 90 tokens, at most 40 to 60 and 50 to 330 of one */
    good.desc.q_len = 20;
    good.desc.kv_len = 30;
    fovea_attention_plan *plan, *padded;
    fovea_attention_desc desc = good.desc;
    desc.packed = 0;
    check_status("plan", fovea_attention_plan_create(x->one, &good.desc, &plan), FOVEA_OK, NULL);
    check_status("plan", fovea_attention_plan_create(x->one, &desc, &padded), FOVEA_OK, NULL);
    static const struct {
        int64_t ends[4];
        const char *words;
    } bad[] = {{{-1, 20, 40, 60}, "cu_seqlens[0] is -1"},
               {{INT64_MIN, 20, 40, 60}, "cu_seqlens[0] is -9223372036854775808"},
               {{0, 20, 19, 60}, "cu_seqlens[2] is 19|the 20 before it"},
               {{0, 20, INT64_MIN, 60}, "cu_seqlens[2]"},
               {{40, 20, 40, 60}, "cu_seqlens[1] is 20|the 40 before it"},
               {{80, 85, 90, 95}, "past the"},
               {{0, 20, 40, INT64_MAX}, "cu_seqlens[3] is 9223372036854775807|past the"},
               {{0, 20, 55, 60}, "cu_seqlens[2] is 55|longest"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int side = 0; side < 2; side++) {
            fovea_attention_args args = good.args;
            *(side ? &args.kv_cu_seqlens : &args.q_cu_seqlens) = bad[i].ends;
            memset(good.out.memory->data, 0, good.out.memory->size);
            check_status(side ? "kv_cu_seqlens" : "q_cu_seqlens", fovea_attention_execute(plan, &args, NULL, 0),
                         FOVEA_ERROR_SHAPE, bad[i].words);
            for (size_t n = 0; n < good.out.memory->size; n++)
                if (((char *)good.out.memory->data)[n] != 0) {
                    test_check(false, "out was written");
                    break;
                }
        }
    static const int64_t starts[] = {0, 0, 0}, lens[] = {3, 21, 4}, negative[] = {3, -1, 4};
    fovea_attention_args args = good.args;
    args.q_cu_seqlens = NULL;
    check_status("no q_cu_seqlens", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_NULL, "q_cu_seqlens");
    args = good.args;
    args.kv_starts = starts;
    check_status("kv_starts", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_ARGUMENT, "kv_starts|packed");
    args = good.args;
    args.q_lens = lens;
    check_status("q_lens", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_SHAPE, "q_lens[1] is 21|to 20");
    args.q_lens = negative;
    check_status("q_lens", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_SHAPE, "q_lens[1] is -1|to 20");
    args = good.args;
    args.q.shape[2] = -1;
    check_status("q of -1 tokens", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_SHAPE, "-1");
    args = good.args;
    args.v.shape[2] = 89;
    check_status("v of 89 tokens", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_SHAPE, "v: token|89|90");
    args = good.args;
    args.kv_cu_seqlens = (const int64_t *)good.out.memory->data; /* zeros */
    check_status("alias", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_ALIAS, "out|kv_cu_seqlens");
    check_status("not packed", fovea_attention_execute(padded, &good.args, NULL, 0), FOVEA_ERROR_ARGUMENT,
                 "q_cu_seqlens|packed");
    fovea_attention_plan_destroy(plan);
    fovea_attention_plan_destroy(padded);
    ragged_free(&good);
    inputs_free(in);
}

int main(int argc, char **argv) {
    test_option options[] = {{"--case", "N", "only the random case N", NULL}, {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "ragged", options);
    const char *one = test_option_value(options, "--case");
    const case_contexts x = contexts_make();
    test_random(&x, one ? atoll(one) : 0, one ? 1 : test_scaled(150));
    if (!one) {
        test_features(&x);
        test_chosen(&x);
        test_refused(&x);
    }
    contexts_free(&x);
    return test_end();
}
