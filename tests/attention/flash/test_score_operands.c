/* Operands that are added to scores or select them: biases, relative tables, sinks, scales, masks.
 *
 *   poison    what they hold for pairs of a query and a key that something else hides (a mask, another bias of -inf,
 *             causality, a window, lengths) may be NaN, infinite or anything: no bit changes
 *   sinks     of +inf and NaN give rows of NaN; -inf is as none, by bits
 *   scales    of 0 and negative ones: the bits of queries of 0, of negated queries
 *   refused   operands that are missing, or have another shape, type or stride, or overlap an output */
#include "attention_case.h"
#include "reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static case_contexts contexts;

/* -------------------------------------------------------------------------------------------------------- poison -- */

/* For each element of a tensor from its first to its last: does a pair that is seen use it? */
static bool *used_elements(const attention_case *c, const inputs *in, const fovea_tensor *t, bool table) {
    const int64_t n = tensor_elements(t);
    bool *used = must_alloc(n, sizeof *used);
    fovea_attention_desc seen = c->desc;
    fovea_tensor places = *t; /* of a table: what says where an element is */
    float *place = must_alloc(n, sizeof *place);
    for (int64_t i = 0; i < n; i++) {
        used[i] = false;
        place[i] = (float)i;
    }
    places.data = place;
    if (t == &in->args.mask && seen.mask == FOVEA_MASK_BOOLEAN) /* itself hides nothing then */
        seen.mask = FOVEA_MASK_NONE;
    for (int64_t b = 0; b < seen.batch; b++) {
        const int64_t offset = seen.causal == FOVEA_CAUSAL_BOTTOM_RIGHT ? (in->kv_lens ? in->kv_lens[b] : seen.kv_len) -
                                                                              (in->q_lens ? in->q_lens[b] : seen.q_len)
                               : in->q_offsets ? in->q_offsets[b]
                                               : 0;
        for (int64_t h = 0; h < seen.q_heads; h++)
            for (int64_t i = 0; i < seen.q_len; i++)
                for (int64_t j = 0; j < seen.kv_len; j++)
                    if (reference_attends(&seen, &in->args, b, h, i, j))
                        used[table ? (int64_t)reference_relative(&seen, &places, b, h, i + offset, j)
                                   : tensor_index(t, b, h, i, j)] = true;
    }
    free(place);
    return used;
}

static float random_poison(rng *r) {
    switch (rng_below(r, 5)) {
    case 0: return bits_float(0xff800001U + (uint32_t)rng_below(r, 0x7ffffe));
    case 1: return INFINITY;
    case 2: return -INFINITY;
    case 3: return rng_below(r, 2) ? 3e38F : -3e38F;
    default: return rng_pattern(r);
    }
}

/* Returns how many elements were changed. What is -inf may be what hides a pair, and stays. */
static int64_t poison_tensor(const attention_case *c, const inputs *in, const fovea_tensor *t, bool table, rng *r) {
    int64_t changed = 0;
    if (!t->data)
        return 0;
    bool *used = used_elements(c, in, t, table);
    for (int64_t i = 0, n = tensor_elements(t); i < n; i++) {
        float *number = (float *)t->data + i;
        if (used[i])
            continue;
        if (t->dtype == FOVEA_DTYPE_BOOL)
            ((uint8_t *)t->data)[i] = (uint8_t)(rng_below(r, 2) ? rng_below(r, 256) : 0);
        else if (*number != -INFINITY)
            *number = random_poison(r);
        changed++;
    }
    free(used);
    return changed;
}

static void test_poison(void) {
    enum { MOST = 200 };
    int64_t changed[3] = {0, 0, 0};
    for (int64_t n = 0;; n++) {
        const bool all = changed[0] > 0 && changed[1] > 0 && changed[2] > 0;
        if (n >= test_scaled(MOST) && (all || n >= MOST))
            break;
        char name[32], text[600];
        snprintf(name, sizeof name, "operands %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 150000);
        case_random_scores(&c, &r);
        if (n % 3 == 0)
            c.desc.has_bias = c.desc.mask != FOVEA_MASK_ADDITIVE;
        int at = snprintf(text, sizeof text, "%s: ", name);
        case_text(&c, text + at, sizeof text - (size_t)at);
        inputs *in = inputs_make(&c, &r);
        outputs *clean = outputs_make(&c, c.layout), *got = outputs_make(&c, c.layout);
        if (c.desc.kv_len > 0 && case_run(contexts.scalar, NULL, &c, in, clean)) {
            const bool tables = c.desc.relative > FOVEA_RELATIVE_ALIBI && tensor_elements(&in->args.relative) < 1 << 24;
            for (int round = 0; round < 3; round++) {
                const fv_attention_choice choice = choice_random(&r);
                changed[0] += poison_tensor(&c, in, &in->args.bias, false, &r);
                changed[1] += poison_tensor(&c, in, &in->args.mask, false, &r);
                changed[2] += tables ? poison_tensor(&c, in, &in->args.relative, true, &r) : 0;
                outputs_clear(got);
                if (case_run(round == 1 ? contexts.three : contexts.one, round == 2 ? &choice : NULL, &c, in, got))
                    outputs_same(got, clean, "with poison in what is not seen (%s)", text);
            }
        }
        inputs_free(in);
        outputs_free(clean);
        outputs_free(got);
    }
    printf("poison: %" PRId64 " elements of biases, %" PRId64 " of masks, %" PRId64 " of tables\n", changed[0],
           changed[1], changed[2]);
    test_check(changed[0] > 0 && changed[1] > 0 && changed[2] > 0, "poison proves nothing");
}

/* ---------------------------------------------------------------------------------------------- sinks and scales -- */

/* Head 0 has the sink, head 1 an ordinary one. Without keys, rows have their sink alone. */
static void check_sink(float sink, int64_t q_len, bool keys) {
    attention_case c = case_plain(1, 2, 1, q_len, 300, 8, 5);
    rng r = rng_stream(test_seed(), "sink");
    c.desc.has_sinks = 1;
    c.weights = true;
    c.kv_lens = true;
    inputs *in = inputs_make_given(&c, &r, NULL, (int64_t[]){keys ? 300 : 0}, NULL);
    outputs *got = outputs_make(&c, c.layout), *want = outputs_make(&c, c.layout);
    in->sinks[0] = sink;
    in->sinks[1] = 1.5f;
    case_run(contexts.one, NULL, &c, in, got);
    int64_t wrong = 0;
    for (int64_t i = 0; i < q_len; i++) {
        wrong += !keys && *tensor_row(&got->lse, 0, 1, i) != 1.5f;
        for (int64_t n = 0; n < 5; n++) {
            wrong += float_is_nan(tensor_row(&got->out, 0, 1, i)[n]);
            wrong += sink != -INFINITY && float_bits(tensor_row(&got->out, 0, 0, i)[n]) != CANONICAL_NAN;
        }
        for (int64_t j = 0; j < 300 && sink != -INFINITY; j++)
            wrong += float_bits(tensor_row(&got->weights, 0, 0, i)[j]) != (keys ? (uint32_t)CANONICAL_NAN : 0);
        wrong += sink != -INFINITY && float_bits(*tensor_row(&got->lse, 0, 0, i)) != CANONICAL_NAN;
    }
    test_check(wrong == 0, "a sink of %g, %" PRId64 " queries, %s: %" PRId64 " results are wrong", (double)sink, q_len,
               keys ? "keys" : "no keys", wrong);
    if (sink == -INFINITY) { /* as if there were none */
        in->sinks[1] = -INFINITY;
        case_run(contexts.one, NULL, &c, in, got);
        c.desc.has_sinks = 0;
        in->args.sinks = NULL;
        case_run(contexts.scalar, NULL, &c, in, want);
        outputs_same(got, want, "sinks of -inf, %" PRId64 " queries", q_len);
    }
    inputs_free(in);
    outputs_free(got);
    outputs_free(want);
}

static void test_sinks(void) {
    const float sinks[] = {INFINITY, bits_float(0xffc12345), -INFINITY};
    for (int i = 0; i < 3; i++)
        for (int64_t q_len = 1; q_len <= 40; q_len += 39)
            for (int keys = 0; keys < 2; keys++)
                check_sink(sinks[i], q_len, keys);
}

/* The same problem with a scale, and with another one and queries times a factor. */
static void check_scale(double scale, double other, float factor, int64_t q_len, double softcap) {
    attention_case c = case_plain(2, 4, 2, q_len, 300, 24, 16);
    rng r = rng_stream(test_seed(), "scale");
    c.weights = true;
    c.desc.has_scale = c.desc.has_bias = 1;
    c.desc.softcap = softcap;
    inputs *in = inputs_make(&c, &r);
    outputs *got = outputs_make(&c, c.layout), *want = outputs_make(&c, c.layout);
    c.desc.scale = scale;
    case_run(contexts.one, NULL, &c, in, got);
    c.desc.scale = other;
    for (int64_t i = 0; i < tensor_elements(&in->args.q); i++)
        ((float *)in->args.q.data)[i] *= factor;
    case_run(contexts.scalar, NULL, &c, in, want);
    outputs_same(got, want, "a scale of %g as one of %g and queries times %g", scale, other, (double)factor);
    inputs_free(in);
    outputs_free(got);
    outputs_free(want);
}

static void test_scales(void) {
    for (int64_t q_len = 1; q_len <= 70; q_len += 69)
        for (int cap = 0; cap < 2; cap++) {
            check_scale(-0.3, 0.3, -1.0f, q_len, cap * 2.0);
            check_scale(-1.0, 1.0, -1.0f, q_len, cap * 2.0);
            check_scale(0.0, 0.3, 0.0f, q_len, cap * 2.0);
            check_scale(-0.0, 1.0, 0.0f, q_len, cap * 2.0);
            check_scale(0x1p-140, 1.0, 0x1p-140f, q_len, cap * 2.0);
            check_scale(-0x1.8p20, 1.5, -0x1p20f, q_len, 0.0);
        }
}

/* ------------------------------------------------------------------------------------------------------- refused -- */

static void refused(const fovea_attention_plan *plan, const fovea_attention_args *args, const outputs *out,
                    const outputs *blank, fovea_status want, const char *words) {
    check_status(words, fovea_attention_execute(plan, args, NULL, 0), want, words);
    outputs_same(out, blank, "outputs after %s", words);
}

static void test_refused(void) {
    attention_case c = case_plain(2, 4, 2, 10, 20, 8, 8);
    rng r = rng_stream(test_seed(), "refused");
    c.desc.has_bias = c.desc.has_sinks = 1;
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, c.layout), *blank = outputs_make(&c, c.layout);
    fovea_attention_plan *plan;
    check_status("plan", fovea_attention_plan_create(contexts.one, &c.desc, &plan), FOVEA_OK, NULL);
    const fovea_attention_args good = case_args(in, out);
    fovea_attention_args args = good;
    args.sinks = NULL;
    refused(plan, &args, out, blank, FOVEA_ERROR_NULL, "sinks is NULL|has_sinks");
    args.sinks = out->out.data;
    refused(plan, &args, out, blank, FOVEA_ERROR_ALIAS, "out|sinks");
    args = good;
    args.bias.data = NULL;
    refused(plan, &args, out, blank, FOVEA_ERROR_NULL, "bias is NULL");
    args.bias.data = out->out.data;
    refused(plan, &args, out, blank, FOVEA_ERROR_ALIAS, "out|bias");
    static const char *const axes[] = {"bias: batch axis", "bias: head axis", "bias: token axis", "bias: channel axis"};
    for (int i = 0; i < 4; i++) {
        args = good;
        args.bias.shape[i]++;
        refused(plan, &args, out, blank, FOVEA_ERROR_SHAPE, axes[i]);
        args = good;
        args.bias.stride[i] = i == 3 ? 2 : -1;
        refused(plan, &args, out, blank, FOVEA_ERROR_STRIDE, "bias: ");
    }
    args = good;
    args.bias.dtype = FOVEA_DTYPE_BF16;
    refused(plan, &args, out, blank, FOVEA_ERROR_DTYPE, "bias: dtype is FOVEA_DTYPE_BF16");
    check_status("good", fovea_attention_execute(plan, &good, NULL, 0), FOVEA_OK, NULL);
    fovea_attention_plan_destroy(plan);
    outputs_free(out);
    outputs_free(blank);
    inputs_free(in);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "score_operands", NULL);
    contexts = contexts_make();
    test_poison();
    test_sinks();
    test_scales();
    test_refused();
    contexts_free(&contexts);
    return test_end();
}
