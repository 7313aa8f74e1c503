/* Relative biases (relative.h).
 *
 * The line of a head: element u is the bias of distance top - u, top being that of the last query of the head in the
 * block from the first key of the segment. So the query that comes n before the last one has key k at k + n.
 */
#include "attention/flash/relative.h"

#include "attention/flash/tile.h"
#include "core/core.h"

#include <math.h>

enum { MOST_BUCKETS = 256, MOST_DISTANCE = 1 << 30, MOST_SIDE = 1 << 20 };

/* -------------------------------------------------------------------------------------------------- descriptions -- */

int64_t fv_relative_buckets(const fovea_attention_desc *d) {
    if (d->relative != FOVEA_RELATIVE_T5)
        return 0;
    return d->relative_bidirectional ? d->relative_buckets / 2 : d->relative_buckets;
}

static fovea_status check_buckets(const fovea_attention_desc *d) {
    const int64_t each = fv_relative_buckets(d);
    if (each < 2 || d->relative_buckets > MOST_BUCKETS)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "relative_buckets is %lld; it must be from %d to %d",
                       (long long)d->relative_buckets, d->relative_bidirectional ? 4 : 2, MOST_BUCKETS);
    if (d->relative_max_distance <= each / 2 || d->relative_max_distance > MOST_DISTANCE)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "relative_max_distance is %lld; it must be from %lld to 2^30",
                       (long long)d->relative_max_distance, (long long)each / 2 + 1);
    return FOVEA_OK;
}

static fovea_status check_window(const fovea_attention_desc *d) {
    const int64_t h = d->relative_height, w = d->relative_width;
    if (h < 1 || w < 1 || h > MOST_SIDE || w > MOST_SIDE)
        return fv_fail(FOVEA_ERROR_SHAPE, "relative_height %lld, relative_width %lld: each must be from 1 to 2^20",
                       (long long)h, (long long)w);
    return FOVEA_OK;
}

fovea_status fv_relative_check_desc(const fovea_attention_desc *d) {
    const fovea_status status = fv_enum_check(FV_ENUM_relative, "relative", (int)d->relative);
    if (status != FOVEA_OK)
        return status;
    return d->relative == FOVEA_RELATIVE_T5          ? check_buckets(d)
           : d->relative == FOVEA_RELATIVE_WINDOW_2D ? check_window(d)
                                                     : FOVEA_OK;
}

int64_t fv_relative_entries(const fovea_attention_desc *d, const fovea_tensor *relative) {
    switch (d->relative) {
    case FOVEA_RELATIVE_TOEPLITZ: return relative->shape[3];
    case FOVEA_RELATIVE_T5: return d->relative_buckets;
    case FOVEA_RELATIVE_WINDOW_2D: return (2 * d->relative_height - 1) * (2 * d->relative_width - 1);
    default: return 1;
    }
}

fovea_status fv_relative_check_args(const fovea_attention_plan *plan, const fovea_attention_args *args) {
    const fovea_attention_desc *d = &plan->desc;
    const fovea_tensor *t = &args->relative;
    if (d->relative == FOVEA_RELATIVE_NONE)
        return t->data ? fv_fail(FOVEA_ERROR_ARGUMENT, "relative is given, but desc.relative is FOVEA_RELATIVE_NONE")
                       : FOVEA_OK;
    if (!t->data)
        return FOVEA_OK;
    const int64_t entries = fv_relative_entries(d, t);
    if (t->shape[3] != entries)
        return fv_fail(FOVEA_ERROR_SHAPE, "relative: a head has %lld entries, %s asks for %lld", (long long)t->shape[3],
                       fv_enum_name(FV_ENUM_relative, (int)d->relative), (long long)entries);
    if (entries < 1 || (d->relative == FOVEA_RELATIVE_TOEPLITZ && entries % 2 == 0))
        return fv_fail(FOVEA_ERROR_SHAPE,
                       "relative: a head has %lld entries, FOVEA_RELATIVE_TOEPLITZ asks for an odd number",
                       (long long)entries);
    if (entries > 1 && t->stride[3] != 1 && !fv_tensor_empty(t))
        return fv_fail(FOVEA_ERROR_STRIDE, "relative: channel stride is %lld; it must be 1", (long long)t->stride[3]);
    return FOVEA_OK;
}

fovea_status fv_relative_check_sequences(const fovea_attention_plan *plan, const fovea_attention_args *args) {
    const fovea_attention_desc *d = &plan->desc;
    const int64_t positions = d->relative_height * d->relative_width;
    if (d->relative != FOVEA_RELATIVE_WINDOW_2D || !args->relative.data)
        return FOVEA_OK;
    for (int64_t b = 0; b < d->batch; b++) {
        const fv_sequence s = fv_attention_sequence(plan, args, b);
        const int64_t first = s.offset + args->first_key;
        if (s.kv_len == 0) /* no pair asks for a bias */
            continue;
        if (s.kv_len > positions - args->first_key)
            return fv_fail(FOVEA_ERROR_SHAPE, "sequence %lld has %lld keys, the window %lld positions", (long long)b,
                           (long long)(args->first_key + s.kv_len), (long long)positions);
        if (s.q_len > 0 && (first < 0 || first > positions - s.q_len))
            return fv_fail(FOVEA_ERROR_SHAPE,
                           "sequence %lld has queries at positions %lld to %lld, the window %lld positions",
                           (long long)b, (long long)first, (long long)(first + s.q_len - 1), (long long)positions);
    }
    return FOVEA_OK;
}

/* ------------------------------------------------------------------------------------------------------- buckets -- */

/* A natural number of at most 2 MOST_BUCKETS / 2 factors below 2^31, lowest digit first. */
typedef struct natural {
    uint32_t digit[MOST_BUCKETS];
    int digits;
} natural;

static void multiply_power(natural *x, int64_t factor, int64_t times) {
    for (int64_t i = 0; i < times; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < x->digits; j++) {
            carry += (uint64_t)x->digit[j] * (uint64_t)factor;
            x->digit[j] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry)
            x->digit[x->digits++] = (uint32_t)carry;
    }
}

static bool not_less(const natural *a, const natural *b) {
    if (a->digits != b->digits)
        return a->digits > b->digits;
    for (int i = a->digits - 1; i >= 0; i--)
        if (a->digit[i] != b->digit[i])
            return a->digit[i] > b->digit[i];
    return true;
}

/* Is (n / exact)^logarithmic >= (most / exact)^step? */
static bool reaches(int64_t n, int64_t exact, int64_t most, int64_t logarithmic, int64_t step) {
    natural a = {.digit = {1}, .digits = 1}, b = a;
    multiply_power(&a, n, logarithmic);
    multiply_power(&a, exact, step);
    multiply_power(&b, most, step);
    multiply_power(&b, exact, logarithmic);
    return not_less(&a, &b);
}

void fv_relative_bucket_starts(const fovea_attention_desc *d, int64_t *starts) {
    const int64_t buckets = fv_relative_buckets(d), exact = buckets / 2, logarithmic = buckets - exact;
    const int64_t most = d->relative_max_distance;
    for (int64_t b = 0; b < buckets; b++) {
        const int64_t step = b - exact;
        int64_t n = b;
        if (step > 0) { /* a guess first */
            n = (int64_t)((double)exact * pow((double)most / (double)exact, (double)step / (double)logarithmic));
            n = fv_min(fv_max(n, exact), most);
            while (n > exact && reaches(n - 1, exact, most, logarithmic, step))
                n--;
            while (!reaches(n, exact, most, logarithmic, step))
                n++;
        }
        starts[b] = n;
    }
}

/* --------------------------------------------------------------------------------------------------------- lines -- */

int64_t fv_relative_floats(const fovea_attention_plan *plan) {
    const int64_t rows = plan->choice.block_rows;
    /* A head has all tokens or, where a sequence is shorter, fewer: each row may be of another head. */
    const int64_t heads = fv_min(rows, plan->group);
    return plan->desc.relative == FOVEA_RELATIVE_NONE ? 0 : heads * FV_SEGMENT + rows;
}

/* Of the query at a token, counted from first_key. */
static int64_t position_of(const fv_block *x, int64_t token) {
    return token - x->sequence.q_start + x->sequence.offset;
}

static const float *table_of(const fv_block *x, int64_t head) {
    const fovea_tensor t = fv_tile_repeated(&x->args->relative);
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
    return x->line + (at.head - x->first.head) * FV_SEGMENT + first;
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
            x->line[k + i] = *(from - i);
    }
    return x->line;
}

const float *fv_relative_row(const fv_block *x, int64_t row, int64_t segment, fv_range keys) {
    int64_t last;
    if (x->plan->desc.relative == FOVEA_RELATIVE_WINDOW_2D)
        return window_row(x, row, segment, keys);
    const float *line = line_of(x, row, &last);
    return line + (last - row);
}
