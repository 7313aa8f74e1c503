/* The operands of an attention that is timed, and what it counts as.
 *
 * Flops are 2 * (head_dim + value_dim) for each pair of a row and a key that it attends to, also where the weights are
 * asked for, which take the scores a second time; bytes are those of queries, keys, values and mask as far as the
 * sequences' lengths go, and of outputs, each counted once.
 */
#include <stdlib.h>
#include <string.h>

#include "attention_bench.h"

/* seed 0: memory alone. */
static fovea_tensor make_tensor(const attention *self, fovea_dtype dtype, int64_t heads, int64_t tokens,
                                int64_t channels, float low, float high, uint64_t seed) {
    int64_t batch = self->desc.packed ? 1 : self->desc.batch;
    const int64_t n = batch * heads * tokens * channels;
    void *data = seed ? bench_numbers(n, dtype, low, high, seed) : bench_alloc(n * fv_dtype_size(dtype));
    return self->layout == LAYOUT_BHTD ? fovea_tensor_bhtd(data, dtype, batch, heads, tokens, channels)
                                       : fovea_tensor_bthd(data, dtype, batch, tokens, heads, channels);
}

/* One bias for each head. */
static fovea_tensor make_bias(const fovea_attention_desc *desc) {
    const int64_t n = desc->q_heads * desc->q_len * desc->kv_len;
    void *data = bench_alloc(n * (int64_t)sizeof(float));
    fovea_tensor bias = fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, desc->batch, desc->q_heads, desc->q_len, desc->kv_len);
    bias.stride[0] = 0;
    if (data != NULL)
        bench_fill(data, n, -1, 1, 7);
    return bias;
}

/* Slopes or a table for each head. */
static fovea_tensor make_relative(const fovea_attention_desc *desc) {
    const int64_t window = (2 * desc->relative_height - 1) * (2 * desc->relative_width - 1);
    const int64_t entries = desc->relative == FOVEA_RELATIVE_ALIBI      ? 1
                            : desc->relative == FOVEA_RELATIVE_TOEPLITZ ? 2 * desc->kv_len + 1
                            : desc->relative == FOVEA_RELATIVE_T5       ? desc->relative_buckets
                                                                        : window;
    void *data = bench_alloc(desc->q_heads * entries * (int64_t)sizeof(float));
    if (data != NULL)
        bench_fill(data, desc->q_heads * entries, 0, 0.5F, 8);
    return fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, desc->q_heads, 1, entries);
}

/* Lengths and offsets of all sequences, of which args takes what the case gives. -1: no memory. */
static int make_lengths(attention *self) {
    const int64_t batch = self->desc.batch;
    int64_t *lengths = self->lengths = bench_alloc((5 * batch + 2) * (int64_t)sizeof *lengths);
    if (lengths == NULL)
        return -1;
    for (int64_t b = 0; b < batch; b++) {
        const attention_sequence s = attention_sequence_of(self, b);
        lengths[b] = s.q_len;
        lengths[batch + b] = s.kv_len;
        lengths[2 * batch + b] = s.offset;
    }
    int64_t *const q_ends = lengths + 3 * batch, *const kv_ends = q_ends + batch + 1;
    for (int64_t b = 0; b <= batch; b++) {
        const attention_place p = attention_place_of(self, b);
        q_ends[b] = p.q_start;
        kv_ends[b] = p.kv_start;
    }
    const bool packed = self->desc.packed != 0;
    self->args.q_lens = self->q_shortest >= 0 && !packed ? lengths : NULL;
    self->args.kv_lens = self->kv_shortest >= 0 && !packed ? lengths + batch : NULL;
    self->args.q_offsets = self->has_offset ? lengths + 2 * batch : NULL;
    self->args.q_cu_seqlens = packed ? q_ends : NULL;
    self->args.kv_cu_seqlens = packed ? kv_ends : NULL;
    return 0;
}

const char *attention_make_arguments(attention *self) {
    const fovea_attention_desc *desc = &self->desc;
    fovea_attention_args *args = &self->args;
    const attention_place end = attention_place_of(self, desc->batch);
    const int64_t q_tokens = desc->packed ? end.q_start : desc->q_len,
                  kv_tokens = desc->packed ? end.kv_start : desc->kv_len;
    args->q = make_tensor(self, desc->dtype, desc->q_heads, q_tokens, desc->head_dim, -2, 2, 1);
    const int64_t room = desc->packed ? kv_tokens : attention_state_room(self);
    args->k = fovea_tensor_tokens(make_tensor(self, desc->dtype, desc->kv_heads, room, desc->head_dim, -2, 2, 2), 0,
                                  kv_tokens);
    args->v = fovea_tensor_tokens(make_tensor(self, desc->dtype, desc->kv_heads, room, desc->value_dim, -1, 1, 3), 0,
                                  kv_tokens);
    args->out = make_tensor(self, desc->dtype, desc->q_heads, q_tokens, desc->value_dim, 0, 0, 0);
    const char *masked = attention_make_mask(self);
    if (desc->has_bias)
        args->bias = make_bias(desc);
    if (desc->relative != FOVEA_RELATIVE_NONE)
        args->relative = make_relative(desc);
    bool missing = masked != NULL;
#define FOVEA_ARGS_HEADS(name, flag, text)                                                                             \
    args->name = self->name = desc->flag ? bench_numbers(desc->q_heads, FOVEA_DTYPE_F32, -2, 4, 7) : NULL;             \
    missing = missing || (desc->flag && !args->name);
#include "fovea/fields.inc"
    if (self->lse)
        args->lse = make_tensor(self, FOVEA_DTYPE_F32, desc->q_heads, q_tokens, 1, 0, 0, 0);
    if (self->weights)
        args->weights = make_tensor(self, FOVEA_DTYPE_F32, desc->q_heads, desc->q_len, desc->kv_len, 0, 0, 0);
    if (!args->q.data || !args->k.data || !args->v.data || !args->out.data || missing ||
        (desc->has_bias && !args->bias.data) || (desc->relative && !args->relative.data) ||
        (self->lse && !args->lse.data) || (self->weights && !args->weights.data) || make_lengths(self) != 0)
        return "no memory";
    attention_state_share(self);
    for (int o = 0; o < ATTENTION_OUTPUTS; o++) {
        const fovea_tensor *output = attention_output(args, o);
        if (output->data != NULL)
            memset(output->data, ATTENTION_UNWRITTEN,
                   (size_t)(attention_elements(output) * fv_dtype_size(output->dtype)));
    }
    return NULL;
}

double attention_pairs_of(const fovea_attention_desc *desc, const attention_sequence *s, const uint8_t *boolean) {
    double pairs = 0;
    for (int64_t i = 0; i < s->q_len; i++) {
        int64_t at = i + s->offset, first = 0, last = s->kv_len - 1;
        if (desc->window_left >= 0 && at - desc->window_left > first)
            first = at - desc->window_left;
        if (desc->window_right >= 0 && at + desc->window_right < last)
            last = at + desc->window_right;
        if (desc->causal != FOVEA_CAUSAL_NONE && at < last)
            last = at;
        if (boolean == NULL) {
            pairs += last >= first ? (double)(last - first + 1) : 0;
        } else {
            for (int64_t j = first; j <= last; j++)
                pairs += boolean[i * desc->kv_len + j] != 0;
        }
    }
    return pairs;
}

double attention_pairs(const attention *self) {
    const fovea_attention_desc *desc = &self->desc;
    const uint8_t *boolean = self->seen.data;
    attention_sequence last = {-1, -1, 0};
    double pairs = 0, of_last = 0;
    for (int64_t b = 0; b < desc->batch; b++) {
        const attention_sequence s = attention_sequence_of(self, b);
        if (s.q_len != last.q_len || s.kv_len != last.kv_len)
            of_last = attention_pairs_of(desc, &s, boolean);
        last = s;
        pairs += of_last;
    }
    return pairs * (double)desc->q_heads;
}

double attention_bytes(attention *self) {
    const fovea_attention_desc *desc = &self->desc;
    const int64_t mask_size = desc->mask == FOVEA_MASK_BOOLEAN ? 1 : desc->mask == FOVEA_MASK_ADDITIVE ? 4 : 0;
    const attention_sequence longest = attention_sequence_of(self, 0); /* all share its mask */
    int64_t elements = 0, bytes = 0;                                   /* elements: of the operands' type */
    for (int64_t b = 0; b < desc->batch; b++) {
        const attention_sequence s = attention_sequence_of(self, b);
        elements += s.q_len * desc->q_heads * desc->head_dim;
        elements += s.kv_len * desc->kv_heads * (desc->head_dim + desc->value_dim);
    }
    elements -= (desc->batch - 1) * self->prefix * desc->kv_heads * (desc->head_dim + desc->value_dim);
    for (int o = 0; o < ATTENTION_OUTPUTS; o++) {
        const fovea_tensor *output = attention_output(&self->args, o);
        bytes += output->data ? attention_elements(output) * fv_dtype_size(output->dtype) : 0;
    }
    const int64_t bias_size = desc->has_bias ? 4 * desc->q_heads : 0;
    bytes += elements * fv_dtype_size(desc->dtype);
    return (double)bytes + (double)(longest.q_len * longest.kv_len * (mask_size + bias_size));
}
