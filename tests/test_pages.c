/* Keys and values in pages: the bits of contiguous memory, whatever the pages.
 *
 * Each page is a block of its own between forbidden pages, at any place: pages of 16, 48 and 256 keys, of 5 and of 24, and
 * keys in lanes. What no key of a sequence is in holds NaN. Problems are random ones of every kind (prefill, causality,
 * windows, masks, lengths), and some that random ones seldom are: decoding split over keys, so many rows that values are
 * copied, and NaN in keys and values that some rows or none see. The scalar tier computes each from contiguous memory. */
#include "attention/plan.h"
#include "attention_case.h"
#include "guard.h"
#include "pool.h"

#include <inttypes.h>
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
    p.side = (fv_kv_side){.data = p.count > 0 ? p.blocks[0]->data : NULL,
                          .dtype = t->dtype,
                          .layout = layout,
                          .channels = channels,
                          .stride = {1, page_keys * channels, layout == FV_KV_LANES ? FV_LANES * channels : channels},
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
                    const int64_t at = layout == FV_KV_LANES
                                           ? place / FV_LANES * FV_LANES * channels + c * FV_LANES + place % FV_LANES
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

/* One problem from pages, against want. */
static void check_paged(const fovea_context *ctx, const fv_attention_choice *choice, const attention_case *c,
                        const inputs *in, const outputs *want, int64_t page_keys, fv_kv_layout layout, rng *r) {
    char text[512];
    fovea_attention_plan *plan;
    const fovea_status status = fv_attention_plan_create_chosen(ctx, &c->desc, choice, &plan);
    if (!test_check(status == FOVEA_OK, "plan: %s (%s)", fovea_error_detail(), case_text(c, text, sizeof text)))
        return;
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, got);
    paged k = paged_make(&args.k, page_keys, layout, r), v = paged_make(&args.v, page_keys, FV_KV_ROWS, r);
    const fv_kv kv = {.k = k.side, .v = v.side};
    void *workspace = must_alloc((int64_t)fovea_attention_plan_workspace_size(plan), 1);
    args.k.data = args.v.data = NULL; /* not read */
    fv_attention_run_view(plan, &args, &kv, workspace);
    outputs_same(got, want, "pages of %" PRId64 " keys%s (%s)", page_keys, layout == FV_KV_LANES ? " in lanes" : "",
                 case_text(c, text, sizeof text));
    free(workspace);
    paged_free(&k);
    paged_free(&v);
    outputs_free(got);
    fovea_attention_plan_destroy(plan);
}

static void check_all(const case_contexts *x, const attention_case *c, const inputs *in, rng *r) {
    static const int64_t pages[] = {16, 48, 256, 5, 24};
    static const fv_attention_choice split = {.split_segments = 1}, defaults = {0};
    outputs *want = outputs_make(c, c->layout);
    if (case_run(x->scalar, NULL, c, in, want))
        for (int i = 0; i < 5; i++) {
            const fv_attention_choice any = choice_random(r);
            check_paged(x->one, &any, c, in, want, pages[i], FV_KV_ROWS, r);
            check_paged(i % 2 ? x->one : x->three, i % 2 ? &defaults : &split, c, in, want, pages[i],
                        i < 3 ? FV_KV_LANES : FV_KV_ROWS, r);
        }
    outputs_free(want);
}

static void test_random(const case_contexts *x) {
    for (int64_t i = 0; i < test_scaled(60); i++) {
        char name[32];
        snprintf(name, sizeof name, "pages %d", (int)i);
        rng r = rng_stream(test_seed(), name);
        const attention_case c = case_random(&r, 600000);
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

int main(int argc, char **argv) {
    test_begin(argc, argv, "pages", NULL);
    const case_contexts x = contexts_make();
    test_random(&x);
    test_chosen(&x);
    contexts_free(&x);
    return test_end();
}
