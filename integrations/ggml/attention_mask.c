/* Masks of ggml, made those of the library. A mask is read once for each attention: most rows see one range of keys,
 * which then costs as much as causality. Rows with holes (several sequences in one cache) become bits. Numbers other
 * than 0 and -inf are biases, in float32 as the library adds them; ranges or bits still say which keys are skipped. */
#include "attention_part.h"

#include <math.h>
#include <string.h>

enum { MINUS_INFINITY = 0xfc00, MAGNITUDE = 0x7fff, ROWS_OF_TASK = 16 };

typedef struct reading {
    const fg_attention *a;
    fg_mask *seen;
    int64_t rows; /* of all sequences and heads */
    bool holes[1], values[1];
    const fg_part *part; /* of biases */
    float *bias;
    int64_t bias_batch, bias_heads;
} reading;

static const uint16_t *mask_row(const fg_attention *a, int64_t sequence, int64_t head, int64_t row) {
    const struct ggml_tensor *m = a->mask;
    return (const uint16_t *)(const void *)((const char *)m->data + row * (int64_t)m->nb[1] +
                                            head % m->ne[2] * (int64_t)m->nb[2] +
                                            sequence % m->ne[3] * (int64_t)m->nb[3]);
}

/* Row i of [batch, heads, rows]. */
static const uint16_t *row_at(const reading *r, int64_t i) {
    const int64_t rows = r->a->rows, head = i / rows;
    return mask_row(r->a, head / r->seen->heads, head % r->seen->heads, i % rows);
}

/* The range of a row, and whether it has holes or numbers that are added. */
static void read_row(const uint16_t *mask, int64_t keys, int64_t *range, bool *holes, bool *values) {
    int64_t first = 0, end = keys;
    while (first < end && mask[first] == MINUS_INFINITY)
        first++;
    while (end > first && mask[end - 1] == MINUS_INFINITY)
        end--;
    uint16_t masked = 0, added = 0;
    for (int64_t j = first; j < end; j++) {
        const uint16_t m = mask[j];
        masked |= (uint16_t)(m == MINUS_INFINITY);
        added |= (uint16_t)((m != MINUS_INFINITY) & ((m & MAGNITUDE) != 0));
    }
    range[0] = first;
    range[1] = end;
    *holes = masked;
    *values = added;
}

static void read_rows(void *arg, int64_t task) {
    reading *r = arg;
    const int64_t first = task * ROWS_OF_TASK, end = r->rows < first + ROWS_OF_TASK ? r->rows : first + ROWS_OF_TASK;
    for (int64_t i = first; i < end; i++) {
        bool holes, values;
        read_row(row_at(r, i), r->a->keys, &r->seen->ranges[2 * i], &holes, &values);
        if (holes)
            __atomic_store_n(r->holes, true, __ATOMIC_RELAXED);
        if (values)
            __atomic_store_n(r->values, true, __ATOMIC_RELAXED);
    }
}

static void write_bits(void *arg, int64_t task) {
    reading *r = arg;
    const int64_t first = task * ROWS_OF_TASK, end = r->rows < first + ROWS_OF_TASK ? r->rows : first + ROWS_OF_TASK;
    const int64_t keys = r->a->keys;
    for (int64_t i = first; i < end; i++) {
        const uint16_t *mask = row_at(r, i);
        uint8_t *bits = &r->seen->bits[i * r->seen->row_bytes];
        for (int64_t j = 0; j < keys; j += 8) {
            unsigned byte = 0;
            for (int64_t n = 0; n < 8 && j + n < keys; n++)
                byte |= (unsigned)(mask[j + n] != MINUS_INFINITY) << n;
            bits[j / 8] = (uint8_t)byte;
        }
    }
}

static enum ggml_status for_rows(fg_team *team, reading *r, void (*task)(void *, int64_t)) {
    const int64_t tasks = (r->rows + ROWS_OF_TASK - 1) / ROWS_OF_TASK;
    if (tasks == 1) {
        task(r, 0);
        return GGML_STATUS_SUCCESS;
    }
    return fg_status(fovea_parallel(team->context, tasks, task, r), "FLASH_ATTN_EXT's mask");
}

enum ggml_status fg_mask_read(fg_backend *backend, fg_team *team, fg_attention *a) {
    fg_mask *seen = &a->seen;
    *seen = (fg_mask){.kind = FOVEA_MASK_NONE};
    if (!a->mask)
        return GGML_STATUS_SUCCESS;
    seen->batch = a->mask->ne[3] == 1 ? 1 : a->batch;
    seen->heads = a->mask->ne[2] == 1 ? 1 : a->heads;
    reading r = {.a = a, .seen = seen, .rows = seen->batch * seen->heads * a->rows};
    seen->ranges = fg_memory_get(&backend->ranges, (size_t)r.rows * 2 * sizeof(int64_t));
    if (!seen->ranges)
        return GGML_STATUS_ALLOC_FAILED;
    enum ggml_status status = for_rows(team, &r, read_rows);
    seen->kind = FOVEA_MASK_RANGES;
    seen->has_bias = r.values[0];
    if (status == GGML_STATUS_SUCCESS && r.holes[0]) {
        seen->kind = FOVEA_MASK_BITS;
        seen->row_bytes = (a->keys + 7) / 8;
        seen->bits = fg_memory_get(&backend->bits, (size_t)(r.rows * seen->row_bytes));
        status = seen->bits ? for_rows(team, &r, write_bits) : GGML_STATUS_ALLOC_FAILED;
    }
    return status;
}

fovea_tensor fg_mask_part(const fg_attention *a, const fg_part *part, int64_t *shifted) {
    const fg_mask *seen = &a->seen;
    fovea_tensor t = {.dtype = FOVEA_DTYPE_I64};
    if (seen->kind == FOVEA_MASK_NONE)
        return t;
    const int64_t batch = seen->batch == 1 ? 1 : part->sequences, heads = seen->heads == 1 ? 1 : part->heads;
    const int64_t sequence = seen->batch == 1 ? 0 : part->sequence, head = seen->heads == 1 ? 0 : part->head;
    const int64_t first = (sequence * seen->heads + head) * a->rows + part->row;
    const bool bits = seen->kind == FOVEA_MASK_BITS;
    const int64_t row = bits ? seen->row_bytes : 2;
    t.shape[0] = batch;
    t.shape[1] = heads;
    t.shape[2] = part->rows;
    t.shape[3] = bits ? (part->keys + 7) / 8 : 2;
    t.stride[0] = seen->heads * a->rows * row;
    t.stride[1] = a->rows * row;
    t.stride[2] = row;
    t.stride[3] = 1;
    if (bits) {
        t.dtype = FOVEA_DTYPE_BITS;
        t.data = seen->bits + first * row + part->key / 8;
        return t;
    }
    t.data = seen->ranges + first * row;
    if (part->key > 0) { /* columns are those of the piece */
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < 2 * part->rows; i++) {
                const int64_t at = seen->ranges[(first + h * a->rows) * row + i] - part->key;
                shifted[2 * h * part->rows + i] = at > 0 ? at : 0;
            }
        t.data = shifted;
        t.stride[1] = 2 * part->rows;
    }
    return t;
}

/* -------------------------------------------------------------------------------------------------------- biases -- */

/* ALiBi's slope, as ggml computes it: powers of 2^(-max_bias / n), n the largest power of 2 up to heads, then those
 * between. */
static float slope_of(const fg_attention *a, int64_t head) {
    if (!(a->max_bias > 0))
        return 1;
    int64_t n = 1;
    while (2 * n <= a->heads)
        n *= 2;
    const float m0 = powf(2.0f, -a->max_bias / (float)n), m1 = powf(2.0f, -(a->max_bias / 2) / (float)n);
    return head < n ? powf(m0, (float)(head + 1)) : powf(m1, (float)(2 * (head - n) + 1));
}

static bool bias_of_heads(const fg_attention *a) { return a->max_bias > 0 || a->mask->ne[2] != 1; }

int64_t fg_mask_bias_size(const fg_attention *a, const fg_part *part) {
    const int64_t batch = a->mask->ne[3] == 1 ? 1 : part->sequences, heads = bias_of_heads(a) ? part->heads : 1;
    return batch * heads * part->rows * part->keys;
}

static void write_biases(void *arg, int64_t task) {
    const reading *r = arg;
    const fg_part *part = r->part;
    const int64_t first = task * ROWS_OF_TASK, end = r->rows < first + ROWS_OF_TASK ? r->rows : first + ROWS_OF_TASK;
    for (int64_t i = first; i < end; i++) {
        const int64_t at = i / part->rows;
        const int64_t sequence = part->sequence + at / r->bias_heads, head = part->head + at % r->bias_heads;
        const uint16_t *mask = mask_row(r->a, sequence, head, part->row + i % part->rows) + part->key;
        float *bias = r->bias + i * part->keys;
        fovea_convert(part->keys, mask, FOVEA_DTYPE_F16, bias, FOVEA_DTYPE_F32);
        const float slope = slope_of(r->a, head);
        if (slope != 1)
            for (int64_t j = 0; j < part->keys; j++)
                bias[j] *= slope;
    }
}

fovea_tensor fg_mask_bias(const fg_attention *a, fg_team *team, const fg_part *part, float *memory) {
    const int64_t batch = a->mask->ne[3] == 1 ? 1 : part->sequences, heads = bias_of_heads(a) ? part->heads : 1;
    reading r = {.a = a,
                 .rows = batch * heads * part->rows,
                 .part = part,
                 .bias = memory,
                 .bias_batch = batch,
                 .bias_heads = heads};
    fovea_tensor t = {0}; /* without data: refused, as a missing operand */
    if (for_rows(team, &r, write_biases) == GGML_STATUS_SUCCESS)
        t = fovea_tensor_bhtd(memory, FOVEA_DTYPE_F32, batch, heads, part->rows, part->keys);
    return t;
}
