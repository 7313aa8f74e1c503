/* Scores and values as they lie (decode.h). */
#include "attention/flash/decode.h"

#include <string.h>

/* Rows of a call. */
static int64_t rows_of_call(const fv_block *x, int64_t row) { return fv_min(x->rows - row, FV_FEW_ROWS); }

void fv_decode_open(fv_block *x) {
    const fv_attention_kernels *kernels = &x->plan->kernels;
    const int64_t dim = x->plan->desc.head_dim;
    const bool interleaved = x->kv->k.layout == FV_KV_INTERLEAVED, integers = fv_integers(&x->plan->desc);
    x->panels = interleaved && kernels->score_interleaved;
    x->decode = interleaved ? kernels->score_interleaved || kernels->score_groups : kernels->score_rows != NULL;
    assert(!integers || (x->decode && x->rows <= x->plan->choice.tile_rows));
    if (integers)
        fv_i8_rows(x->rows, dim, x->q, dim, x->integers);
}

/* Columns that rows of a call see: those of their group, where groups are made of whole calls. */
static fv_range columns_of_call(const fv_block *x, const fv_tile *t, int64_t row) {
    if (t->group_rows >= t->rows || t->group_rows % FV_FEW_ROWS != 0)
        return t->columns;
    const fv_range keys = x->groups[row / t->group_rows];
    return (fv_range){fv_round_down(keys.begin, FV_LANES), fv_round_up(keys.end, FV_LANES)};
}

bool fv_decode_prefetched(const fv_block *x) {
    return x->decode && x->kv->k.layout == FV_KV_INTERLEAVED && x->plan->kernels.value_few &&
           x->plan->desc.v_dtype != FOVEA_DTYPE_I8 && x->rows <= fv_prefetched_rows(x->kv->k.dtype);
}

/* Elements of a side from the first key of a span, whose column is at, to that of a column. */
static int64_t step_of_span(const fv_kv_side *side, const fv_kv_span *span, int64_t at, int64_t column) {
    return side->layout == FV_KV_INTERLEAVED
               ? fv_kv_interleaved(side, span->stride, column) - fv_kv_interleaved(side, span->stride, at)
               : (column - at) * span->stride;
}

/* What is prefetched while so many keys are multiplied. */
static fv_prefetch prefetch_with(fv_block *x, int64_t keys) {
    fv_prefetch prefetch = {0};
    if (!fv_decode_prefetched(x))
        fv_prefetch_with_keys(&x->queue, keys * x->plan->desc.value_dim * fv_dtype_size(x->plan->desc.v_dtype),
                              &prefetch);
    return prefetch;
}

/* Keys of a span, whose column is at, in columns [begin, end). Of interleaved ones a group is a panel. */
static fv_operand keys_of(const fv_block *x, const fv_kv_span *span, int64_t at, int64_t begin, int64_t end) {
    const fv_kv_side *side = &x->kv->k;
    fv_operand keys = {.data = fv_kv_step(side, span->at, step_of_span(side, span, at, begin)),
                       .scales = span->scales ? span->scales + (begin - at) : NULL,
                       .columns = end - begin,
                       .steps = x->plan->desc.head_dim,
                       .row = span->stride,
                       .format = fv_format_in_rows(side->dtype)};
    if (side->layout == FV_KV_INTERLEAVED) {
        keys.format = fv_format_interleaved(side->dtype);
        keys.row = keys.width = FV_KEY_GROUP;
        keys.panel = span->stride / fv_interleaved_word(side->dtype);
        keys.first = (int16_t)(begin % FV_KEY_GROUP);
    }
    return keys;
}

/* Scores of all rows of the tile with a span's interleaved keys: float32 takes a group a call, types of 16 bits take
 * all in one. Columns up to a multiple of FV_LANES are written, of what lies there. */
static void multiply_groups(fv_block *x, const fv_tile *t, int64_t at, const fv_kv_span *span) {
    const fovea_attention_plan *p = x->plan;
    const fv_rows queries = {x->q, x->rows, p->desc.head_dim};
    for (int64_t begin = at, end; begin < at + span->count; begin = end) {
        end = at + span->count;
        if (x->kv->k.dtype == FOVEA_DTYPE_F32)
            end = fv_min(end, fv_round_down(begin, FV_KEY_GROUP) + FV_KEY_GROUP);
        const fv_operand keys = keys_of(x, span, at, begin, begin + fv_round_up(end - begin, FV_LANES));
        const fv_epilogue epilogue = {.row_max = end <= t->row_max_end ? x->lanes : NULL,
                                      .accumulate_max = begin > t->columns.begin};
        const fv_prefetch prefetch = prefetch_with(x, end - begin);
        p->kernels.score_interleaved(&queries, &keys, x->s + begin, p->s_stride, &epilogue,
                                     prefetch.next ? &prefetch : NULL);
    }
}

/* Scores of all rows of the tile with a span's keys; columns from at on. */
static void multiply_span(fv_block *x, const fv_tile *t, int64_t at, const fv_kv_span *span) {
    const fovea_attention_plan *p = x->plan;
    const bool integers = fv_integers(&p->desc);
    const int64_t dim = p->desc.head_dim, words = fv_i8_row_words(dim);
    fv_multiply_fn *multiply = x->kv->k.layout == FV_KV_INTERLEAVED ? p->kernels.score_groups : p->kernels.score_rows;
    fv_prefetch prefetch = prefetch_with(x, span->count);
    for (int64_t row = 0; row < x->rows; row += FV_FEW_ROWS) {
        const fv_range visible = columns_of_call(x, t, row);
        const int64_t begin = fv_max(at, visible.begin), end = fv_min(at + span->count, visible.end);
        if (begin >= end)
            continue;
        const fv_rows queries = {x->q + row * dim, rows_of_call(x, row), dim},
                      whole = {x->integers + row * words, rows_of_call(x, row), words};
        const fv_operand keys = keys_of(x, span, at, begin, end);
        const fv_epilogue epilogue = {.row_max = end <= t->row_max_end ? x->lanes + row * FV_LANES : NULL,
                                      .accumulate_max = begin > t->columns.begin};
        multiply(integers ? &whole : &queries, &keys, x->s + row * p->s_stride + begin, p->s_stride, &epilogue,
                 prefetch.next ? &prefetch : NULL);
        prefetch.next = NULL; /* once is enough */
    }
}

/* FV_LANES keys in which a span ends: its keys at one place first. Pages with scales end where segments do. */
static void multiply_gathered(fv_block *x, const fv_tile *t, const fv_segment *s, int64_t at, int64_t end) {
    const fv_kv_side *k = &x->kv->k;
    const int64_t size = fv_dtype_size(k->dtype), bytes = x->plan->desc.head_dim * size;
    assert(!k->scales && k->layout == FV_KV_ROWS);
    for (int64_t key = at, count; key < end; key += count) {
        const fv_kv_span span = fv_span_of(x, k, s, key, end);
        count = span.count;
        for (int64_t i = 0; i < count; i++)
            memcpy((char *)x->gathered + (key - at + i) * bytes, (const char *)span.at + i * span.stride * size,
                   (size_t)bytes);
    }
    multiply_span(x, t, at, &(fv_kv_span){x->gathered, x->plan->desc.head_dim, end - at, NULL});
}

void fv_decode_scores(fv_block *x, const fv_tile *t, const fv_segment *s) {
    const int64_t end = fv_min(t->columns.end, s->keys.end);
    for (int64_t at = t->columns.begin, count; at < end; at += count) {
        const int64_t last = at < t->row_max_end ? fv_min(t->row_max_end, end) : end;
        fv_kv_span span = fv_span_of(x, &x->kv->k, s, at, last);
        count = span.count < last - at || last < end ? fv_round_down(span.count, FV_LANES) : span.count;
        span.count = count;
        if (count > 0)
            (x->panels ? multiply_groups : multiply_span)(x, t, at, &span);
        else {
            count = fv_min(FV_LANES, end - at);
            multiply_gathered(x, t, s, at, at + count);
        }
    }
}

/* So many weights at once, a loop that compilers make vectors of. Those of keys that a row does not see are -0 and stay
 * that: their scales may be anything. */
enum { SCALED = 16 };
static void scale_many(const float *scales, float *weights) {
    uint32_t before[SCALED], after[SCALED];
    float scaled[SCALED];
    memcpy(before, weights, sizeof before);
    for (int i = 0; i < SCALED; i++)
        scaled[i] = weights[i] * scales[i];
    memcpy(after, scaled, sizeof after);
    for (int i = 0; i < SCALED; i++) {
        const uint32_t hidden = (uint32_t) - (int32_t)(before[i] == UINT32_C(0x80000000));
        after[i] = (after[i] & ~hidden) | (before[i] & hidden);
    }
    memcpy(weights, after, sizeof after);
}

static void scale_weights(int64_t keys, const float *scales, float *weights) {
    const int64_t whole = fv_round_down(keys, SCALED);
    for (int64_t i = 0; i < whole; i += SCALED)
        scale_many(scales + i, weights + i);
    if (whole == keys)
        return;
    float last_scales[SCALED] = {0}, last[SCALED] = {0};
    memcpy(last_scales, scales + whole, (size_t)(keys - whole) * sizeof *scales);
    memcpy(last, weights + whole, (size_t)(keys - whole) * sizeof *weights);
    scale_many(last_scales, last);
    memcpy(weights + whole, last, (size_t)(keys - whole) * sizeof *weights);
}

void fv_decode_values(const fovea_attention_plan *p, int64_t rows, float *weights, const fv_operand *values, float *c,
                      int64_t ldc, const fv_epilogue *epilogue, fv_prefetch *prefetch) {
    for (int64_t row = 0; row < rows; row += FV_FEW_ROWS) {
        const fv_rows a = {weights + row * p->s_stride, fv_min(rows - row, FV_FEW_ROWS), p->s_stride};
        fv_epilogue e = *epilogue;
        e.start = e.start ? e.start + row * e.ldstart : NULL;
        e.a = e.a ? e.a + row : NULL;
        e.b = e.b ? e.b + row : NULL;
        for (int64_t i = 0; i < a.count && values->scales; i++)
            scale_weights(values->steps, values->scales, weights + (row + i) * p->s_stride);
        p->kernels.value_few(&a, values, c + row * ldc, ldc, &e, prefetch);
        prefetch->next = NULL; /* once is enough */
    }
}
