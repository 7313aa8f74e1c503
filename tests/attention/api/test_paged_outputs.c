/* Attention over pages that are not a cache's (args.pages) with packed queries: every output, by bits against
 * contiguous memory on the scalar tier. */
#include "attention_case.h"
#include "pages.h"
#include "ragged.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Packed queries over pages: masks, biases and weights have a column for each position. */
static void check_packed(const fovea_context *ctx, const attention_case *c, const inputs *in, const outputs *want,
                         int64_t page_keys, rng *r, const char *text) {
    ragged x;
    ragged_make(&x, PLACE_PAGED, c, in, 0, c->desc.batch, r);
    const int64_t each = (x.desc.kv_len + page_keys - 1) / page_keys, pages = x.count * each;
    int32_t *table = must_alloc(pages + 1, sizeof *table);
    for (int64_t i = 0; i < pages; i++)
        table[i] = (int32_t)(pages - 1 - i);
    mask_words w = ragged_said(ctx, &x, c, in);
    fovea_attention_plan *plan;
    fovea_kv_pages p;
    fovea_kv_pages_init(&p);
    p.k = pages_of(&w.args.k, page_keys, pages, table, each, true);
    p.v = pages_of(&w.args.v, page_keys, pages, table, each, false);
    p.table = table;
    p.table_stride = each;
    w.args.k.data = w.args.v.data = NULL;
    w.args.pages = &p;
    w.desc.page_keys = page_keys;
    ragged_clear(&x);
    fovea_status status = fovea_attention_plan_create(ctx, &w.desc, &plan);
    if (status == FOVEA_OK)
        status = fovea_attention_execute(plan, &w.args, NULL, 0);
    if (test_check(status == FOVEA_OK, "packed, pages of %d keys: %s (%s)", (int)page_keys, fovea_error_detail(), text))
        ragged_check(&x, want, text);
    fovea_attention_plan_destroy(plan);
    mask_words_free(&w);
    free(p.k.data);
    free(p.v.data);
    free(table);
    ragged_free(&x);
}

static void test_packed(const case_contexts *x) {
    static const int64_t sizes[] = {1, 16, 100, 256, 512};
    for (int64_t i = 0; i < test_scaled(80) + CASE_FEATURES; i++) {
        char name[32], text[600];
        snprintf(name, sizeof name, "packed %d", (int)i);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_plain(3, 4, 2, 20, 600, 8, 12);
        if (i < CASE_FEATURES)
            case_feature(&c, (int)i);
        else {
            c = case_random(&r, 200000);
            case_random_scores(&c, &r);
        }
        c.q_lens = c.kv_lens = true;
        const int at = snprintf(text, sizeof text, "%s: ", name);
        case_text(&c, text + at, sizeof text - (size_t)at);
        inputs *in = inputs_make(&c, &r);
        outputs *want = outputs_make(&c, c.layout);
        if (case_run(x->scalar, NULL, &c, in, want))
            check_packed(i % 2 ? x->one : x->three, &c, in, want, sizes[i % 5], &r, text);
        outputs_free(want);
        inputs_free(in);
    }
}

/* Outputs besides out, in memory of their own. */
typedef struct extra {
    float out[1 << 13], lse[1 << 10], scores[1 << 18], key_sums[1 << 14], entropy[1 << 10], top_weights[1 << 12];
    int64_t top_keys[1 << 12];
    fovea_attention_scores view;
    fovea_attention_summary summary;
} extra;

enum { EXTRA_HEADS = 4, EXTRA_DIM = 8, EXTRA_TOP = 3 };

/* batch: of the tensors; sums: sequences that have key_sums of their own. */
static void ask_extra(extra *e, fovea_attention_args *args, fovea_score_kind kind, int64_t batch, int64_t sums,
                      int64_t queries, int64_t keys) {
    const fovea_dtype f32 = FOVEA_DTYPE_F32;
    memset(e, 0x55, sizeof *e);
    fovea_attention_scores_init(&e->view);
    fovea_attention_summary_init(&e->summary);
    e->view.kind = kind;
    e->view.out = fovea_tensor_bhtd(e->scores, f32, batch, EXTRA_HEADS, queries, keys);
    e->summary.key_sums = fovea_tensor_bhtd(e->key_sums, f32, sums, EXTRA_HEADS, 1, keys);
    e->summary.entropy = fovea_tensor_bhtd(e->entropy, f32, batch, EXTRA_HEADS, queries, 1);
    e->summary.top_keys = fovea_tensor_bhtd(e->top_keys, FOVEA_DTYPE_I64, batch, EXTRA_HEADS, queries, EXTRA_TOP);
    e->summary.top_weights = fovea_tensor_bhtd(e->top_weights, f32, batch, EXTRA_HEADS, queries, EXTRA_TOP);
    args->out = fovea_tensor_bhtd(e->out, f32, batch, EXTRA_HEADS, queries, EXTRA_DIM);
    args->lse = fovea_tensor_bhtd(e->lse, f32, batch, EXTRA_HEADS, queries, 1);
    args->scores = &e->view;
    args->summary = &e->summary;
}

/* Scores and statistics of packed queries over pages: those of a call for each sequence over contiguous keys. Columns
 * are positions, and each sequence has key_sums of its own. */
static void test_extra_outputs(const fovea_context *ctx, const fovea_context *scalar) {
    enum { COUNT = 3, QUERIES = 80, KEYS = 530, PAGE = 100, EACH = (KEYS + PAGE - 1) / PAGE };
    static const int64_t q_at[COUNT + 1] = {0, 5, 75, 76}, kv_lens[COUNT] = {300, 17, KEYS};
    rng r = rng_stream(test_seed(), "outputs of packed queries over pages");
    attention_case c = case_plain(COUNT, EXTRA_HEADS, 2, 70, KEYS, EXTRA_DIM, EXTRA_DIM);
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    float *q_data = must_alloc(EXTRA_HEADS * QUERIES * EXTRA_DIM, sizeof *q_data),
          *k_data = must_alloc(COUNT * 2 * KEYS * EXTRA_DIM, sizeof *k_data);
    rng_fill_normal(&r, q_data, EXTRA_HEADS * QUERIES * EXTRA_DIM);
    rng_fill_normal(&r, k_data, COUNT * 2 * KEYS * EXTRA_DIM);
    const fovea_tensor q = fovea_tensor_bhtd(q_data, FOVEA_DTYPE_F32, 1, EXTRA_HEADS, q_at[COUNT], EXTRA_DIM),
                       k = fovea_tensor_bhtd(k_data, FOVEA_DTYPE_F32, COUNT, 2, KEYS, EXTRA_DIM);
    int32_t table[COUNT * EACH];
    for (int i = 0; i < COUNT * EACH; i++)
        table[i] = COUNT * EACH - 1 - i;
    fovea_kv_pages pages;
    fovea_kv_pages_init(&pages);
    pages.k = pages_of(&k, PAGE, COUNT * EACH, table, EACH, true);
    pages.v = pages_of(&k, PAGE, COUNT * EACH, table, EACH, false);
    pages.table = table;
    pages.table_stride = EACH;
    extra *got = must_alloc(1, sizeof *got), *want = must_alloc(1, sizeof *want);
    for (int kind = FOVEA_SCORES_RAW; kind <= FOVEA_SCORES_WEIGHTS; kind++) {
        fovea_attention_args args;
        attention_case packed = c;
        packed.desc.packed = 1;
        packed.desc.page_keys = PAGE;
        fovea_attention_args_init(&args);
        args.q = q;
        args.q_cu_seqlens = q_at;
        args.kv_lens = kv_lens;
        args.pages = &pages;
        ask_extra(got, &args, (fovea_score_kind)kind, 1, COUNT, q_at[COUNT], KEYS);
        fovea_status status = attention_once(ctx, &packed.desc, &args);
        if (!test_check(status == FOVEA_OK, "outputs over pages: %s", fovea_error_detail()))
            break;
        for (int64_t b = 0; b < COUNT; b++) {
            const int64_t queries = q_at[b + 1] - q_at[b], keys = kv_lens[b];
            attention_case alone = c;
            alone.desc.batch = 1;
            alone.desc.q_len = queries;
            alone.desc.kv_len = keys;
            fovea_attention_args_init(&args);
            args.q = fovea_tensor_tokens(q, q_at[b], queries);
            args.k = fovea_tensor_tokens(k, 0, keys);
            args.k.shape[0] = 1;
            args.k.data = k_data + b * k.stride[0];
            args.v = args.k;
            ask_extra(want, &args, (fovea_score_kind)kind, 1, 1, queries, keys);
            status = attention_once(scalar, &alone.desc, &args);
            test_check(status == FOVEA_OK, "outputs: %s", fovea_error_detail());
            for (int64_t h = 0; h < EXTRA_HEADS; h++) {
                char text[64];
                snprintf(text, sizeof text, "scores of kind %d, sequence %d, head %d", kind, (int)b, (int)h);
                for (int64_t i = 0; i < queries; i++) {
                    const int64_t row = h * q_at[COUNT] + q_at[b] + i, alone_row = h * queries + i;
                    const float *scores = got->scores + row * KEYS;
                    test_same(scores, want->scores + alone_row * keys, keys, "%s", text);
                    for (int64_t j = keys; j < KEYS; j++)
                        if (scores[j] != (kind == FOVEA_SCORES_WEIGHTS ? 0.0f : -INFINITY)) {
                            test_check(false, "%s: column %d past the keys is %g", text, (int)j, (double)scores[j]);
                            break;
                        }
                    test_same(got->top_weights + row * EXTRA_TOP, want->top_weights + alone_row * EXTRA_TOP, EXTRA_TOP,
                              "top_weights beside %s", text);
                    test_check(memcmp(got->top_keys + row * EXTRA_TOP, want->top_keys + alone_row * EXTRA_TOP,
                                      EXTRA_TOP * sizeof(int64_t)) == 0,
                               "top_keys beside %s", text);
                    test_same(got->entropy + row, want->entropy + alone_row, 1, "entropy beside %s", text);
                }
                const float *sums = got->key_sums + (b * EXTRA_HEADS + h) * KEYS;
                test_same(sums, want->key_sums + h * keys, keys, "key_sums beside %s", text);
                for (int64_t j = keys; j < KEYS; j++)
                    test_check(sums[j] == 0.0f, "key_sums past the keys beside %s", text);
            }
        }
    }
    free(got);
    free(want);
    free(q_data);
    free(k_data);
    free(pages.k.data);
    free(pages.v.data);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "paged_outputs", NULL);
    const case_contexts x = contexts_make();
    test_packed(&x);
    test_extra_outputs(x.one, x.scalar);
    test_extra_outputs(x.three, x.scalar);
    contexts_free(&x);
    return test_end();
}
