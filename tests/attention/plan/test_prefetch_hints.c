/* Prefetches that the products of attention are asked for (fv_prefetch.next). It changes no result, so no
 * other test sees it wrong: here the kernels of a plan are taken by others that write down what they are asked for.
 *
 *   strays    random problems, tiles and caches: only elements of q, k, v and out, never a gap between rows, nor keys
 *             past a sequence's length
 *   one tile  each value that is seen once, each key once but for those of the first segment, which nothing precedes
 *   tiles     likewise, but as evenly as calls can: four fifths at least
 *   items     small ones: all of the next item, likewise */
#include "attention/plan/plan.h"
#include "attention_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, OUT, TENSORS };

/* The floats from a tensor's first element on. */
typedef struct watched {
    uintptr_t begin;
    int64_t floats;
    bool *named; /* is it an element, of a key within its sequence's length? */
    int *times;  /* that a call was asked for it */
} watched;

static watched watch[TENSORS];
static int64_t strays;
static fv_multiply_fn *real_score, *real_few, *real_value, *real_skip;

static void write_down(const fv_prefetch *prefetch) {
    if (!prefetch || !prefetch->next)
        return;
    for (uintptr_t at = (uintptr_t)prefetch->next; at < (uintptr_t)prefetch->next_end; at += sizeof(float)) {
        bool found = false;
        for (watched *w = watch; w < watch + TENSORS && !found; w++) {
            const uintptr_t i = (at - w->begin) / sizeof(float);
            if (at < w->begin || i >= (uintptr_t)w->floats || !w->named[i])
                continue;
            w->times[i]++;
            found = true;
        }
        strays += !found;
    }
}

static void score(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                  const fv_prefetch *prefetch) {
    write_down(prefetch);
    real_score(a, b, c, ldc, epilogue, prefetch);
}

static void few(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                const fv_prefetch *prefetch) {
    write_down(prefetch);
    real_few(a, b, c, ldc, epilogue, prefetch);
}

static void value(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                  const fv_prefetch *prefetch) {
    write_down(prefetch);
    real_value(a, b, c, ldc, epilogue, prefetch);
}

static void value_skip(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                       const fv_prefetch *prefetch) {
    write_down(prefetch);
    real_skip(a, b, c, ldc, epilogue, prefetch);
}

static void watch_tensor(watched *w, const fovea_tensor *t, const int64_t *lens) {
    *w = (watched){.begin = (uintptr_t)t->data};
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t b = 0; b < t->shape[0]; b++)
            for (int64_t h = 0; h < t->shape[1]; h++)
                for (int64_t row = 0; row < (lens ? lens[b] : t->shape[2]); row++)
                    for (int64_t c = 0; c < t->shape[3]; c++) {
                        const int64_t i = b * t->stride[0] + h * t->stride[1] + row * t->stride[2] + c;
                        if (pass == 0)
                            w->floats = i >= w->floats ? i + 1 : w->floats;
                        else
                            w->named[i] = true;
                    }
        if (pass == 0) {
            w->named = must_alloc(w->floats + 1, sizeof *w->named);
            w->times = must_alloc(w->floats + 1, sizeof *w->times);
            memset(w->named, 0, (size_t)w->floats * sizeof *w->named);
            memset(w->times, 0, (size_t)w->floats * sizeof *w->times);
        }
    }
}

/* Puts a function in place of a source's product. */
static void spy_on(const fv_kernel **product, fv_kernel *spy, fv_multiply_fn **real, fv_multiply_fn *instead) {
    if (!*product)
        return;
    *spy = **product;
    *real = spy->run.multiply;
    spy->run.multiply = instead;
    *product = spy;
}

/* Runs a problem and watches it. The plan's block rows, or 0 if it failed. */
static int64_t run(const fovea_context *ctx, const attention_case *c, const fv_attention_choice *choice,
                   const inputs *in, const outputs *out) {
    char text[512];
    fovea_attention_plan *plan;
    fovea_status status = fv_attention_plan_create_chosen(ctx, &c->desc, choice, &plan);
    if (!test_check(status == FOVEA_OK, "plan: %s (%s)", fovea_error_detail(), case_text(c, text, sizeof text)))
        return 0;
    fv_kernel spies[5];
    spy_on(&plan->sources.k[FV_KEYS_floats], &spies[0], &real_score, score);
    spy_on(&plan->sources.k[FV_KEYS_rows], &spies[1], &real_few, few);
    spy_on(&plan->sources.v[FV_VALUES_rows], &spies[2], &real_value, value);
    spy_on(&plan->sources.v[FV_VALUES_floats], &spies[3], &real_value, value);
    spy_on(&plan->sources.skip, &spies[4], &real_skip, value_skip);
    const fovea_attention_args args = case_args(in, out);
    strays = 0;
    watch_tensor(&watch[Q], &args.q, NULL);
    watch_tensor(&watch[K], &args.k, args.kv_lens);
    watch_tensor(&watch[V], &args.v, args.kv_lens);
    watch_tensor(&watch[OUT], &args.out, NULL);
    status = fovea_attention_execute(plan, &args, NULL, 0);
    test_check(status == FOVEA_OK, "execute: %s", fovea_error_detail());
    test_check(strays == 0, "%" PRId64 " floats that are none of q, k, v, out: %s", strays,
               case_text(c, text, sizeof text));
    const int64_t blocks = plan->blocks;
    fovea_attention_plan_destroy(plan);
    return blocks;
}

static void unwatch(void) {
    for (watched *w = watch; w < watch + TENSORS; w++) {
        free(w->named);
        free(w->times);
    }
}

static void test_strays(const fovea_context *ctx) {
    rng r = rng_stream(test_seed(), "strays");
    for (int64_t i = 0; i < test_scaled(300); i++) {
        const attention_case c = case_random(&r, 1 << 20);
        fv_attention_choice choice = choice_random(&r);
        static const int64_t caches[] = {0, 10, 6400};
        choice.cache_scale = caches[rng_below(&r, 3)];
        inputs *in = inputs_make(&c, &r);
        outputs *out = outputs_make(&c, c.layout);
        run(ctx, &c, &choice, in, out);
        unwatch();
        inputs_free(in);
        outputs_free(out);
    }
}

/* The share of the named floats from a token of a head on that was asked for once; more than once fails. */
static double once(const watched *w, const char *what, int64_t first) {
    int64_t all = 0, asked = 0, again = 0;
    for (int64_t i = first; i < w->floats; i++) {
        all += w->named[i];
        asked += w->named[i] && w->times[i] > 0;
        again += w->named[i] && w->times[i] > 1;
    }
    test_check(again == 0, "%s: %" PRId64 " floats were prefetched more than once", what, again);
    return all > 0 ? (double)asked / (double)all : 1.0;
}

/* A problem of one block a head of keys: what of k and v behind the first segment, and of all of v, was asked for. */
typedef struct shares {
    double k, v, all_of_v, q;
} shares;

static shares shares_of(const fovea_context *ctx, const char *what, const attention_case *c,
                        const fv_attention_choice *choice) {
    rng r = rng_stream(test_seed(), what);
    inputs *in = inputs_make(c, &r);
    outputs *out = outputs_make(c, c->layout);
    const int64_t blocks = run(ctx, c, choice, in, out);
    const int64_t first = c->desc.kv_len < FV_SEGMENT ? c->desc.kv_len : FV_SEGMENT;
    shares s = {0};
    if (test_check(blocks == 1, "%s: %" PRId64 " blocks", what, blocks)) {
        s.k = once(&watch[K], what, first * c->desc.head_dim);
        s.v = once(&watch[V], what, first * c->desc.value_dim);
        s.all_of_v = once(&watch[V], what, 0);
        s.q = once(&watch[Q], what, c->desc.q_heads / c->desc.kv_heads * c->desc.q_len * c->desc.head_dim);
    }
    unwatch();
    inputs_free(in);
    outputs_free(out);
    return s;
}

static void test_shares(const fovea_context *ctx) {
    const fv_attention_choice small = {.block_rows = 64, .tile_rows = 16, .cache_scale = 10},
                              large = {.block_rows = 64, .tile_rows = 16, .cache_scale = 6400};
    attention_case c = case_plain(2, 8, 2, 1, 700, 64, 48);
    shares s = shares_of(ctx, "one tile", &c, &small);
    test_check(s.k == 1 && s.all_of_v == 1, "one tile: keys %.3f, values %.3f", s.k, s.all_of_v);
    c = case_plain(2, 4, 2, 5, 513, 40, 72);
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    s = shares_of(ctx, "one causal tile", &c, &small);
    test_check(s.k == 1 && s.all_of_v == 1, "one causal tile: keys %.3f, values %.3f", s.k, s.all_of_v);
    c = case_plain(3, 4, 2, 1, 100, 64, 48);
    s = shares_of(ctx, "small tile", &c, &large);
    test_check(s.k == 1 && s.all_of_v == 1, "one small tile: keys %.3f, values %.3f", s.k, s.all_of_v);
    const fv_attention_choice tiles = {.block_rows = 192, .tile_rows = 48, .cache_scale = 10};
    c = case_plain(1, 4, 2, 96, 1024, 48, 48); /* of fewer rows or keys calls are too few to ask for all */
    s = shares_of(ctx, "tiles", &c, &tiles);
    test_check(s.k > 0.8 && s.v > 0.8, "tiles: keys %.3f, values %.3f", s.k, s.v);
    c = case_plain(3, 4, 2, 12, 100, 16, 16);
    s = shares_of(ctx, "items", &c, &large);
    test_check(s.q > 0.8 && s.k > 0.8 && s.v > 0.8, "items: queries %.3f, keys %.3f, values %.3f", s.q, s.k, s.v);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "prefetch_hints", NULL);
    fovea_context *ctx = context_of(test_isa(), 1, NULL);
    test_strays(ctx);
    test_shares(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
