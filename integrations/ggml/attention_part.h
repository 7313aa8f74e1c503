/* FLASH_ATTN_EXT, in parts. ggml's tensors are [channel, token, head, sequence]; the result is [channel, head, token,
 * sequence]. Key head h / (heads / key heads) serves head h. In ggml's words (ggml.h):
 *
 *     s = scale * q k;  s = softcap * tanh(s / softcap);  s = s + slope(head) * mask;  softmax, with the head's sink
 *
 * The mask is float16 and any number; -inf masks. It is [key, row, head, sequence], with rows beyond those of q, and
 * heads and sequences that repeat. Slopes are 1 unless max_bias > 0 (ALiBi). */
#ifndef FG_ATTENTION_PART_H
#define FG_ATTENTION_PART_H

#include "backend_threads.h"

/* How a mask reaches the library: which keys a row sees, as one range a row or as bits; and, if some of it is neither 0
 * nor -inf, what is added to scores. */
typedef struct fg_mask {
    fovea_mask_kind kind; /* NONE, RANGES or BITS */
    bool has_bias;
    int64_t batch, heads; /* of ranges or bits: 1 if all sequences or heads share them */
    int64_t row_bytes;    /* of bits */
    int64_t *ranges;      /* [batch, heads, rows, 2] */
    uint8_t *bits;        /* [batch, heads, rows, row_bytes] */
} fg_mask;

typedef struct fg_attention {
    const struct ggml_tensor *q, *k, *v, *mask, *sinks, *out;
    const fg_type *k_type, *v_type;
    int64_t batch, heads, kv_heads, rows, keys, head_dim, value_dim;
    float max_bias;
    fovea_attention_desc desc; /* of the whole, without sizes, mask and types of k and v */
    fg_mask seen;
} fg_attention;

/* A part of the heads and rows, of all sequences or one. */
typedef struct fg_part {
    int64_t sequence, sequences, head, heads, row, rows, key, keys;
} fg_part;

/* The whole of a tensor of ggml's, [sequence, head, token, channel]; of quantized ones data and type only. */
fovea_tensor fg_attention_tensor(const struct ggml_tensor *t, int64_t batch);

/* The tensor's part: sequences, heads and tokens from these on. */
fovea_tensor fg_attention_view(fovea_tensor t, int64_t sequence, int64_t sequences, int64_t head, int64_t heads,
                               int64_t token, int64_t tokens);

/* The description of a part, without mask and types of k and v. */
void fg_attention_desc(const fg_attention *a, const fg_part *part, fovea_attention_desc *desc);

/* A plan from the team's cache. NULL, having said why. Not thread-safe. */
const fovea_attention_plan *fg_attention_plan(fg_backend *backend, fg_team *team, const fovea_attention_desc *desc);

/* Reads the mask: a->seen. */
enum ggml_status fg_mask_read(fg_backend *backend, fg_team *team, fg_attention *a);
/* The part's rows and keys, from ranges or bits; shifted[2 * rows]: memory for ranges if part->key > 0. */
fovea_tensor fg_mask_part(const fg_attention *a, const fg_part *part, int64_t *shifted);
/* The part's biases, [sequences or 1, heads or 1, rows, keys], into memory of fg_mask_bias_size() floats. */
int64_t fg_mask_bias_size(const fg_attention *a, const fg_part *part);
fovea_tensor fg_mask_bias(const fg_attention *a, fg_team *team, const fg_part *part, float *memory);

/* With quantized keys or values. */
enum ggml_status fg_attention_quantized(fg_backend *backend, fg_team *team, const fg_attention *a);

#endif
