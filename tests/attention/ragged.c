/* Sequences put elsewhere (ragged.h). */
#include "ragged.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const place_words[PLACES + 1] = {"alone", "left", "start", "both", "packed", "gaps", "paged"};

static int64_t q_len_of(const attention_case *c, const inputs *in, int64_t b) {
    return in->q_lens ? in->q_lens[b] : c->desc.q_len;
}

static int64_t kv_len_of(const attention_case *c, const inputs *in, int64_t b) {
    return in->kv_lens ? in->kv_lens[b] : c->desc.kv_len;
}

/* ------------------------------------------------------------------------------------------------------- memory -- */

static placed place_tensor(const char *name, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                           int64_t channels, rng *r) {
    const size_t size = dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
    placed p;
    p.memory = guard_alloc(name, (size_t)(batch * heads * tokens * channels) * size,
                           rng_below(r, 2) ? GUARD_END : GUARD_START);
    p.t = rng_below(r, 2) ? fovea_tensor_bhtd(p.memory->data, dtype, batch, heads, tokens, channels)
                          : fovea_tensor_bthd(p.memory->data, dtype, batch, tokens, heads, channels);
    return p;
}

/* One with a column for each key; heads that repeat still do. */
static placed place_columns(const char *name, fovea_dtype dtype, const fovea_tensor *from, int64_t batch, int64_t heads,
                            int64_t tokens, int64_t columns, rng *r) {
    return place_tensor(name, dtype, batch, from->shape[1] == 1 ? 1 : heads, tokens, columns, r);
}

static void copy_element(const fovea_tensor *from, int64_t at, const fovea_tensor *to, int64_t element) {
    const size_t size = from->dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
    memcpy((char *)to->data + (size_t)element * size, (const char *)from->data + (size_t)at * size, size);
}

/* Copies the rows of a sequence: count tokens of all heads, from token 0 of entry b on to token at. */
void ragged_copy_rows(const fovea_tensor *from, int64_t b, const fovea_tensor *to, int64_t entry, int64_t at,
                      int64_t count) {
    for (int64_t h = 0; h < to->shape[1]; h++)
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < to->shape[3]; j++)
                copy_element(from, tensor_index(from, b, h, i, j), to, tensor_index(to, entry, h, at + i, j));
}

/* The same of a tensor that has a column for each key. */
void ragged_copy_columns(const ragged *x, int64_t n, const fovea_tensor *from, const fovea_tensor *to, int64_t entry) {
    for (int64_t h = 0; h < to->shape[1]; h++)
        for (int64_t i = 0; i < x->q_len[n]; i++)
            for (int64_t j = 0; j < x->kv_len[n]; j++)
                copy_element(from, tensor_index(from, x->first + n, h, i, j), to,
                             tensor_index(to, entry, h, x->q_at[n] + i, x->kv_at[n] + j));
}

bool ragged_packed(const ragged *x) { return x->kind >= PLACE_PACKED; }

int64_t ragged_entry(const ragged *x, int64_t n) { return ragged_packed(x) ? 0 : n; }

/* ------------------------------------------------------------------------------------------------------ placing -- */

/* Where sequences are, and how many tokens the tensors have. */
static void draw_places(ragged *x, int64_t *at, const int64_t *lens, int64_t longest, int64_t *tokens, rng *r) {
    *tokens = x->kind == PLACE_ALONE ? longest : longest + rng_below(r, 40);
    for (int64_t n = 0; n < x->count; n++) {
        const int64_t padding = *tokens - lens[n];
        at[n] = x->kind == PLACE_BOTH ? rng_between(r, 0, padding) : padding;
    }
}

/* For packed sequences. */
static void draw_ends(ragged *x, int64_t *at, const int64_t *lens, int64_t *tokens, rng *r) {
    const bool gaps = x->kind == PLACE_GAPS;
    at[0] = gaps ? rng_below(r, 20) : 0;
    for (int64_t n = 0; n < x->count; n++)
        at[n + 1] = at[n] + lens[n] + (gaps ? rng_below(r, 20) : 0);
    *tokens = at[x->count] + (gaps ? rng_below(r, 20) : 0);
}

static int64_t longest_of(const int64_t *lens, int64_t count) {
    int64_t longest = 0;
    for (int64_t n = 0; n < count; n++)
        longest = lens[n] > longest ? lens[n] : longest;
    return longest;
}

void ragged_make(ragged *x, place_kind kind, const attention_case *c, const inputs *in, int64_t first, int64_t count,
                 rng *r) {
    const fovea_attention_desc *d = &c->desc;
    int64_t q_tokens, kv_tokens;
    memset(x, 0, sizeof *x);
    x->kind = kind;
    x->first = first;
    x->count = count;
    for (int64_t n = 0; n < count; n++) {
        x->q_len[n] = q_len_of(c, in, first + n);
        x->kv_len[n] = kv_len_of(c, in, first + n);
        x->offset[n] = in->q_offsets ? in->q_offsets[first + n] : 0;
    }
    x->desc = *d;
    x->desc.batch = count;
    if (ragged_packed(x)) {
        draw_ends(x, x->q_at, x->q_len, &q_tokens, r);
        if (kind != PLACE_PAGED)
            draw_ends(x, x->kv_at, x->kv_len, &kv_tokens, r);
        x->desc.packed = 1;
        x->desc.q_len = longest_of(x->q_len, count) + rng_between(r, 20, 40); /* more does no harm */
        x->desc.kv_len = longest_of(x->kv_len, count) + rng_between(r, 20, 300);
        if (kind == PLACE_PAGED)
            kv_tokens = x->desc.kv_len;
    } else {
        draw_places(x, x->q_at, x->q_len, longest_of(x->q_len, count), &q_tokens, r);
        draw_places(x, x->kv_at, x->kv_len, longest_of(x->kv_len, count), &kv_tokens, r);
        x->desc.q_len = q_tokens;
        x->desc.kv_len = kv_tokens;
    }
    const int64_t entries = ragged_packed(x) ? 1 : count, kv_entries = kind == PLACE_PAGED ? count : entries;
    x->q = place_tensor("q", FOVEA_DTYPE_F32, entries, d->q_heads, q_tokens, d->head_dim, r);
    x->k = place_tensor("k", FOVEA_DTYPE_F32, kv_entries, d->kv_heads, kv_tokens, d->head_dim, r);
    x->v = place_tensor("v", FOVEA_DTYPE_F32, kv_entries, d->kv_heads, kv_tokens, d->value_dim, r);
    x->out = place_tensor("out", FOVEA_DTYPE_F32, entries, d->q_heads, q_tokens, d->value_dim, r);
    x->args = in->args;
    const fovea_dtype mask_dtype = d->mask == FOVEA_MASK_BOOLEAN ? FOVEA_DTYPE_BOOL : FOVEA_DTYPE_F32;
    if (d->mask != FOVEA_MASK_NONE)
        x->mask = place_columns("mask", mask_dtype, &in->args.mask, entries, d->q_heads, q_tokens, kv_tokens, r);
    if (d->has_bias)
        x->bias = place_columns("bias", FOVEA_DTYPE_F32, &in->args.bias, entries, d->q_heads, q_tokens, kv_tokens, r);
    if (c->lse)
        x->lse = place_tensor("lse", FOVEA_DTYPE_F32, entries, d->q_heads, q_tokens, 1, r);
    if (c->weights)
        x->weights = place_tensor("weights", FOVEA_DTYPE_F32, entries, d->q_heads, q_tokens, kv_tokens, r);
    for (int64_t n = 0; n < count; n++) {
        const int64_t b = first + n, entry = ragged_entry(x, n);
        ragged_copy_rows(&in->args.q, b, &x->q.t, entry, x->q_at[n], x->q_len[n]);
        const int64_t kv_entry = kind == PLACE_PAGED ? n : entry;
        ragged_copy_rows(&in->args.k, b, &x->k.t, kv_entry, x->kv_at[n], x->kv_len[n]);
        ragged_copy_rows(&in->args.v, b, &x->v.t, kv_entry, x->kv_at[n], x->kv_len[n]);
        if (x->mask.memory)
            ragged_copy_columns(x, n, &in->args.mask, &x->mask.t, entry);
        if (x->bias.memory)
            ragged_copy_columns(x, n, &in->args.bias, &x->bias.t, entry);
    }
    fovea_tensor *const tensors[] = {&x->args.q,    &x->args.k,    &x->args.v,   &x->args.out,
                                     &x->args.mask, &x->args.bias, &x->args.lse, &x->args.weights};
    const placed *const from[] = {&x->q, &x->k, &x->v, &x->out, &x->mask, &x->bias, &x->lse, &x->weights};
    for (int i = 0; i < OPERANDS; i++)
        *tensors[i] = from[i]->t;
    if (d->relative != FOVEA_RELATIVE_NONE && in->args.relative.shape[0] > 1) {
        x->args.relative.data = tensor_row(&in->args.relative, first, 0, 0);
        x->args.relative.shape[0] = count;
    }
    const bool lens = kind != PLACE_ALONE && kind != PLACE_START && kind != PLACE_PACKED && kind != PLACE_PAGED;
    const bool starts = kind != PLACE_ALONE && !ragged_packed(x);
    x->args.q_lens = lens ? x->q_len : NULL;
    x->args.kv_lens = lens || kind == PLACE_PAGED ? x->kv_len : NULL;
    x->args.q_starts = starts ? x->q_at : NULL;
    x->args.kv_starts = starts ? x->kv_at : NULL;
    x->args.q_cu_seqlens = ragged_packed(x) ? x->q_at : NULL;
    x->args.kv_cu_seqlens = ragged_packed(x) && kind != PLACE_PAGED ? x->kv_at : NULL;
    x->args.q_offsets = in->q_offsets ? x->offset : NULL;
}

void ragged_free(ragged *x) {
    guard *const memory[] = {x->q.memory,    x->k.memory,    x->v.memory,   x->out.memory,
                             x->mask.memory, x->bias.memory, x->lse.memory, x->weights.memory};
    for (int i = 0; i < OPERANDS; i++)
        guard_free(memory[i]);
}

/* -------------------------------------------------------------------------------------------------------- masks -- */

/* KEY_PADDING from a mask that is the same for all heads and queries of a sequence; keys of none have a flag, too. */
static void say_padding(mask_words *w, const ragged *x, const inputs *in) {
    const int64_t entries = ragged_packed(x) ? 1 : x->count, columns = x->k.t.shape[2];
    uint8_t *flags = must_alloc(entries * columns, 1);
    memset(flags, 7, (size_t)(entries * columns));
    for (int64_t n = 0; n < x->count; n++)
        for (int64_t j = 0; j < x->kv_len[n]; j++)
            flags[ragged_entry(x, n) * columns + x->kv_at[n] + j] = mask_attends(&in->args.mask, x->first + n, 0, 0, j);
    *w = (mask_words){.desc = x->desc, .args = x->args, .memory = {flags}};
    w->desc.mask = FOVEA_MASK_KEY_PADDING;
    w->args.mask = fovea_tensor_bhtd(flags, FOVEA_DTYPE_BOOL, entries, 1, 1, columns);
}

mask_words ragged_said(const fovea_context *ctx, const ragged *x, const attention_case *c, const inputs *in) {
    static const fovea_mask_kind inner[] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_BITS, FOVEA_MASK_RANGES, FOVEA_MASK_BLOCKS};
    mask_words w;
    fovea_attention_desc d = x->desc;
    const bool other =
        d.mask == FOVEA_MASK_BOOLEAN && c->say_mask > FOVEA_MASK_ADDITIVE && x->k.t.shape[2] > 0 && x->q.t.shape[2] > 0;
    if (other && x->kind != PLACE_PAGED && c->say_mask == FOVEA_MASK_KEY_PADDING &&
        mask_words_can(&in->args, FOVEA_MASK_KEY_PADDING)) {
        say_padding(&w, x, in);
        return w;
    }
    if (ragged_packed(x)) { /* as large as the tensors */
        d.batch = 1;
        d.q_len = x->q.t.shape[2];
        d.kv_len = x->k.t.shape[2];
    }
    mask_words_make(&w, ctx, &d, &x->args, other && mask_words_can(&x->args, c->say_mask) ? c->say_mask : d.mask,
                    inner[x->q.t.shape[2] % 4], (int64_t[]){1, 1});
    w.desc.batch = x->desc.batch;
    w.desc.q_len = x->desc.q_len;
    w.desc.kv_len = x->desc.kv_len;
    return w;
}

/* ------------------------------------------------------------------------------------------------------- checks -- */

static const float unwritten = -12345; /* in outputs before a call */

/* An output as it should be: padding, in the columns around a sequence's keys, too, and the rows of the sequences. */
static float *expected(const ragged *x, const placed *p, const fovea_tensor *want, float padding) {
    const int64_t floats = (int64_t)(p->memory->size / sizeof(float));
    float *memory = must_alloc(floats, sizeof *memory);
    fovea_tensor t = p->t;
    t.data = memory;
    for (int64_t i = 0; i < floats; i++)
        memory[i] = ragged_packed(x) ? unwritten : padding;
    for (int64_t b = 0; p == &x->lse && x->args.sinks && !ragged_packed(x) && b < t.shape[0]; b++)
        for (int64_t h = 0; h < t.shape[1]; h++)
            for (int64_t i = 0; i < t.shape[2]; i++)
                *tensor_row(&t, b, h, i) = x->args.sinks[h];
    for (int64_t n = 0; n < x->count; n++) {
        if (p == &x->weights) {
            for (int64_t h = 0; h < t.shape[1]; h++)
                for (int64_t i = 0; i < x->q_len[n]; i++)
                    memset(tensor_row(&t, ragged_entry(x, n), h, x->q_at[n] + i), 0,
                           (size_t)t.shape[3] * sizeof(float));
            ragged_copy_columns(x, n, want, &t, ragged_entry(x, n));
        } else
            ragged_copy_rows(want, x->first + n, &t, ragged_entry(x, n), x->q_at[n], x->q_len[n]);
    }
    return memory;
}

static void check_output(const ragged *x, const placed *p, const fovea_tensor *want, float padding, const char *text) {
    if (!p->memory)
        return;
    float *all = expected(x, p, want, padding);
    test_same(p->memory->data, all, (int64_t)(p->memory->size / sizeof(float)), "%s, %s (%s)", p->memory->name,
              place_words[x->kind], text);
    free(all);
}

void ragged_clear(const ragged *x) {
    const placed *const outs[] = {&x->out, &x->lse, &x->weights};
    for (int i = 0; i < 3; i++)
        for (size_t n = 0; outs[i]->memory && n < outs[i]->memory->size / sizeof(float); n++)
            ((float *)outs[i]->memory->data)[n] = unwritten;
}

void ragged_check(const ragged *x, const outputs *want, const char *text) {
    check_output(x, &x->out, &want->out, 0, text);
    check_output(x, &x->lse, &want->lse, -INFINITY, text);
    check_output(x, &x->weights, &want->weights, 0, text);
}
