/* Relative biases (relative.h).
 *
 * The line of a head: element u is the bias of distance top - u, top being that of the last query of the head in the
 * block from the first key of the segment. So the query that comes n before the last one has key k at k + n.
 */
#include "attention/flash/relative.h"

#include "attention/flash/tile.h"
#include "attention/plan/buckets.h"
#include "core/core.h"

/* Position of the query at a token, counted from first_key. */
static int64_t position_of(const fv_block *x, int64_t token) {
    return token - x->sequence.q_start + x->sequence.offset;
}

static const float *table_of(const fv_block *x, int64_t head) {
    const fovea_tensor t = fv_tensor_repeated(&x->args->relative);
    return fv_element(&t, x->sequence.index, head, 0);
}

static void alibi_line(float slope, int64_t top, int64_t n, float *line) {
    for (int64_t u = 0; u < n; u++) {
        const int64_t distance = top - u;
        const float product = slope * (float)(distance < 0 ? -distance : distance);
        line[u] = -product;
    }
}

static void toeplitz_line(const float *table, int64_t entries, int64_t top, int64_t n, float *line) {
    const int64_t reach = entries / 2;
    for (int64_t u = 0; u < n; u++)
        line[u] = table[reach + fv_max(fv_min(top - u, reach), -reach)];
}

/* Bucket by bucket. */
static void t5_line(const fovea_attention_plan *p, const float *table, int64_t top, int64_t n, float *line) {
    const int64_t buckets = fv_relative_buckets(&p->desc), *starts = p->bucket_starts;
    const float *const ahead = table + (p->desc.relative_bidirectional ? buckets : 0);
    int64_t u = 0, b = buckets - 1;
    for (; u < n && top - u >= 0; b--) { /* keys before the query, and its own */
        const int64_t end = fv_min(top - starts[b] + 1, n);
        for (; u < end; u++)
            line[u] = table[b];
    }
    for (b = 0; u < n; b++) { /* keys after it */
        const bool last = b + 1 == buckets || !p->desc.relative_bidirectional;
        const int64_t end = last ? n : fv_min(top + starts[b + 1], n);
        for (; u < end; u++)
            line[u] = ahead[b];
    }
}

/* Where the line of a row's head is, and the row of the block that is its last. */
static float *line_of(const fv_block *x, int64_t row, int64_t *last) {
    const int64_t tokens = x->sequence.tokens.end - x->sequence.tokens.begin;
    const fv_row_place at = fv_place_of(x, row);
    const int64_t in_head = at.token - x->sequence.tokens.begin, first = fv_max(row - in_head, 0);
    *last = fv_min(row - in_head + tokens, x->rows) - 1;
    return x->to->line + (at.head - x->first.head) * FV_SEGMENT + first;
}

void fv_relative_open(const fv_block *x, int64_t segment) {
    const fovea_attention_plan *p = x->plan;
    if (p->desc.relative == FOVEA_RELATIVE_NONE || p->desc.relative == FOVEA_RELATIVE_WINDOW_2D)
        return;
    for (int64_t row = 0, last; row < x->rows; row = last + 1) {
        float *line = line_of(x, row, &last);
        const fv_row_place at = fv_place_of(x, last);
        const float *table = table_of(x, at.head);
        const int64_t top = position_of(x, at.token) - segment * FV_SEGMENT, n = FV_SEGMENT + last - row;
        if (p->desc.relative == FOVEA_RELATIVE_ALIBI)
            alibi_line(*table, top, n, line);
        else if (p->desc.relative == FOVEA_RELATIVE_TOEPLITZ)
            toeplitz_line(table, x->args->relative.shape[3], top, n, line);
        else
            t5_line(p, table, top, n, line);
    }
}

static const float *window_row(const fv_block *x, int64_t row, int64_t segment, fv_range keys) {
    const fovea_attention_desc *d = &x->plan->desc;
    const int64_t h = d->relative_height, w = d->relative_width;
    const fv_row_place at = fv_place_of(x, row);
    const int64_t piece = x->args->first_key, position = piece + position_of(x, at.token);
    const int64_t y = position / w, column = position % w;
    const float *table = table_of(x, at.head);
    for (int64_t k = keys.begin, count; k < keys.end; k += count) {
        const int64_t key = piece + segment * FV_SEGMENT + k, key_y = key / w, key_x = key % w;
        const float *from = table + (y - key_y + h - 1) * (2 * w - 1) + column - key_x + w - 1;
        count = fv_min(w - key_x, keys.end - k);
        for (int64_t i = 0; i < count; i++)
            x->to->line[k + i] = *(from - i);
    }
    return x->to->line;
}

const float *fv_relative_row(const fv_block *x, int64_t row, int64_t segment, fv_range keys) {
    int64_t last;
    if (x->plan->desc.relative == FOVEA_RELATIVE_WINDOW_2D)
        return window_row(x, row, segment, keys);
    const float *line = line_of(x, row, &last);
    return line + (last - row);
}
