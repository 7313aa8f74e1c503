/* Descriptions from the words of other systems (fovea/coming_from.h). */
#include "fovea/fovea.h"

fovea_tensor fovea_tensor_aligned(void *data, fovea_dtype dtype, int rank, const int64_t *shape) {
    int64_t sizes[4] = {1, 1, 1, 1};
    for (int i = 0; i < rank && rank <= 4; i++)
        sizes[4 - rank + i] = shape[i];
    if (rank < 0 || rank > 4)
        sizes[0] = -1;
    return fovea_tensor_bhtd(data, dtype, sizes[0], sizes[1], sizes[2], sizes[3]);
}

void fovea_from_tensors(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor q, fovea_tensor k,
                        fovea_tensor v, fovea_tensor out) {
    desc->batch = q.shape[0];
    desc->q_heads = q.shape[1];
    desc->kv_heads = k.shape[1];
    desc->q_len = q.shape[2];
    desc->kv_len = k.shape[2];
    desc->head_dim = q.shape[3];
    desc->value_dim = v.shape[3];
    args->q = q;
    args->k = k;
    args->v = v;
    args->out = out;
}

static void set_mask(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor mask) {
    desc->mask = !mask.data                       ? FOVEA_MASK_NONE
                 : mask.dtype == FOVEA_DTYPE_BOOL ? FOVEA_MASK_BOOLEAN
                                                  : FOVEA_MASK_ADDITIVE;
    args->mask = mask;
}

void fovea_from_onnx(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask, int is_causal,
                     int64_t past_length, const int64_t *nonpad_kv_seqlen, int64_t *room) {
    int64_t *q_offsets = room, *kv_lens = room + desc->batch;
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
}
