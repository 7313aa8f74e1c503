/* Keys and values in pages: the bits of contiguous memory, whatever the pages.
 *
 * Each page is a block of its own between forbidden pages, at any place: pages of 16, 48 and 256 keys, of 5 and of 24,
 * and interleaved keys. What no key of a sequence is in holds NaN. Problems are random ones of every kind (prefill,
 * causality, windows, masks, lengths), and some that random ones seldom are: decoding split over keys, enough rows
 * that values are copied, and NaN in keys and values that some rows or none see. The scalar tier computes each from
 * contiguous memory. */
#include "attention/api/passes.h"
#include "attention_case.h"
#include "guard.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* One side of a problem in pages. Pages are numbered by their distance from the first one. */
typedef struct paged {
    fv_kv_side side;
    guard **blocks;
    int64_t count, *table;
} paged;

static paged paged_make(const fovea_tensor *t, int64_t page_keys, fv_kv_layout layout, rng *r) {
    const int64_t pages = (t->shape[2] + page_keys - 1) / page_keys, channels = t->shape[3];
    const int64_t floats = t->shape[1] * page_keys * channels;
    paged p = {.count = t->shape[0] * pages};
    p.blocks = must_alloc(p.count, sizeof *p.blocks);
    p.table = must_alloc(p.count, sizeof *p.table);
    for (int64_t i = 0; i < p.count; i++)
        p.blocks[i] = guard_alloc("a page", (size_t)floats * sizeof(float), i % 2 ? GUARD_END : GUARD_START);
    for (int64_t i = p.count - 1; i > 0; i--) { /* in any order */
        const int64_t j = rng_below(r, i + 1);
        guard *other = p.blocks[i];
        p.blocks[i] = p.blocks[j];
        p.blocks[j] = other;
    }
    const uintptr_t base = p.count > 0 ? (uintptr_t)p.blocks[0]->data : 0;
    p.side = (fv_kv_side){
        .data = p.count > 0 ? p.blocks[0]->data : NULL,
        .dtype = t->dtype,
        .layout = layout,
        .channels = channels,
        .stride = {1, page_keys * channels, layout == FV_KV_INTERLEAVED ? FV_KEY_GROUP * channels : channels},
        .pages = p.table,
        .pages_stride = pages,
        .page_keys = page_keys};
    for (int64_t i = 0; i < p.count; i++)
        p.table[i] = (int64_t)((intptr_t)((uintptr_t)p.blocks[i]->data - base) / (intptr_t)sizeof(float));
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t key = 0; key < t->shape[2]; key++) {
                float *head = (float *)p.blocks[b * pages + key / page_keys]->data + h * page_keys * channels;
                const int64_t place = key % page_keys;
                for (int64_t c = 0; c < channels; c++) {
                    const int64_t at = layout == FV_KV_INTERLEAVED ? place / FV_KEY_GROUP * FV_KEY_GROUP * channels +
                                                                         c * FV_KEY_GROUP + place % FV_KEY_GROUP
                                                                   : place * channels + c;
                    memcpy(head + at, tensor_row(t, b, h, key) + c, sizeof(float)); /* NaN keeps its bits */
                }
            }
    return p;
}

static void paged_free(paged *p) {
    for (int64_t i = 0; i < p->count; i++)
        guard_free(p->blocks[i]);
    free(p->blocks);
    free(p->table);
}

/* One problem by a description, whose keys and values are somewhere else than in its arguments. */
static void check_view(const fovea_context *ctx, const fovea_attention_desc *d, const fv_attention_choice *choice,
                       const attention_case *c, const inputs *in, const outputs *want, const fv_kv *kv,
                       const char *what) {
    char text[512];
    fovea_attention_plan *plan;
    const fovea_status status = fv_attention_plan_create_chosen(ctx, d, choice, &plan);
    if (!test_check(status == FOVEA_OK, "plan: %s (%s)", fovea_error_detail(), case_text(c, text, sizeof text)))
        return;
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, got);
    void *workspace = must_alloc((int64_t)fovea_attention_plan_workspace_size(plan), 1);
    args.k.data = args.v.data = NULL; /* not read */
    fv_attention_run_view(plan, &args, kv, workspace);
    outputs_same(got, want, "%s (%s)", what, case_text(c, text, sizeof text));
    free(workspace);
    outputs_free(got);
    fovea_attention_plan_destroy(plan);
}

/* One problem from pages, against want. */
static void check_paged(const fovea_context *ctx, const fv_attention_choice *choice, const attention_case *c,
                        const inputs *in, const outputs *want, int64_t page_keys, fv_kv_layout layout, rng *r) {
    char what[64];
    paged k = paged_make(&in->args.k, page_keys, layout, r), v = paged_make(&in->args.v, page_keys, FV_KV_ROWS, r);
    snprintf(what, sizeof what, "pages of %" PRId64 " keys%s", page_keys,
             layout == FV_KV_INTERLEAVED ? " interleaved" : "");
    check_view(ctx, &c->desc, choice, c, in, want, &(fv_kv){.k = k.side, .v = v.side}, what);
    paged_free(&k);
    paged_free(&v);
}

static void check_all(const case_contexts *x, const attention_case *c, const inputs *in, rng *r) {
    static const int64_t pages[] = {32, 96, 256, 5, 24};
    static const fv_attention_choice split = {.split_segments = 1}, defaults = {0};
    outputs *want = outputs_make(c, c->layout);
    if (case_run(x->scalar, NULL, c, in, want))
        for (int i = 0; i < 5; i++) {
            const fv_attention_choice any = choice_random(r);
            check_paged(x->one, &any, c, in, want, pages[i], FV_KV_ROWS, r);
            check_paged(i % 2 ? x->one : x->three, i % 2 ? &defaults : &split, c, in, want, pages[i],
                        i < 3 ? FV_KV_INTERLEAVED : FV_KV_ROWS, r);
        }
    outputs_free(want);
}

static void test_random(const case_contexts *x) {
    for (int64_t i = 0; i < test_scaled(60); i++) {
        char name[32];
        snprintf(name, sizeof name, "pages %d", (int)i);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 600000);
        if (i % 2)
            case_random_scores(&c, &r);
        inputs *in = inputs_make(&c, &r);
        check_all(x, &c, in, &r);
        inputs_free(in);
    }
}

/* NaN in keys [begin, end) of keys and values. */
static void poison_keys(const inputs *in, int64_t begin, int64_t end) {
    const fovea_tensor *both[] = {&in->args.k, &in->args.v};
    for (int side = 0; side < 2; side++)
        for (int64_t h = 0; h < both[side]->shape[1]; h++)
            for (int64_t key = begin; key < end; key++)
                poison_fill(tensor_row(both[side], 0, h, key), both[side]->shape[3]);
}

static void test_chosen(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "chosen pages");
    attention_case c = case_plain(1, 8, 2, 1, 1500, 24, 40); /* decoding */
    c.weights = true;
    inputs *in = inputs_make(&c, &r);
    check_all(x, &c, in, &r);
    c.desc.window_left = 300;
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    poison_keys(in, 0, 1199);
    check_all(x, &c, in, &r);
    inputs_free(in);

    c = case_plain(1, 2, 1, 230, 600, 16, 33); /* rows by which values are copied */
    in = inputs_make(&c, &r);
    check_all(x, &c, in, &r);
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    poison_keys(in, 500, 501); /* some rows see it: the others must not */
    check_all(x, &c, in, &r);
    inputs_free(in);

    c = case_plain(1, 2, 2, 40, 300, 20, 16);
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    in = inputs_make(&c, &r);
    poison_keys(in, 290, 291);
    check_all(x, &c, in, &r);
    inputs_free(in);
}

/* ---------------------------------------------------------------------------------------------------------- int8 -- */

/* Numbers of which nothing is lost as integers with scales, and whose products and sums are exact in float32, too: then
 * int8 keys and values give the bits of the same floats. Poison stays. */
static void set_exact(const fovea_tensor *t, int largest, int low, float unit, rng *r) {
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t token = 0; token < t->shape[2]; token++) {
                float *row = tensor_row(t, b, h, token);
                const float scale = ldexpf(unit, (int)rng_below(r, 4));
                const int64_t most = rng_below(r, t->shape[3]);
                for (int64_t c = 0; c < t->shape[3] && !isnan(row[c]); c++)
                    row[c] = scale * (float)(c == most ? largest : (int)rng_between(r, -low, low));
            }
}

/* One side as int8 pages of 256 keys, in any order, with scales; those of poisoned keys are NaN. */
typedef struct scaled {
    fv_kv_side side;
    guard *rows, *scales;
    int64_t *table;
} scaled;

static scaled scaled_make(const fovea_tensor *t, fv_kv_layout layout, rng *r) {
    enum { KEYS = FOVEA_KV_PAGE_KEYS };
    const bool interleaved = layout == FV_KV_INTERLEAVED;
    const int64_t pages = (t->shape[2] + KEYS - 1) / KEYS, heads = t->shape[1], count = t->shape[0] * pages,
                  channels = interleaved ? (t->shape[3] + 3) / 4 * 4 : t->shape[3]; /* that there is room for */
    scaled p = {.rows = guard_alloc("rows", (size_t)(count * heads * KEYS * channels), GUARD_END),
                .scales = guard_alloc("scales", (size_t)(count * heads * KEYS) * sizeof(float), GUARD_END),
                .table = must_alloc(count + 1, sizeof *p.table)};
    poison_fill(p.scales->data, count * heads * KEYS);
    memset(p.rows->data, 0x55, (size_t)(count * heads * KEYS * channels));
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = rng_below(r, i + 1);
        p.table[i] = p.table[j];
        p.table[j] = i;
    }
    p.side = (fv_kv_side){
        .data = p.rows->data,
        .dtype = FOVEA_DTYPE_I8,
        .layout = layout,
        .channels = t->shape[3],
        .stride = {heads * KEYS * channels, KEYS * channels, interleaved ? FV_KEY_GROUP * channels : channels},
        .scales = p.scales->data,
        .scale_stride = {heads * KEYS * 4, KEYS * 4, 4},
        .pages = p.table,
        .pages_stride = pages,
        .page_keys = KEYS};
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t key = 0; key < t->shape[2]; key++) {
                const float *row = tensor_row(t, b, h, key);
                const int64_t page = p.table[b * pages + key / KEYS], at = (page * heads + h) * KEYS + key % KEYS;
                float most = 0.0f;
                const int64_t place = key % KEYS % FV_KEY_GROUP;
                int8_t *to = (int8_t *)p.rows->data + (interleaved ? at - place : at) * channels;
                for (int64_t c = 0; c < t->shape[3]; c++)
                    most = fmaxf(most, fabsf(row[c]));
                for (int64_t c = 0; c < t->shape[3] && !isnan(row[0]); c++)
                    to[interleaved ? (c / 4 * FV_KEY_GROUP + place) * 4 + c % 4 : c] =
                        (int8_t)(row[c] / (most / 127.0f));
                if (!isnan(row[0]))
                    ((float *)p.scales->data)[at] = most / 127.0f;
            }
    return p;
}

static void scaled_free(scaled *p) {
    guard_free(p->rows);
    guard_free(p->scales);
    free(p->table);
}

/* One problem with int8 keys, values or both, against the same numbers as floats. */
static void check_scaled(const fovea_context *ctx, const fv_attention_choice *choice, const attention_case *c,
                         const inputs *in, const outputs *want, rng *r) {
    static const char *const what[] = {"", "int8 keys", "int8 values", "int8 keys and values"};
    const int sides = (int)rng_between(r, 1, 3);
    fovea_attention_desc d = c->desc;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    d.k_dtype = sides & 1 ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_F32;
    d.v_dtype = sides & 2 ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_F32;
    paged k = paged_make(&in->args.k, FOVEA_KV_PAGE_KEYS, rng_below(r, 2) ? FV_KV_INTERLEAVED : FV_KV_ROWS, r),
          v = paged_make(&in->args.v, FOVEA_KV_PAGE_KEYS, FV_KV_ROWS, r);
    scaled k8 = scaled_make(&in->args.k, FV_KV_INTERLEAVED, r), v8 = scaled_make(&in->args.v, FV_KV_ROWS, r);
    const fv_kv kv = {.k = sides & 1 ? k8.side : k.side, .v = sides & 2 ? v8.side : v.side};
    check_view(ctx, &d, choice, c, in, want, &kv, what[sides]);
    paged_free(&k);
    paged_free(&v);
    scaled_free(&k8);
    scaled_free(&v8);
}

/* poisoned: a key, or -1. */
static void check_scaled_case(const case_contexts *x, const attention_case *c, int64_t poisoned, rng *r) {
    static const fv_attention_choice split = {.split_segments = 1};
    inputs *in = inputs_make(c, r);
    outputs *want = outputs_make(c, c->layout);
    set_exact(&in->args.q, 16319, 100, ldexpf(0x1p-21f, (int)rng_below(r, 8)), r);
    set_exact(&in->args.k, 127, 127, 1.0f, r);
    set_exact(&in->args.v, 127, 127, 1.0f, r);
    if (poisoned >= 0)
        poison_keys(in, poisoned, poisoned + 1);
    if (case_run(x->scalar, NULL, c, in, want)) {
        const fv_attention_choice any = choice_random(r);
        check_scaled(x->one, &any, c, in, want, r);
        check_scaled(x->one, NULL, c, in, want, r);
        check_scaled(x->three, &split, c, in, want, r);
    }
    outputs_free(want);
    inputs_free(in);
}

static void test_scaled_cases(const case_contexts *x) {
    for (int64_t i = 0; i < test_scaled(60); i++) {
        char name[32];
        snprintf(name, sizeof name, "int8 %d", (int)i);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 600000);
        if (i % 2)
            case_random_scores(&c, &r);
        check_scaled_case(x, &c, -1, &r);
    }
    for (int i = 0; i < CASE_FEATURES; i++) {
        rng r = rng_stream(test_seed() + (uint64_t)i, "int8 features");
        attention_case c = case_plain(1, 4, 2, 37, 530, 24, 40);
        c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
        c.weights = true;
        case_feature(&c, i);
        check_scaled_case(x, &c, i == 0 ? 520 : -1, &r); /* some rows see it: the others must not */
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "paged_attention", NULL);
    const case_contexts x = contexts_make();
    test_random(&x);
    test_chosen(&x);
    test_scaled_cases(&x);
    contexts_free(&x);
    return test_end();
}
