/* ARGSORT and TOP_K (elementwise.h), for routers: the first k numbers of a row in order, ties by index, NaN last. A
 * heap keeps the best ones so far, the worst of them on top. */
#include "elementwise.h"

#include <math.h>

typedef struct row_order {
    const float *x;
    bool descending;
} row_order;

static bool before(const row_order *o, int32_t a, int32_t b) {
    const float x = o->x[a], y = o->x[b];
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y) ? a < b : isnan(y);
    return x == y ? a < b : (x < y) != o->descending;
}

/* Moves the number at `at` down to its place in a heap of n. */
static void sift(const row_order *o, int32_t *heap, int64_t n, int64_t at) {
    const int32_t number = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(o, heap[child], heap[child + 1]))
            child++;
        if (!before(o, number, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = number;
}

static void sort_row(const row_order *o, int64_t n, int64_t k, int32_t *y) {
    for (int64_t i = 0; i < k; i++)
        y[i] = (int32_t)i;
    for (int64_t i = k / 2; i-- > 0;)
        sift(o, y, k, i);
    for (int64_t i = k; i < n; i++)
        if (before(o, (int32_t)i, y[0])) {
            y[0] = (int32_t)i;
            sift(o, y, k, 0);
        }
    for (int64_t left = k; left-- > 1;) {
        const int32_t worst = y[0];
        y[0] = y[left];
        y[left] = worst;
        sift(o, y, left, 0);
    }
}

/* Rows longer than those of routers are sorted by ggml, which is faster then. */
bool fg_sort_serves(const struct ggml_tensor *op) {
    enum { MOST = 4096 };
    const struct ggml_tensor *x = op->src[0];
    for (int i = 1; i < 4; i++)
        if (op->ne[i] != x->ne[i])
            return false;
    return fg_is_plain(x, FOVEA_DTYPE_F32) && fg_is_named(op, "i32") && op->nb[0] == sizeof(int32_t) &&
           op->ne[0] <= x->ne[0] && x->ne[0] <= MOST;
}

static bool sort_rows(const struct ggml_tensor *op, int64_t first, int64_t end, bool descending) {
    for (int64_t r = first; r < end; r++) {
        const row_order o = {(const float *)(const void *)fg_row(op->src[0], r), descending};
        sort_row(&o, op->src[0]->ne[0], op->ne[0], (int32_t *)(void *)fg_row(op, r));
    }
    return true;
}

static bool argsort_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    return sort_rows(op, first, end, op->op_params[0] == GGML_SORT_ORDER_DESC);
}

static bool top_k_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    return sort_rows(op, first, end, true);
}

enum { BYTES_OF_NUMBER = 64 }; /* what could be copied while one is put in its place */

enum ggml_status fg_argsort_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), BYTES_OF_NUMBER * op->ne[0], argsort_rows);
}

enum ggml_status fg_top_k_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), BYTES_OF_NUMBER * op->ne[0], top_k_rows);
}
