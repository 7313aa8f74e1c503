/* Fills descriptions from the arguments of other systems (fovea/compat.h). */
#include "core/core.h"
#include "fovea/fovea.h"

#include <stdbool.h>

/* Before any of their fields is read. */
static fovea_status check_structs(const fovea_attention_desc *desc, const fovea_attention_args *args) {
    const fv_pointer both[] = {{"desc", desc}, {"args", args}};
    fovea_status status = fv_pointers_check(both, 2);
    if (status == FOVEA_OK)
        status = fv_struct_check(FV_STRUCT(fovea_attention_desc), desc);
    return status == FOVEA_OK ? fv_struct_check(FV_STRUCT(fovea_attention_args), args) : status;
}

/* desc and args; and, unless the batch is empty, what has an element for each sequence. */
static fovea_status check(const fovea_attention_desc *desc, const fovea_attention_args *args, const fv_pointer *more,
                          int count) {
    const fovea_status status = check_structs(desc, args);
    return status == FOVEA_OK && desc->batch > 0 ? fv_pointers_check(more, count) : status;
}

fovea_tensor fovea_tensor_broadcast(void *data, fovea_dtype dtype, int rank, const int64_t *shape) {
    int64_t sizes[4] = {1, 1, 1, 1};
    const bool good = rank == 0 || (rank > 0 && rank <= 4 && shape);
    for (int i = 0; i < rank && good; i++)
        sizes[4 - rank + i] = shape[i];
    if (!good)
        sizes[0] = -1;
    return fovea_tensor_bhtd(data, dtype, sizes[0], sizes[1], sizes[2], sizes[3]);
}

static void set_mask(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor mask) {
    desc->mask = !mask.data                       ? FOVEA_MASK_NONE
                 : mask.dtype == FOVEA_DTYPE_BOOL ? FOVEA_MASK_BOOLEAN
                                                  : FOVEA_MASK_ADDITIVE;
    args->mask = mask;
}

fovea_status fovea_from_onnx(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                             int is_causal, int64_t past_length, const int64_t *nonpad_kv_seqlen, int64_t *buffer) {
    const fovea_status status = check(desc, args, &(fv_pointer){"buffer", buffer}, 1);
    if (status != FOVEA_OK)
        return status;
    int64_t *q_offsets = buffer, *kv_lens = buffer + desc->batch;
    set_mask(desc, args, attn_mask);
    if (attn_mask.data && attn_mask.shape[3] < desc->kv_len) {
        desc->kv_len = attn_mask.shape[3];
        args->k = fovea_tensor_tokens(args->k, 0, desc->kv_len);
        args->v = fovea_tensor_tokens(args->v, 0, desc->kv_len);
    }
    for (int64_t b = 0; b < desc->batch; b++) {
        const int64_t there = nonpad_kv_seqlen ? nonpad_kv_seqlen[b] : desc->kv_len;
        q_offsets[b] = nonpad_kv_seqlen ? there - desc->q_len : past_length;
        kv_lens[b] = there < desc->kv_len ? there : desc->kv_len;
    }
    desc->causal = is_causal ? FOVEA_CAUSAL_OFFSET : FOVEA_CAUSAL_NONE;
    args->q_offsets = q_offsets;
    args->kv_lens = kv_lens;
    return FOVEA_OK;
}

fovea_status fovea_from_ort_gqa(fovea_attention_desc *desc, fovea_attention_args *args, const int32_t *seqlens_k,
                                int is_prompt, int64_t local_window_size, int64_t *buffer) {
    const fv_pointer more[] = {{"seqlens_k", seqlens_k}, {"buffer", buffer}};
    const fovea_status status = check(desc, args, more, 2);
    if (status != FOVEA_OK)
        return status;
    int64_t *q_offsets = buffer, *kv_lens = buffer + desc->batch;
    for (int64_t b = 0; b < desc->batch; b++) {
        kv_lens[b] = (int64_t)seqlens_k[b] + 1;
        q_offsets[b] = is_prompt ? 0 : kv_lens[b] - desc->q_len;
    }
    desc->causal = FOVEA_CAUSAL_OFFSET;
    desc->window_left = local_window_size > 0 ? local_window_size - 1 : -1;
    args->q_offsets = q_offsets;
    args->kv_lens = kv_lens;
    return FOVEA_OK;
}

/* Queries and keys of sequence b. */
static int64_t length_of(int64_t b, int64_t most, const int64_t *lens, const int64_t *cu_seqlens) {
    return lens ? lens[b] : cu_seqlens ? cu_seqlens[b + 1] - cu_seqlens[b] : most;
}

fovea_status fovea_from_flash(fovea_attention_desc *desc, fovea_attention_args *args, int causal, int64_t window_left,
                              int64_t window_right, int64_t *buffer) {
    const fovea_status status = check(desc, args, &(fv_pointer){"buffer", buffer}, 1);
    if (status != FOVEA_OK)
        return status;
    desc->causal = causal ? FOVEA_CAUSAL_BOTTOM_RIGHT : FOVEA_CAUSAL_NONE;
    desc->window_left = window_left;
    desc->window_right = window_right;
    for (int64_t b = 0; b < desc->batch; b++)
        buffer[b] = length_of(b, desc->kv_len, args->kv_lens, args->kv_cu_seqlens) -
                    length_of(b, desc->q_len, args->q_lens, args->q_cu_seqlens);
    args->q_offsets = causal ? NULL : buffer;
    return FOVEA_OK;
}

fovea_status fovea_from_flash_varlen(fovea_attention_desc *desc, fovea_attention_args *args, int64_t batch,
                                     const int32_t *cu_seqlens_q, const int32_t *cu_seqlens_k, int64_t max_seqlen_q,
                                     int64_t max_seqlen_k, int causal, int64_t window_left, int64_t window_right,
                                     int64_t *buffer) {
    const fv_pointer more[] = {{"cu_seqlens_q", cu_seqlens_q}, {"cu_seqlens_k", cu_seqlens_k}, {"buffer", buffer}};
    fovea_status status = check_structs(desc, args);
    if (status == FOVEA_OK)
        status = fv_pointers_check(more, 3);
    if (status != FOVEA_OK)
        return status;
    int64_t *q_cu_seqlens = buffer, *kv_cu_seqlens = buffer + batch + 1;
    for (int64_t b = 0; b <= batch; b++) {
        q_cu_seqlens[b] = cu_seqlens_q[b];
        kv_cu_seqlens[b] = cu_seqlens_k[b];
    }
    desc->packed = 1;
    desc->batch = batch;
    desc->q_len = max_seqlen_q;
    desc->kv_len = max_seqlen_k;
    args->q_cu_seqlens = q_cu_seqlens;
    args->kv_cu_seqlens = kv_cu_seqlens;
    return fovea_from_flash(desc, args, causal, window_left, window_right, kv_cu_seqlens + batch + 1);
}

fovea_status fovea_from_flash_kvcache(fovea_attention_desc *desc, fovea_attention_args *args,
                                      const int32_t *cache_seqlens, int64_t new_keys, const int32_t *cache_leftpad,
                                      int causal, int64_t window_left, int64_t window_right, int64_t *buffer) {
    const fv_pointer more[] = {{"cache_seqlens", cache_seqlens}, {"buffer", buffer}};
    const fovea_status status = check(desc, args, more, 2);
    if (status != FOVEA_OK)
        return status;
    int64_t *kv_lens = buffer, *kv_starts = buffer + desc->batch;
    for (int64_t b = 0; b < desc->batch; b++) {
        kv_starts[b] = cache_leftpad ? cache_leftpad[b] : 0;
        kv_lens[b] = cache_seqlens[b] + new_keys - kv_starts[b];
    }
    args->kv_lens = kv_lens;
    args->kv_starts = cache_leftpad ? kv_starts : NULL; /* keys in pages take none */
    return fovea_from_flash(desc, args, causal, window_left, window_right, buffer + 2 * desc->batch);
}

fovea_status fovea_from_torch_key(fovea_tensor tensor, int64_t token, const float *value) {
    if (token < 0 || token >= tensor.shape[2] || fv_tensor_empty(&tensor))
        return FOVEA_OK;
    if (tensor.dtype != FOVEA_DTYPE_F32)
        return fv_dtype_refuse("the tensor's dtype", tensor.dtype, "fovea_from_torch_key takes FOVEA_DTYPE_F32");
    if (!tensor.data)
        return fv_fail(FOVEA_ERROR_NULL, "the tensor's data is NULL");
    const int64_t channels = tensor.shape[3];
    for (int64_t b = 0; b < tensor.shape[0]; b++)
        for (int64_t h = 0; h < tensor.shape[1]; h++) {
            float *to = (float *)tensor.data + b * tensor.stride[0] + h * tensor.stride[1] + token * tensor.stride[2];
            for (int64_t c = 0; c < channels; c++)
                to[c] = value ? value[h * channels + c] : 0.0f;
        }
    return FOVEA_OK;
}

/* The conditions under which a query sees a key. The first two are booleans, true where it does, unless inverted. */
typedef struct keep_rule {
    fovea_tensor mask;      /* [1 or batch, 1 or heads, 1 or q_len, keys] */
    const uint8_t *keys[2]; /* [batch, count] each */
    const uint8_t *queries; /* [batch, q_len] */
    int64_t count;          /* of keys that masks and causal are about; those behind are seen */
    bool inverted, causal;
} keep_rule;

static bool keeps(const keep_rule *r, const fovea_attention_desc *d, const int64_t at[4]) {
    const int64_t b = at[0], query = at[2], key = at[3];
    if (r->queries && !r->queries[b * d->q_len + query])
        return false;
    if (key >= r->count)
        return true;
    for (int i = 0; i < 2; i++)
        if (r->keys[i] && (r->keys[i][b * r->count + key] != 0) == r->inverted)
            return false;
    if (r->mask.data) {
        int64_t offset = 0;
        for (int i = 0; i < 4; i++)
            offset += r->mask.shape[i] == 1 ? 0 : at[i] * r->mask.stride[i];
        if ((((const uint8_t *)r->mask.data)[offset] != 0) == r->inverted)
            return false;
    }
    return !r->causal || key <= query;
}

/* Does the rule leave out any key? Then it is written to buffer. */
static bool rules(const keep_rule *r) { return r->mask.data || r->keys[0] || r->keys[1] || r->queries || r->causal; }

/* Writes the rule as a boolean mask, no larger than it must be. */
static void set_rule(fovea_attention_desc *desc, fovea_attention_args *args, const keep_rule *r, uint8_t *buffer) {
    const bool masked = r->mask.data != NULL;
    if (!rules(r)) {
        set_mask(desc, args, r->mask);
        return;
    }
    const bool by_batch = r->keys[0] || r->keys[1] || r->queries || !masked || desc->batch == 0;
    const int64_t batch = by_batch ? desc->batch : r->mask.shape[0], heads = masked ? r->mask.shape[1] : 1,
                  rows = r->queries || r->causal ? desc->q_len : (masked ? r->mask.shape[2] : 1);
    int64_t at[4], n = 0;
    for (at[0] = 0; at[0] < batch; at[0]++)
        for (at[1] = 0; at[1] < heads; at[1]++)
            for (at[2] = 0; at[2] < rows; at[2]++)
                for (at[3] = 0; at[3] < desc->kv_len; at[3]++)
                    buffer[n++] = keeps(r, desc, at);
    set_mask(desc, args, fovea_tensor_bhtd(buffer, FOVEA_DTYPE_BOOL, batch, heads, rows, desc->kv_len));
    if (!masked && rows == 1)
        desc->mask = FOVEA_MASK_KEY_PADDING;
}

fovea_status fovea_from_torch_mha(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                                  const uint8_t *key_padding_mask, int64_t keys, int is_causal, uint8_t *buffer) {
    fovea_status status = check_structs(desc, args);
    if (status != FOVEA_OK)
        return status;
    const bool extra = keys < desc->kv_len, added = attn_mask.data && attn_mask.dtype == FOVEA_DTYPE_F32;
    const keep_rule rule = {.mask = added ? (fovea_tensor){0} : attn_mask,
                            .keys = {key_padding_mask},
                            .count = keys,
                            .inverted = true,
                            .causal = is_causal && extra};
    status = check(desc, args, &(fv_pointer){"buffer", buffer}, rules(&rule));
    if (status != FOVEA_OK)
        return status;
    desc->causal = is_causal && !extra ? FOVEA_CAUSAL_TOP_LEFT : FOVEA_CAUSAL_NONE;
    desc->has_bias = added;
    args->bias = added ? attn_mask : (fovea_tensor){0};
    set_rule(desc, args, &rule, buffer);
    return FOVEA_OK;
}

fovea_status fovea_from_keras(fovea_attention_desc *desc, fovea_attention_args *args, const uint8_t *query_mask,
                              const uint8_t *value_mask, const uint8_t *key_mask, fovea_tensor attention_mask,
                              int use_causal_mask, uint8_t *buffer) {
    keep_rule rule = {.mask = attention_mask, .keys = {value_mask, key_mask}, .queries = query_mask};
    const fovea_status status = check(desc, args, &(fv_pointer){"buffer", buffer}, rules(&rule));
    if (status != FOVEA_OK)
        return status;
    rule.count = desc->kv_len;
    desc->causal = use_causal_mask ? FOVEA_CAUSAL_TOP_LEFT : FOVEA_CAUSAL_NONE;
    set_rule(desc, args, &rule, buffer);
    return FOVEA_OK;
}
