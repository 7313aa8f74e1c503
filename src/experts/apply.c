/* fovea_experts_apply (fovea/experts.h).
 *
 * A call takes ROWS rows of its batch at a time, so that its workspace is bounded. These are sorted by expert, and go
 * in pieces of pairs of a row and an expert: the rows of several experts, as many as their products fit the caches, or
 * part of the rows of one. In a piece all first maps are one call of fv_linear_run_jobs(), which gathers rows of x, and
 * all second maps another. Experts are taken in ascending order, so that sums go on from piece to piece: in y, or,
 * where that has 16 bits and there are several pieces, in the workspace. */
#include "experts/experts.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 4096,            /* fewer would read weights more often, as experts have fewer of their rows */
    PIECE_BYTES = 16 << 20, /* of floats between the maps and behind them */
    PIECE_PAIRS = 256       /* at least, however wide these are */
};

/* Sizes, and parts of a workspace. */
typedef struct layout {
    int64_t rows, k, pairs; /* rows taken at a time, experts of each, and pairs of a piece */
    int64_t width;          /* channels behind the first maps */
    int64_t chosen, weights, begin, row, weight, places, jobs, between, results, sums, scratches;
    int64_t bytes; /* -1: more than memory has */
} layout;

static layout lay_out(const fovea_context *ctx, const fovea_experts *x, int64_t rows, int64_t k) {
    layout l = {.rows = fv_min(rows, ROWS), .k = k, .width = x->intermediate * (x->clamped ? 2 : 1)};
    const int64_t f = (int64_t)sizeof(float), i = (int64_t)sizeof(int64_t);
    int64_t all, at = 0;
    if (!fv_multiply(l.rows, k, &all)) {
        l.bytes = -1;
        return l;
    }
    l.pairs = fv_max(fv_min(all, fv_max(PIECE_BYTES / f / (l.width + x->out), PIECE_PAIRS)), 1);
    l.chosen = fv_reserve(&at, all, i);
    l.weights = fv_reserve(&at, all, f);
    l.begin = fv_reserve(&at, x->count + 1, i);
    l.row = fv_reserve(&at, all, i);
    l.weight = fv_reserve(&at, all, f);
    l.places = fv_reserve(&at, all, i);
    l.jobs = fv_reserve(&at, fv_min(x->count, l.pairs), (int64_t)sizeof(fv_linear_job));
    l.between = fv_reserve(&at, l.pairs, l.width * f);
    l.results = fv_reserve(&at, l.pairs, x->out * f);
    l.sums = fv_reserve(&at, x->y_dtype != FOVEA_DTYPE_F32 && all > l.pairs ? l.rows : 0, x->out * f);
    l.scratches = fv_reserve(&at, ctx->threads.count, x->thread_bytes);
    l.bytes = at < 0 || !fv_add(at, FV_ALIGNMENT, &at) ? -1 : at;
    return l;
}

/* A checked call. */
typedef struct call {
    const fovea_context *ctx;
    const fovea_experts *experts;
    fovea_experts_args args;
    fv_routing routing; /* where args.router is there */
    layout layout;
    char *base;
    int64_t first, count; /* rows that are taken */
    fv_sorted sorted;
    int64_t from, to; /* pairs of the piece */
    float *between, *results, *sums;
} call;

static void *part_of(const call *c, int64_t at) { return c->base + at; }

/* ----------------------------------------------------------------------------------------------------- a piece -- */

/* gate and up, next to each other, become what the second maps read, in the gate's place. */
static void clamp_rows(const void *arg, int64_t begin, int64_t end) {
    const call *c = arg;
    const fovea_experts *x = c->experts;
    const int64_t n = x->intermediate;
    const fv_bias_act_residual act = {.activation = FV_ACT_SIGMOID};
    fv_bias_act_residual_f32_fn *activate =
        fv_kernel_best(FV_OP_bias_act_residual, FV_TYPE_f32, c->ctx->target)->run.bias_act_residual_f32;
    float room[FV_RUN];
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0, count; at < n; at += count) {
            float *gate = c->between + row * c->layout.width + at, *up = gate + n;
            count = fv_min(n - at, FV_RUN);
            fv_gate_clamp(count, x->limit, x->alpha, x->up_offset, gate, up, room);
            activate(1, count, room, count, &act, room, count);
            fv_gate_multiply(count, room, up, gate);
        }
}

/* Sums of tokens go on with the piece's results. */
static void add_rows(const void *arg, int64_t begin, int64_t end) {
    const call *c = arg;
    const fovea_experts *x = c->experts;
    const fv_view y = fv_view_output(&c->args.y, c->ctx->target);
    const bool starts = c->from == 0, ends = c->to == c->sorted.count;
    for (int64_t row = begin; row < end; row++) {
        const int64_t *place = c->sorted.places + row * c->layout.k, *const last = place + c->layout.k;
        while (place < last && *place >= 0 && *place < c->from)
            place++;
        const bool some = place < last && *place >= 0 && *place < c->to;
        for (int64_t at = 0, n; at < x->out && (some || starts || ends); at += n) {
            float room[FV_RUN];
            n = fv_min(x->out - at, FV_RUN);
            float *sum = y.convert.same   ? fv_view_write(&y, c->first + row, at, room)
                         : starts && ends ? room
                                          : c->sums + row * x->out + at;
            if (starts)
                memset(sum, 0, (size_t)n * sizeof *sum);
            for (const int64_t *p = place; some && p < last && *p >= 0 && *p < c->to; p++)
                fv_run_add_weighted(n, c->sorted.weight[*p], c->results + (*p - c->from) * x->out + at, sum);
            if (ends) {
                fv_run_finish(n, sum, 1.0f, 1.0f, sum);
                fv_view_written(&y, c->first + row, at, n, sum);
            }
        }
    }
}

static int64_t list_jobs(const call *c, fv_linear_job *jobs, fovea_linear *const *maps) {
    const int64_t *begin = c->sorted.begin;
    int64_t count = 0;
    for (int64_t e = 0; e < c->experts->count; e++) {
        const int64_t first = fv_max(begin[e], c->from), end = fv_min(begin[e + 1], c->to);
        if (first < end)
            jobs[count++] = (fv_linear_job){.linear = maps[e], .first = first - c->from, .rows = end - first};
    }
    return count;
}

static void run_piece(const call *c) {
    const fovea_experts *x = c->experts;
    const int64_t rows = c->to - c->from, n = x->intermediate, width = c->layout.width;
    fovea_tensor gate = fovea_tensor_bhtd(c->between, FOVEA_DTYPE_F32, 1, 1, rows, n), up;
    gate.stride[2] = width;
    up = gate;
    up.data = c->between + n;
    fv_linear_jobs jobs = {.ctx = c->ctx,
                           .job = part_of(c, c->layout.jobs),
                           .index = c->sorted.row + c->from,
                           .x = c->args.x,
                           .y = {gate, up},
                           .scratches = part_of(c, c->layout.scratches),
                           .thread_bytes = x->thread_bytes};
    jobs.count = list_jobs(c, jobs.job, x->first);
    fv_linear_run_jobs(&jobs);
    if (x->clamped)
        fv_rows_run(c->ctx, rows, 4 * n, clamp_rows, c);
    jobs.count = list_jobs(c, jobs.job, x->second);
    jobs.index = NULL;
    jobs.x = gate;
    jobs.y[0] = fovea_tensor_bhtd(c->results, FOVEA_DTYPE_F32, 1, 1, rows, x->out);
    fv_linear_run_jobs(&jobs);
}

/* The end of a piece: whole experts, or as many rows of one as there is room for. */
static int64_t piece_end(const call *c) {
    const int64_t most = c->from + c->layout.pairs, *begin = c->sorted.begin;
    int64_t end = c->from;
    for (int64_t e = 0; e < c->experts->count && begin[e + 1] <= most; e++)
        end = fv_max(begin[e + 1], end);
    return end > c->from ? end : fv_min(most, c->sorted.count);
}

static void run(call *c) {
    const int64_t all = c->args.x.shape[0] * c->args.x.shape[2], k = c->layout.k;
    for (c->first = 0; c->first < all; c->first += c->count) {
        c->count = fv_min(all - c->first, c->layout.rows);
        const int64_t *chosen = c->args.router ? NULL : c->args.chosen + c->first * k;
        const float *weights = c->args.router ? NULL : c->args.weights + c->first * k;
        if (c->args.router) {
            fv_routing_run(&c->routing, c->first, c->count, part_of(c, c->layout.chosen),
                           part_of(c, c->layout.weights));
            chosen = part_of(c, c->layout.chosen);
            weights = part_of(c, c->layout.weights);
        }
        fv_sort(c->experts->count, c->first, c->count, k, chosen, weights, &c->sorted);
        c->from = 0;
        do {
            c->to = piece_end(c);
            if (c->to > c->from)
                run_piece(c);
            fv_rows_run(c->ctx, c->count, c->experts->out * fv_max(k, 1), add_rows, c);
            c->from = c->to;
        } while (c->to < c->sorted.count);
    }
}

/* -------------------------------------------------------------------------------------------------------- calls -- */

fovea_status fv_experts_check_tensor(const char *name, const fovea_tensor *t, fovea_dtype dtype, int64_t channels,
                                     bool output, fv_span *span) {
    const fv_tensor_rule rule = {name, dtype, {t->shape[0], 1, t->shape[2], channels}, output, false};
    *span = (fv_span){name, 0, 0};
    fovea_status status = fv_floats_sizes(name, t, false);
    if (status == FOVEA_OK)
        status = fv_tensor_check(t, &rule, span);
    if (status == FOVEA_OK && !t->data && !fv_tensor_empty(t))
        status = fv_fail(FOVEA_ERROR_NULL, "%s is NULL", name);
    return status;
}

/* Experts that were chosen by the caller. */
static fovea_status check_chosen(const call *c, int64_t rows) {
    const fovea_experts_args *a = &c->args;
    const int64_t count = c->experts->count;
    if (a->k < 1 || a->k > count)
        return fv_fail(FOVEA_ERROR_SHAPE, "k is %lld; it must be from 1 to %lld, the number of experts",
                       (long long)a->k, (long long)count);
    if (rows > 0 && (!a->chosen || !a->weights))
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL, and there is no router", a->chosen ? "weights" : "chosen");
    for (int64_t i = 0; i < rows * a->k; i++)
        if (a->chosen[i] < 0 || a->chosen[i] > count)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "chosen[%lld] is %lld; it must be from 0 to %lld, or %lld for none",
                           (long long)i, (long long)a->chosen[i], (long long)count - 1, (long long)count);
    return FOVEA_OK;
}

static fovea_status check_routing(call *c, fv_span *span) {
    fovea_experts_args *a = &c->args;
    if (a->chosen || a->weights)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "router is given, and %s, too", a->chosen ? "chosen" : "weights");
    const fovea_status status = fv_routing_read(c->ctx, a->router, &a->logits, c->experts->count, &c->routing, span);
    if (status != FOVEA_OK)
        return status;
    if (a->k != 0 && a->k != c->routing.router.k)
        return fv_fail(FOVEA_ERROR_SHAPE, "k is %lld, but that of router %lld", (long long)a->k,
                       (long long)c->routing.router.k);
    if (a->logits.shape[0] != a->x.shape[0] || a->logits.shape[2] != a->x.shape[2])
        return fv_fail(FOVEA_ERROR_SHAPE, "logits are %lld x %lld rows, but x has %lld x %lld",
                       (long long)a->logits.shape[0], (long long)a->logits.shape[2], (long long)a->x.shape[0],
                       (long long)a->x.shape[2]);
    a->k = c->routing.router.k;
    return FOVEA_OK;
}

static fovea_status check(call *c, const void *workspace, size_t workspace_size) {
    enum { Y, X, LOGITS, BIAS, CHOSEN, WEIGHTS, SPANS };
    const fovea_experts *x = c->experts;
    fovea_experts_args *a = &c->args;
    fv_span spans[SPANS] = {{"y", 0, 0}};
    bool written[SPANS] = {[Y] = true};
    fovea_status status = fv_experts_check_tensor("x", &a->x, x->x_dtype, x->in, false, &spans[X]);
    if (status == FOVEA_OK)
        status = fv_experts_check_tensor("y", &a->y, x->y_dtype, x->out, true, &spans[Y]);
    if (status == FOVEA_OK && (a->y.shape[0] != a->x.shape[0] || a->y.shape[2] != a->x.shape[2]))
        status = fv_fail(FOVEA_ERROR_SHAPE, "y has %lld x %lld rows, but x %lld x %lld", (long long)a->y.shape[0],
                         (long long)a->y.shape[2], (long long)a->x.shape[0], (long long)a->x.shape[2]);
    if (status != FOVEA_OK)
        return status;
    const int64_t rows = a->x.shape[0] * a->x.shape[2];
    status = a->router ? check_routing(c, &spans[LOGITS]) : check_chosen(c, rows);
    if (status != FOVEA_OK)
        return status;
    if (a->router)
        spans[BIAS] = fv_routing_bias(&c->routing);
    spans[CHOSEN] = fv_array_span("chosen", a->chosen, rows * a->k, sizeof *a->chosen);
    spans[WEIGHTS] = fv_array_span("weights", a->weights, rows * a->k, sizeof *a->weights);
    const fv_span room = fv_array_span("the workspace", workspace, (int64_t)workspace_size, 1);
    status = fv_spans_apart(spans, written, SPANS, &room);
    c->layout = lay_out(c->ctx, x, rows, a->k);
    if (status == FOVEA_OK && c->layout.bytes < 0)
        status = fv_fail(FOVEA_ERROR_OVERFLOW, "the workspace is larger than memory");
    return status;
}

size_t fovea_experts_apply_workspace_size(const fovea_context *ctx, const fovea_experts *experts, int64_t rows,
                                          int64_t k) {
    if (!ctx || !experts || rows < 0 || k < 1 || k > experts->count)
        return 0;
    const int64_t bytes = lay_out(ctx, experts, rows, k).bytes;
    return bytes < 0 ? SIZE_MAX : (size_t)bytes;
}

fovea_status fovea_experts_apply(const fovea_context *ctx, const fovea_experts *experts, const fovea_experts_args *args,
                                 void *workspace, size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    if (!ctx || !experts || !args)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : experts ? "args" : "experts");
    call c = {.ctx = ctx, .experts = experts};
    fovea_experts_args_init(&c.args);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_experts_args), args, &c.args);
    if (status == FOVEA_OK)
        status = check(&c, workspace, workspace_size);
    void *own = NULL;
    if (status == FOVEA_OK)
        status = fv_call_workspace(c.layout.bytes, workspace, workspace_size, &own, &c.base);
    if (status != FOVEA_OK)
        return status;
    c.between = part_of(&c, c.layout.between);
    c.results = part_of(&c, c.layout.results);
    c.sums = part_of(&c, c.layout.sums);
    c.sorted = (fv_sorted){.begin = part_of(&c, c.layout.begin),
                           .row = part_of(&c, c.layout.row),
                           .weight = part_of(&c, c.layout.weight),
                           .places = part_of(&c, c.layout.places)};
    run(&c);
    free(own);
    return FOVEA_OK;
}
