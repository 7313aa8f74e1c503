/* Wrong args.scores and args.summary: a status, a sentence that names what is wrong, and untouched outputs. What a
 * state takes and refuses. Empty calls, and that execution with a workspace and these outputs works under an allocation
 * failure, are elsewhere (test_empty_problems.c, test_allocation.c). */
#include "attention_case.h"
#include "refusals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 4, HKV = 2, Q = 5, KV = 300, D = 8, TOP = 3, FLOATS = 40000 };

/* A call in which all is right. */
typedef struct call {
    fovea_attention_plan *plan;
    inputs *in;
    fovea_attention_args args;
    fovea_attention_scores scores;
    fovea_attention_summary summary;
    int64_t heads[2];
    float *memory;
    int64_t keys[B * H * Q * TOP];
} call;

static const float canary = -12345;

static fovea_tensor take(float **at, int64_t h, int64_t q, int64_t n) {
    const fovea_tensor t = fovea_tensor_bhtd(*at, FOVEA_DTYPE_F32, B, h, q, n);
    *at += B * h * q * n;
    return t;
}

static void fill(call *c) {
    float *at = c->memory;
    fovea_attention_args_init(&c->args);
    fovea_attention_scores_init(&c->scores);
    fovea_attention_summary_init(&c->summary);
    c->args = c->in->args;
    c->args.out = take(&at, H, Q, D);
    c->args.lse = take(&at, H, Q, 1);
    c->heads[0] = 1;
    c->heads[1] = 3;
    c->scores.kind = FOVEA_SCORES_WEIGHTS;
    c->scores.heads = c->heads;
    c->scores.first_query = 1;
    c->scores.first_key = 100;
    c->scores.out = take(&at, 2, 4, 200);
    c->summary.key_sums = take(&at, H, 1, KV);
    c->summary.entropy = take(&at, H, Q, 1);
    c->summary.max_weight = take(&at, H, Q, 1);
    c->summary.top_weights = take(&at, H, Q, TOP);
    c->summary.top_keys = fovea_tensor_bhtd(c->keys, FOVEA_DTYPE_I64, B, H, Q, TOP);
    c->args.scores = &c->scores;
    c->args.summary = &c->summary;
    test_check(at - c->memory < FLOATS, "the memory is too small");
    for (int64_t i = 0; i < FLOATS; i++)
        c->memory[i] = canary;
    memset(c->keys, 0x5a, sizeof c->keys);
}

static void refused(void *spoiled, fovea_status want, const char *words) {
    call *c = spoiled;
    check_status(words, fovea_attention_execute(c->plan, &c->args, NULL, 0), want, words);
    int64_t written = 0;
    for (int64_t i = 0; i < FLOATS; i++)
        written += c->memory[i] != canary;
    for (int64_t i = 0; i < B * H * Q * TOP; i++)
        written += c->keys[i] != INT64_C(0x5a5a5a5a5a5a5a5a);
    test_check(written == 0, "%s: %lld elements were written", words, (long long)written);
}

static void check_scores(call *c) {
#define S(field, number) SPOIL(call, scores.field, number)
    const refusal rows[] = {
        {FOVEA_ERROR_ARGUMENT, "scores: kind is 4|fovea_score_kind", {S(kind, 4)}},
        {FOVEA_ERROR_VERSION, "fovea_attention_scores", {S(struct_size, sizeof c->scores + 8)}},
        {FOVEA_ERROR_VERSION, "fovea_attention_scores_init", {S(struct_size, 8)}},
        {FOVEA_ERROR_NULL, "scores is given|out is NULL", {S(out.data, 0)}},
        {FOVEA_ERROR_SHAPE, "first_key is 101|200|300", {S(first_key, 101)}},
        {FOVEA_ERROR_SHAPE, "first_key is -1", {S(first_key, -1)}},
        {FOVEA_ERROR_SHAPE, "first_query is 2|out has 4|there are 5", {S(first_query, 2)}},
        {FOVEA_ERROR_SHAPE, "first_query", {S(first_query, INT64_MAX)}},
        {FOVEA_ERROR_SHAPE, "first_key", {S(out.shape[3], -1)}},
        {FOVEA_ERROR_SHAPE, "first_head is 3|out has 2|there are 4", {S(heads, 0), S(first_head, 3)}},
        {FOVEA_ERROR_ARGUMENT, "first_head is 1|heads lists", {S(first_head, 1)}},
        {FOVEA_ERROR_SHAPE, "heads[1] is 4|from 0 to 3", {SPOIL(call, heads[1], 4)}},
        {FOVEA_ERROR_ARGUMENT, "heads[1] is 1 after 1|ascend", {SPOIL(call, heads[1], 1)}},
        {FOVEA_ERROR_SHAPE, "scores: batch axis has 1", {S(out.shape[0], 1)}},
        {FOVEA_ERROR_DTYPE, "scores: dtype|FOVEA_DTYPE_F32", {S(out.dtype, FOVEA_DTYPE_I64)}},
        {FOVEA_ERROR_STRIDE, "scores|share memory", {S(out.stride[2], 0)}},
        {FOVEA_ERROR_ALIAS, "scores|q|overlaps", {S(out.data, c->args.q.data)}},
        {FOVEA_ERROR_ALIAS, "scores|lse|overlaps", {S(out.data, c->args.lse.data)}},
    };
#undef S
    refuse_each(c, rows, sizeof rows / sizeof rows[0], refused);
    c->scores.heads = (const int64_t *)c->keys;
    c->keys[0] = 1;
    c->keys[1] = 3;
    check_status("heads among outputs", fovea_attention_execute(c->plan, &c->args, NULL, 0), FOVEA_ERROR_ALIAS,
                 "heads of scores|top_keys");
    fill(c);
}

static void check_summary(call *c) {
#define S(field, number) SPOIL(call, summary.field, number)
    const refusal rows[] = {
        {FOVEA_ERROR_VERSION, "fovea_attention_summary", {S(struct_size, sizeof c->summary + 8)}},
        {FOVEA_ERROR_NULL, "lse is NULL|key_sums", {SPOIL(call, args.lse.data, 0)}},
        {FOVEA_ERROR_NULL, "top_keys is NULL|top_weights is given", {S(top_keys.data, 0)}},
        {FOVEA_ERROR_NULL, "top_weights is NULL|top_keys is given", {S(top_weights.data, 0)}},
        {FOVEA_ERROR_SHAPE, "top_keys has room for 0", {S(top_keys.shape[3], 0), S(top_weights.shape[3], 0)}},
        {FOVEA_ERROR_SHAPE, "top_weights: channel axis has 2", {S(top_weights.shape[3], 2)}},
        {FOVEA_ERROR_DTYPE, "top_keys: dtype|FOVEA_DTYPE_I64", {S(top_keys.dtype, FOVEA_DTYPE_F32)}},
        {FOVEA_ERROR_ARGUMENT, "top_keys|aligned", {S(top_keys.data, (intptr_t)c->keys + 4)}},
        {FOVEA_ERROR_SHAPE, "key_sums: channel axis has 299", {S(key_sums.shape[3], KV - 1)}},
        {FOVEA_ERROR_SHAPE, "entropy: token axis has 1", {S(entropy.shape[2], 1)}},
        {FOVEA_ERROR_ALIAS, "entropy|max_weight|overlaps", {S(max_weight.data, c->summary.entropy.data)}},
        {FOVEA_ERROR_ALIAS, "key_sums|v|overlaps", {S(key_sums.data, c->args.v.data)}},
    };
#undef S
    refuse_each(c, rows, sizeof rows / sizeof rows[0], refused);
}

/* A state takes scores before softmax, and refuses what needs the lse of all keys. */
static void check_state(call *c) {
    const size_t size = fovea_attention_plan_state_size(c->plan);
    void *memory = must_alloc((int64_t)size, 1);
    check_status("state", fovea_attention_state_init(c->plan, memory, size, &c->args.state), FOVEA_OK, NULL);
    refused(c, FOVEA_ERROR_UNSUPPORTED, "FOVEA_SCORES_WEIGHTS|state");
    c->args.scores = NULL;
    refused(c, FOVEA_ERROR_UNSUPPORTED, "summary|state");
    fill(c);
    for (int kind = FOVEA_SCORES_RAW; kind <= FOVEA_SCORES_BIASED; kind++) {
        float *const whole = must_alloc(B * 2 * 4 * 200, sizeof(float));
        const size_t bytes = B * 2 * 4 * 200 * sizeof(float);
        c->scores.kind = (fovea_score_kind)kind;
        c->args.summary = NULL;
        check_status("scores of a call", fovea_attention_execute(c->plan, &c->args, NULL, 0), FOVEA_OK, NULL);
        memcpy(whole, c->scores.out.data, bytes);
        memset(c->scores.out.data, 0, bytes);
        check_status("state", fovea_attention_state_init(c->plan, memory, size, &c->args.state), FOVEA_OK, NULL);
        c->args.out.data = c->args.lse.data = NULL;
        check_status("scores of a piece", fovea_attention_execute(c->plan, &c->args, NULL, 0), FOVEA_OK, NULL);
        test_same(c->scores.out.data, whole, B * 2 * 4 * 200, "scores of kind %d through a state", kind);
        free(whole);
        fill(c);
    }
    free(memory);
}

/* stats is an output, too: over anything else it is refused, and not written. */
static void check_stats(call *c) {
    const struct {
        const char *words;
        void *at;
    } all[] = {{"stats|q", c->args.q.data},
               {"stats|k", c->args.k.data},
               {"stats|v", c->args.v.data},
               {"stats|out", c->args.out.data},
               {"stats|lse", c->args.lse.data},
               {"stats|scores", c->scores.out.data},
               {"stats|key_sums", c->summary.key_sums.data},
               {"stats|top_keys", c->keys},
               {"stats|kv_lens", must_alloc(1, sizeof(fovea_attention_stats))}};
    enum { ALL = sizeof all / sizeof all[0] };
    for (int i = 0; i < ALL; i++) {
        fovea_attention_stats *at = (fovea_attention_stats *)(((uintptr_t)all[i].at + 7) / 8 * 8), before, fresh;
        memcpy(&before, at, sizeof before);
        fovea_attention_stats_init(&fresh);
        memcpy(at, &fresh, sizeof fresh);
        c->args.stats = at;
        c->args.kv_lens = i == ALL - 1 ? (const int64_t *)(const void *)at : NULL;
        check_status(all[i].words, fovea_attention_execute(c->plan, &c->args, NULL, 0), FOVEA_ERROR_ALIAS,
                     all[i].words);
        test_check(memcmp(at, &fresh, sizeof fresh) == 0, "%s: written", all[i].words);
        memcpy(at, &before, sizeof before);
    }
    free(all[ALL - 1].at);
    fill(c);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "outputs_errors", NULL);
    fovea_context *ctx = test_context_untuned();
    attention_case plain = case_plain(B, H, HKV, Q, KV, D, D);
    rng r = rng_stream(test_seed(), "outputs errors");
    call c = {.in = inputs_make(&plain, &r), .memory = must_alloc(FLOATS, sizeof(float))};
    check_status("plan", fovea_attention_plan_create(ctx, &plain.desc, &c.plan), FOVEA_OK, NULL);
    fill(&c);
    check_status("all right", fovea_attention_execute(c.plan, &c.args, NULL, 0), FOVEA_OK, NULL);
    fill(&c);
    check_scores(&c);
    check_summary(&c);
    check_state(&c);
    check_stats(&c);
    fovea_attention_plan_destroy(c.plan);
    inputs_free(c.in);
    free(c.memory);
    fovea_context_destroy(ctx);
    return test_end();
}
