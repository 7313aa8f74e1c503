/* Turning rows (rope.h). Plain C: the compiler's vectors give the bits of one at a time, as nothing is fused. */
#include "context/context.h"
#include "core/core.h"
#include "rope/rope.h"

#include <string.h>

void fv_rope_at(const fovea_rope *rope, int64_t position, fv_rope_turn *turn) {
    enum { PART = 64 }; /* pairs: little of a stack */
    assert(position >= 0 && position <= FOVEA_ROPE_MAX_POSITION);
    const double factor = rope->factor;
    double c[PART], s[PART];
    for (int64_t at = 0, n; at < rope->pairs; at += n) {
        n = fv_min(rope->pairs - at, PART);
        const double *from = rope->table + position % FV_ROPE_BASE * 2 * rope->pairs + at;
        memcpy(c, from, (size_t)n * sizeof *c);
        memcpy(s, from + rope->pairs, (size_t)n * sizeof *s);
        for (int64_t digit = 1, left = position / FV_ROPE_BASE; left > 0; digit++, left /= FV_ROPE_BASE) {
            const double *const to_c =
                                    rope->table + (digit * FV_ROPE_BASE + left % FV_ROPE_BASE) * 2 * rope->pairs + at,
                                *to_s = to_c + rope->pairs;
            for (int64_t i = 0; i < n; i++) {
                const double both = c[i] * to_c[i] - s[i] * to_s[i];
                s[i] = s[i] * to_c[i] + c[i] * to_s[i];
                c[i] = both;
            }
        }
        for (int64_t i = 0; i < n; i++) {
            turn->cos[at + i] = (float)(c[i] * factor);
            turn->sin[at + i] = (float)(s[i] * factor);
        }
    }
}

static void turn_halves(int64_t n, const fv_rope_turn *turn, float *x) {
    float *const y = x + n;
    for (int64_t i = 0; i < n; i++) {
        const float a = x[i], b = y[i];
        x[i] = a * turn->cos[i] - b * turn->sin[i];
        y[i] = b * turn->cos[i] + a * turn->sin[i];
    }
}

static void turn_adjacent(int64_t n, const fv_rope_turn *turn, float *x) {
    for (int64_t i = 0; i < n; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * turn->cos[i] - b * turn->sin[i];
        x[2 * i + 1] = b * turn->cos[i] + a * turn->sin[i];
    }
}

static void turn_row(const fovea_rope *rope, const fv_rope_turn *turn, float *row) {
    if (rope->desc.pairing == FOVEA_ROPE_HALVES)
        turn_halves(rope->pairs, turn, row);
    else
        turn_adjacent(rope->pairs, turn, row);
}

void fv_rope_floats(const fovea_rope *rope, const fv_rope_turn *turn, const fv_converter *floats, int64_t n,
                    const void *from, float *to) {
    fv_convert_to_floats(floats, n, from, to);
    turn_row(rope, turn, to);
}

void fv_rope_row(const fovea_rope *rope, const fv_rope_turn *turn, const fv_converter *convert, int64_t n,
                 const void *from, void *to) {
    float row[2 * FV_ROPE_MOST_PAIRS];
    const int64_t rotated = 2 * rope->pairs;
    fv_convert_to_floats(convert, rotated, from, row);
    turn_row(rope, turn, row);
    fv_convert_of_floats(convert, rotated, row, to);
    fv_convert(convert, n - rotated, (const char *)from + rotated * convert->from_size,
               (char *)to + rotated * convert->to_size);
}

/* One call. */
typedef struct application {
    const fovea_rope *rope;
    const fovea_tensor *x, *y;
    const int64_t *positions;
    fv_converter convert;
    int64_t tasks;
} application;

static void *row_of(const fovea_tensor *t, int64_t batch, int64_t head, int64_t token, int64_t size) {
    return (char *)t->data + (batch * t->stride[0] + head * t->stride[1] + token * t->stride[2]) * size;
}

/* Equal parts of the tokens. */
static void run(void *arg, int64_t task) {
    const application *a = arg;
    const int64_t tokens = a->x->shape[2], all = a->x->shape[0] * tokens;
    const int64_t end = fv_min(fv_ceil_div(all, a->tasks) * (task + 1), all);
    for (int64_t i = fv_ceil_div(all, a->tasks) * task; i < end; i++) {
        fv_rope_turn turn;
        fv_rope_at(a->rope, a->positions[i], &turn);
        for (int64_t head = 0; head < a->x->shape[1]; head++)
            fv_rope_row(a->rope, &turn, &a->convert, a->x->shape[3],
                        row_of(a->x, i / tokens, head, i % tokens, a->convert.from_size),
                        row_of(a->y, i / tokens, head, i % tokens, a->convert.to_size));
    }
}

static bool same_place(const fovea_tensor *x, const fovea_tensor *y) {
    return x->data == y->data && x->dtype == y->dtype && memcmp(x->stride, y->stride, sizeof x->stride) == 0;
}

static fovea_status check(const fovea_rope *rope, const fovea_tensor *x, const int64_t *positions,
                          const fovea_tensor *y) {
    const fovea_tensor *const both[] = {x, y};
    const char *const names[] = {"x", "y"};
    fv_span spans[2];
    for (int i = 0; i < 4; i++)
        if (x->shape[i] < 0 || x->shape[i] > FV_SIZE_LIMIT)
            return fv_fail(FOVEA_ERROR_SHAPE, "axis %d of x has %lld elements: negative, or too many", i,
                           (long long)x->shape[i]);
    if (x->shape[3] < rope->desc.rotary_dim)
        return fv_fail(FOVEA_ERROR_SHAPE, "x has %lld channels, less than rotary_dim %lld", (long long)x->shape[3],
                       (long long)rope->desc.rotary_dim);
    for (int i = 0; i < 2; i++) {
        const int64_t *shape = x->shape;
        const fovea_status type = fv_convert_check(names[i], both[i]->dtype, "fovea_rope_apply");
        if (type != FOVEA_OK)
            return type;
        const bool empty = shape[0] == 0 || shape[1] == 0 || shape[2] == 0;
        if (!both[i]->data && !empty)
            return fv_fail(FOVEA_ERROR_NULL, "%s has no data", names[i]);
        const fv_tensor_rule rule = {names[i], both[i]->dtype, {shape[0], shape[1], shape[2], shape[3]}, i == 1, false};
        const fovea_status status = fv_tensor_check(both[i], &rule, &spans[i]);
        if (status != FOVEA_OK)
            return status;
    }
    int64_t tokens;
    if (!fv_multiply(x->shape[0], x->shape[2], &tokens))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "x has too many tokens");
    if (tokens > 0 && !positions)
        return fv_fail(FOVEA_ERROR_NULL, "positions is NULL");
    for (int64_t i = 0; i < tokens; i++)
        if (positions[i] < 0 || positions[i] > FOVEA_ROPE_MAX_POSITION)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "positions[%lld] is %lld; it must be from 0 to %d", (long long)i,
                           (long long)positions[i], FOVEA_ROPE_MAX_POSITION);
    const fv_span places = {"positions", (uintptr_t)positions, (uintptr_t)(positions + tokens)};
    const fovea_status status = fv_spans_disjoint(&spans[1], &places);
    return status != FOVEA_OK || same_place(x, y) ? status : fv_spans_disjoint(&spans[1], &spans[0]);
}

fovea_status fovea_rope_apply(const fovea_context *ctx, const fovea_rope *rope, const fovea_tensor *x,
                              const int64_t *positions, const fovea_tensor *y) {
    enum { LEAST = 1 << 15 }; /* elements of a task: what a join of threads costs */
    FV_HOLD_EXCEPTIONS();
    if (!ctx || !rope || !x || !y)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : !rope ? "rope" : !x ? "x" : "y");
    const fovea_status status = check(rope, x, positions, y);
    if (status != FOVEA_OK)
        return status;
    const int64_t tokens = x->shape[0] * x->shape[2], elements = tokens * x->shape[1] * x->shape[3];
    if (elements == 0)
        return FOVEA_OK;
    application a = {.rope = rope,
                     .x = x,
                     .y = y,
                     .positions = positions,
                     .convert = fv_converter_make(x->dtype, y->dtype, ctx->target),
                     .tasks = fv_max(fv_min(fv_min(elements / LEAST, tokens), ctx->threads.count), 1)};
    if (a.tasks == 1)
        run(&a, 0);
    else
        fv_parallel(&ctx->threads, a.tasks, &(fv_work){.task = run, .arg = &a});
    return FOVEA_OK;
}
