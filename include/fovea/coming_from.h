/* Fovea: descriptions from the words of other systems. Part of fovea.h; tables and differences: docs/coming-from.md.
 *
 * Each function takes what another system's call says and sets the fields of desc and args that mean the same:
 *
 *     fovea_from_tensors(&desc, &args, q, k, v, out);             first, after both _init: sizes from the tensors
 *     fovea_from_torch_sdpa(&desc, &args, attn_mask, is_causal);  then what the call says
 *     desc.has_scale = 1; desc.scale = scale;                     fields of one meaning are set by hand
 *     fovea_attention_plan_create(ctx, &desc, &plan);
 *     fovea_attention_execute(plan, &args, NULL, 0);
 *
 * None of them can fail: bad sizes are found by the function that takes what they filled. desc and args must have been
 * initialised. An array that may be absent is NULL; a tensor that may be absent has data NULL. Arrays, tensors and the
 * memory named room are the caller's; args points into them, so they must live until it was executed. Thread-safe on
 * different structs. */
#ifndef FOVEA_COMING_FROM_H
#define FOVEA_COMING_FROM_H

#include "mha.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A contiguous tensor of rank 0 to 4 whose missing first axes have size 1: how NumPy, PyTorch and ONNX align the shape
 * of a mask. Sizes of 1 repeat. Other ranks give shape[0] -1, which the function it is given to refuses. */
FOVEA_API fovea_tensor fovea_tensor_aligned(void *data, fovea_dtype dtype, int rank, const int64_t *shape);

/* Sets the tensors, batch, q_heads, kv_heads, q_len, kv_len, head_dim and value_dim. kv_heads and kv_len are k's,
 * value_dim is v's. */
FOVEA_API void fovea_from_tensors(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor q,
                                  fovea_tensor k, fovea_tensor v, fovea_tensor out);

/* ------------------------------------------------------------------------------------------------------ PyTorch -- */

/* torch.nn.functional.scaled_dot_product_attention: attn_mask of FOVEA_DTYPE_BOOL, true = attend, or FOVEA_DTYPE_F32,
 * added. is_causal counts from the first key, whatever the lengths. Set by hand: scale. */
FOVEA_API void fovea_from_torch_sdpa(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                                     int is_causal);

/* The masks of torch.nn.MultiheadAttention, whose booleans are true where a key is left out. attn_mask is [1, 1,
 * q_len, keys], or [batch, q_heads, q_len, keys] for PyTorch's [batch * heads, q_len, keys], and boolean or
 * FOVEA_DTYPE_F32, added. key_padding_mask is [batch, keys], boolean. If desc->kv_len is more than keys, every query
 * sees the keys behind, those of add_bias_kv and add_zero_attn, whatever the masks and is_causal say; an attn_mask of
 * floats then has columns for them, of 0. room, for the inverted and merged booleans: batch * q_heads * q_len * kv_len
 * bytes; without the factor q_heads where no boolean attn_mask has that many heads. */
FOVEA_API void fovea_from_torch_mha(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                                    const uint8_t *key_padding_mask, int64_t keys, int is_causal, uint8_t *room);

/* Writes one token of k or v in every sequence: value is [heads * channels] floats, as bias_k and bias_v of
 * add_bias_kv, or NULL for zeros, as add_zero_attn has them. A token that the tensor does not have is ignored. */
FOVEA_API void fovea_from_torch_key(fovea_tensor tensor, int64_t token, const float *value);

/* The weights of torch.nn.MultiheadAttention with equal kdim and vdim, as it stores them: in_proj_weight [3 *
 * embed_dim, embed_dim], in_proj_bias [3 * embed_dim] or NULL, out_proj.weight [embed_dim, embed_dim], out_proj.bias
 * or NULL. desc and weights must have been initialised; set by hand: desc->attention, desc->inputs. */
FOVEA_API void fovea_from_torch_mha_weights(fovea_mha_desc *desc, fovea_mha_weights *weights, int64_t embed_dim,
                                            const float *in_proj_weight, const float *in_proj_bias,
                                            const float *out_proj_weight, const float *out_proj_bias);

/* --------------------------------------------------------------------------------------------------------- ONNX -- */

/* Attention, opset 23 to 25. k and v hold present_key and present_value: the past_length keys that were there, then
 * the new ones. 3-D inputs are fovea_tensor_bthd(). attn_mask as for PyTorch's sdpa, by fovea_tensor_aligned(); keys
 * past the end of a shorter mask are left out (desc->kv_len, k and v are cut to it). nonpad_kv_seqlen is [batch] or
 * NULL. room: 2 * batch elements, for q_offsets and kv_lens. Set by hand: scale, window_left, window_right. */
FOVEA_API void fovea_from_onnx(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                               int is_causal, int64_t past_length, const int64_t *nonpad_kv_seqlen, int64_t *room);

/* GroupQueryAttention of ONNX Runtime. k and v hold present_key and present_value, where the new keys of sequence b
 * end at seqlens_k[b]; seqlens_k, [batch], counts one less than the keys. is_prompt: no past (total_sequence_length
 * equals the sequence length), queries count from the first key. local_window_size: keys that a query sees, itself
 * included; not positive: all. room: 2 * batch elements. Set by hand: scale (0 there is the default), attention_bias
 * (has_bias and args->bias). */
FOVEA_API void fovea_from_ort_gqa(fovea_attention_desc *desc, fovea_attention_args *args, const int32_t *seqlens_k,
                                  int is_prompt, int64_t local_window_size, int64_t *room);

/* ----------------------------------------------------------------------------------------------- FlashAttention -- */

/* flash_attn_func: causal and window_size (left, right; -1: no limit) count from the last query, which stands at the
 * last key, also where there is a window and causal is false. q_lens and kv_lens of args count, if they were set
 * before. room: batch elements, for q_offsets. Set by hand: softmax_scale. */
FOVEA_API void fovea_from_flash(fovea_attention_desc *desc, fovea_attention_args *args, int causal, int64_t window_left,
                                int64_t window_right, int64_t *room);

/* flash_attn_varlen_func: the same for packed sequences. Tensors are [1, heads, total, channels], so
 * fovea_tensor_bthd() of batch 1; cu_seqlens_q and cu_seqlens_k are [batch + 1]. room: 3 * batch + 2 elements. */
FOVEA_API void fovea_from_flash_varlen(fovea_attention_desc *desc, fovea_attention_args *args, int64_t batch,
                                       const int32_t *cu_seqlens_q, const int32_t *cu_seqlens_k, int64_t max_seqlen_q,
                                       int64_t max_seqlen_k, int causal, int64_t window_left, int64_t window_right,
                                       int64_t *room);

/* flash_attn_with_kvcache: the same, with k and v the caches and their new_keys already written behind cache_seqlens[b]
 * tokens, of which the first cache_leftpad[b] are none ([batch] or NULL). room: 3 * batch elements. */
FOVEA_API void fovea_from_flash_kvcache(fovea_attention_desc *desc, fovea_attention_args *args,
                                        const int32_t *cache_seqlens, int64_t new_keys, const int32_t *cache_leftpad,
                                        int causal, int64_t window_left, int64_t window_right, int64_t *room);

/* -------------------------------------------------------------------------------------------------------- Keras -- */

/* Masks of keras.layers.MultiHeadAttention and keras.layers.Attention, booleans that are true where something is kept;
 * what they keep together is kept: query_mask [batch, q_len] (a query left out gives +0), value_mask and key_mask
 * [batch, kv_len], attention_mask [batch, q_len, kv_len] as [batch, 1, q_len, kv_len] (batch 1: for all).
 * use_causal_mask counts from the first key. room: batch * q_len * kv_len bytes. Set by hand: the scale of Attention,
 * which is 1 by default (desc->has_scale = 1, desc->scale = 1). */
FOVEA_API void fovea_from_keras(fovea_attention_desc *desc, fovea_attention_args *args, const uint8_t *query_mask,
                                const uint8_t *value_mask, const uint8_t *key_mask, fovea_tensor attention_mask,
                                int use_causal_mask, uint8_t *room);

/* The weights of keras.layers.MultiHeadAttention: kernels of query, key and value [features, heads, key_dim or
 * value_dim], of the output [heads, value_dim, out_features], biases [heads, dim] and [out_features], all NULL for
 * use_bias=False. desc->attention must be set, and desc and weights initialised. Features are those of query, key,
 * value and output. */
FOVEA_API void fovea_from_keras_weights(fovea_mha_desc *desc, fovea_mha_weights *weights, const int64_t features[4],
                                        const float *const kernels[4], const float *const biases[4]);

#ifdef __cplusplus
}
#endif
#endif
