/* fovea_experts_route: random routers against float64, ties among them; the same bits on every tier, in any batch and
 * from logits in fovea_experts_apply(); infinities and NaN. */
#include "attention_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 400, MOST = 64 };

typedef struct route_case {
    char title[200];
    fovea_router router;
    int64_t experts, batch, tokens;
    fovea_tensor logits;
    float *floats; /* the same numbers */
    float bias[MOST];
} route_case;

static void make(route_case *c, rng *r) {
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};
    fovea_router *o = &c->router;
    fovea_router_init(o);
    o->groups = rng_below(r, 2) ? 1 : rng_between(r, 1, 8);
    c->experts = o->groups * rng_between(r, o->groups > 1 ? 2 : 1, 8);
    o->groups_used = rng_between(r, 1, o->groups);
    o->k = rng_between(r, 1, c->experts / o->groups * o->groups_used);
    o->score = (fovea_router_score)rng_below(r, 2);
    o->after_top_k = (int)rng_below(r, 2);
    o->group_score = (fovea_group_score)rng_below(r, 2);
    o->denominator = (fovea_denominator)rng_below(r, 3);
    o->eps = o->denominator == FOVEA_DENOMINATOR_SUM ? (rng_below(r, 2) ? 0 : 0.25) : 6.103515625e-5;
    o->scale = rng_below(r, 2) ? 1 : 2.5;
    for (int e = 0; e < MOST; e++)
        c->bias[e] = (float)rng_between(r, -2, 2) / 8;
    o->bias = rng_below(r, 2) ? c->bias : NULL;
    c->batch = rng_between(r, 1, 2);
    c->tokens = rng_between(r, 1, 20);
    const int64_t n = c->batch * c->tokens * c->experts;
    const fovea_dtype dtype = types[rng_below(r, 3)];
    c->floats = must_alloc(n, sizeof *c->floats);
    for (int64_t i = 0; i < n; i++)
        c->floats[i] = rng_below(r, 40) ? (float)rng_between(r, -24, 24) / 8 : -INFINITY; /* with ties */
    void *data = must_alloc(n, sizeof(float));
    convert_elements(n, c->floats, FOVEA_DTYPE_F32, data, dtype);
    c->logits = fovea_tensor_bhtd(data, dtype, c->batch, 1, c->tokens, c->experts);
    snprintf(c->title, sizeof c->title,
             "%" PRId64 " experts, k %" PRId64 ", %s %s top-k, %" PRId64 " of %" PRId64
             " groups by %d, bias %d, denominator %d",
             c->experts, o->k, o->score ? "sigmoid" : "softmax", o->after_top_k ? "after" : "before", o->groups_used,
             o->groups, (int)o->group_score, o->bias != NULL, (int)o->denominator);
}

static void score(const route_case *c, int64_t n, double *x) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, x[i]);
    for (int64_t i = 0; i < n; i++) {
        x[i] = c->router.score == FOVEA_ROUTER_SIGMOID ? 1 / (1 + exp(-x[i])) : exp(x[i] - most);
        sum += x[i];
    }
    for (int64_t i = 0; i < n && c->router.score == FOVEA_ROUTER_SOFTMAX; i++)
        x[i] /= sum;
}

/* The best of n numbers that is not taken, the first of equal ones. */
static int64_t best_of(int64_t n, const double *by, const bool *taken) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || by[i] > by[best]))
            best = i;
    return best;
}

static void oracle(const route_case *c, const float *logits, int64_t *chosen, double *weights, double *by) {
    const fovea_router *o = &c->router;
    const int64_t n = c->experts, each = n / o->groups;
    double x[MOST], sum = 0, group[MOST];
    bool taken[MOST], left[MOST] = {false};
    for (int64_t e = 0; e < n; e++)
        x[e] = (double)logits[e];
    if (!o->after_top_k)
        score(c, n, x);
    for (int64_t e = 0; e < n; e++) {
        by[e] = x[e] + (o->bias ? (double)o->bias[e] : 0);
        taken[e] = o->groups > 1;
    }
    for (int64_t g = 0; g < o->groups && o->groups > 1; g++) {
        double first = -INFINITY, second = -INFINITY;
        for (int64_t e = g * each; e < (g + 1) * each; e++) {
            second = fmax(second, fmin(first, by[e]));
            first = fmax(first, by[e]);
        }
        group[g] = o->group_score == FOVEA_GROUP_MAX ? first : first + second;
    }
    for (int64_t i = 0; i < o->groups_used && o->groups > 1; i++) {
        const int64_t g = best_of(o->groups, group, left);
        left[g] = true;
        for (int64_t e = g * each; e < (g + 1) * each; e++)
            taken[e] = false;
    }
    for (int64_t i = 0; i < o->k; i++) {
        chosen[i] = best_of(n, by, taken);
        taken[chosen[i]] = true;
        weights[i] = x[chosen[i]];
    }
    if (o->after_top_k)
        score(c, o->k, weights);
    for (int64_t i = 0; i < o->k; i++)
        sum += weights[i];
    sum = o->denominator == FOVEA_DENOMINATOR_SUM_AT_LEAST ? fmax(sum, o->eps) : sum + o->eps;
    for (int64_t i = 0; i < o->k; i++)
        weights[i] = (o->denominator == FOVEA_DENOMINATOR_NONE ? weights[i] : weights[i] / sum) * o->scale;
}

static void check_row(const route_case *c, int64_t row, const int64_t *chosen, const float *weights) {
    int64_t want[MOST];
    double weight[MOST], by[MOST];
    oracle(c, c->floats + row * c->experts, want, weight, by);
    bool same = true, near = true;
    for (int64_t i = 0; i < c->router.k; i++) {
        const bool close = chosen[i] != want[i] && fabs(by[chosen[i]] - by[want[i]]) < 1e-7;
        same = same && (chosen[i] == want[i] || (close && by[chosen[i]] != by[want[i]]));
        near = near && (chosen[i] != want[i] || fabs((double)weights[i] - weight[i]) < 1e-6 ||
                        (isnan(weight[i]) && isnan(weights[i])));
    }
    test_check(same, "%s: row %" PRId64 " has other experts", c->title, row);
    test_check(near, "%s: row %" PRId64 " has other weights", c->title, row);
}

static void test_case(const case_contexts *contexts, rng *r) {
    route_case c;
    make(&c, r);
    const int64_t rows = c.batch * c.tokens, k = c.router.k;
    int64_t *chosen = must_alloc(rows * k, sizeof *chosen), *other = must_alloc(rows * k, sizeof *other);
    float *weights = must_alloc(rows * k, sizeof *weights), *others = must_alloc(rows * k, sizeof *others);
    test_check(fovea_experts_route(contexts->scalar, &c.router, &c.logits, chosen, weights) == FOVEA_OK, "%s: %s",
               c.title, fovea_error_detail());
    for (int64_t row = 0; row < rows; row++)
        check_row(&c, row, chosen + row * k, weights + row * k);
    const fovea_context *const all[] = {contexts->one, contexts->three};
    for (int i = 0; i < 2; i++) {
        test_check(fovea_experts_route(all[i], &c.router, &c.logits, other, others) == FOVEA_OK, "%s: %s", c.title,
                   fovea_error_detail());
        test_check(memcmp(chosen, other, (size_t)(rows * k) * sizeof *chosen) == 0, "%s: other experts", c.title);
        test_same(others, weights, rows * k, "%s: weights", c.title);
    }
    free(chosen);
    free(other);
    free(weights);
    free(others);
    free(c.logits.data);
    free(c.floats);
}

/* Rows of four logits, of which one expert is taken: logits that exp() has no float for, groups whose score is no
 * number, and sums of 0. */
static void test_rows(const fovea_context *ctx) {
    static const struct row {
        const char *name;
        float logits[4], weight;
        int64_t groups, chosen;
        fovea_router_score score;
        fovea_denominator denominator;
        bool after;
    } rows[] = {
        {"large logits", {1000, 1000, 0, -1000}, 0.5f, 1, 0, FOVEA_ROUTER_SOFTMAX, FOVEA_DENOMINATOR_NONE, false},
        {"inf - inf", {INFINITY, -INFINITY, 1, 2}, 1, 2, 3, FOVEA_ROUTER_SOFTMAX, FOVEA_DENOMINATOR_NONE, true},
        {"0 / 0",
         {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
         NAN,
         1,
         0,
         FOVEA_ROUTER_SIGMOID,
         FOVEA_DENOMINATOR_SUM,
         false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        float logits[4], weight;
        int64_t chosen;
        fovea_router router;
        fovea_router_init(&router);
        router.k = 1;
        router.groups = row->groups;
        router.group_score = FOVEA_GROUP_SUM_OF_TWO;
        router.score = row->score;
        router.denominator = row->denominator;
        router.after_top_k = row->after;
        memcpy(logits, row->logits, sizeof logits);
        const fovea_tensor t = fovea_tensor_bhtd(logits, FOVEA_DTYPE_F32, 1, 1, 1, 4);
        test_check(fovea_experts_route(ctx, &router, &t, &chosen, &weight) == FOVEA_OK, "%s", fovea_error_detail());
        test_check(chosen == row->chosen, "%s: expert %" PRId64, row->name, chosen);
        test_same(&weight, &row->weight, 1, "%s: the weight", row->name);
    }
}

/* Logits in fovea_experts_apply() are the same as fovea_experts_route() before it, and a NaN spoils its row alone. */
static void test_apply(const fovea_context *ctx, rng *r) {
    enum { EXPERTS = 6, IN = 24, N = 16, ROWS = 40, K = 2 };
    float weights[3][EXPERTS * IN * N], x[ROWS * IN], logits[ROWS * EXPERTS], y[2][ROWS * IN], weight[ROWS * K];
    int64_t chosen[ROWS * K];
    fovea_matrix map[3][EXPERTS];
    for (int i = 0; i < 3; i++)
        for (int64_t j = 0; j < EXPERTS * IN * N; j++)
            weights[i][j] = rng_uniform(r, -0.5f, 0.5f);
    for (int e = 0; e < EXPERTS; e++)
        for (int i = 0; i < 3; i++)
            map[i][e] = fovea_matrix_in_out(weights[i] + e * IN * N, FOVEA_DTYPE_F32, i < 2 ? IN : N, i < 2 ? N : IN);
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = rng_uniform(r, -1, 1);
    for (int i = 0; i < ROWS * EXPERTS; i++)
        logits[i] = rng_uniform(r, -2, 2);
    logits[3 * EXPERTS + 5] = NAN;
    fovea_experts_desc desc;
    fovea_experts_weights given;
    fovea_experts_args args;
    fovea_router router;
    fovea_experts *experts;
    fovea_experts_desc_init(&desc);
    fovea_experts_weights_init(&given);
    fovea_experts_args_init(&args);
    fovea_router_init(&router);
    desc.experts = EXPERTS;
    desc.in_features = IN;
    desc.intermediate = N;
    given.gate = map[0];
    given.up = map[1];
    given.down = map[2];
    test_check(fovea_experts_create(ctx, &desc, &given, &experts) == FOVEA_OK, "%s", fovea_error_detail());
    router.k = K;
    router.denominator = FOVEA_DENOMINATOR_SUM;
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, ROWS, IN);
    args.y = fovea_tensor_bhtd(y[0], FOVEA_DTYPE_F32, 1, 1, ROWS, IN);
    args.router = &router;
    args.logits = fovea_tensor_bhtd(logits, FOVEA_DTYPE_F32, 1, 1, ROWS, EXPERTS);
    test_check(fovea_experts_apply(ctx, experts, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    test_check(fovea_experts_route(ctx, &router, &args.logits, chosen, weight) == FOVEA_OK, "%s", fovea_error_detail());
    args.y.data = y[1];
    args.router = NULL;
    args.k = K;
    args.chosen = chosen;
    args.weights = weight;
    test_check(fovea_experts_apply(ctx, experts, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    test_same(y[0], y[1], ROWS * IN, "logits, and what they are routed to");
    bool as_it_should = true;
    for (int i = 0; i < ROWS * IN; i++)
        as_it_should = as_it_should && (i / IN == 3) == (bool)isnan(y[0][i]);
    test_check(as_it_should, "a NaN logit makes its own row NaN, and no other");
    test_check(chosen[3 * K] == 0 && chosen[3 * K + 1] == 1 && isnan(weight[3 * K]), "experts of a NaN logit");
    fovea_experts_destroy(experts);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "experts_route", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "routers");
    for (int64_t i = test_scaled(CASES); i > 0; i--)
        test_case(&contexts, &r);
    test_rows(contexts.own);
    test_apply(contexts.scalar, &r);
    test_apply(contexts.three, &r);
    contexts_free(&contexts);
    return test_end();
}
