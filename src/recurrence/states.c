/* The sequences of a call and their states (recurrence.h). */
#include "recurrence/recurrence.h"

#include <math.h>
#include <string.h>

static fovea_status check_lens(const int64_t *lens, int64_t batch, int64_t tokens) {
    for (int64_t b = 0; b < batch; b++)
        if (lens[b] < 0 || lens[b] > tokens)
            return fv_fail(FOVEA_ERROR_SHAPE, "lens[%lld] is %lld; it must be from 0 to %lld", (long long)b,
                           (long long)lens[b], (long long)tokens);
    return FOVEA_OK;
}

static fovea_status check_offsets(const int64_t *offsets, int64_t count, int64_t tokens) {
    int64_t before = 0;
    for (int64_t i = 0; i <= count; i++) {
        if (offsets[i] < before || offsets[i] > tokens)
            return fv_fail(FOVEA_ERROR_SHAPE, "cu_seqlens[%lld] is %lld; it must be from %lld to %lld", (long long)i,
                           (long long)offsets[i], (long long)before, (long long)tokens);
        before = offsets[i];
    }
    return FOVEA_OK;
}

fovea_status fv_sequences_read(const fovea_states *given, int64_t batch, int64_t tokens, fv_sequences *s) {
    *s = (fv_sequences){.count = batch, .tokens = tokens, .all = (double)batch * (double)tokens};
    fovea_states_init(&s->given);
    if (!given)
        return FOVEA_OK;
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_states), given, &s->given);
    const fovea_states *g = &s->given;
    if (status == FOVEA_OK && g->slots < 1)
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "states.slots is %lld; it must be at least 1", (long long)g->slots);
    if (status == FOVEA_OK && (g->order < FOVEA_STATE_ROWS || g->order > FOVEA_STATE_COLUMNS))
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "states.order is %d, not a fovea_state_order", (int)g->order);
    if (status != FOVEA_OK)
        return status;
    if (g->slots > FV_SIZE_LIMIT || g->sequences > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "states: %lld slots of %lld sequences are too many", (long long)g->slots,
                       (long long)g->sequences);
    if (!g->cu_seqlens)
        return g->sequences != 0 ? fv_fail(FOVEA_ERROR_ARGUMENT, "states.sequences is %lld without cu_seqlens",
                                           (long long)g->sequences)
               : g->lens         ? check_lens(g->lens, batch, tokens)
                                 : FOVEA_OK;
    if (g->lens)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "states has lens and cu_seqlens; give one of them");
    if (batch != 1 || g->sequences < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "cu_seqlens of %lld sequences needs a batch of 1, not %lld",
                       (long long)g->sequences, (long long)batch);
    s->count = g->sequences;
    return check_offsets(g->cu_seqlens, s->count, tokens);
}

static fovea_status check_state(const fv_sequences *s, const char *name, const fovea_tensor *t, int64_t slots,
                                bool output, fv_span *span) {
    const bool by_columns = s->given.order == FOVEA_STATE_COLUMNS;
    fv_tensor_rule rule = {name, t->dtype, {0, s->heads, s->rows, s->columns}, output, false};
    *span = (fv_span){name, 0, 0};
    if (!t->data)
        return FOVEA_OK;
    if (by_columns) {
        rule.shape[2] = s->columns;
        rule.shape[3] = s->rows;
    }
    if (!fv_multiply(slots, s->count, &rule.shape[0]))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%s is larger than memory", name);
    if (fv_type_of(t->dtype) == FV_TYPE_COUNT)
        return fv_floats_refuse(name, t->dtype);
    return fv_tensor_check(t, &rule, span);
}

static bool same_state(const fovea_tensor *a, const fovea_tensor *b, int64_t slots) {
    return a->data == b->data && a->dtype == b->dtype && slots == 1 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

fovea_status fv_sequences_check(const fv_sequences *s, fv_span spans[FV_STATE_SPANS]) {
    const fovea_states *g = &s->given;
    if (g->cache && s->rows > 0) {
        const fovea_status refused = fv_state_cache_check(s);
        if (refused != FOVEA_OK)
            return refused;
    }
    spans[2] = fv_lens_span("lens", g->lens, s->count);
    spans[3] = fv_lens_span("cu_seqlens", g->cu_seqlens, s->count + 1);
    fovea_status status = check_state(s, "states.before", &g->before, 1, false, &spans[0]);
    if (status == FOVEA_OK)
        status = check_state(s, "states.after", &g->after, g->slots, true, &spans[1]);
    if (g->before.data && same_state(&g->before, &g->after, g->slots))
        spans[0].end = spans[0].begin; /* after, which is written, stands for both */
    return status;
}

static fv_state state_at(const fv_sequences *s, const fovea_tensor *t, int64_t index, int64_t head) {
    return (fv_state){t->data ? fv_token_at(t, index, head, 0) : NULL, t->dtype, t->stride[2],
                      s->given.order == FOVEA_STATE_COLUMNS};
}

int64_t fv_sequence_chunk(const fv_sequences *s, int64_t most, int64_t left) {
    const int64_t slots = s->given.cache ? fv_state_cache_slots(s->given.cache) : s->given.slots;
    return fv_min(fv_min(most, fv_max(left - (slots - 1), 1)), left);
}

void fv_sequences_begin(const fv_sequences *s) {
    if (s->given.cache)
        fv_state_cache_begin(s);
}

void fv_sequences_end(const fv_sequences *s) {
    if (s->given.cache)
        fv_state_cache_end(s);
}

fv_state fv_state_before(const fv_sequences *s, int64_t sequence, int64_t head) {
    if (s->given.cache)
        return fv_state_cache_state(s, sequence, head, -1);
    return state_at(s, &s->given.before, sequence, head);
}

fv_state fv_state_after(const fv_sequences *s, int64_t sequence, int64_t head, int64_t slot) {
    if (s->given.cache)
        return fv_state_cache_state(s, sequence, head, slot);
    if (slot >= s->given.slots)
        return (fv_state){0};
    return state_at(s, &s->given.after, slot * s->count + sequence, head);
}

float *fv_state_in_place(const fv_state *state, bool by_columns, int64_t column, int64_t columns) {
    const bool whole = column + FV_STATE_COLUMNS <= columns;
    return state->data && state->dtype == FOVEA_DTYPE_F32 && state->by_columns == by_columns && whole
               ? (float *)state->data + column * (by_columns ? state->stride : 1)
               : NULL;
}

/* The n x m matrix from, transposed. */
static void transpose(const fovea_context *ctx, int64_t n, int64_t m, const float *from, int64_t ldfrom, float *to,
                      int64_t ldto) {
    enum { NARROW = 8 }; /* below, the packer copies blocks twice */
    if (m >= NARROW && n % FV_LANES == 0 && ldto % FV_LANES == 0) {
        ctx->ops.pack_columns(n, m, from, ldfrom, 0, to, ldto, NULL, NULL);
        return;
    }
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < n; i++)
            to[j * ldto + i] = from[i * ldfrom + j];
}

static char *element(const fv_state *state, int64_t major, int64_t minor) {
    return (char *)state->data + fv_dtype_size(state->dtype) * (major * state->stride + minor);
}

void fv_state_load(const fovea_context *ctx, const fv_state *state, int64_t rows, int64_t column, int64_t n,
                   float *tile, int64_t ld, float *room) {
    if (!state->data || n < ld)
        memset(tile, 0, (size_t)(rows * ld) * sizeof *tile);
    if (!state->data)
        return;
    fv_widen_bf16_fn *widen = fv_widen_of(state->dtype, ctx->target);
    const void *from = state->by_columns ? element(state, column, 0) : element(state, 0, column);
    if (!state->by_columns && widen)
        widen(rows, n, from, state->stride, tile, ld);
    else if (!state->by_columns)
        ctx->ops.copy(rows, n, from, state->stride, tile, ld);
    else if (widen) {
        widen(n, rows, from, state->stride, room, rows);
        transpose(ctx, n, rows, room, rows, tile, ld);
    } else
        transpose(ctx, n, rows, from, state->stride, tile, ld);
}

void fv_state_store(const fovea_context *ctx, const fv_state *state, int64_t rows, int64_t column, int64_t n,
                    const float *tile, int64_t ld, float *room) {
    if (!state->data)
        return;
    fv_narrow_bf16_fn *narrow = fv_narrow_of(state->dtype, ctx->target);
    void *to = state->by_columns ? element(state, column, 0) : element(state, 0, column);
    if (!state->by_columns && narrow)
        narrow(rows, n, tile, ld, to, state->stride);
    else if (!state->by_columns)
        ctx->ops.copy(rows, n, tile, ld, to, state->stride);
    else if (narrow) {
        transpose(ctx, rows, n, tile, ld, room, rows);
        narrow(n, rows, room, rows, to, state->stride);
    } else
        transpose(ctx, rows, n, tile, ld, to, state->stride);
}

/* Tokens [begin, end) of a batch become +0, which has the bits 0 in every type. */
static void clear(const fovea_tensor *out, bool channels_first, int64_t batch, int64_t begin, int64_t end) {
    const int64_t size = fv_dtype_size(out->dtype), rows = channels_first ? out->shape[2] : end,
                  n = channels_first ? end - begin : out->shape[3];
    for (int64_t h = 0; h < out->shape[1]; h++)
        for (int64_t row = channels_first ? 0 : begin; row < rows; row++)
            memset((char *)fv_token_at(out, batch, h, row) + (channels_first ? begin * size : 0), 0,
                   (size_t)(n * size));
}

void fv_sequences_clear(const fv_sequences *s, const fovea_tensor *out, bool channels_first) {
    const int64_t *offsets = s->given.cu_seqlens;
    if (offsets) {
        clear(out, channels_first, 0, 0, offsets[0]);
        clear(out, channels_first, 0, offsets[s->count], s->tokens);
    }
    for (int64_t b = 0; s->given.lens && b < s->count; b++)
        clear(out, channels_first, b, s->given.lens[b], s->tokens);
}
