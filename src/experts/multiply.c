/* fovea_experts_multiply (fovea/experts.h): rows of y are sorted by expert (sort.c), and all maps are one call of
 * fv_linear_run_jobs(), which gathers rows of x, and gives those of y their places. */
#include "experts/experts.h"

#include <stdlib.h>

/* Parts of a workspace. */
typedef struct layout {
    int64_t begin, row, index, jobs, scratches, bytes; /* bytes: -1: more than memory has */
} layout;

static layout lay_out(const fovea_context *ctx, int64_t experts, int64_t rows, int64_t thread_bytes) {
    const int64_t size = (int64_t)sizeof(int64_t);
    layout l;
    int64_t at = 0;
    l.begin = fv_reserve(&at, experts + 1, size);
    l.row = fv_reserve(&at, rows, size);
    l.index = fv_reserve(&at, rows, size);
    l.jobs = fv_reserve(&at, fv_min(experts, rows), (int64_t)sizeof(fv_linear_job));
    l.scratches = fv_reserve(&at, ctx->threads.count, thread_bytes);
    l.bytes = at < 0 || !fv_add(at, FV_ALIGNMENT, &at) ? -1 : at;
    return l;
}

/* The maps that are chosen; *thread_bytes: the most of theirs. */
static fovea_status check_maps(const fovea_linear *const *maps, int64_t experts, int64_t rows, const int64_t *chosen,
                               const fovea_tensor *x, const fovea_tensor *y, int64_t *thread_bytes) {
    for (int64_t i = 0; i < rows; i++) {
        const long long e = chosen[i];
        if (e < 0 || e >= experts)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "chosen[%lld] is %lld; it must be from 0 to %lld", (long long)i, e,
                           (long long)experts - 1);
        const fovea_linear *l = maps[e];
        if (!l)
            return fv_fail(FOVEA_ERROR_NULL, "maps[%lld], which is chosen, is NULL", e);
        if (l->part_count != 1 || l->gated || l->arithmetic == FOVEA_ARITHMETIC_BF16_TILE)
            return fv_fail(FOVEA_ERROR_UNSUPPORTED, "maps[%lld] has %s", e,
                           l->arithmetic == FOVEA_ARITHMETIC_BF16_TILE ? "FOVEA_ARITHMETIC_BF16_TILE"
                                                                       : "several parts");
        if (l->in != x->shape[3] || l->out != y->shape[3])
            return fv_fail(FOVEA_ERROR_SHAPE, "maps[%lld] is %lld x %lld, but x has %lld channels, y %lld", e,
                           (long long)l->in, (long long)l->out, (long long)x->shape[3], (long long)y->shape[3]);
        if (l->x_dtype != x->dtype || l->y_dtype != y->dtype)
            return fv_fail(FOVEA_ERROR_DTYPE, "maps[%lld] is of other types than x and y", e);
        *thread_bytes = fv_max(*thread_bytes, l->gathered_bytes);
    }
    return FOVEA_OK;
}

static fovea_status check(const fovea_linear *const *maps, int64_t experts, int64_t k, const int64_t *chosen,
                          const fovea_tensor *x, const fovea_tensor *y, int64_t *thread_bytes, fv_span spans[3]) {
    if (experts < 1 || experts > FV_MOST_EXPERTS || k < 1)
        return fv_fail(FOVEA_ERROR_SHAPE, "experts is %lld, k %lld; from 1 on, experts to %d", (long long)experts,
                       (long long)k, (int)FV_MOST_EXPERTS);
    fovea_status status = fv_experts_check_tensor("x", x, x->dtype, x->shape[3], false, &spans[1]);
    if (status == FOVEA_OK)
        status = fv_experts_check_tensor("y", y, y->dtype, y->shape[3], true, &spans[0]);
    if (status != FOVEA_OK)
        return status;
    if (y->shape[0] != x->shape[0] || y->shape[2] != k || (x->shape[2] != k && x->shape[2] != 1))
        return fv_fail(FOVEA_ERROR_SHAPE, "x has %lld x %lld rows, y %lld x %lld; y must have k, %lld, x as many or 1",
                       (long long)x->shape[0], (long long)x->shape[2], (long long)y->shape[0], (long long)y->shape[2],
                       (long long)k);
    const int64_t rows = y->shape[0] * k;
    if (rows > 0 && !chosen)
        return fv_fail(FOVEA_ERROR_NULL, "chosen is NULL");
    spans[2] = fv_array_span("chosen", chosen, rows, sizeof *chosen);
    return check_maps(maps, experts, rows, chosen, x, y, thread_bytes);
}

static void run(const fovea_context *ctx, const fovea_linear *const *maps, int64_t experts, int64_t k,
                const int64_t *chosen, const fovea_tensor *x, const fovea_tensor *y, const layout *l, char *base,
                int64_t thread_bytes) {
    const int64_t rows = y->shape[0] * k;
    int64_t *index = (int64_t *)(void *)(base + l->index);
    fv_sorted sorted = {.begin = (void *)(base + l->begin), .row = (void *)(base + l->row), .places = index};
    fv_linear_jobs jobs = {.ctx = ctx,
                           .job = (void *)(base + l->jobs),
                           .index = x->shape[2] == k ? sorted.row : index,
                           .places = sorted.row,
                           .x = *x,
                           .y = {*y},
                           .scratches = base + l->scratches,
                           .thread_bytes = thread_bytes};
    fv_sort(experts, 0, rows, 1, chosen, NULL, &sorted);
    for (int64_t i = 0; i < rows; i++)
        index[i] = sorted.row[i] / k;
    for (int64_t e = 0; e < experts; e++)
        if (sorted.begin[e] < sorted.begin[e + 1])
            jobs.job[jobs.count++] = (fv_linear_job){
                .linear = maps[e], .first = sorted.begin[e], .rows = sorted.begin[e + 1] - sorted.begin[e]};
    fv_linear_run_jobs(&jobs);
}

size_t fovea_experts_multiply_workspace_size(const fovea_context *ctx, const fovea_linear *map, int64_t experts,
                                             int64_t rows) {
    if (!ctx || !map || experts < 1 || experts > FV_MOST_EXPERTS || rows < 0)
        return 0;
    const int64_t bytes = lay_out(ctx, experts, rows, map->gathered_bytes).bytes;
    return bytes < 0 ? SIZE_MAX : (size_t)bytes;
}

fovea_status fovea_experts_multiply(const fovea_context *ctx, const fovea_linear *const *maps, int64_t experts,
                                    int64_t k, const int64_t *chosen, const fovea_tensor *x, const fovea_tensor *y,
                                    void *workspace, size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    if (!ctx || !maps || !x || !y)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : !maps ? "maps" : x ? "y" : "x");
    fv_span spans[3];
    bool written[3] = {true};
    int64_t thread_bytes = 0;
    fovea_status status = check(maps, experts, k, chosen, x, y, &thread_bytes, spans);
    if (status != FOVEA_OK || y->shape[0] == 0)
        return status;
    const layout l = lay_out(ctx, experts, y->shape[0] * k, thread_bytes);
    const fv_span room = fv_array_span("the workspace", workspace, (int64_t)workspace_size, 1);
    status = fv_spans_apart(spans, written, 3, &room);
    if (status == FOVEA_OK && l.bytes < 0)
        status = fv_fail(FOVEA_ERROR_OVERFLOW, "the workspace is larger than memory");
    void *own = NULL;
    char *base;
    if (status == FOVEA_OK)
        status = fv_call_workspace(l.bytes, workspace, workspace_size, &own, &base);
    if (status != FOVEA_OK)
        return status;
    run(ctx, maps, experts, k, chosen, x, y, &l, base, thread_bytes);
    free(own);
    return FOVEA_OK;
}
