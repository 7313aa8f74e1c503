/* CPY, CONT, DUP, CONCAT, REPEAT, FILL, GET_ROWS, SET_ROWS (elementwise.h): conversions are fovea_convert()'s,
 * fovea_dequantize()'s and fovea_quantize()'s. */
#include "elementwise.h"

#include <string.h>

static fovea_dtype dtype_of(const struct ggml_tensor *t) { return fg_type_of(t->type)->dtype; }

/* ---------------------------------------------------------------------------------------------------------- copy -- */

/* Elements in order; the shapes may differ. */
bool fg_copy_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[0];
    return fg_is_float(op) && fg_is_float(x) && x->ne[0] * fg_rows(x) == op->ne[0] * fg_rows(op);
}

/* An element of a tensor. Rows may be short: no divisions from one to the next. */
typedef struct cursor {
    const struct ggml_tensor *t;
    int64_t at[4];
} cursor;

static cursor cursor_at(const struct ggml_tensor *t, int64_t i) {
    const int64_t row = i / t->ne[0];
    return (cursor){t, {i % t->ne[0], row % t->ne[1], row / t->ne[1] % t->ne[2], row / t->ne[1] / t->ne[2]}};
}

static char *element(const cursor *c) {
    const struct ggml_tensor *t = c->t;
    return (char *)t->data + (size_t)c->at[0] * t->nb[0] + (size_t)c->at[1] * t->nb[1] + (size_t)c->at[2] * t->nb[2] +
           (size_t)c->at[3] * t->nb[3];
}

/* n elements on, at most to the next row. */
static void advance(cursor *c, int64_t n) {
    c->at[0] += n;
    for (int axis = 0; axis < 3 && c->at[axis] == c->t->ne[axis]; axis++) {
        c->at[axis] = 0;
        c->at[axis + 1]++;
    }
}

/* Elements of 2 or 4 bytes, n of them, from one step to another. */
static void move(int64_t n, int bytes, const char *from, size_t step, char *to, size_t to_step) {
    enum { FEW = 8 };
    if (n > FEW && step == (size_t)bytes && to_step == (size_t)bytes) {
        memcpy(to, from, (size_t)n * (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++, from += step, to += to_step)
        if (bytes == 2)
            memcpy(to, from, 2);
        else
            memcpy(to, from, 4);
}

static const char *at_index(const struct ggml_tensor *t, const int64_t at[4]) {
    return (const char *)t->data + (size_t)at[1] * t->nb[1] + (size_t)at[2] * t->nb[2] + (size_t)at[3] * t->nb[3];
}

/* first and end count elements of op. */
static bool copy_elements(const struct ggml_tensor *op, int64_t first, int64_t end) {
    enum { PIECE = 1024 };
    const struct ggml_tensor *x = op->src[0];
    const fg_type *from = fg_type_of(x->type), *to = fg_type_of(op->type);
    char gathered[PIECE * 4], converted[PIECE * 4];
    cursor of_x = cursor_at(x, first), of_y = cursor_at(op, first);
    for (int64_t i = first; i < end;) {
        const int64_t left = x->ne[0] - of_x.at[0];
        int64_t count = op->ne[0] - of_y.at[0];
        char *y = element(&of_y);
        const char *source = element(&of_x);
        count = count < left ? count : left;
        count = count < end - i ? count : end - i;
        const bool contiguous = x->nb[0] == (size_t)from->bytes && op->nb[0] == (size_t)to->bytes;
        if (from == to) {
            move(count, (int)from->bytes, source, x->nb[0], y, op->nb[0]);
        } else if (contiguous) {
            fovea_convert(count, source, from->dtype, y, to->dtype);
        } else {
            count = count < PIECE ? count : PIECE;
            move(count, (int)from->bytes, source, x->nb[0], gathered, (size_t)from->bytes);
            fovea_convert(count, gathered, from->dtype, converted, to->dtype);
            move(count, (int)to->bytes, converted, (size_t)to->bytes, y, op->nb[0]);
        }
        advance(&of_x, count);
        advance(&of_y, count);
        i += count;
    }
    return true;
}

enum ggml_status fg_copy_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, op->ne[0] * fg_rows(op), 8, copy_elements);
}

/* ------------------------------------------------------------------------------ the same type, without change -- */

static bool is_movable(const struct ggml_tensor *t) { return fg_is_float(t) || fg_is_named(t, "i32"); }

static int bytes_of(const struct ggml_tensor *t) { return (int)fg_ggml.type_size(t->type); }

/* src[1] behind src[0] on the axis that the parameter names. */
bool fg_concat_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    return is_movable(op) && a->type == op->type && b->type == op->type && op->op_params[0] >= 0 &&
           op->op_params[0] < 4;
}

static bool concat_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    const int axis = op->op_params[0];
    cursor c = cursor_at(op, first * op->ne[0]);
    for (int64_t r = first; r < end; r++, advance(&c, op->ne[0])) {
        int64_t at[4] = {0, c.at[1], c.at[2], c.at[3]}, i = 0;
        char *y = element(&c);
        if (axis == 0 || at[axis] < a->ne[axis]) {
            move(a->ne[0], bytes_of(op), at_index(a, at), a->nb[0], y, op->nb[0]);
            i = a->ne[0];
        }
        at[axis] -= axis == 0 ? 0 : a->ne[axis];
        if (axis == 0 || at[axis] >= 0)
            move(b->ne[0], bytes_of(op), at_index(b, at), b->nb[0], y + (size_t)i * op->nb[0], op->nb[0]);
    }
    return true;
}

bool fg_repeat_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[0];
    for (int i = 0; i < 4; i++)
        if (x->ne[i] == 0 || op->ne[i] % x->ne[i] != 0)
            return false;
    return is_movable(op) && x->type == op->type;
}

static bool repeat_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    const struct ggml_tensor *x = op->src[0];
    for (int64_t r = first; r < end; r++) {
        const int64_t at[4] = {0, r % op->ne[1] % x->ne[1], r / op->ne[1] % op->ne[2] % x->ne[2],
                               r / op->ne[1] / op->ne[2] % x->ne[3]};
        for (int64_t i = 0; i < op->ne[0]; i += x->ne[0])
            move(x->ne[0], bytes_of(op), at_index(x, at), x->nb[0], fg_row(op, r) + (size_t)i * op->nb[0], op->nb[0]);
    }
    return true;
}

bool fg_fill_serves(const struct ggml_tensor *op) { return fg_is_float(op); }

static bool fill_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    const float value = fg_parameter(op, 0);
    char element[sizeof value];
    fovea_convert(1, &value, FOVEA_DTYPE_F32, element, dtype_of(op));
    for (int64_t r = first; r < end; r++)
        move(op->ne[0], bytes_of(op), element, 0, fg_row(op, r), op->nb[0]);
    return true;
}

static enum ggml_status move_rows(fg_backend *backend, const struct ggml_tensor *op, fg_rows_task *task) {
    return fg_for_rows(backend, op, fg_rows(op), 2 * op->ne[0] * bytes_of(op), task);
}

enum ggml_status fg_concat_compute(fg_backend *backend, struct ggml_tensor *op) {
    return move_rows(backend, op, concat_rows);
}
enum ggml_status fg_repeat_compute(fg_backend *backend, struct ggml_tensor *op) {
    return move_rows(backend, op, repeat_rows);
}
enum ggml_status fg_fill_compute(fg_backend *backend, struct ggml_tensor *op) {
    return move_rows(backend, op, fill_rows);
}

/* ---------------------------------------------------------------------------------------------------------- rows -- */

static bool is_index(const struct ggml_tensor *t) { return fg_is_named(t, "i32") || fg_is_named(t, "i64"); }

static int64_t index_at(const struct ggml_tensor *t, int64_t i0, int64_t i1, int64_t i2) {
    const char *at = (const char *)t->data + (size_t)i0 * t->nb[0] + (size_t)i1 * t->nb[1] + (size_t)i2 * t->nb[2];
    int32_t narrow;
    int64_t wide;
    memcpy(&narrow, at, sizeof narrow);
    if (fg_ggml.type_size(t->type) == sizeof narrow)
        return narrow;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static bool done(const struct ggml_tensor *op, fovea_status status) {
    return fg_status(status, fg_ggml.op_name(op->op)) == GGML_STATUS_SUCCESS;
}

/* src[0] [n, rows, b, c], src[1] [count, b, c]; op [n, count, b, c] */
bool fg_get_rows_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[0];
    const fg_type *type = fg_type_of(x->type);
    return type && x->nb[0] == (size_t)type->bytes && fg_is_plain(op, FOVEA_DTYPE_F32) &&
           fg_is_named(op->src[1], "i32") && op->src[1]->ne[3] == 1;
}

static bool get_rows(const struct ggml_tensor *op, int64_t first, int64_t end, const fovea_context *context) {
    const struct ggml_tensor *x = op->src[0];
    const fg_type *type = fg_type_of(x->type);
    for (int64_t r = first; r < end; r++) {
        const int64_t i1 = r % op->ne[1], i2 = r / op->ne[1] % op->ne[2], i3 = r / op->ne[1] / op->ne[2];
        const int64_t row = index_at(op->src[1], i1, i2, i3);
        if (!fg_in_range(op, row, x->ne[1]))
            return false;
        const char *from =
            (const char *)x->data + (size_t)row * x->nb[1] + (size_t)i2 * x->nb[2] + (size_t)i3 * x->nb[3];
        float *to = (float *)(void *)fg_row(op, r);
        const fovea_matrix matrix = fovea_matrix_out_in(from, type->dtype, 1, x->ne[0]);
        if (!done(op, type->block == 1 ? fovea_convert(x->ne[0], from, type->dtype, to, FOVEA_DTYPE_F32)
                                       : fovea_dequantize(context, &matrix, to)))
            return false;
    }
    return true;
}

enum ggml_status fg_get_rows_compute(fg_backend *backend, struct ggml_tensor *op) {
    const fg_team *team = fg_backend_team(backend);
    return team && get_rows(op, 0, fg_rows(op), team->context) ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED;
}

/* src[0] [n, count, b, c], src[1] [count, b', c'], b and c multiples; op [n, rows, b, c] */
bool fg_set_rows_serves(const struct ggml_tensor *op) {
    const fg_type *type = fg_type_of(op->type);
    const fovea_dtype to = type ? type->dtype : FOVEA_DTYPE_BOOL;
    return type && fg_is_plain(op->src[0], FOVEA_DTYPE_F32) && op->nb[0] == (size_t)type->bytes &&
           is_index(op->src[1]) &&
           (type->block == 1 || to == FOVEA_DTYPE_Q8_0 || to == FOVEA_DTYPE_Q4_0 || to == FOVEA_DTYPE_Q4_1);
}

static bool set_rows(const struct ggml_tensor *op, int64_t first, int64_t end, const fovea_context *context) {
    const struct ggml_tensor *x = op->src[0], *rows = op->src[1];
    const fg_type *type = fg_type_of(op->type);
    for (int64_t r = first; r < end; r++) {
        const int64_t i1 = r % x->ne[1], i2 = r / x->ne[1] % x->ne[2], i3 = r / x->ne[1] / x->ne[2];
        const int64_t row = index_at(rows, i1, i2 % rows->ne[1], i3 % rows->ne[2]);
        if (!fg_in_range(op, row, op->ne[1]))
            return false;
        const char *from = fg_row(x, r);
        char *to = (char *)op->data + (size_t)row * op->nb[1] + (size_t)i2 * op->nb[2] + (size_t)i3 * op->nb[3];
        const fovea_matrix matrix = fovea_matrix_out_in(from, FOVEA_DTYPE_F32, 1, x->ne[0]);
        if (!done(op, type->block == 1 ? fovea_convert(x->ne[0], from, FOVEA_DTYPE_F32, to, dtype_of(op))
                                       : fovea_quantize(context, &matrix, type->dtype, NULL, to, NULL, NULL)))
            return false;
    }
    return true;
}

static bool set_float_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    return set_rows(op, first, end, NULL);
}

/* In order where two indices may be the same: the last one stays. Quantizing uses the threads by itself. */
enum ggml_status fg_set_rows_compute(fg_backend *backend, struct ggml_tensor *op) {
    const int64_t rows = fg_rows(op->src[0]);
    if (fg_type_of(op->type)->block == 1)
        return set_float_rows(op, 0, rows) ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED;
    const fg_team *team = fg_backend_team(backend);
    return team && set_rows(op, 0, rows, team->context) ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED;
}
