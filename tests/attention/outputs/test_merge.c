/* fovea_attention_merge (fovea/state.h).
 *
 *   float64   any split of the keys, empty parts among them, against the reference over all keys
 *   bits      those of the scalar kernels, row by row, for any strides, counts, channels, empty rows, NaN and sinks
 *   tree      B with C, then A with both, of parts and of states
 *   place     one part gives its own bits; merged in place as elsewhere
 *   errors    bad input has a status and a sentence, and nothing is written */
#include "attention_case.h"
#include "dispatch/dispatch.h"
#include "reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 6 };

/* ---------------------------------------------------------------------------------------------------- float64 -- */

/* The attention over keys [begin, end) of a case by itself: args point into offsets. */
static attention_case part_of(const attention_case *c, const inputs *in, int64_t begin, int64_t end,
                              fovea_attention_args *args, int64_t *offsets) {
    attention_case part = *c;
    part.desc.kv_len = end - begin;
    *args = in->args;
    args->k = fovea_tensor_tokens(args->k, begin, end - begin);
    args->v = fovea_tensor_tokens(args->v, begin, end - begin);
    for (int64_t b = 0; b < c->desc.batch; b++)
        offsets[b] = in->q_offsets[b] - begin;
    args->q_offsets = offsets;
    return part;
}

/* Outputs of a merge may be off by what parts are off, and by what their weights are: by the errors of each lse, by a
 * rounding of lse - M, which is at most the distance of lses, by exp and the products, an ulp or half of one each. */
static void check_split(const fovea_context *ctx, const attention_case *c, const inputs *in, const int64_t *ends,
                        int64_t count) {
    const fovea_attention_desc *d = &c->desc;
    outputs *results[MOST], *whole = outputs_make(c, LAYOUT_ODD);
    fovea_attention_part parts[MOST];
    attention_case cases[MOST];
    fovea_attention_args args[MOST];
    int64_t offsets[MOST][2], checked = 0, wrong = 0;
    for (int64_t p = 0; p < count; p++) {
        cases[p] = part_of(c, in, p ? ends[p - 1] : 0, ends[p], &args[p], offsets[p]);
        inputs slice = {.args = args[p]};
        results[p] = outputs_make(&cases[p], c->layout);
        case_run(ctx, NULL, &cases[p], &slice, results[p]);
        parts[p] = (fovea_attention_part){results[p]->out, results[p]->lse};
    }
    const fovea_attention_part into = {whole->out, whole->lse};
    check_status("merge", fovea_attention_merge(parts, count, NULL, &into), FOVEA_OK, NULL);
    reference_result want, part;
    reference_alloc(&want, d);
    reference_alloc(&part, d);
    for (int64_t row = 0; row < d->batch * d->q_heads * d->q_len; row++) {
        const int64_t b = row / (d->q_heads * d->q_len), h = row / d->q_len % d->q_heads, i = row % d->q_len;
        double least = INFINITY, most = -INFINITY, lse_bound = 0, out_bound = 0;
        bool trusted = true;
        reference_row(d, &in->args, b, h, i, &want);
        for (int64_t p = 0; p < count; p++) {
            reference_row(&cases[p].desc, &args[p], b, h, i, &part);
            if (part.attended == 0)
                continue;
            trusted = trusted && part.trusted;
            least = fmin(least, part.lse);
            most = fmax(most, part.lse);
            lse_bound = fmax(lse_bound, part.lse_bound);
            for (int64_t n = 0; n < d->value_dim; n++)
                out_bound = fmax(out_bound, part.out_bound[n]);
        }
        const float lse = *tensor_row(&whole->lse, b, h, i);
        if (want.attended == 0) {
            wrong += float_bits(lse) != float_bits(-INFINITY);
            continue;
        }
        if (!trusted || !want.trusted)
            continue;
        const double weights = 2 * lse_bound + (most - least + 4 * (double)count + 4) * 0x1p-23;
        wrong += fabs((double)lse - want.lse) > weights + (fabs(want.lse) + 1) * 0x1p-23;
        for (int64_t n = 0; n < d->value_dim; n++) {
            const double got = (double)tensor_row(&whole->out, b, h, i)[n];
            wrong += !(fabs(got - want.out[n]) <= out_bound + weights * want.magnitude[n]);
        }
        checked++;
    }
    test_check(wrong == 0 && checked > 0,
               "%" PRId64 " parts, first end %" PRId64 ": %" PRId64 " of %" PRId64 " rows off", count, ends[0], wrong,
               checked);
    reference_free(&want);
    reference_free(&part);
    for (int64_t p = 0; p < count; p++)
        outputs_free(results[p]);
    outputs_free(whole);
}

static void test_float64(void) {
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    rng r = rng_stream(test_seed(), "float64");
    for (int64_t n = 0, cases = test_scaled(30); n < cases; n++) {
        attention_case c = case_plain(2, 4, 2, rng_between(&r, 1, 9), rng_between(&r, 4, 700), 8, 21);
        c.desc.causal = FOVEA_CAUSAL_OFFSET;
        c.q_offsets = true;
        const int64_t offsets[2] = {rng_between(&r, -3, c.desc.kv_len), c.desc.kv_len - 1};
        inputs *in = inputs_make_given(&c, &r, NULL, NULL, offsets);
        int64_t ends[MOST], count = rng_between(&r, 1, MOST);
        for (int64_t p = 0; p < count; p++) {
            const int64_t before = p ? ends[p - 1] : 0;
            ends[p] = p == count - 1 ? c.desc.kv_len : rng_between(&r, before, c.desc.kv_len);
        }
        check_split(ctx, &c, in, ends, count);
        inputs_free(in);
    }
    fovea_context_destroy(ctx);
}

/* ------------------------------------------------------------------------------------------------------- bits -- */

/* A row by the scalar kernels. */
static void merge_row(const fovea_attention_part *parts, int64_t count, const float *sink, int64_t b, int64_t h,
                      int64_t i, int64_t channels, float *out, float *lse) {
    float M = -INFINITY, L = 0, one = 1, x, y;
    float *zero = calloc((size_t)channels, sizeof *zero);
    memset(out, 0, (size_t)channels * sizeof *out);
    for (int64_t p = 0; p < count + (sink != NULL); p++) {
        const float m = p < count ? *tensor_row(&parts[p].lse, b, h, i) : *sink;
        if (m == -INFINITY)
            continue;
        fv_kernel_scalar(FV_OP_merge, FV_TYPE_f32)->run.merge_f32(1, &m, &one, &M, &L, &x, &y);
        fv_kernel_scalar(FV_OP_accumulate, FV_TYPE_f32)
            ->run.accumulate_f32(1, channels, p < count ? tensor_row(&parts[p].out, b, h, i) : zero, channels, &x, &y,
                                 out, channels);
    }
    fv_kernel_scalar(FV_OP_finish, FV_TYPE_f32)
        ->run.finish_f32(1, channels, out, channels, &M, &L, out, channels, lse, 1);
    free(zero);
}

static float random_lse(rng *r) {
    switch (rng_below(r, 12)) {
    case 0: return INFINITY;
    case 1: return bits_float(0xffc12345);
    case 2:
    case 3:
    case 4: return -INFINITY;
    case 5: return (float)rng_between(r, -200, 200);
    default: return 4 * (float)rng_normal(r);
    }
}

static void fill_part(outputs *part, const attention_case *c, rng *r) {
    const fovea_attention_desc *d = &c->desc;
    for (int64_t row = 0; row < d->batch * d->q_heads * d->q_len; row++) {
        const int64_t b = row / (d->q_heads * d->q_len), h = row / d->q_len % d->q_heads, i = row % d->q_len;
        const float lse = *tensor_row(&part->lse, b, h, i) = random_lse(r);
        for (int64_t n = 0; n < d->value_dim; n++)
            tensor_row(&part->out, b, h, i)[n] = lse == -INFINITY ? rng_pattern(r) : (float)rng_normal(r);
    }
}

static bool is_result(const outputs *got, const attention_case *c, const fovea_attention_part *parts, int64_t count,
                      const float *sinks) {
    const fovea_attention_desc *d = &c->desc;
    float *out = must_alloc(d->value_dim, sizeof *out), lse;
    int64_t wrong = 0;
    for (int64_t row = 0; row < d->batch * d->q_heads * d->q_len; row++) {
        const int64_t b = row / (d->q_heads * d->q_len), h = row / d->q_len % d->q_heads, i = row % d->q_len;
        merge_row(parts, count, sinks ? &sinks[h] : NULL, b, h, i, d->value_dim, out, &lse);
        wrong += first_difference(tensor_row(&got->out, b, h, i), out, d->value_dim) >= 0 ||
                 (c->lse && first_difference(tensor_row(&got->lse, b, h, i), &lse, 1) >= 0);
    }
    free(out);
    return wrong == 0;
}

/* And the same in place of one of the parts. */
static void test_bits(void) {
    rng r = rng_stream(test_seed(), "bits");
    static const int64_t queries[] = {1, 2, 15, 16, 17, 40}, channels[] = {1, 5, 16, 64, 127, 128, 129, 300};
    for (int64_t n = 0, cases = test_scaled(150); n < cases; n++) {
        attention_case c = case_plain(rng_between(&r, 1, 2), rng_between(&r, 1, 3), 1, queries[rng_below(&r, 6)], 1, 1,
                                      channels[rng_below(&r, 8)]);
        const int64_t count = rng_below(&r, MOST + 1), place = count ? rng_below(&r, count) : 0;
        float sinks[3];
        outputs *of[MOST];
        fovea_attention_part parts[MOST];
        for (int64_t p = 0; p < count; p++) {
            of[p] = outputs_make(&c, (case_layout)rng_below(&r, LAYOUT_COUNT));
            fill_part(of[p], &c, &r);
            parts[p] = (fovea_attention_part){of[p]->out, of[p]->lse};
        }
        for (int h = 0; h < 3; h++)
            sinks[h] = random_lse(&r);
        c.lse = rng_below(&r, 3) > 0;
        outputs *got = outputs_make(&c, (case_layout)rng_below(&r, LAYOUT_COUNT));
        fovea_attention_part whole = {got->out, got->lse};
        const float *sink = rng_below(&r, 2) ? sinks : NULL;
        check_status("merge", fovea_attention_merge(parts, count, sink, &whole), FOVEA_OK, NULL);
        test_check(is_result(got, &c, parts, count, sink),
                   "%" PRId64 " parts of %" PRId64 " queries, %" PRId64 " channels: not the scalar kernels' bits",
                   count, c.desc.q_len, c.desc.value_dim);
        if (count) {
            check_status("in place", fovea_attention_merge(parts, count, sink, &parts[place]), FOVEA_OK, NULL);
            int64_t wrong = 0;
            for (int64_t row = 0; row < c.desc.batch * c.desc.q_heads * c.desc.q_len; row++) {
                const int64_t b = row / (c.desc.q_heads * c.desc.q_len), i = row % c.desc.q_len;
                const int64_t h = row / c.desc.q_len % c.desc.q_heads;
                wrong += first_difference(tensor_row(&parts[place].out, b, h, i), tensor_row(&got->out, b, h, i),
                                          c.desc.value_dim) >= 0;
            }
            test_check(wrong == 0, "in place of part %" PRId64 ": %" PRId64 " rows differ", place, wrong);
        }
        for (int64_t p = 0; p < count; p++)
            outputs_free(of[p]);
        outputs_free(got);
    }
}

/* A part alone, with and without empty ones; no part; a sink alone. */
static void test_identity(void) {
    float out[2][2][4] = {{{1.5F, -0.0F, 3e-40F, 3e38F}, {NAN, NAN, NAN, NAN}}, {{9, 9, 9, 9}, {-7, 7, 0.1F, 0}}};
    float lse[2][2] = {{87.5F, -INFINITY}, {-INFINITY, -1e4F}}, to[2][4], to_lse[2];
    const float want[2][4] = {{1.5F, 0, 3e-40F, 3e38F}, {-7, 7, 0.1F, 0}}, zero[8] = {0}, sink = 3;
    fovea_attention_part parts[2], whole = {fovea_tensor_bhtd(to, FOVEA_DTYPE_F32, 1, 1, 2, 4),
                                            fovea_tensor_bhtd(to_lse, FOVEA_DTYPE_F32, 1, 1, 2, 1)};
    for (int p = 0; p < 2; p++)
        parts[p] = (fovea_attention_part){fovea_tensor_bhtd(out[p], FOVEA_DTYPE_F32, 1, 1, 2, 4),
                                          fovea_tensor_bhtd(lse[p], FOVEA_DTYPE_F32, 1, 1, 2, 1)};
    check_status("two halves", fovea_attention_merge(parts, 2, NULL, &whole), FOVEA_OK, NULL);
    test_same(&to[0][0], &want[0][0], 8, "a row of one part and an empty one");
    test_check(to_lse[0] == 87.5F && to_lse[1] == -1e4F, "lse %g, %g", (double)to_lse[0], (double)to_lse[1]);
    check_status("no part", fovea_attention_merge(NULL, 0, NULL, &whole), FOVEA_OK, NULL);
    test_same(&to[0][0], zero, 8, "no part");
    test_check(to_lse[0] == -INFINITY && to_lse[1] == -INFINITY, "no part: lse %g", (double)to_lse[0]);
    check_status("a sink", fovea_attention_merge(NULL, 0, &sink, &whole), FOVEA_OK, NULL);
    test_same(&to[0][0], zero, 8, "a sink alone");
    test_check(to_lse[0] == 3 && to_lse[1] == 3, "a sink alone: lse %g", (double)to_lse[0]);
    whole.out = fovea_tensor_bhtd(NULL, FOVEA_DTYPE_F32, 0, 1, 2, 4);
    whole.lse = parts[0].out = parts[0].lse = fovea_tensor_bhtd(NULL, FOVEA_DTYPE_F32, 0, 1, 2, 1);
    parts[0].out.shape[3] = 4;
    check_status("an empty batch", fovea_attention_merge(parts, 1, NULL, &whole), FOVEA_OK, NULL);
    whole.lse = parts[0].lse = (fovea_tensor){0};
    check_status("an empty batch without lse", fovea_attention_merge(parts, 1, NULL, &whole), FOVEA_OK, NULL);
    whole.out.shape[0] = (int64_t)1 << 60;
    whole.out.shape[2] = 0;
    check_status("many sequences without queries", fovea_attention_merge(NULL, 0, NULL, &whole), FOVEA_OK, NULL);
}

/* ------------------------------------------------------------------------------------------------------- tree -- */

enum { TREE_PIECES = 3, TREE_PIECE = 256, TREE_KEYS = 700 };

/* Runs the plan of a piece; count 0: without keys, anywhere. */
static void run_piece(const fovea_context *ctx, const attention_case *c, const inputs *in, int64_t first, int64_t count,
                      fovea_attention_state *state, outputs *out, fovea_status want, const char *words) {
    static const int64_t none[] = {0};
    attention_case piece = *c;
    fovea_attention_args args = in->args;
    piece.desc.kv_len = count > 0 ? count : 1;
    args.k = fovea_tensor_tokens(args.k, count > 0 ? first : 0, piece.desc.kv_len);
    args.v = fovea_tensor_tokens(args.v, count > 0 ? first : 0, piece.desc.kv_len);
    args.kv_lens = count > 0 ? NULL : none;
    args.state = state;
    args.first_key = first;
    args.out = out->out;
    args.lse = out->lse;
    check_status("a piece", attention_once(ctx, &piece.desc, &args), want, words);
}

/* Merges in another order give other last bits, no more. */
static void check_near(const outputs *got, const outputs *want, const char *what) {
    double most = 0.0;
    for (int64_t i = 0; i < tensor_elements(&want->out); i++)
        most = fmax(most, fabs((double)((float *)got->out.data)[i] - (double)((float *)want->out.data)[i]));
    for (int64_t i = 0; i < tensor_elements(&want->lse); i++)
        most = fmax(most, fabs((double)((float *)got->lse.data)[i] - (double)((float *)want->lse.data)[i]));
    test_check(most < 4e-6, "%s: %g off", what, most);
}

static void test_tree(void) {
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    attention_case c = case_plain(1, 2, 1, 20, TREE_KEYS, 8, 21);
    rng r = rng_stream(test_seed(), "tree");
    inputs *in = inputs_make(&c, &r);
    outputs *whole = outputs_make(&c, LAYOUT_BHTD), *tree = outputs_make(&c, LAYOUT_BHTD), *of[TREE_PIECES];
    fovea_attention_state *state[TREE_PIECES + 2]; /* of A, B, C; of none; of A and B */
    fovea_attention_part parts[TREE_PIECES], into = {tree->out, tree->lse};
    case_run(ctx, NULL, &c, in, whole);
    fovea_attention_plan *plan;
    check_status("a plan", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
    const size_t size = fovea_attention_plan_state_size(plan);
    for (int p = TREE_PIECES + 1; p >= 0; p--) {
        const int64_t first = p * TREE_PIECE, left = TREE_KEYS - first;
        void *memory = must_alloc((int64_t)size, 1);
        check_status("a state", fovea_attention_state_init(plan, memory, size, &state[p]), FOVEA_OK, NULL);
        if (p >= TREE_PIECES)
            continue;
        of[p] = outputs_make(&c, LAYOUT_BHTD);
        run_piece(ctx, &c, in, first, left < TREE_PIECE ? left : TREE_PIECE, state[p], of[p], FOVEA_OK, NULL);
        parts[p] = (fovea_attention_part){of[p]->out, of[p]->lse};
    }
    for (int p = 0; p < 2; p++)
        check_status("A and B", fovea_attention_state_merge(state[4], state[p]), FOVEA_OK, NULL);
    check_status("B with C", fovea_attention_state_merge(state[1], state[2]), FOVEA_OK, NULL);
    for (int p = 2; p < 5; p += 2)
        check_status("out of order", fovea_attention_state_merge(state[p], state[1]), FOVEA_ERROR_ARGUMENT,
                     p == 2 ? "later begins with key 256|up to 768" : "later begins with key 256|up to 512");
    check_status("into none", fovea_attention_state_merge(state[3], state[1]), FOVEA_OK, NULL);
    check_status("A with both", fovea_attention_state_merge(state[0], state[3]), FOVEA_OK, NULL);
    check_status("C again", fovea_attention_state_merge(state[0], state[2]), FOVEA_ERROR_ARGUMENT,
                 "later begins with key 512|up to 768");
    run_piece(ctx, &c, in, 512, 10, state[0], tree, FOVEA_ERROR_ARGUMENT, "begins with key 512|up to 768");
    run_piece(ctx, &c, in, 0, 0, state[0], tree, FOVEA_OK, NULL);
    check_near(tree, whole, "states, B with C, then A");

    fovea_attention_part two[] = {parts[0], parts[1]};
    check_status("parts, B with C", fovea_attention_merge(parts + 1, 2, NULL, &parts[1]), FOVEA_OK, NULL);
    check_status("parts, A with both", fovea_attention_merge(two, 2, NULL, &into), FOVEA_OK, NULL);
    check_near(tree, whole, "parts, B with C, then A");
    fovea_attention_plan_destroy(plan);
    for (int p = 0; p < TREE_PIECES + 2; p++)
        free(state[p]);
    for (int p = 0; p < TREE_PIECES; p++)
        outputs_free(of[p]);
    inputs_free(in);
    outputs_free(whole);
    outputs_free(tree);
    fovea_context_destroy(ctx);
}

/* ----------------------------------------------------------------------------------------------------- errors -- */

static void refused(const char *what, fovea_attention_part *parts, int64_t count, const float *sinks,
                    const fovea_attention_part *whole, fovea_status want, const char *words) {
    check_status(what, fovea_attention_merge(parts, count, sinks, whole), want, words);
}

static void test_errors(void) {
    static float memory[4][64], canary[64];
    memset(memory, 0x5a, sizeof memory);
    memset(canary, 0x5a, sizeof canary);
    const fovea_attention_part good = {fovea_tensor_bhtd(memory[0], FOVEA_DTYPE_F32, 1, 2, 3, 4),
                                       fovea_tensor_bhtd(memory[1], FOVEA_DTYPE_F32, 1, 2, 3, 1)};
    const fovea_attention_part into = {fovea_tensor_bhtd(memory[2], FOVEA_DTYPE_F32, 1, 2, 3, 4),
                                       fovea_tensor_bhtd(memory[3], FOVEA_DTYPE_F32, 1, 2, 3, 1)};
    fovea_attention_part parts[2] = {good, good}, whole = into;
    refused("no whole", parts, 2, NULL, NULL, FOVEA_ERROR_NULL, "whole");
    refused("no parts", NULL, 1, NULL, &whole, FOVEA_ERROR_NULL, "parts");
    refused("count -1", parts, -1, NULL, &whole, FOVEA_ERROR_SHAPE, "count|-1");
    whole.out.data = NULL;
    refused("no out", parts, 2, NULL, &whole, FOVEA_ERROR_NULL, "whole->out");
    whole = into;
    whole.out.shape[3] = 0;
    refused("no channels", parts, 2, NULL, &whole, FOVEA_ERROR_SHAPE, "whole->out|channel");
    whole = into;
    whole.out.shape[1] = -1;
    refused("heads -1", parts, 2, NULL, &whole, FOVEA_ERROR_SHAPE, "whole->out|head|-1");
    whole = into;
    whole.out.stride[2] = 2;
    refused("rows that overlap", parts, 2, NULL, &whole, FOVEA_ERROR_STRIDE, "whole->out");
    whole = into;
    whole.lse.dtype = FOVEA_DTYPE_BOOL;
    refused("dtype", parts, 2, NULL, &whole, FOVEA_ERROR_DTYPE, "whole->lse");
    whole = into;
    parts[1].lse.data = NULL;
    refused("a part without lse", parts, 2, NULL, &whole, FOVEA_ERROR_NULL, "parts[1].lse");
    parts[1] = good;
    parts[1].out.shape[2] = 2;
    refused("a part of other shape", parts, 2, NULL, &whole, FOVEA_ERROR_SHAPE, "parts[1].out|token");
    parts[1] = good;
    whole.out = fovea_tensor_bhtd(memory[0] + 1, FOVEA_DTYPE_F32, 1, 2, 3, 4);
    refused("out a float behind a part's", parts, 2, NULL, &whole, FOVEA_ERROR_ALIAS, "whole->out|parts[0].out");
    whole.out = fovea_tensor_bthd(memory[0], FOVEA_DTYPE_F32, 1, 3, 2, 4);
    refused("out of other strides", parts, 2, NULL, &whole, FOVEA_ERROR_ALIAS, "whole->out|parts[0].out");
    whole = into;
    whole.lse.data = memory[0];
    refused("lse over a part's out", parts, 2, NULL, &whole, FOVEA_ERROR_ALIAS, "whole->lse|parts[0].out");
    whole.lse.data = memory[2] + 1;
    refused("lse over out", parts, 2, NULL, &whole, FOVEA_ERROR_ALIAS, "whole->out|whole->lse");
    whole = into;
    refused("sinks in out", parts, 2, memory[2], &whole, FOVEA_ERROR_ALIAS, "whole->out|sinks");
    for (int i = 0; i < 4; i++)
        test_check(memcmp(memory[i], canary, sizeof canary) == 0, "an error wrote into memory %d", i);
    refused("a good call", parts, 2, NULL, &whole, FOVEA_OK, NULL);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "merge", NULL);
    test_float64();
    test_bits();
    test_identity();
    test_tree();
    test_errors();
    return test_end();
}
