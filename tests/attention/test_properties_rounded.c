/* Laws of attention that hold within rounding: scores shifted; keys permuted within their segment; two parts of the
 * keys merged by their lse. The bounds of reference.h say how far rounding may go, for either side. */
#include "reference.h"
#include "solution.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static fovea_context *ctx;

/* How the results of y follow from those of x. */
typedef struct relation {
    const char *what;
    const int64_t *order; /* key j of y is key order[j] of x; NULL: key j */
    const float *shift;   /* [row]: its scores in y are so much higher; NULL: they are not */
    bool exact;           /* out is the same to the bit */
} relation;

/* a == b also where both are infinite. */
static bool is_near(double a, double b, double bound) { return a == b || fabs(a - b) <= bound; }

/* A row of each, and what it is in float64: with a bound of how far off float32 may be. */
typedef struct near_row {
    const float *out, *lse, *weights;
    reference_result exact;
} near_row;

static void near_row_find(near_row *r, const solution *x, int64_t row) {
    const fovea_attention_desc *d = &x->c.desc;
    const int64_t b = row / d->q_len / d->q_heads, h = row / d->q_len % d->q_heads, i = row % d->q_len;
    r->out = tensor_row(&x->out->out, b, h, i);
    r->lse = tensor_row(&x->out->lse, b, h, i);
    r->weights = x->c.weights ? tensor_row(&x->out->weights, b, h, i) : NULL;
    reference_row(d, &x->in->args, b, h, i, &r->exact);
}

static bool rows_near(const relation *how, const near_row *x, const near_row *y, float shift,
                      const fovea_attention_desc *d) {
    bool ok = is_near((double)*y->lse, (double)*x->lse + (double)shift, x->exact.lse_bound + y->exact.lse_bound);
    for (int64_t c = 0; c < d->value_dim; c++)
        ok = ok && is_near((double)x->out[c], (double)y->out[c],
                           how->exact ? 0 : x->exact.out_bound[c] + y->exact.out_bound[c]);
    for (int64_t j = 0; x->weights && j < d->kv_len; j++) {
        const int64_t from = how->order ? how->order[j] : j;
        ok = ok && is_near((double)x->weights[from], (double)y->weights[j],
                           x->exact.weights_bound[from] + y->exact.weights_bound[j]);
    }
    return ok;
}

/* One check. Returns the rows that see several keys: without any, it proved nothing. */
static int64_t check_near(const relation *how, const solution *x, const solution *y) {
    const fovea_attention_desc *d = &x->c.desc;
    near_row p, q;
    char text[512];
    int64_t wrong = 0, telling = 0;
    reference_alloc(&p.exact, d);
    reference_alloc(&q.exact, d);
    for (int64_t row = 0; row < d->batch * d->q_heads * d->q_len; row++) {
        near_row_find(&p, x, row);
        near_row_find(&q, y, row);
        if (!p.exact.trusted || !q.exact.trusted)
            continue;
        wrong += !rows_near(how, &p, &q, how->shift ? how->shift[row] : 0, d);
        telling += p.exact.attended > 1;
    }
    reference_free(&p.exact);
    reference_free(&q.exact);
    test_check(wrong == 0, "%s: %" PRId64 " rows differ by more than rounding (%s)", how->what, wrong,
               case_text(&x->c, text, sizeof text));
    return telling;
}

/* Anything of random values, with lse. Its stream has a name and a number. */
static attention_case random_case(const char *name, int64_t number, rng *r) {
    char stream[64];
    snprintf(stream, sizeof stream, "%s %" PRId64, name, number);
    *r = rng_stream(test_seed(), stream);
    attention_case c = case_random(r, 100000);
    c.values = VALUES_RANDOM;
    c.lse = true;
    memset(c.mask_repeats, 0, sizeof c.mask_repeats);
    return c;
}

static int64_t rows_of(const fovea_tensor *t) { return t->shape[0] * t->shape[1] * t->shape[2]; }

static float *row_of(const fovea_tensor *t, int64_t row) {
    return tensor_row(t, row / t->shape[2] / t->shape[1], row / t->shape[2] % t->shape[1], row % t->shape[2]);
}

/* To multiples of step, a power of two; infinities stay. */
static void round_all(const fovea_tensor *t, float step) {
    for (int64_t row = 0; row < rows_of(t); row++)
        for (int64_t c = 0; c < t->shape[3]; c++)
            row_of(t, row)[c] = rintf(row_of(t, row)[c] / step) * step;
}

/* All scores of a row higher by a constant of its own, which an additive mask says: the softmax is the same, lse higher
 * by the constant. Masks and constants are multiples of 1/4, so what they add up to is exact; where scores are of few
 * bits, too, so is every sum: no bit of out changes then. */
static void test_shifted(void) {
    int64_t telling[2] = {0, 0};
    for (int64_t n = 0, count = 10 + test_scaled(70); n < count; n++) {
        const bool exact = n % 2;
        rng r;
        attention_case c = random_case("shifted", n, &r);
        c.desc.mask = FOVEA_MASK_ADDITIVE;
        if (exact)
            c.desc.has_scale = 1;
        c.desc.scale = 0.0625;
        inputs *in = inputs_make(&c, &r);
        if (exact) {
            round_all(&in->args.q, 0.125F);
            round_all(&in->args.k, 0.125F);
        }
        round_all(&in->args.mask, 0.25F);
        solution x = solve(ctx, c, in);
        solution y = {c, same_values(&c, &x), outputs_make(&c, c.layout)};
        const fovea_tensor *from = &x.in->args.mask, *to = &y.in->args.mask;
        float *shift = must_alloc(rows_of(from), sizeof *shift);
        for (int64_t row = 0; row < rows_of(from); row++) {
            shift[row] = (float)rng_between(&r, -256, 256) / 4;
            for (int64_t j = 0; j < c.desc.kv_len; j++)
                row_of(to, row)[j] = row_of(from, row)[j] + shift[row];
        }
        case_run(ctx, NULL, &y.c, y.in, y.out);
        const relation how = {.what = exact ? "shifted exactly" : "shifted", .shift = shift, .exact = exact};
        telling[exact] += check_near(&how, &x, &y);
        free(shift);
        forget(&y);
        forget(&x);
    }
    test_check(telling[0] > 0 && telling[1] > 0, "no row of several keys was shifted");
}

/* Each key to any place of its segment. */
static int64_t *shuffled(int64_t keys, rng *r) {
    int64_t *order = must_alloc(keys, sizeof *order);
    for (int64_t j = 0; j < keys; j++) {
        const int64_t other = rng_between(r, j - j % FV_SEGMENT, j);
        order[j] = order[other];
        order[other] = j;
    }
    return order;
}

/* Keys, values and what a mask says of them change places within a segment: the same sums in another order. */
static void test_keys_permuted(void) {
    int64_t telling = 0;
    for (int64_t n = 0, count = 10 + test_scaled(50); n < count; n++) {
        rng r;
        attention_case c = random_case("keys permuted", n, &r);
        c.desc.causal = FOVEA_CAUSAL_NONE; /* nothing may depend on where a key is */
        c.desc.window_left = c.desc.window_right = -1;
        c.q_offsets = c.kv_lens = false;
        c.desc.mask = rng_below(&r, 2) ? FOVEA_MASK_ADDITIVE : FOVEA_MASK_NONE;
        solution x = solve(ctx, c, inputs_make(&c, &r));
        solution y = {c, same_values(&c, &x), outputs_make(&c, c.layout)};
        int64_t *order = shuffled(c.desc.kv_len, &r);
        const fovea_tensor *from[] = {&x.in->args.k, &x.in->args.v}, *to[] = {&y.in->args.k, &y.in->args.v};
        for (int t = 0; t < 2; t++)
            for (int64_t row = 0; row < rows_of(to[t]); row++) {
                const int64_t key = row % c.desc.kv_len;
                memcpy(row_of(to[t], row), row_of(from[t], row - key + order[key]),
                       (size_t)to[t]->shape[3] * sizeof(float));
            }
        const fovea_tensor *mask = &x.in->args.mask;
        for (int64_t row = 0; mask->data && row < rows_of(mask); row++)
            for (int64_t j = 0; j < c.desc.kv_len; j++)
                row_of(&y.in->args.mask, row)[j] = row_of(mask, row)[order[j]];
        case_run(ctx, NULL, &y.c, y.in, y.out);
        telling += check_near(&(relation){.what = "keys permuted", .order = order}, &x, &y);
        free(order);
        forget(&y);
        forget(&x);
    }
    test_check(telling > 0, "no row of several keys was permuted");
}

/* Attention over keys [first, first + keys) of x; lens and offsets[batch] hold what it takes of them. The memory is
 * x's, but for the outputs. */
static solution solve_part(const solution *x, inputs *in, int64_t first, int64_t keys, int64_t *lens,
                           int64_t *offsets) {
    attention_case c = x->c;
    c.desc.kv_len = keys;
    *in = *x->in;
    in->args.k = tensor_tokens(in->args.k, first, keys);
    in->args.v = tensor_tokens(in->args.v, first, keys);
    if (in->args.mask.data) {
        const size_t element = in->args.mask.dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
        in->args.mask.data = (char *)in->args.mask.data + (size_t)first * element;
        in->args.mask.shape[3] = keys;
    }
    for (int64_t b = 0; b < c.desc.batch; b++) {
        const int64_t left = c.kv_lens ? x->in->kv_lens[b] - first : keys;
        lens[b] = left < 0 ? 0 : left < keys ? left : keys;
        offsets[b] = x->in->q_offsets[b] - first;
    }
    in->args.kv_lens = c.kv_lens ? lens : NULL;
    in->args.q_offsets = offsets;
    return solve(ctx, c, in);
}

/* The share of the first of two parts in a row, and what they have in common, by their lse. */
static double share_of_first(double first, double second, double *lse) {
    const double highest = fmax(first, second);
    *lse = highest;
    if (highest == -INFINITY)
        return 0;
    const double a = exp(first - highest), b = exp(second - highest);
    *lse += log(a + b);
    return a / (a + b);
}

/* A row of two parts p and q merged against the whole w. The share of a part is a logistic function of the difference
 * of their lse, so that it is off by at most a quarter of what those are; lse by no more than the worse of the two. */
static bool merge_near(const near_row *p, const near_row *q, const near_row *w, int64_t value_dim) {
    double lse;
    const double first = share_of_first((double)*p->lse, (double)*q->lse, &lse), second = 1 - first;
    const double off = (p->exact.lse_bound + q->exact.lse_bound) / 4;
    bool ok = is_near((double)*w->lse, lse, fmax(p->exact.lse_bound, q->exact.lse_bound) + w->exact.lse_bound);
    for (int64_t c = 0; c < value_dim; c++) {
        const double a = (double)p->out[c], b = (double)q->out[c];
        const double a_bound = p->exact.out_bound[c], b_bound = q->exact.out_bound[c];
        const double bound = first * a_bound + second * b_bound + off * (fabs(a - b) + a_bound + b_bound);
        ok = ok && is_near((double)w->out[c], first * a + second * b, bound + w->exact.out_bound[c]);
    }
    return ok;
}

/* Attention over two parts of the keys, merged by their lse, is attention over all of them: to rounding only, as out is
 * divided by the sum already and lse is rounded. The parts end at a boundary of segments or anywhere. */
static void test_merged(void) {
    int64_t telling = 0;
    for (int64_t n = 0, count = 10 + test_scaled(70); n < count; n++) {
        rng r;
        attention_case c = random_case("merged", n, &r);
        const int64_t keys = c.desc.kv_len;
        if (keys < 2)
            continue;
        c.desc.causal = rng_below(&r, 2) ? FOVEA_CAUSAL_OFFSET : FOVEA_CAUSAL_NONE; /* the first key moves */
        c.q_offsets = true;
        const int64_t cut = keys > FV_SEGMENT && rng_below(&r, 2)
                                ? rng_between(&r, 1, (keys - 1) / FV_SEGMENT) * FV_SEGMENT
                                : rng_between(&r, 1, keys - 1);
        solution x = solve(ctx, c, inputs_make(&c, &r));
        inputs in[2];
        int64_t lens[2][3], offsets[2][3], wrong = 0;
        const solution parts[2] = {solve_part(&x, &in[0], 0, cut, lens[0], offsets[0]),
                                   solve_part(&x, &in[1], cut, keys - cut, lens[1], offsets[1])};
        near_row whole, part[2];
        reference_alloc(&whole.exact, &c.desc);
        for (int i = 0; i < 2; i++)
            reference_alloc(&part[i].exact, &parts[i].c.desc);
        for (int64_t row = 0; row < c.desc.batch * c.desc.q_heads * c.desc.q_len; row++) {
            near_row_find(&whole, &x, row);
            for (int i = 0; i < 2; i++)
                near_row_find(&part[i], &parts[i], row);
            if (!whole.exact.trusted || !part[0].exact.trusted || !part[1].exact.trusted)
                continue;
            wrong += !merge_near(&part[0], &part[1], &whole, c.desc.value_dim);
            telling += part[0].exact.attended > 0 && part[1].exact.attended > 0;
        }
        char text[512];
        test_check(wrong == 0, "keys before and from %" PRId64 " on merged: %" PRId64 " rows differ (%s)", cut, wrong,
                   case_text(&c, text, sizeof text));
        reference_free(&whole.exact);
        for (int i = 0; i < 2; i++) {
            reference_free(&part[i].exact);
            outputs_free(parts[i].out);
        }
        forget(&x);
    }
    test_check(telling > 0, "no row had keys in both parts");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "properties_rounded", NULL);
    thread_pool *p = thread_pool_create(2);
    ctx = context_of(FOVEA_ISA_BEST, 2, p);
    test_shifted();
    test_keys_permuted();
    test_merged();
    fovea_context_destroy(ctx);
    thread_pool_destroy(p);
    return test_end();
}
