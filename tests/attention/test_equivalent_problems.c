/* Different words for the same attention give the same bits: no mask and a mask of ones or of zeros to add; a length, a
 * padding mask and an additive one; a causal limit or window and the mask of what it lets through; grouped heads and
 * repeated ones; any two layouts; a broadcast mask and a written-out one; outputs asked for or not; offsets by any
 * enumerator. */
#include "attention_case.h"
#include "reference.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A problem, its memory and its results. */
typedef struct solution {
    attention_case c;
    inputs *in;
    outputs *out;
} solution;

/* Computes a problem; owns in from here on. */
static solution solve(const fovea_context *ctx, attention_case c, inputs *in) {
    solution s = {c, in, outputs_make(&c, c.layout)};
    case_run(ctx, NULL, &s.c, s.in, s.out);
    return s;
}

static void forget(solution *s) {
    inputs_free(s->in);
    outputs_free(s->out);
}

/* Inputs for c with the values of another problem: c's tensors may be laid out or masked differently and its heads
 * repeated, but otherwise they have the shapes of from's. */
static inputs *same_values(const attention_case *c, const solution *from) {
    rng r = rng_stream(test_seed(), "same_values");
    inputs *in = inputs_make_given(c, &r, from->in->q_lens, from->in->kv_lens, from->in->q_offsets);
    const fovea_tensor *source[] = {&from->in->args.q, &from->in->args.k, &from->in->args.v};
    fovea_tensor *to[] = {&in->args.q, &in->args.k, &in->args.v};
    for (int n = 0; n < 3; n++)
        for (int64_t b = 0; b < to[n]->shape[0]; b++)
            for (int64_t h = 0; h < to[n]->shape[1]; h++)
                for (int64_t t = 0; t < to[n]->shape[2]; t++)
                    memcpy(tensor_row(to[n], b, h, t),
                           tensor_row(source[n], b, h * source[n]->shape[1] / to[n]->shape[1], t),
                           (size_t)to[n]->shape[3] * sizeof(float));
    return in;
}

/* One check: equal rows of out, and of lse and weights where both have them. The layouts may differ. Returns the number
 * of rows that are neither 0 nor infinite: without any, the check proved nothing. */
static int64_t check_equal(const char *what, const solution *x, const solution *y) {
    const fovea_attention_desc *d = &x->c.desc;
    char text[512];
    int64_t wrong = 0, ordinary = 0;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->q_heads; h++)
            for (int64_t i = 0; i < d->q_len; i++) {
                const float *out = tensor_row(&x->out->out, b, h, i);
                bool ok = first_difference(tensor_row(&y->out->out, b, h, i), out, d->value_dim) < 0;
                if (x->c.lse && y->c.lse)
                    ok = ok &&
                         first_difference(tensor_row(&y->out->lse, b, h, i), tensor_row(&x->out->lse, b, h, i), 1) < 0;
                if (x->c.weights && y->c.weights)
                    ok = ok && first_difference(tensor_row(&y->out->weights, b, h, i),
                                                tensor_row(&x->out->weights, b, h, i), d->kv_len) < 0;
                wrong += !ok;
                ordinary += isfinite(out[0]) && out[0] != 0;
            }
    test_check(wrong == 0, "%s: %" PRId64 " rows differ (%s)", what, wrong, case_text(&y->c, text, sizeof text));
    return ordinary;
}

static fovea_context *ctx;
static int64_t pairs, telling_pairs; /* compared, and those that have a row which is neither 0 nor infinite */

static void compare(const char *what, const solution *x, const solution *y) {
    pairs++;
    telling_pairs += check_equal(what, x, y) > 0;
}

/* Solves c on the values of x, compares, forgets. */
static void check_words(const char *what, const solution *x, attention_case c) {
    solution y = solve(ctx, c, same_values(&c, x));
    compare(what, x, &y);
    forget(&y);
}

/* A mask for every row and key: density 1 makes the boolean one all ones; the additive one is made of 0 and -inf. */
static void write_mask(solution *y, const solution *allowed) {
    const fovea_attention_desc *d = &y->c.desc;
    const fovea_tensor *m = &y->in->args.mask;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->q_heads; h++)
            for (int64_t i = 0; i < d->q_len; i++)
                for (int64_t j = 0; j < d->kv_len; j++) {
                    int64_t at = b * m->stride[0] + h * m->stride[1] + i * m->stride[2] + j * m->stride[3];
                    bool attends =
                        allowed == NULL || reference_attends(&allowed->c.desc, &allowed->in->args, b, h, i, j);
                    if (m->dtype == FOVEA_DTYPE_BOOL)
                        ((uint8_t *)m->data)[at] = (uint8_t)(attends ? 1 + (i + j) % 255 : 0);
                    else
                        ((float *)m->data)[at] = attends ? 0 : -INFINITY;
                }
}

/* Everything that x does not attend to, said by a mask of that kind alone. */
static void check_as_mask(const char *what, const solution *x, fovea_mask_kind kind) {
    solution y = {.c = x->c};
    y.c.desc.mask = kind;
    y.c.desc.causal = FOVEA_CAUSAL_NONE;
    y.c.desc.window_left = y.c.desc.window_right = -1;
    memset(y.c.mask_repeats, 0, sizeof y.c.mask_repeats);
    y.c.q_lens = y.c.kv_lens = y.c.q_offsets = false;
    y.in = same_values(&y.c, x);
    y.out = outputs_make(&y.c, y.c.layout);
    write_mask(&y, x);
    case_run(ctx, NULL, &y.c, y.in, y.out);
    compare(what, x, &y);
    forget(&y);
}

/* -------------------------------------------------------------------------------------------------------- words -- */

/* Random problems said in other words: as masks, with other layouts, with other outputs, with repeated heads. */
static void test_random_words(void) {
    for (int64_t n = 0, count = test_scaled(120); n < count; n++) {
        char name[32];
        snprintf(name, sizeof name, "words %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 200000);
        c.values = VALUES_RANDOM;
        if (c.desc.kv_len < 8) /* so that some row sees something */
            continue;
        c.desc.mask = rng_below(&r, 2) ? FOVEA_MASK_BOOLEAN : FOVEA_MASK_NONE;
        c.mask_density = 0.9F;
        c.mask_repeats[3] = false;
        if (c.desc.window_left >= 0)
            c.desc.window_left += c.desc.kv_len / 2;
        int64_t q_lens[3], kv_lens[3], q_offsets[3];
        for (int b = 0; b < 3; b++) {
            q_lens[b] = b == 0 ? c.desc.q_len : rng_between(&r, 0, c.desc.q_len);
            kv_lens[b] = b == 0 ? c.desc.kv_len : rng_between(&r, 0, c.desc.kv_len);
            q_offsets[b] = rng_between(&r, 0, c.desc.kv_len / 2);
        }
        solution x = solve(ctx, c, inputs_make_given(&c, &r, q_lens, kv_lens, q_offsets));
        check_as_mask("as a boolean mask", &x, FOVEA_MASK_BOOLEAN);
        check_as_mask("as an additive mask", &x, FOVEA_MASK_ADDITIVE);

        if (c.desc.mask == FOVEA_MASK_NONE) {
            attention_case other = c;
            other.layout = (case_layout)((c.layout + 1 + rng_below(&r, LAYOUT_COUNT - 1)) % LAYOUT_COUNT);
            check_words("another layout", &x, other);
            other = c;
            other.lse = !c.lse;
            check_words("with or without lse", &x, other);
            other = c;
            other.weights = !c.weights;
            check_words("with or without weights", &x, other);
            other = c;
            other.desc.kv_heads = c.desc.q_heads;
            check_words("repeated heads", &x, other);
        }
        forget(&x);
    }
}

/* Many heads of few queries share keys of one segment: their outputs are written by tiles that go from head to head, as
 * the layout allows, and must be those of heads with keys of their own. */
static void test_wide_groups(void) {
    static const int64_t queries[] = {1, 3};
    for (int n = 0; n < 2; n++)
        for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
            attention_case c = case_plain(2, 40, 1, queries[n], 100, 24, 17);
            rng r = rng_stream(test_seed(), "wide");
            solution x = solve(ctx, c, inputs_make(&c, &r));
            c.layout = (case_layout)layout;
            check_words("a wide group in another layout", &x, c);
            c.lse = !c.lse;
            c.weights = !c.weights;
            check_words("a wide group with other outputs", &x, c);
            c.desc.kv_heads = c.desc.q_heads;
            check_words("a wide group as repeated heads", &x, c);
            forget(&x);
        }
}

/* Offsets and windows as far as they may be: all keys, or none, are in sight. */
static void test_far_offsets(void) {
    static const int64_t far = (int64_t)1 << 60, ends[][2] = {{far, far}, {-far, -far}},
                         windows[] = {-1, far, INT64_MAX};
    for (int n = 0; n < 2; n++)
        for (int w = 0; w < 3; w++) {
            attention_case c = case_plain(2, 2, 1, 9, 300, 16, 16), limited = c;
            rng r = rng_stream(test_seed(), "far");
            solution x = solve(ctx, c, inputs_make(&c, &r));
            limited.desc.causal = FOVEA_CAUSAL_OFFSET;
            limited.q_offsets = true;
            limited.desc.window_left = n ? windows[w] : windows[2 * (w > 0)];
            limited.desc.window_right = windows[w];
            x.in->q_offsets = must_alloc(2, sizeof(int64_t));
            memcpy(x.in->q_offsets, ends[n], sizeof ends[n]);
            solution y = solve(ctx, limited, same_values(&limited, &x));
            if (n == 0)
                compare("an offset of 2^60", &x, &y);
            for (int64_t i = 0; n == 1 && i < 2 * 2 * 9; i++)
                if (!test_check(((const float *)y.out->out.data)[i * 16] == 0 &&
                                    ((const float *)y.out->lse.data)[i] == -INFINITY,
                                "an offset of -2^60"))
                    break;
            forget(&x);
            forget(&y);
        }
}

/* An offset without any limit changes nothing, and with causality shows all keys or none, however far it is; beyond
 * 2^60 it is refused. */
static void test_offsets_without_windows(void) {
    static const int64_t far[] = {(int64_t)1 << 60, ((int64_t)1 << 60) + 1, ((int64_t)1 << 61) - 150,
                                  (int64_t)1 << 61, ((int64_t)1 << 61) + 1, (int64_t)1 << 62};
    attention_case c = case_plain(1, 2, 1, 9, 300, 16, 16);
    rng r = rng_stream(test_seed(), "far, no windows");
    solution x = solve(ctx, c, inputs_make(&c, &r));
    for (int i = 0; i < 24; i++) {
        const int64_t offset = i % 2 ? -far[i / 4] : far[i / 4];
        attention_case moved = c;
        moved.desc.causal = i / 2 % 2 ? FOVEA_CAUSAL_OFFSET : FOVEA_CAUSAL_NONE;
        const bool none = moved.desc.causal == FOVEA_CAUSAL_OFFSET && offset < 0;
        fovea_attention_plan *plan;
        outputs *got = outputs_make(&moved, c.layout), *blank = outputs_make(&moved, c.layout);
        fovea_attention_args args = case_args(x.in, got);
        args.q_offsets = &offset;
        test_check(fovea_attention_plan_create(ctx, &moved.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
        const fovea_status status = fovea_attention_execute(plan, &args, NULL, 0);
        test_check(status == (i < 4 ? FOVEA_OK : FOVEA_ERROR_ARGUMENT), "an offset of %" PRId64 ": %s", offset,
                   fovea_error_detail());
        if (i >= 4)
            outputs_same(got, blank, "an offset of %" PRId64 " is refused", offset);
        else if (!none)
            outputs_same(got, x.out, "an offset of %" PRId64 ", causal %d", offset, (int)moved.desc.causal);
        else
            for (int64_t row = 0; row < 2 * 9; row++)
                test_check(((const float *)got->lse.data)[row] == -INFINITY, "an offset of %" PRId64 ": row %" PRId64,
                           offset, row);
        fovea_attention_plan_destroy(plan);
        outputs_free(got);
        outputs_free(blank);
    }
    forget(&x);
}

static void test_words(void) {
    static const int64_t shapes[][2] = {{1, 300}, {40, 300}, {300, 300}, {17, 16}, {5, 900}};
    for (int n = 0; n < 5; n++) {
        attention_case c = case_plain(2, 2, 2, shapes[n][0], shapes[n][1], 16, 16), other = c;
        rng r = rng_stream(test_seed(), "words");
        const int64_t difference = c.desc.kv_len - c.desc.q_len, offsets[] = {difference, difference}, zeros[] = {0, 0};
        solution x = solve(ctx, c, inputs_make(&c, &r));
        check_as_mask("a mask of ones", &x, FOVEA_MASK_BOOLEAN);
        check_as_mask("adding zeros", &x, FOVEA_MASK_ADDITIVE);
        other.desc.window_left = other.desc.window_right = 1000;
        check_words("windows wider than the sequence", &x, other);
        other.desc.window_left = other.desc.window_right = INT64_MAX;
        check_words("windows of INT64_MAX", &x, other);
        other = c;
        other.desc.has_scale = 1;
        other.desc.scale = 0.25;
        check_words("the default scale", &x, other);
        forget(&x);

        c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
        x = solve(ctx, c, inputs_make(&c, &r));
        other = c;
        other.desc.causal = FOVEA_CAUSAL_OFFSET;
        other.q_offsets = true;
        x.in->q_offsets = must_alloc(2, sizeof(int64_t));
        memcpy(x.in->q_offsets, offsets, sizeof offsets);
        check_words("bottom right by offsets", &x, other);
        other.desc.causal = FOVEA_CAUSAL_NONE;
        other.desc.window_right = 0;
        check_words("causal by a window", &x, other);
        forget(&x);

        c.desc.causal = FOVEA_CAUSAL_TOP_LEFT;
        x = solve(ctx, c, inputs_make(&c, &r));
        other.desc.causal = FOVEA_CAUSAL_OFFSET;
        other.desc.window_right = -1;
        x.in->q_offsets = must_alloc(2, sizeof(int64_t));
        memcpy(x.in->q_offsets, zeros, sizeof zeros);
        check_words("top left by offsets", &x, other);
        forget(&x);
    }
}

/* Masks that are repeated along an axis, by stride 0 or size 1, and the same ones written out. */
static void test_broadcast(void) {
    for (int axes = 0; axes < 16; axes++)
        for (int kind = FOVEA_MASK_BOOLEAN; kind <= FOVEA_MASK_ADDITIVE; kind++) {
            attention_case c = case_plain(2, 3, 1, 20, 270, 8, 8);
            c.desc.mask = (fovea_mask_kind)kind;
            c.mask_density = 0.7F;
            for (int axis = 0; axis < 4; axis++)
                c.mask_repeats[axis] = axes >> axis & 1;
            rng r = rng_stream(test_seed(), "broadcast 3");
            solution x = solve(ctx, c, inputs_make(&c, &r)), y = {.c = c};
            memset(y.c.mask_repeats, 0, sizeof y.c.mask_repeats);
            y.in = same_values(&y.c, &x);
            y.out = outputs_make(&y.c, y.c.layout);
            const fovea_tensor *from = &x.in->args.mask, *to = &y.in->args.mask;
            size_t size = kind == FOVEA_MASK_BOOLEAN ? 1 : sizeof(float);
            for (int64_t at = 0; at < 2 * 3 * 20 * 270; at++) {
                const int64_t index[4] = {at / 270 / 20 / 3, at / 270 / 20 % 3, at / 270 % 20, at % 270};
                int64_t source = 0;
                for (int axis = 0; axis < 4; axis++)
                    source += c.mask_repeats[axis] ? 0 : index[axis] * from->stride[axis];
                memcpy((char *)to->data + (size_t)at * size, (char *)from->data + (size_t)source * size, size);
            }
            case_run(ctx, NULL, &y.c, y.in, y.out);
            if (!(axes & 8)) /* one value for all keys may hide every key of a row, or of all */
                compare("a broadcast mask", &x, &y);
            else
                outputs_same(y.out, x.out, "a mask with one value a row, axes %d", axes);
            forget(&x);
            forget(&y);
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "equivalent_problems", NULL);
    thread_pool *p = thread_pool_create(2);
    ctx = context_of(FOVEA_ISA_BEST, 2, p);
    test_words();
    test_wide_groups();
    test_far_offsets();
    test_offsets_without_windows();
    test_random_words();
    test_broadcast();
    test_check(telling_pairs * 10 > pairs * 9, "only %" PRId64 " of %" PRId64 " pairs tell anything", telling_pairs,
               pairs);
    fovea_context_destroy(ctx);
    thread_pool_destroy(p);
    return test_end();
}
