/* The outputs of attention other than out (fovea/outputs.h), for random problems of every kind.
 *
 *   meaning   on the scalar tier: scores of chosen heads, queries and keys are those of the whole matrices; raw scores
 *             and capped ones against float64; weights are exp(biased - lse), bit by bit; sums of keys, entropy,
 *             largest weights and top keys are what the header says of the weights, bit by bit; entropy against float64
 *   tiers     the tier under test, with the planner's tiles and random ones, on one thread or three, against the
 *             scalar tier: every byte, gaps between rows too
 *   places    sequences put elsewhere (ragged.h): sums, entropy and top keys are those of the problem
 */
#include "ragged.h"
#include "reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 500, WORK = 400000, KINDS = 4, SEGMENT = 256, LANES = 16, QUERIES = 64 };

/* A part of the matrix, and how many top keys: drawn for a case. */
typedef struct part {
    int64_t heads[64], head_count, first_query, queries, first_key, keys, top;
    bool listed;
} part;

/* All outputs of a call, in one block with a canary around each. */
typedef struct results {
    float *memory;
    int64_t floats;
    fovea_tensor out, lse, weights, whole[KINDS], chosen, key_sums, entropy, max_weight, top_keys, top_weights;
} results;

static const float canary = -12345;

static void reserve(results *r, fovea_tensor *t, fovea_dtype dtype, int64_t b, int64_t h, int64_t q, int64_t n) {
    *t = fovea_tensor_bhtd(NULL, dtype, b, h, q, n);
    const int64_t gap = n % 3, each = dtype == FOVEA_DTYPE_I64 ? 2 : 1;
    t->stride[2] += gap;
    t->stride[1] = q * t->stride[2];
    t->stride[0] = h * t->stride[1];
    r->floats = (r->floats + 3) / 2 * 2;                               /* a canary before, and integers are aligned */
    t->data = (void *)(uintptr_t)(r->floats * (int64_t)sizeof(float)); /* until there is memory */
    r->floats += b * t->stride[0] * each + 1;
}

static results results_make(const fovea_attention_desc *d, int64_t batch, int64_t q, int64_t kv, const part *p) {
    results r = {0};
    const int64_t h = d->q_heads;
    reserve(&r, &r.out, FOVEA_DTYPE_F32, batch, h, q, d->value_dim);
    reserve(&r, &r.lse, FOVEA_DTYPE_F32, batch, h, q, 1);
    reserve(&r, &r.weights, FOVEA_DTYPE_F32, batch, h, q, kv);
    for (int k = 0; k < KINDS; k++)
        reserve(&r, &r.whole[k], FOVEA_DTYPE_F32, batch, h, q, kv);
    reserve(&r, &r.chosen, FOVEA_DTYPE_F32, batch, p->head_count, p->queries, p->keys);
    reserve(&r, &r.key_sums, FOVEA_DTYPE_F32, batch, h, 1, kv);
    reserve(&r, &r.entropy, FOVEA_DTYPE_F32, batch, h, q, 1);
    reserve(&r, &r.max_weight, FOVEA_DTYPE_F32, batch, h, q, 1);
    reserve(&r, &r.top_keys, FOVEA_DTYPE_I64, batch, h, q, p->top);
    reserve(&r, &r.top_weights, FOVEA_DTYPE_F32, batch, h, q, p->top);
    r.memory = must_alloc(r.floats, sizeof(float));
    for (int64_t i = 0; i < r.floats; i++)
        r.memory[i] = canary;
    fovea_tensor *all[] = {&r.out,    &r.lse,      &r.weights, &r.whole[0],   &r.whole[1], &r.whole[2],   &r.whole[3],
                           &r.chosen, &r.key_sums, &r.entropy, &r.max_weight, &r.top_keys, &r.top_weights};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        all[i]->data = (char *)r.memory + (uintptr_t)all[i]->data;
    return r;
}

static part draw_part(const fovea_attention_desc *d, rng *r) {
    part p = {.listed = rng_below(r, 2)};
    p.first_query = rng_below(r, d->q_len + 1);
    p.queries = rng_between(r, 0, d->q_len - p.first_query);
    p.first_key = rng_below(r, d->kv_len + 1);
    p.keys = rng_between(r, 0, d->kv_len - p.first_key);
    p.top = rng_between(r, 1, rng_below(r, 2) ? 4 : 40);
    const int64_t first = rng_below(r, d->q_heads);
    for (int64_t h = first; h < d->q_heads; h++)
        if (!p.listed || rng_below(r, 2))
            p.heads[p.head_count++] = h;
    return p;
}

/* Every kind needs a call of its own. The chosen part is of kind number chosen. */
static bool run(const fovea_context *ctx, const fv_attention_choice *choice, const fovea_attention_desc *desc,
                const fovea_attention_args *given, const part *p, int chosen, const results *r) {
    fovea_attention_plan *plan;
    bool ok = test_check(fv_attention_plan_create_chosen(ctx, desc, choice, &plan) == FOVEA_OK, "plan: %s",
                         fovea_error_detail());
    const size_t size = ok ? fovea_attention_plan_workspace_size(plan) : 0;
    void *workspace = must_alloc((int64_t)size, 1);
    for (int k = 0; ok && k <= KINDS; k++) {
        fovea_attention_args args = *given;
        fovea_attention_scores scores;
        fovea_attention_summary summary;
        fovea_attention_scores_init(&scores);
        fovea_attention_summary_init(&summary);
        args.out = r->out;
        args.lse = r->lse;
        args.scores = &scores;
        if (k < KINDS) {
            scores.kind = (fovea_score_kind)k;
            scores.out = r->whole[k];
        } else {
            scores.kind = (fovea_score_kind)chosen;
            scores.heads = p->listed ? p->heads : NULL;
            scores.first_head = p->listed || p->head_count == 0 ? 0 : p->heads[0];
            scores.first_query = p->first_query;
            scores.first_key = p->first_key;
            scores.out = r->chosen;
            summary = (fovea_attention_summary){sizeof summary, r->key_sums, r->entropy,
                                                r->max_weight,  r->top_keys, r->top_weights};
            args.summary = &summary;
            args.weights = r->weights;
        }
        ok = test_check(fovea_attention_execute(plan, &args, workspace, size) == FOVEA_OK, "execute: %s",
                        fovea_error_detail());
    }
    free(workspace);
    fovea_attention_plan_destroy(plan);
    return ok;
}

static float at(const fovea_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) { return tensor_f32(t, b, h, i, j); }

static int64_t key_at(const fovea_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    return ((const int64_t *)t->data)[tensor_index(t, b, h, i, j)];
}

static bool same(float a, float b) { return float_bits(a) == float_bits(b); }

static float quiet(float x) { return isnan(x) ? bits_float(0x7fc00000) : x == 0 ? 0.0F : x; }

/* ------------------------------------------------------------------------------------------------------- meaning -- */

/* A raw and a capped score against float64. */
static bool score_near(const fovea_attention_desc *d, const fovea_attention_args *a, int64_t b, int64_t h, int64_t i,
                       int64_t j, float raw, float capped) {
    const double scale = (double)(float)(d->has_scale ? d->scale : 1.0 / sqrt((double)d->head_dim)), u = 0x1p-24;
    double sum = 0, magnitude = 0, keys = 0;
    for (int64_t c = 0; c < d->head_dim; c++) {
        const double q = (double)at(&a->q, b, h, i, c), k = (double)at(&a->k, b, h / (d->q_heads / d->kv_heads), j, c);
        sum += q * k;
        magnitude += fabs(q * k);
        keys += fabs(k);
    }
    const double n = (double)d->head_dim + 1, error = n * u / (1 - n * u) * fabs(scale) * magnitude +
                                                      0x1p-149 * (n + keys); /* as reference.c has it */
    if (fabs(scale) * magnitude > 1e37)
        return true;
    if (fabs((double)raw - scale * sum) > error)
        return false;
    if (d->softcap <= 0)
        return same(raw, capped);
    const double cap = (double)(float)d->softcap, before = fabs(scale * sum) + error;
    const double exact = cap * tanh(scale * sum / cap);
    return fabs((double)capped - exact) <= error + 2.01 * u * before + cap * (0x1p-24 + 0x1p-148) + u * fabs(exact) * 2;
}

static void check_scores(const fovea_attention_desc *d, const fovea_attention_args *a, const results *r,
                         const char *text) {
    int64_t wrong[5] = {0};
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->q_heads; h++)
            for (int64_t i = 0; i < d->q_len; i++)
                for (int64_t j = 0; j < d->kv_len; j++) {
                    const float raw = at(&r->whole[0], b, h, i, j), capped = at(&r->whole[1], b, h, i, j);
                    const float biased = at(&r->whole[2], b, h, i, j), lse = at(&r->lse, b, h, i, 0);
                    const bool there = (!a->q_lens || i < a->q_lens[b]) && (!a->kv_lens || j < a->kv_lens[b]);
                    const bool seen = reference_attends(d, a, b, h, i, j);
                    float x = biased - lse, w;
                    fovea_exp_f32(1, &x, &w);
                    wrong[0] += there ? !score_near(d, a, b, h, i, j, raw, capped) : raw != -INFINITY;
                    wrong[1] += !there && capped != -INFINITY;
                    wrong[2] += !seen && biased != -INFINITY;
                    wrong[3] += !same(at(&r->whole[3], b, h, i, j), seen && lse != -INFINITY ? quiet(w) : 0.0F);
                    wrong[4] += !same(at(&r->whole[3], b, h, i, j), at(&r->weights, b, h, i, j));
                }
    static const char *const what[] = {"raw or capped", "capped beside", "masked", "exp(biased - lse)", "weights"};
    for (int k = 0; k < 5; k++)
        test_check(wrong[k] == 0, "%" PRId64 " scores are wrong: %s (%s)", wrong[k], what[k], text);
}

static void check_chosen(const fovea_attention_desc *d, const part *p, int kind, const results *r, const char *text) {
    int64_t wrong = 0;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < p->head_count; h++)
            for (int64_t i = 0; i < p->queries; i++)
                for (int64_t j = 0; j < p->keys; j++)
                    wrong += !same(at(&r->chosen, b, h, i, j),
                                   at(&r->whole[kind], b, p->heads[h], p->first_query + i, p->first_key + j));
    test_check(wrong == 0, "%" PRId64 " of a chosen part of kind %d differ from the whole (%s)", wrong, kind, text);
}

/* Entropy in the order of the header. */
static float entropy_of(const fovea_attention_desc *d, const results *r, int64_t b, int64_t h, int64_t i) {
    float entropy = 0;
    for (int64_t begin = 0; begin < d->kv_len; begin += SEGMENT) {
        float lane[LANES] = {0};
        for (int64_t j = begin; j < begin + SEGMENT && j < d->kv_len; j++) {
            const float w = at(&r->weights, b, h, i, j),
                        product = w * (at(&r->whole[2], b, h, i, j) - at(&r->lse, b, h, i, 0));
            lane[j % LANES] += w == 0 ? 0 : product;
        }
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int n = 0; n < half; n++)
                lane[n] += lane[n + half];
        entropy += -lane[0];
    }
    return quiet(entropy);
}

/* The top keys by repeated search. */
static bool tops_right(const fovea_attention_desc *d, const fovea_attention_args *a, const results *r, const part *p,
                       int64_t b, int64_t h, int64_t i) {
    bool *taken = must_alloc(d->kv_len, sizeof *taken), ok = true;
    for (int64_t j = 0; j < d->kv_len; j++)
        taken[j] = !reference_attends(d, a, b, h, i, j);
    for (int64_t n = 0; n < p->top; n++) {
        int64_t best = -1;
        for (int64_t j = 0; j < d->kv_len; j++)
            if (!taken[j] && (best < 0 || at(&r->weights, b, h, i, j) > at(&r->weights, b, h, i, best)))
                best = j;
        ok = ok && key_at(&r->top_keys, b, h, i, n) == best &&
             same(at(&r->top_weights, b, h, i, n), best < 0 ? 0.0F : at(&r->weights, b, h, i, best));
        if (best >= 0)
            taken[best] = true;
    }
    free(taken);
    return ok;
}

static void check_rows(const fovea_attention_desc *d, const fovea_attention_args *a, const results *r, const part *p,
                       const char *text) {
    int64_t wrong[4] = {0};
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->q_heads; h++)
            for (int64_t i = 0; i < d->q_len; i++) {
                float most = 0;
                double exact = 0, bound = 0;
                for (int64_t j = 0; j < d->kv_len; j++) {
                    const float w = at(&r->weights, b, h, i, j);
                    const double x = (double)w;
                    most = w > most || isnan(w) ? w : most;
                    exact -= w > 0 ? x * log(x) : 0;
                    bound += w > 0 ? x * (fabs(log(x)) + 1) * 64 * 0x1p-24 : 0;
                }
                const float entropy = at(&r->entropy, b, h, i, 0);
                wrong[0] += !same(entropy, entropy_of(d, r, b, h, i));
                wrong[1] += isfinite(entropy) && fabs(at(&r->lse, b, h, i, 0)) < 1e4F &&
                            fabs((double)entropy - exact) > bound + 0x1p-22 * fabs((double)at(&r->lse, b, h, i, 0));
                wrong[2] += !same(at(&r->max_weight, b, h, i, 0), most);
                wrong[3] += !tops_right(d, a, r, p, b, h, i);
            }
    static const char *const what[] = {"entropy", "entropy against float64", "max_weight", "top keys"};
    for (int k = 0; k < 4; k++)
        test_check(wrong[k] == 0, "%s of %" PRId64 " rows (%s)", what[k], wrong[k], text);
}

static void check_sums(const fovea_attention_desc *d, const results *r, const char *text) {
    int64_t wrong = 0;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->q_heads; h++)
            for (int64_t j = 0; j < d->kv_len; j++) {
                float all = 0;
                for (int64_t first = 0; first < d->q_len; first += QUERIES) {
                    float block = 0;
                    for (int64_t i = first; i < first + QUERIES && i < d->q_len; i++)
                        block += at(&r->weights, b, h, i, j);
                    all += block;
                }
                wrong += !same(at(&r->key_sums, b, h, 0, j), quiet(all));
            }
    test_check(wrong == 0, "sums of %" PRId64 " keys (%s)", wrong, text);
}

/* -------------------------------------------------------------------------------------------------------- places -- */

/* Statistics of sequences put elsewhere. Rows of packed tensors that belong to no sequence are not compared. */
static void check_places(const fovea_context *ctx, const attention_case *c, const inputs *in, const part *p,
                         const results *want, rng *r, const char *text) {
    ragged x;
    ragged_make(&x, (place_kind)rng_between(r, PLACE_LEFT, PLACES - 1), c, in, 0, c->desc.batch, r);
    part none = {.top = p->top};
    const results got = results_make(&x.desc, x.args.q.shape[0], x.args.q.shape[2], x.args.k.shape[2], &none);
    const fv_attention_choice choice = choice_random(r);
    int64_t wrong[5] = {0};
    x.args.out.data = x.args.lse.data = x.args.weights.data = NULL;
    if (run(ctx, &choice, &x.desc, &x.args, &none, 0, &got))
        for (int64_t n = 0; n < x.count; n++)
            for (int64_t h = 0; h < c->desc.q_heads; h++) {
                const int64_t e = ragged_entry(&x, n);
                for (int64_t j = 0; j < x.kv_len[n]; j++)
                    wrong[0] += !same(at(&got.key_sums, e, h, 0, x.kv_at[n] + j), at(&want->key_sums, n, h, 0, j));
                for (int64_t i = 0; i < x.q_len[n]; i++) {
                    const int64_t row = x.q_at[n] + i;
                    wrong[1] += !same(at(&got.entropy, e, h, row, 0), at(&want->entropy, n, h, i, 0));
                    wrong[2] += !same(at(&got.max_weight, e, h, row, 0), at(&want->max_weight, n, h, i, 0));
                    for (int64_t t = 0; t < p->top; t++) {
                        const int64_t key = key_at(&want->top_keys, n, h, i, t);
                        wrong[3] += key_at(&got.top_keys, e, h, row, t) != (key < 0 ? key : key + x.kv_at[n]);
                    }
                    for (int64_t j = 0; j < x.kv_len[n]; j++)
                        for (int k = 0; k < KINDS; k++)
                            wrong[4] +=
                                !same(at(&got.whole[k], e, h, row, x.kv_at[n] + j), at(&want->whole[k], n, h, i, j));
                }
            }
    double elsewhere = 0; /* sums of tokens that are no keys */
    for (int64_t e = 0; e < got.key_sums.shape[0]; e++)
        for (int64_t j = 0; j < got.key_sums.shape[3]; j++) {
            bool key = false;
            for (int64_t n = 0; n < x.count; n++)
                key = key || (ragged_entry(&x, n) == e && j >= x.kv_at[n] && j < x.kv_at[n] + x.kv_len[n]);
            for (int64_t h = 0; h < c->desc.q_heads && !key; h++)
                elsewhere += fabs((double)at(&got.key_sums, e, h, 0, j));
        }
    static const char *const what[] = {"key_sums", "entropy", "max_weight", "top_keys", "scores"};
    for (int k = 0; k < 5; k++)
        test_check(wrong[k] == 0, "%s %s: %" PRId64 " differ (%s)", place_words[x.kind], what[k], wrong[k], text);
    test_check(elsewhere == 0, "%s: tokens that are no keys have sums (%s)", place_words[x.kind], text);
    free(got.memory);
    ragged_free(&x);
}

/* --------------------------------------------------------------------------------------------------------- cases -- */

static void run_case(int64_t n, const case_contexts *x) {
    char name[32], text[512];
    snprintf(name, sizeof name, "outputs case %" PRId64, n);
    rng r = rng_stream(test_seed(), name);
    attention_case c = case_random(&r, WORK);
    case_random_scores(&c, &r);
    c.say_mask = FOVEA_MASK_NONE;
    case_text(&c, text, sizeof text);
    const part p = draw_part(&c.desc, &r);
    const int kind = (int)rng_below(&r, KINDS);
    inputs *in = inputs_make(&c, &r);
    const results want = results_make(&c.desc, c.desc.batch, c.desc.q_len, c.desc.kv_len, &p);
    if (run(x->scalar, NULL, &c.desc, &in->args, &p, kind, &want)) {
        check_scores(&c.desc, &in->args, &want, text);
        check_chosen(&c.desc, &p, kind, &want, text);
        check_rows(&c.desc, &in->args, &want, &p, text);
        check_sums(&c.desc, &want, text);
    }
    for (int i = 0; i < 3; i++) {
        const fv_attention_choice choice = choice_random(&r);
        const results got = results_make(&c.desc, c.desc.batch, c.desc.q_len, c.desc.kv_len, &p);
        if (run(rng_below(&r, 2) ? x->three : x->one, i == 0 ? NULL : &choice, &c.desc, &in->args, &p, kind, &got))
            test_same(got.memory, want.memory, want.floats, "tile %s, %s, %" PRId64 ", %" PRId64 ", %" PRId64 " (%s)",
                      i == 0 ? "default" : choice.score->name, choice.value->name, choice.block_rows, choice.tile_rows,
                      choice.split_segments, text);
        free(got.memory);
    }
    check_places(x->three, &c, in, &p, &want, &r, text);
    free(want.memory);
    inputs_free(in);
}

int main(int argc, char **argv) {
    test_option options[] = {{"--case", "N", "only the case N", NULL}, {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "outputs", options);
    const char *one = test_option_value(options, "--case");
    const case_contexts x = contexts_make();
    const int64_t first = one ? atoll(one) : 0, count = one ? 1 : test_scaled(CASES);
    for (int64_t n = first; n < first + count; n++)
        run_case(n, &x);
    contexts_free(&x);
    return test_end();
}
