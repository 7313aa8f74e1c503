/* Operands and descriptions of parts of an attention (attention_part.h). */
#include "attention_part.h"

fovea_tensor fg_attention_tensor(const struct ggml_tensor *t, int64_t batch) {
    fovea_tensor x = fg_tensor(t);
    if (x.shape[0] != batch) { /* one sequence's keys, for all */
        x.shape[0] = batch;
        x.stride[0] = 0;
    }
    return x;
}

fovea_tensor fg_attention_view(fovea_tensor t, int64_t sequence, int64_t sequences, int64_t head, int64_t heads,
                               int64_t token, int64_t tokens) {
    const int64_t bytes = t.dtype == FOVEA_DTYPE_F32 ? 4 : 2;
    t.data = (char *)t.data + bytes * (sequence * t.stride[0] + head * t.stride[1] + token * t.stride[2]);
    t.shape[0] = sequences;
    t.shape[1] = heads;
    t.shape[2] = tokens;
    return t;
}

void fg_attention_desc(const fg_attention *a, const fg_part *part, fovea_attention_desc *desc) {
    *desc = a->desc;
    desc->batch = part->sequences;
    desc->q_heads = part->heads;
    desc->kv_heads = part->heads / (a->heads / a->kv_heads);
    desc->q_len = part->rows;
    desc->kv_len = part->keys;
    desc->mask = a->seen.kind;
    desc->has_bias = a->seen.has_bias;
}
