/* Rows over threads, the operations of two operands, SCALE and CLAMP (elementwise.h). */
#include "elementwise.h"

#include <stdatomic.h>
#include <string.h>

bool fg_is_plain(const struct ggml_tensor *t, fovea_dtype dtype) {
    const fg_type *type = t ? fg_type_of(t->type) : NULL;
    return type && type->dtype == dtype && t->nb[0] == (size_t)type->bytes;
}

bool fg_is_strided(const struct ggml_tensor *t) {
    return fg_is_plain(t, FOVEA_DTYPE_F32) && t->nb[1] % sizeof(float) == 0 && t->nb[2] % sizeof(float) == 0 &&
           t->nb[3] % sizeof(float) == 0;
}

bool fg_is_float(const struct ggml_tensor *t) {
    const fg_type *type = t ? fg_type_of(t->type) : NULL;
    return type && type->block == 1;
}

bool fg_is_named(const struct ggml_tensor *t, const char *type) { return !strcmp(fg_ggml.type_name(t->type), type); }

fovea_tensor fg_heads_tensor(const struct ggml_tensor *t) {
    fovea_tensor v = fg_tensor(t);
    const int64_t shape = v.shape[1], stride = v.stride[1];
    v.shape[1] = v.shape[2];
    v.stride[1] = v.stride[2];
    v.shape[2] = shape;
    v.stride[2] = stride;
    return v;
}

bool fg_in_range(const struct ggml_tensor *op, int64_t row, int64_t rows) {
    if (row < 0 || row >= rows)
        fg_say("%s: row %lld of %lld", fg_ggml.op_name(op->op), (long long)row, (long long)rows);
    return row >= 0 && row < rows;
}

float fg_parameter(const struct ggml_tensor *op, int index) {
    float value;
    memcpy(&value, op->op_params + index, sizeof value);
    return value;
}

typedef struct rows_work {
    const struct ggml_tensor *op;
    fg_rows_task *task;
    int64_t rows, step;
    _Atomic bool failed;
} rows_work;

static void rows_part(void *arg, int64_t index) {
    rows_work *w = arg;
    const int64_t first = index * w->step, end = first + w->step;
    if (!w->task(w->op, first, end < w->rows ? end : w->rows))
        atomic_store(&w->failed, true);
}

enum ggml_status fg_for_rows(fg_backend *backend, const struct ggml_tensor *op, int64_t rows, int64_t bytes,
                             fg_rows_task *task) {
    enum { WORTH = 1 << 17, PARTS = 4 }; /* bytes that one thread reads and writes while others wake up */
    rows_work w = {.op = op, .task = task, .rows = rows, .step = rows};
    if (rows == 0)
        return GGML_STATUS_SUCCESS;
    if (rows * bytes < WORTH || backend->threads == 1) {
        rows_part(&w, 0);
        return w.failed ? GGML_STATUS_FAILED : GGML_STATUS_SUCCESS;
    }
    const fg_team *team = fg_backend_team(backend);
    if (!team)
        return GGML_STATUS_FAILED;
    const int64_t parts = (int64_t)PARTS * backend->threads;
    w.step = (rows + parts - 1) / parts;
    const fovea_status status = fovea_parallel(team->context, (rows + w.step - 1) / w.step, rows_part, &w);
    return w.failed ? GGML_STATUS_FAILED : fg_status(status, fg_ggml.op_name(op->op));
}

/* ------------------------------------------------------------------------------------------------- two operands -- */

static bool same_shape(const struct ggml_tensor *a, const struct ggml_tensor *b) {
    return !memcmp(a->ne, b->ne, sizeof a->ne);
}

bool fg_binary_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    for (int i = 0; i < 4; i++)
        if (op->ne[i] != a->ne[i] || b->ne[i] == 0 || a->ne[i] % b->ne[i] != 0)
            return false;
    return fg_is_plain(op, FOVEA_DTYPE_F32) && fg_is_plain(a, FOVEA_DTYPE_F32) && fg_is_plain(b, FOVEA_DTYPE_F32);
}

typedef void row_function(int64_t n, const float *a, const float *b, float *y);

static void add(int64_t n, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void sub(int64_t n, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] - b[i];
}

static void mul(int64_t n, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void divide(int64_t n, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] / b[i];
}

static inline bool binary_rows(const struct ggml_tensor *op, int64_t first, int64_t end, row_function *function) {
    const struct ggml_tensor *b = op->src[1];
    for (int64_t r = first; r < end; r++) {
        const int64_t i1 = r % op->ne[1], i2 = r / op->ne[1] % op->ne[2], i3 = r / op->ne[1] / op->ne[2];
        const float *other =
            (const float *)(const void *)((const char *)b->data + (size_t)(i1 % b->ne[1]) * b->nb[1] +
                                          (size_t)(i2 % b->ne[2]) * b->nb[2] + (size_t)(i3 % b->ne[3]) * b->nb[3]);
        const float *x = (const float *)(const void *)fg_row(op->src[0], r);
        float *y = (float *)(void *)fg_row(op, r);
        for (int64_t i = 0; i < op->ne[0]; i += b->ne[0])
            function(b->ne[0], x + i, other, y + i);
    }
    return true;
}

static bool add_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    return binary_rows(op, first, end, add);
}
static bool sub_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    return binary_rows(op, first, end, sub);
}
static bool mul_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    return binary_rows(op, first, end, mul);
}
static bool div_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    return binary_rows(op, first, end, divide);
}

static enum ggml_status binary(fg_backend *backend, struct ggml_tensor *op, fg_rows_task *task) {
    return fg_for_rows(backend, op, fg_rows(op), 3 * op->ne[0] * (int64_t)sizeof(float), task);
}

/* src[0] [n, k, tokens], src[1] [n, any], whose row src[2] [k, tokens] names. */
bool fg_add_id_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *a = op->src[0], *b = op->src[1], *ids = op->src[2];
    return fg_is_plain(op, FOVEA_DTYPE_F32) && fg_is_plain(a, FOVEA_DTYPE_F32) && fg_is_plain(b, FOVEA_DTYPE_F32) &&
           fg_is_named(ids, "i32") && same_shape(op, a) && a->ne[3] == 1 && b->ne[0] == a->ne[0] &&
           ids->ne[0] == a->ne[1] && ids->ne[1] == a->ne[2];
}

static bool add_id_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    const struct ggml_tensor *b = op->src[1], *ids = op->src[2];
    for (int64_t r = first; r < end; r++) {
        int32_t id;
        memcpy(&id,
               (const char *)ids->data + (size_t)(r % op->ne[1]) * ids->nb[0] + (size_t)(r / op->ne[1]) * ids->nb[1],
               sizeof id);
        if (!fg_in_range(op, id, b->ne[1]))
            return false;
        add(op->ne[0], (const float *)(const void *)fg_row(op->src[0], r), (const float *)(const void *)fg_row(b, id),
            (float *)(void *)fg_row(op, r));
    }
    return true;
}

enum ggml_status fg_add_id_compute(fg_backend *backend, struct ggml_tensor *op) {
    return binary(backend, op, add_id_rows);
}
enum ggml_status fg_add_compute(fg_backend *backend, struct ggml_tensor *op) { return binary(backend, op, add_rows); }
enum ggml_status fg_sub_compute(fg_backend *backend, struct ggml_tensor *op) { return binary(backend, op, sub_rows); }
enum ggml_status fg_mul_compute(fg_backend *backend, struct ggml_tensor *op) { return binary(backend, op, mul_rows); }
enum ggml_status fg_div_compute(fg_backend *backend, struct ggml_tensor *op) { return binary(backend, op, div_rows); }

/* --------------------------------------------------------------------------------------------------- one operand -- */

bool fg_one_serves(const struct ggml_tensor *op) {
    return fg_is_plain(op, FOVEA_DTYPE_F32) && fg_is_plain(op->src[0], FOVEA_DTYPE_F32) && same_shape(op, op->src[0]);
}

static bool scale_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    const float s = fg_parameter(op, 0), b = fg_parameter(op, 1);
    for (int64_t r = first; r < end; r++) {
        const float *x = (const float *)(const void *)fg_row(op->src[0], r);
        float *y = (float *)(void *)fg_row(op, r);
        for (int64_t i = 0; i < op->ne[0]; i++)
            y[i] = x[i] * s + b;
    }
    return true;
}

enum ggml_status fg_scale_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), 2 * op->ne[0] * (int64_t)sizeof(float), scale_rows);
}

/* A NaN becomes the most, as with ggml. */
static bool clamp_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    const float least = fg_parameter(op, 0), most = fg_parameter(op, 1);
    for (int64_t r = first; r < end; r++) {
        const float *x = (const float *)(const void *)fg_row(op->src[0], r);
        float *y = (float *)(void *)fg_row(op, r);
        for (int64_t i = 0; i < op->ne[0]; i++) {
            const float below = x[i] < most ? x[i] : most;
            y[i] = below > least ? below : least;
        }
    }
    return true;
}

enum ggml_status fg_clamp_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), 2 * op->ne[0] * (int64_t)sizeof(float), clamp_rows);
}
