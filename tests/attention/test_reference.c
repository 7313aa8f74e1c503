/* Random attention problems of every kind, freely combined, checked in three ways:
 *
 *   tiers    the tier under test, with the planner's tiles and with random ones, on one thread or three, against the
 *            scalar tier: every byte of out, lse and weights
 *   literal  the scalar tier against the arithmetic of kernels/kernels.h written down word by word: every byte
 *   float64  the scalar tier against float64, by the bound that reference.c derives
 *
 * Then each feature alone and each pair of features that go together, likewise.
 *
 * --case N runs the one case N, --cases N the first N. The end of the run tells how much of the bound was used, and
 * fails if the cases were such that they prove little: too many zeros, too many rows whose bound means nothing. */
#include "attention_case.h"
#include "dispatch/dispatch.h"
#include "reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 1000, WORK = 1500000 };

static struct {
    int64_t rows, trusted_rows, empty_rows, values, zeros;
    double most_of_bound; /* largest error / bound */
    double most_scaled;   /* largest error of out / (eps * sum of weight |v|), of ordinary values */
} seen;

static float scalar_exp(float x) {
    static const fv_kernel *row;
    if (row == NULL)
        row = fv_kernel_scalar(FV_OP_exp, FV_TYPE_f32);
    float y;
    row->run.exp_f32(1, &x, &y);
    return y;
}

static float scalar_softcap(float factor, float cap, float s) {
    float lanes[FV_LANES] = {s};
    fv_kernel_scalar(FV_OP_softcap, FV_TYPE_f32)->run.softcap_f32(1, FV_LANES, factor, cap, lanes, FV_LANES);
    return lanes[0];
}

/* One value against float64. Returns whether it is within its bound. */
static bool within(float got, double want, double bound) {
    if (isinf(want))
        return (double)got == want;
    double error = fabs((double)got - want);
    if (error > 0 && error / bound > seen.most_of_bound)
        seen.most_of_bound = error / bound;
    return error <= bound; /* false for NaN */
}

static void check_row_float64(const attention_case *c, const outputs *out, int64_t b, int64_t h, int64_t i,
                              const reference_result *want, const char *text) {
    const fovea_attention_desc *d = &c->desc;
    const float *row = tensor_row(&out->out, b, h, i);
    seen.rows++;
    seen.empty_rows += want->attended == 0;
    seen.trusted_rows += want->trusted;
    for (int64_t n = 0; n < d->value_dim; n++) {
        seen.values++;
        seen.zeros += row[n] == 0;
    }
    if (!want->trusted)
        return;
    int64_t wrong = -1;
    for (int64_t n = 0; n < d->value_dim; n++) {
        if (!within(row[n], want->out[n], want->out_bound[n]))
            wrong = n;
        double scaled = fabs((double)row[n] - want->out[n]) / (0x1p-23 * want->magnitude[n]);
        if (c->values == VALUES_RANDOM && want->attended && !d->has_sinks && scaled > seen.most_scaled)
            seen.most_scaled = scaled;
    }
    test_check(
        wrong < 0,
        "out[%" PRId64 "][%" PRId64 "][%" PRId64 "][%" PRId64 "] = %.9g, float64 %.17g, error %.3g, bound %.3g (%s)", b,
        h, i, wrong, wrong < 0 ? 0 : (double)row[wrong], wrong < 0 ? 0 : want->out[wrong],
        wrong < 0 ? 0 : fabs((double)row[wrong] - want->out[wrong]), wrong < 0 ? 0 : want->out_bound[wrong], text);
    if (c->lse) {
        float lse = *tensor_row(&out->lse, b, h, i);
        test_check(within(lse, want->lse, want->lse_bound),
                   "lse[%" PRId64 "][%" PRId64 "][%" PRId64 "] = %.9g, float64 %.17g, bound %.3g (%s)", b, h, i,
                   (double)lse, want->lse, want->lse_bound, text);
    }
    if (c->weights) {
        const float *weights = tensor_row(&out->weights, b, h, i);
        wrong = -1;
        for (int64_t j = 0; j < d->kv_len; j++)
            if (!within(weights[j], want->weights[j], want->weights_bound[j]))
                wrong = j;
        test_check(wrong < 0,
                   "weights[%" PRId64 "][%" PRId64 "][%" PRId64 "][%" PRId64 "] = %.9g, float64 %.17g, bound %.3g (%s)",
                   b, h, i, wrong, wrong < 0 ? 0 : (double)weights[wrong], wrong < 0 ? 0 : want->weights[wrong],
                   wrong < 0 ? 0 : want->weights_bound[wrong], text);
    }
}

static void check_row_literal(const attention_case *c, const inputs *in, const outputs *out, int64_t b, int64_t h,
                              int64_t i, float *expected, const char *text) {
    const fovea_attention_desc *d = &c->desc;
    float *weights = expected + d->value_dim;
    float lse = c->lse ? *tensor_row(&out->lse, b, h, i) : 0;
    static const literal_kernels kernels = {scalar_exp, scalar_softcap};
    literal_row(d, &in->args, b, h, i, &kernels, lse, expected, c->lse && c->weights ? weights : NULL);
    test_same(tensor_row(&out->out, b, h, i), expected, d->value_dim,
              "literal out[%" PRId64 "][%" PRId64 "][%" PRId64 "] (%s)", b, h, i, text);
    if (c->lse && c->weights)
        test_same(tensor_row(&out->weights, b, h, i), weights, d->kv_len,
                  "literal weights[%" PRId64 "][%" PRId64 "][%" PRId64 "] (%s)", b, h, i, text);
}

/* Rows of a case: all of a small one, else some, so that the checks cost no more than the library. */
static void check_rows(const attention_case *c, const inputs *in, const outputs *out, rng *r, const char *text) {
    const fovea_attention_desc *d = &c->desc;
    int64_t rows = d->batch * d->q_heads * d->q_len;
    int64_t checked = rows < 40 ? rows : 40;
    float *expected = must_alloc(d->value_dim + d->kv_len, sizeof *expected);
    reference_result want;
    reference_alloc(&want, d);
    for (int64_t n = 0; n < checked; n++) {
        int64_t row = rows == checked ? n : rng_below(r, rows);
        int64_t b = row / d->q_len / d->q_heads, h = row / d->q_len % d->q_heads, i = row % d->q_len;
        check_row_literal(c, in, out, b, h, i, expected, text);
        reference_row(d, &in->args, b, h, i, &want);
        check_row_float64(c, out, b, h, i, &want, text);
    }
    reference_free(&want);
    free(expected);
}

static void check_case(const attention_case *c, rng *r, const char *name, fovea_context *scalar,
                       fovea_context *const tier[2]) {
    char text[600];
    int at = snprintf(text, sizeof text, "%s: ", name);
    case_text(c, text + at, sizeof text - (size_t)at);
    inputs *in = inputs_make(c, r);
    outputs *want = outputs_make(c, c->layout), *got = outputs_make(c, c->layout);
    if (case_run(scalar, NULL, c, in, want)) {
        check_rows(c, in, want, r, text);
        for (int n = 0; n < 3; n++) {
            fv_attention_choice choice = choice_random(r);
            outputs_clear(got);
            if (case_run(tier[rng_below(r, 2)], n == 0 ? NULL : &choice, c, in, got))
                outputs_same(got, want, "tile %s, %s, %" PRId64 ", %" PRId64 ", %" PRId64 ", caches %" PRId64 " (%s)",
                             n == 0 ? "default" : choice.score->name, choice.value->name, choice.block_rows,
                             choice.tile_rows, choice.split_segments, choice.cache_scale, text);
        }
    }
    outputs_free(want);
    outputs_free(got);
    inputs_free(in);
}

static void run_case(int64_t number, fovea_context *scalar, fovea_context *const tier[2]) {
    char name[32];
    snprintf(name, sizeof name, "reference %" PRId64, number);
    rng r = rng_stream(test_seed(), name);
    attention_case c = case_random(&r, WORK);
    if (number % 2)
        case_random_scores(&c, &r);
    snprintf(name, sizeof name, "--case %" PRId64, number);
    check_case(&c, &r, name, scalar, tier);
}

/* The features of case_feature(), those that say which keys are visible, and where sequences are. */
enum { TOP_LEFT = CASE_FEATURES, BOTTOM_RIGHT, OFFSET, WINDOW, Q_LENS, KV_LENS, ONE_QUERY, ODD, FEATURES };

static void add_feature(attention_case *c, int i) {
    fovea_attention_desc *d = &c->desc;
    switch (i) {
    case TOP_LEFT: d->causal = FOVEA_CAUSAL_TOP_LEFT; break;
    case BOTTOM_RIGHT: d->causal = FOVEA_CAUSAL_BOTTOM_RIGHT; break;
    case OFFSET: d->causal = FOVEA_CAUSAL_OFFSET, c->q_offsets = true; break;
    case WINDOW: d->window_left = 40, d->window_right = 200; break;
    case Q_LENS: c->q_lens = true; break;
    case KV_LENS: c->kv_lens = true; break;
    case ONE_QUERY: d->q_len = 1; break;
    case ODD: c->layout = LAYOUT_ODD; break;
    default: case_feature(c, i);
    }
}

/* Two of one kind, or what the library refuses. */
static bool exclusive(const attention_case *one, const attention_case *other) {
    const fovea_attention_desc *a = &one->desc, *b = &other->desc;
    const bool moved = a->causal > FOVEA_CAUSAL_TOP_LEFT || b->causal > FOVEA_CAUSAL_TOP_LEFT;
    const bool window_2d = a->relative == FOVEA_RELATIVE_WINDOW_2D || b->relative == FOVEA_RELATIVE_WINDOW_2D;
    return (a->mask && b->mask) || (a->relative && b->relative) || (a->causal && b->causal) || (moved && window_2d) ||
           (a->mask == FOVEA_MASK_ADDITIVE && b->has_bias) || (b->mask == FOVEA_MASK_ADDITIVE && a->has_bias);
}

/* Each feature alone (one == other), and each pair. */
static void run_pairs(fovea_context *scalar, fovea_context *const tier[2]) {
    int64_t count = 0, pair = 0;
    for (int one = 0; one < FEATURES; one++)
        for (int other = one; other < FEATURES; other++) {
            attention_case c = case_plain(2, 4, 2, 9, 300, 8, 12), a = c, b = c;
            char name[48];
            add_feature(&a, one);
            add_feature(&b, other);
            if (one != other && exclusive(&a, &b))
                continue;
            if (one != other && !test_takes(pair++))
                continue;
            c.weights = true;
            add_feature(&c, one);
            add_feature(&c, other);
            snprintf(name, sizeof name, "features %d and %d", one, other);
            rng r = rng_stream(test_seed(), name);
            check_case(&c, &r, name, scalar, tier);
            count++;
        }
    test_check(count > FEATURES * FEATURES / 3 || test_scaled(100) < 100, "%" PRId64 " pairs of %d features", count,
               (int)FEATURES);
}

int main(int argc, char **argv) {
    test_option options[] = {{"--case", "N", "only the case N", NULL},
                             {"--cases", "N", "how many cases (default 1000, scaled by FOVEA_TEST_SCALE)", NULL},
                             {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "reference", options);
    const char *one = test_option_value(options, "--case"), *some = test_option_value(options, "--cases");
    const case_contexts x = contexts_make();
    fovea_context *tier[2] = {x.one, x.three};

    int64_t first = one ? atoll(one) : 0, count = one ? 1 : some ? atoll(some) : test_scaled(CASES);
    for (int64_t n = first; n < first + count; n++)
        run_case(n, x.scalar, tier);
    if (one == NULL)
        run_pairs(x.scalar, tier);

    contexts_free(&x);
    printf("%" PRId64 " rows against float64: %" PRId64 " empty, %" PRId64
           " trusted; largest error %.3f of its bound, %.2f * eps * sum(p|v|) for ordinary values\n",
           seen.rows, seen.empty_rows, seen.trusted_rows, seen.most_of_bound, seen.most_scaled);
    if (one == NULL) {
        test_check(seen.zeros * 2 < seen.values, "%" PRId64 " of %" PRId64 " outputs are 0: the cases prove little",
                   seen.zeros, seen.values);
        test_check(seen.trusted_rows * 10 > seen.rows * 7,
                   "only %" PRId64 " of %" PRId64 " rows have a bound that means "
                   "something",
                   seen.trusted_rows, seen.rows);
    }
    return test_end();
}
