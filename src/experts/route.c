/* fovea_experts_route (fovea/experts.h). */
#include "experts/experts.h"

#include <math.h>
#include <string.h>

enum { LOGIT_WORK = 8 }; /* operations for each */

static fovea_status check_groups(const fovea_router *r, int64_t experts) {
    if (r->groups < 1 || experts % r->groups != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "router: groups is %lld; it must divide %lld experts", (long long)r->groups,
                       (long long)experts);
    if (r->groups_used < 1 || r->groups_used > r->groups)
        return fv_fail(FOVEA_ERROR_SHAPE, "router: groups_used is %lld; it must be from 1 to the %lld groups",
                       (long long)r->groups_used, (long long)r->groups);
    if (r->k < 1 || r->k > experts / r->groups * r->groups_used)
        return fv_fail(FOVEA_ERROR_SHAPE, "router: k is %lld; it must be from 1 to %lld, the experts %s",
                       (long long)r->k, (long long)(experts / r->groups * r->groups_used),
                       r->groups > 1 ? "of the groups that are used" : "that there are");
    if (r->group_score == FOVEA_GROUP_SUM_OF_TWO && r->groups > 1 && experts == r->groups)
        return fv_fail(FOVEA_ERROR_ARGUMENT,
                       "router: group_score is FOVEA_GROUP_SUM_OF_TWO, but groups have one expert each");
    return FOVEA_OK;
}

static fovea_status check_options(const fovea_router *r) {
    if ((unsigned)r->score > FOVEA_ROUTER_SIGMOID)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "router: score is %d, not a fovea_router_score", (int)r->score);
    if ((unsigned)r->group_score > FOVEA_GROUP_SUM_OF_TWO)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "router: group_score is %d, not a fovea_group_score", (int)r->group_score);
    if ((unsigned)r->denominator > FOVEA_DENOMINATOR_SUM_AT_LEAST)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "router: denominator is %d, not a fovea_denominator", (int)r->denominator);
    if (!(r->eps >= 0 && isfinite((float)r->eps)) || !isfinite((float)r->scale))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "router: eps is %g, scale %g; both must be finite, and eps not negative",
                       r->eps, r->scale);
    return FOVEA_OK;
}

fv_span fv_routing_bias(const fv_routing *routing) {
    return fv_array_span("bias of the router", routing->router.bias, routing->experts, sizeof(float));
}

fovea_status fv_routing_read(const fovea_context *ctx, const fovea_router *given, const fovea_tensor *logits,
                             int64_t experts, fv_routing *routing, fv_span *span) {
    fovea_router_init(&routing->router);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_router), given, &routing->router);
    routing->ctx = ctx;
    routing->logits = logits;
    routing->experts = experts ? experts : logits->shape[3];
    if (status == FOVEA_OK)
        status = fv_floats_sizes("logits", logits, false);
    if (status == FOVEA_OK && (logits->shape[1] != 1 || logits->shape[3] > FV_MOST_EXPERTS))
        status = fv_fail(FOVEA_ERROR_SHAPE, "logits are %lld x %lld; they must be one head of at most %d experts",
                         (long long)logits->shape[1], (long long)logits->shape[3], (int)FV_MOST_EXPERTS);
    if (status == FOVEA_OK && logits->shape[3] != routing->experts)
        status = fv_fail(FOVEA_ERROR_SHAPE, "logits are of %lld experts, but there are %lld",
                         (long long)logits->shape[3], (long long)routing->experts);
    if (status == FOVEA_OK)
        status = fv_floats_check("logits", logits, logits->shape, false, span);
    if (status == FOVEA_OK)
        status = check_options(&routing->router);
    return status == FOVEA_OK ? check_groups(&routing->router, routing->experts) : status;
}

/* The best so far, in descending order, equal ones in that of their numbers. */
typedef struct best {
    float value[2];
} best;

static void keep(best *b, float value) {
    if (value > b->value[0]) {
        b->value[1] = b->value[0];
        b->value[0] = value;
    } else if (value > b->value[1]) {
        b->value[1] = value;
    }
}

/* Puts an expert among the best *count of at most k, if it belongs there. */
static void insert(int64_t expert, const float *by, int64_t k, int64_t *count, int64_t *chosen) {
    if (*count == k && !(by[expert] > by[chosen[k - 1]]))
        return;
    int64_t at = *count < k ? (*count)++ : k - 1;
    for (; at > 0 && by[expert] > by[chosen[at - 1]]; at--)
        chosen[at] = chosen[at - 1];
    chosen[at] = expert;
}

/* Is the group one of those that are used: are fewer than groups_used groups better, or as good and before it? */
static bool used(const fovea_router *r, const float *score, int64_t group) {
    int64_t better = 0;
    for (int64_t g = 0; g < r->groups; g++)
        better += score[g] > score[group] || (score[g] == score[group] && g < group);
    return better < r->groups_used;
}

static void choose(const fv_routing *g, const float *by, float *group_score, int64_t *chosen) {
    const fovea_router *r = &g->router;
    const int64_t each = g->experts / r->groups;
    int64_t count = 0;
    for (int64_t group = 0; group < r->groups && r->groups > 1; group++) {
        best b = {{-INFINITY, -INFINITY}};
        for (int64_t e = 0; e < each; e++)
            keep(&b, by[group * each + e]);
        const float score = r->group_score == FOVEA_GROUP_MAX ? b.value[0] : b.value[0] + b.value[1];
        group_score[group] = score == score ? score : -INFINITY; /* inf - inf */
    }
    for (int64_t group = 0; group < r->groups; group++)
        if (r->groups == 1 || used(r, group_score, group))
            for (int64_t e = 0; e < each; e++)
                insert(group * each + e, by, r->k, &count, chosen);
}

/* x becomes probabilities. */
static void score(const fv_routing *g, int64_t n, float *x) {
    if (g->router.score == FOVEA_ROUTER_SIGMOID) {
        const fv_bias_act_residual act = {.activation = FV_ACT_SIGMOID};
        fv_kernel_best(FV_OP_bias_act_residual, FV_TYPE_f32, g->ctx->target)
            ->run.bias_act_residual_f32(1, n, x, n, &act, x, n);
        return;
    }
    float most = x[0], sum = 0.0f;
    for (int64_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] - most;
    fv_kernel_best(FV_OP_exp, FV_TYPE_f32, g->ctx->target)->run.exp_f32(n, x, x);
    for (int64_t i = 0; i < n; i++)
        sum = sum + x[i];
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] / sum;
}

/* From the chosen experts' scores to weights. */
static void finish(const fv_routing *g, float *weights) {
    const fovea_router *r = &g->router;
    const float eps = (float)r->eps, scale = (float)r->scale;
    float sum = 0.0f;
    if (r->after_top_k)
        score(g, r->k, weights);
    for (int64_t i = 0; i < r->k; i++)
        sum = sum + weights[i];
    if (r->denominator == FOVEA_DENOMINATOR_SUM_AT_LEAST)
        sum = sum < eps ? eps : sum;
    else
        sum = sum + eps;
    for (int64_t i = 0; i < r->k; i++) {
        weights[i] = (r->denominator == FOVEA_DENOMINATOR_NONE ? weights[i] : weights[i] / sum) * scale;
        weights[i] = weights[i] == weights[i] ? weights[i] : NAN;
    }
}

static void route_row(const fv_routing *g, const float *logits, int64_t *chosen, float *weights) {
    const fovea_router *r = &g->router;
    const int64_t n = g->experts;
    float x[FV_MOST_EXPERTS], by[FV_MOST_EXPERTS], groups[FV_MOST_EXPERTS];
    bool nan = false;
    memcpy(x, logits, (size_t)n * sizeof *x);
    if (!r->after_top_k)
        score(g, n, x);
    for (int64_t e = 0; e < n; e++) {
        by[e] = r->bias ? x[e] + r->bias[e] : x[e];
        nan = nan || by[e] != by[e];
    }
    if (!nan)
        choose(g, by, groups, chosen);
    for (int64_t i = 0; i < r->k; i++) {
        chosen[i] = nan ? i : chosen[i];
        weights[i] = nan ? NAN : x[chosen[i]];
    }
    finish(g, weights);
}

typedef struct rows_call {
    const fv_routing *routing;
    int64_t first, *chosen;
    float *weights;
} rows_call;

static void route_rows(const void *arg, int64_t begin, int64_t end) {
    const rows_call *c = arg;
    const fv_routing *g = c->routing;
    const fv_view view = fv_view_input(g->logits, g->ctx->target);
    const int64_t k = g->router.k;
    float room[FV_MOST_EXPERTS];
    for (int64_t row = begin; row < end; row++)
        route_row(g, fv_view_read(&view, c->first + row, 0, g->experts, room), c->chosen + row * k,
                  c->weights + row * k);
}

void fv_routing_run(const fv_routing *routing, int64_t first, int64_t count, int64_t *chosen, float *weights) {
    const rows_call call = {routing, first, chosen, weights};
    fv_rows_run(routing->ctx, count, routing->experts * LOGIT_WORK, route_rows, &call);
}

fovea_status fovea_experts_route(const fovea_context *ctx, const fovea_router *router, const fovea_tensor *logits,
                                 int64_t *chosen, float *weights) {
    FV_HOLD_EXCEPTIONS();
    if (!ctx || !router || !logits)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : router ? "logits" : "router");
    fv_routing routing;
    fv_span spans[4];
    bool written[4] = {false, false, true, true};
    fovea_status status = fv_routing_read(ctx, router, logits, 0, &routing, &spans[0]);
    if (status != FOVEA_OK)
        return status;
    const int64_t rows = logits->shape[0] * logits->shape[2], k = routing.router.k;
    if (rows > 0 && (!chosen || !weights))
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", chosen ? "weights" : "chosen");
    spans[1] = fv_routing_bias(&routing);
    spans[2] = fv_array_span("chosen", chosen, rows * k, sizeof *chosen);
    spans[3] = fv_array_span("weights", weights, rows * k, sizeof *weights);
    const fv_span none = {"", 0, 0};
    status = fv_spans_apart(spans, written, 4, &none);
    if (status == FOVEA_OK)
        fv_routing_run(&routing, 0, rows, chosen, weights);
    return status;
}
