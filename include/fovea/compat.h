/* Fovea: fills descriptions from the arguments of other systems. Part of fovea.h. docs/compat.md has the tables and
 * says where the same word means something else.
 *
 *     fovea_attention_desc_init(&desc);
 *     fovea_attention_args_init(&args);
 *     desc.batch = ...; args.q = ...                              sizes and tensors, by hand
 *     fovea_from_flash(&desc, &args, causal, left, right, buffer); what the other system's call says
 *     desc.has_scale = 1; desc.scale = scale;                     what has the same meaning in both, by hand
 *     fovea_attention_plan_create(ctx, &desc, &plan);
 *     fovea_attention_execute(plan, &args, NULL, 0);
 *
 * Set sizes and tensors first: these functions read them. They fail with FOVEA_ERROR_NULL if a pointer that they need
 * is NULL, and with FOVEA_ERROR_VERSION if desc or args is not initialized or belongs to another version. A function
 * that fails writes nothing. They do not check sizes; the function that takes the result does. A mask may be absent
 * (NULL, or a tensor whose data is NULL), and a buffer may be NULL if nothing is written to it.
 *
 * buffer is your memory for converted values. args points into it and into your arrays: keep them until after the
 * execution. Thread-safe on different structs. */
#ifndef FOVEA_COMPAT_H
#define FOVEA_COMPAT_H

#include "attention.h"
#include "recurrence.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A contiguous tensor of rank 0 to 4, with leading axes of size 1 added: this is how NumPy, PyTorch and ONNX align the
 * shape of a mask. Axes of size 1 repeat. Another rank, or a shape of NULL, gives shape[0] = -1, which the function
 * that takes the tensor refuses. */
FOVEA_API fovea_tensor fovea_tensor_broadcast(void *data, fovea_dtype dtype, int rank, const int64_t *shape);

/* ------------------------------------------------------------------------------------------------------ PyTorch -- */

/* The masks of torch.nn.MultiheadAttention, in which true means: leave out.
 *   attn_mask         [1, 1, q_len, keys], or [batch, q_heads, q_len, keys] for PyTorch's [batch * heads, q_len, keys].
 *                     FOVEA_DTYPE_BOOL, or FOVEA_DTYPE_F32, which is added.
 *   key_padding_mask  [batch, keys], boolean
 *   keys              If desc->kv_len is larger, the rest are the keys of add_bias_kv and add_zero_attn. Every query
 *                     sees them, whatever the masks and is_causal say. An attn_mask of floats needs columns of 0 for
 *                     them.
 *   buffer            gets the inverted and merged masks: batch * q_heads * q_len * kv_len bytes. Without the factor
 *                     q_heads, unless a boolean attn_mask has one mask a head.
 * Sets or clears desc->has_bias and args->bias. */
FOVEA_API fovea_status fovea_from_torch_mha(fovea_attention_desc *desc, fovea_attention_args *args,
                                            fovea_tensor attn_mask, const uint8_t *key_padding_mask, int64_t keys,
                                            int is_causal, uint8_t *buffer);

/* Writes one token of k or v, in every sequence. value has heads * channels floats, like bias_k and bias_v of
 * add_bias_kv. NULL writes zeros, as add_zero_attn does. Does nothing if the tensor has no such token.
 * FOVEA_ERROR_DTYPE: the tensor is not FOVEA_DTYPE_F32. FOVEA_ERROR_NULL: its data is NULL. */
FOVEA_API fovea_status fovea_from_torch_key(fovea_tensor tensor, int64_t token, const float *value);

/* --------------------------------------------------------------------------------------------------------- ONNX -- */

/* Attention, opset 23 to 25.
 *   k, v              present_key and present_value: past_length past keys, then the new ones. 3-D inputs are
 *                     fovea_tensor_bthd().
 *   attn_mask         fovea_tensor_broadcast(), true = attend. Keys past the end of a narrower mask are left out:
 *                     desc->kv_len, k and v are cut to its width.
 *   nonpad_kv_seqlen  [batch] or NULL
 *   buffer            2 * batch elements
 * Set by hand: scale, softcap, window_left, window_right. */
FOVEA_API fovea_status fovea_from_onnx(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                                       int is_causal, int64_t past_length, const int64_t *nonpad_kv_seqlen,
                                       int64_t *buffer);

/* LinearAttention, opset 27.
 *   args         q, k, v, out: 3-D inputs are fovea_tensor_bthd(). past_state and present_state are before and after of
 *                args->states, in the order of FOVEA_STATE_ROWS
 *   update_rule  "linear", "gated", "delta" or "gated_delta"
 *   scale        0 is the default
 *   decay, beta  absent, or fovea_tensor_bthd() of kv_num_heads heads, beta of 1 if it has one channel
 * Sets gate, beta, no_delta, scale. FOVEA_ERROR_ARGUMENT: an unknown rule; decay or beta that it forbids or lacks. */
FOVEA_API fovea_status fovea_from_onnx_linear_attention(fovea_delta_args *args, const char *update_rule, double scale,
                                                        fovea_tensor decay, fovea_tensor beta);

/* CausalConvWithState, opset 27.
 *   args        x, out: [batch, 1, channels, length]; weight, bias, taps. past_state and present_state are before and
 *               after of args->states, [batch, 1, channels, taps - 1], in the order of FOVEA_STATE_COLUMNS
 *   activation  "none", "silu" or "swish"
 * Sets silu and channels first. FOVEA_ERROR_ARGUMENT: an unknown activation. */
FOVEA_API fovea_status fovea_from_onnx_causal_conv(fovea_conv_args *args, const char *activation);

/* GroupQueryAttention of ONNX Runtime.
 *   k, v               present_key and present_value
 *   seqlens_k          [batch]: index of each sequence's last new key, one less than its number of keys
 *   is_prompt          nonzero: there is no past, and query 0 sees key 0
 *   local_window_size  how many keys a query sees, its own included; 0 or less: all
 *   buffer             2 * batch elements
 * Set by hand: scale (0 there is the default), softcap, attention_bias (has_bias and args->bias), head_sink (has_sinks
 * and args->sinks; zeros for smooth_softmax). */
FOVEA_API fovea_status fovea_from_ort_gqa(fovea_attention_desc *desc, fovea_attention_args *args,
                                          const int32_t *seqlens_k, int is_prompt, int64_t local_window_size,
                                          int64_t *buffer);

/* ----------------------------------------------------------------------------------------------- FlashAttention -- */

/* flash_attn_func. The last query stands at the last key, both for causal and for window_size, also without causal.
 *   window_left, window_right  -1: no limit
 *   buffer                     batch elements
 * Lengths that args has are used. Set by hand: softmax_scale, softcap. */
FOVEA_API fovea_status fovea_from_flash(fovea_attention_desc *desc, fovea_attention_args *args, int causal,
                                        int64_t window_left, int64_t window_right, int64_t *buffer);

/* flash_attn_varlen_func: the same for packed sequences. Sets batch, q_len and kv_len.
 *   tensors                     [1, heads, total, channels]: fovea_tensor_bthd() of batch 1
 *   cu_seqlens_q, cu_seqlens_k  [batch + 1]
 *   buffer                      3 * batch + 2 elements */
FOVEA_API fovea_status fovea_from_flash_varlen(fovea_attention_desc *desc, fovea_attention_args *args, int64_t batch,
                                               const int32_t *cu_seqlens_q, const int32_t *cu_seqlens_k,
                                               int64_t max_seqlen_q, int64_t max_seqlen_k, int causal,
                                               int64_t window_left, int64_t window_right, int64_t *buffer);

/* flash_attn_with_kvcache: the same with a cache.
 *   k, v           the caches. You have already written the new_keys new tokens behind the old ones.
 *   cache_seqlens  [batch]: old tokens
 *   cache_leftpad  [batch] or NULL: how many of the first tokens are padding
 *   buffer         3 * batch elements
 * For a block_table set args->pages, desc->page_keys (cache.h) and desc->kv_len by hand, and leave k and v absent. It
 * cannot be combined with cache_leftpad. */
FOVEA_API fovea_status fovea_from_flash_kvcache(fovea_attention_desc *desc, fovea_attention_args *args,
                                                const int32_t *cache_seqlens, int64_t new_keys,
                                                const int32_t *cache_leftpad, int causal, int64_t window_left,
                                                int64_t window_right, int64_t *buffer);

/* -------------------------------------------------------------------------------------------------------- Keras -- */

/* The masks of keras.layers.MultiHeadAttention and keras.layers.Attention, in which true means: keep. A query sees a
 * key if all masks keep it.
 *   query_mask            [batch, q_len] or NULL; a query that it leaves out gives +0
 *   value_mask, key_mask  [batch, kv_len] or NULL
 *   attention_mask        [batch, 1, q_len, kv_len] or absent
 *   use_causal_mask       nonzero: query 0 sees key 0 only
 *   buffer                batch * q_len * kv_len bytes
 * Set by hand: the scale of Attention, desc->has_scale = 1 and desc->scale = 1 or the learned one. */
FOVEA_API fovea_status fovea_from_keras(fovea_attention_desc *desc, fovea_attention_args *args,
                                        const uint8_t *query_mask, const uint8_t *value_mask, const uint8_t *key_mask,
                                        fovea_tensor attention_mask, int use_causal_mask, uint8_t *buffer);

#ifdef __cplusplus
}
#endif
#endif
