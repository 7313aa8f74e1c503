/* The work that the products of attention are asked for, which changes no result, so that no other test sees it wrong.
 * Here a plan's products are taken by ones that count.
 *
 *   skipped how many scores are computed, and values multiplied, where causality or a window leaves few of them:
 *           none outside the register tiles at the edge, whatever the tile
 *
 * Maxima of scores, which the product of scores gives (fv_epilogue.row_max) wherever all rows of a tile see its
 * columns:
 *
 *   asked   how many scores have their maxima from it: as many as can be, and none that nobody reads
 *   own     scores so far apart that a row which took the maximum of keys it does not see, or of the rows computed
 *           before, would give no number: all weight is on the last key that it sees */
#include "attention/plan/plan.h"
#include "attention_case.h"

#include <inttypes.h>

static int64_t computed, asked, multiplied;
static fv_multiply_fn *real_score, *real_few, *real_value;

static void score(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                  const fv_prefetch *prefetch) {
    computed += a->count * b->columns;
    asked += epilogue && epilogue->row_max ? a->count * b->columns : 0;
    real_score(a, b, c, ldc, epilogue, prefetch);
}

static void few(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                const fv_prefetch *prefetch) {
    computed += a->count * b->columns;
    asked += epilogue && epilogue->row_max ? a->count * b->columns : 0;
    real_few(a, b, c, ldc, epilogue, prefetch);
}

static void value(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                  const fv_prefetch *prefetch) {
    multiplied += a->count * b->columns * b->steps;
    real_value(a, b, c, ldc, epilogue, prefetch);
}

/* Puts a function in place of a source's product. */
static void watch_product(const fv_kernel **product, fv_kernel *spy, fv_multiply_fn **real, fv_multiply_fn *instead) {
    if (!*product)
        return;
    *spy = **product;
    *real = spy->run.multiply;
    spy->run.multiply = instead;
    *product = spy;
}

/* Runs a problem, a head being one block of such tiles. Keys of a packed panel, and rows that share what they compute
 * at an edge; 0 if it failed. */
static int64_t count_by(const fovea_context *ctx, const attention_case *c, int64_t tile_rows, int64_t *edge_rows) {
    const fv_attention_choice choice = {.block_rows = c->desc.q_len, .tile_rows = tile_rows, .split_segments = -1};
    rng r = rng_stream(test_seed(), "asked");
    inputs *in = inputs_make(c, &r);
    outputs *out = outputs_make(c, c->layout);
    fovea_attention_plan *plan;
    char text[512];
    int64_t panel = 0;
    computed = asked = multiplied = *edge_rows = 0;
    const fovea_status status = fv_attention_plan_create_chosen(ctx, &c->desc, &choice, &plan);
    if (test_check(status == FOVEA_OK, "plan: %s (%s)", fovea_error_detail(), case_text(c, text, sizeof text))) {
        panel = plan->panel;
        *edge_rows = plan->edge_rows;
        fv_kernel spies[4];
        watch_product(&plan->sources.k[FV_KEYS_floats], &spies[0], &real_score, score);
        watch_product(&plan->sources.k[FV_KEYS_rows], &spies[1], &real_few, few);
        watch_product(&plan->sources.v[FV_VALUES_rows], &spies[2], &real_value, value);
        watch_product(&plan->sources.v[FV_VALUES_floats], &spies[3], &real_value, value);
        const fovea_attention_args args = case_args(in, out);
        test_check(fovea_attention_execute(plan, &args, NULL, 0) == FOVEA_OK, "execute: %s", fovea_error_detail());
        fovea_attention_plan_destroy(plan);
    }
    inputs_free(in);
    outputs_free(out);
    return panel;
}

/* As one tile a head. */
static int64_t count(const fovea_context *ctx, const attention_case *c) {
    int64_t edge_rows;
    return count_by(ctx, c, c->desc.q_len, &edge_rows);
}

/* Query i sees keys from i - left to i; the rows of an edge begin with the first one's keys and end with the last
 * one's.
 */
static void check_skipped(const fovea_context *ctx, int64_t length, int64_t left, int64_t tile_rows) {
    enum { CHANNELS = 16 };
    attention_case c = case_plain(1, 2, 2, length, length, 64, CHANNELS);
    c.desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    c.desc.window_left = left;
    int64_t edge_rows, seen = 0, scores = 0, values = 0;
    if (!count_by(ctx, &c, tile_rows, &edge_rows))
        return;
    for (int64_t i = 0; i < length; i++) {
        const int64_t most = edge_rows - 1;
        const int64_t begin = left < 0 || i - most < left ? 0 : i - most - left;
        const int64_t end = i + most < length ? i + most + 1 : length;
        seen += left < 0 || i < left ? i + 1 : left + 1;
        scores += (end + FV_LANES - 1) / FV_LANES * FV_LANES - begin / FV_LANES * FV_LANES;
        values += (end - begin) * CHANNELS;
    }
    test_check(computed >= 2 * seen && computed <= 2 * scores,
               "%" PRId64 " queries, window %" PRId64 ", tiles of %" PRId64 ": %" PRId64 " scores, not %" PRId64
               " to %" PRId64,
               length, left, tile_rows, computed, 2 * seen, 2 * scores);
    test_check(multiplied >= 2 * CHANNELS * seen && multiplied <= 2 * values,
               "%" PRId64 " queries, window %" PRId64 ", tiles of %" PRId64 ": %" PRId64 " values, not %" PRId64
               " to %" PRId64,
               length, left, tile_rows, multiplied, 2 * CHANNELS * seen, 2 * values);
}

static void test_skipped(const fovea_context *ctx) {
    for (int64_t tile_rows = 8; tile_rows <= 512; tile_rows *= 4)
        for (int64_t left = -1; left < 400; left += 130) {
            check_skipped(ctx, 200, left, tile_rows);
            check_skipped(ctx, 600, left, tile_rows);
        }
}

static void check_asked(const char *what, int64_t want_asked, int64_t want_computed) {
    test_check(asked == want_asked, "%s: %" PRId64 " scores have their maxima from the product, not %" PRId64, what,
               asked, want_asked);
    test_check(computed >= want_computed, "%s: %" PRId64 " scores, not %" PRId64, what, computed, want_computed);
}

static void test_asked(const fovea_context *ctx) {
    enum { ROWS = 144, LONG = 512, ODD = 500, SEEN = 385 };
    attention_case c = case_plain(1, 2, 2, ROWS, LONG, 64, 64);
    count(ctx, &c);
    check_asked("all", 2 * ROWS * LONG, 2 * ROWS * LONG);
    c.weights = true; /* a second pass over the scores, which asks for none */
    count(ctx, &c);
    check_asked("weights", 2 * ROWS * LONG, 4 * ROWS * LONG);
    c = case_plain(1, 2, 2, ROWS, ODD, 64, 64);
    int64_t panel = count(ctx, &c), last = ODD - FV_SEGMENT;
    if (panel)
        check_asked("odd", 2 * ROWS * (ODD - last % panel), 2 * ROWS * ODD);
    c = case_plain(1, 2, 2, ROWS, SEEN + ROWS - 1, 64, 64); /* its first row sees that many keys */
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    panel = count(ctx, &c), last = SEEN - FV_SEGMENT;
    if (panel)
        check_asked("causal", 2 * ROWS * (SEEN - last % panel), 2 * ROWS * SEEN);
    c = case_plain(1, 2, 2, 1, LONG, 64, 64);
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    c.desc.window_left = 5 * FV_LANES - 1;
    count(ctx, &c);
    check_asked("window", 2 * 5 * FV_LANES, 2 * 5 * FV_LANES);
    c.desc.window_left += 3; /* its first key is within a granule */
    count(ctx, &c);
    check_asked("odd window", 0, 2 * 5 * FV_LANES);
    c = case_plain(1, 2, 2, ROWS, LONG, 64, 64);
    c.desc.mask = FOVEA_MASK_ADDITIVE;
    c.mask_density = 1.0F;
    count(ctx, &c);
    check_asked("additive", 0, 2 * ROWS * LONG);
    c.desc.mask = FOVEA_MASK_BOOLEAN; /* which masks nothing */
    count(ctx, &c);
    check_asked("boolean, all", 2 * ROWS * LONG, 2 * ROWS * LONG);
    c.mask_density = 0.5F;
    count(ctx, &c);
    check_asked("boolean, some", 0, 2 * ROWS * LONG);
}

/* Query i sees no key behind i + offset, and each key's score is by far higher than that of the key before: the output
 * is the value of the last one that it sees. All scores are far below 0, as a maximum of none or sums of weights are
 * not. */
static void check_own(const fovea_context *ctx, const char *what, const attention_case *c, int64_t tile_rows) {
    const fovea_attention_desc *d = &c->desc;
    const fv_attention_choice choice = {.tile_rows = tile_rows, .split_segments = -1};
    rng r = rng_stream(test_seed(), "own");
    inputs *in = inputs_make(c, &r);
    outputs *out = outputs_make(c, c->layout);
    for (int64_t h = 0; h < d->kv_heads; h++)
        for (int64_t j = 0; j < d->kv_len; j++)
            for (int64_t x = 0; x < d->head_dim; x++) {
                tensor_row(&in->args.k, 0, h, j)[x] = x == 0 ? (float)(j - 2 * FV_SEGMENT) : 0.0F;
                tensor_row(&in->args.v, 0, h, j)[x] = (float)(j + 1);
            }
    for (int64_t h = 0; h < d->q_heads; h++)
        for (int64_t i = 0; i < d->q_len; i++)
            for (int64_t x = 0; x < d->head_dim; x++)
                tensor_row(&in->args.q, 0, h, i)[x] = x == 0 ? 4096.0F : 0.0F;
    if (case_run(ctx, &choice, c, in, out))
        for (int64_t h = 0; h < d->q_heads; h++)
            for (int64_t i = 0; i < d->q_len; i++) {
                const float got = tensor_row(&out->out, 0, h, i)[0], want = (float)(d->kv_len - d->q_len + i + 1);
                test_check(got == want, "%s: head %" PRId64 ", query %" PRId64 ": %g, not %g", what, h, i, (double)got,
                           (double)want);
            }
    inputs_free(in);
    outputs_free(out);
}

static void test_own(const fovea_context *ctx) {
    attention_case c = case_plain(1, 4, 4, 144, 512, 16, 16);
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    check_own(ctx, "causal", &c, 0);
    c = case_plain(1, 4, 1, 120, 120, 16, 16); /* the second tile: queries 96 to 119, then 0 to 71 */
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    check_own(ctx, "rows of several heads", &c, 96);
    c = case_plain(1, 4, 4, 1, 512, 16, 16);
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    c.desc.window_left = 63; /* begins behind the first panel */
    check_own(ctx, "window", &c, 0);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "product_work", NULL);
    fovea_context *ctx = context_of(test_isa(), 1, NULL);
    test_skipped(ctx);
    test_asked(ctx);
    test_own(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
