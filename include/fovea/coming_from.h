/* Fovea: fills descriptions from calls of other systems. Part of fovea.h. docs/coming-from.md has the tables and says
 * where the same word means something else.
 *
 *     fovea_attention_desc_init(&desc);
 *     fovea_attention_args_init(&args);
 *     fovea_from_tensors(&desc, &args, q, k, v, out);             tensors and sizes
 *     fovea_from_torch_sdpa(&desc, &args, attn_mask, is_causal);  what the other system's call says
 *     desc.has_scale = 1; desc.scale = scale;                     what has the same meaning in both, by hand
 *     fovea_attention_plan_create(ctx, &desc, &plan);
 *     fovea_attention_execute(plan, &args, NULL, 0);
 *
 * Pointers must not be NULL: FOVEA_ERROR_NULL, and nothing is written. Masks may be, arrays that say so, arrays of no
 * elements and a room that nothing goes to; optional tensors have data NULL. There is no other error: bad sizes are
 * found by the function that takes the result. Arrays, tensors and room (memory for converted values) belong to the
 * caller; args points into them, so keep them until after the execution. Thread-safe on different structs. */
#ifndef FOVEA_COMING_FROM_H
#define FOVEA_COMING_FROM_H

#include "mha.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A contiguous tensor of rank 0 to 4 whose missing first axes have size 1: how NumPy, PyTorch and ONNX align the shape
 * of a mask. Sizes of 1 repeat. Other ranks, and a shape of NULL, give shape[0] -1, which the function it is given to
 * refuses. */
FOVEA_API fovea_tensor fovea_tensor_aligned(void *data, fovea_dtype dtype, int rank, const int64_t *shape);

/* Sets the tensors, batch, q_heads, kv_heads, q_len, kv_len, head_dim and value_dim. kv_heads and kv_len are k's,
 * value_dim is v's. */
FOVEA_API fovea_status fovea_from_tensors(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor q,
                                          fovea_tensor k, fovea_tensor v, fovea_tensor out);

/* ------------------------------------------------------------------------------------------------------ PyTorch -- */

/* torch.nn.functional.scaled_dot_product_attention: attn_mask of FOVEA_DTYPE_BOOL, true = attend, or FOVEA_DTYPE_F32,
 * added. is_causal: query 0 sees key 0, whatever the lengths. Set by hand: scale. */
FOVEA_API fovea_status fovea_from_torch_sdpa(fovea_attention_desc *desc, fovea_attention_args *args,
                                             fovea_tensor attn_mask, int is_causal);

/* The masks of torch.nn.MultiheadAttention, in which true means: leave out. attn_mask is [1, 1, q_len, keys], or
 * [batch, q_heads, q_len, keys] for PyTorch's [batch * heads, q_len, keys]; FOVEA_DTYPE_BOOL, or FOVEA_DTYPE_F32,
 * added. key_padding_mask is boolean, [batch, keys]. If desc->kv_len is more than keys, the rest are the keys of
 * add_bias_kv and add_zero_attn, which every query sees, whatever the masks and is_causal say; an attn_mask of floats
 * must have columns of 0 for them. room gets the inverted and merged masks: batch * q_heads * q_len * kv_len bytes, or
 * without the factor q_heads unless a boolean attn_mask has one mask a head. */
FOVEA_API fovea_status fovea_from_torch_mha(fovea_attention_desc *desc, fovea_attention_args *args,
                                            fovea_tensor attn_mask, const uint8_t *key_padding_mask, int64_t keys,
                                            int is_causal, uint8_t *room);

/* Writes one token of k or v, in every sequence. value has heads * channels floats, like bias_k and bias_v of
 * add_bias_kv, or is NULL for zeros, as in add_zero_attn. Does nothing if the tensor has no such token. */
FOVEA_API fovea_status fovea_from_torch_key(fovea_tensor tensor, int64_t token, const float *value);

/* The weights of torch.nn.MultiheadAttention with equal kdim and vdim, as it stores them: in_proj_weight [3 *
 * embed_dim, embed_dim], in_proj_bias [3 * embed_dim] or NULL, out_proj.weight [embed_dim, embed_dim], out_proj.bias
 * or NULL. Set by hand: desc->attention, desc->inputs. */
FOVEA_API fovea_status fovea_from_torch_mha_weights(fovea_mha_desc *desc, fovea_mha_weights *weights, int64_t embed_dim,
                                                    const float *in_proj_weight, const float *in_proj_bias,
                                                    const float *out_proj_weight, const float *out_proj_bias);

/* --------------------------------------------------------------------------------------------------------- ONNX -- */

/* Attention, opset 23 to 25. k and v are present_key and present_value: past_length keys that were there, then the new
 * ones. 3-D inputs are fovea_tensor_bthd(), the mask is fovea_tensor_aligned(), true = attend. Keys past the end of a
 * narrower mask are left out: desc->kv_len, k and v are cut to its width. nonpad_kv_seqlen is [batch] or NULL. room: 2
 * * batch elements. Set by hand: scale, softcap, window_left, window_right. */
FOVEA_API fovea_status fovea_from_onnx(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                                       int is_causal, int64_t past_length, const int64_t *nonpad_kv_seqlen,
                                       int64_t *room);

/* GroupQueryAttention of ONNX Runtime. k and v are present_key and present_value; the last new key of sequence b has
 * the index seqlens_k[b] ([batch], one less than the number of keys). is_prompt: there is no past, query 0 sees key 0.
 * local_window_size: how many keys a query sees, its own included; all, unless positive. room: 2 * batch elements. Set
 * by hand: scale (0 there is the default), softcap, attention_bias (has_bias and args->bias), head_sink (has_sinks and
 * args->sinks; zeros for smooth_softmax). */
FOVEA_API fovea_status fovea_from_ort_gqa(fovea_attention_desc *desc, fovea_attention_args *args,
                                          const int32_t *seqlens_k, int is_prompt, int64_t local_window_size,
                                          int64_t *room);

/* ----------------------------------------------------------------------------------------------- FlashAttention -- */

/* flash_attn_func: the last query stands at the last key, for causal and for window_size (left, right; -1: no limit),
 * with or without causal. If args has lengths, they count. room: batch elements. Set by hand: softmax_scale, softcap.
 */
FOVEA_API fovea_status fovea_from_flash(fovea_attention_desc *desc, fovea_attention_args *args, int causal,
                                        int64_t window_left, int64_t window_right, int64_t *room);

/* flash_attn_varlen_func: the same for packed sequences. Tensors are [1, heads, total, channels], so
 * fovea_tensor_bthd() of batch 1; cu_seqlens_q and cu_seqlens_k are [batch + 1]. room: 3 * batch + 2 elements. */
FOVEA_API fovea_status fovea_from_flash_varlen(fovea_attention_desc *desc, fovea_attention_args *args, int64_t batch,
                                               const int32_t *cu_seqlens_q, const int32_t *cu_seqlens_k,
                                               int64_t max_seqlen_q, int64_t max_seqlen_k, int causal,
                                               int64_t window_left, int64_t window_right, int64_t *room);

/* flash_attn_with_kvcache: the same with a cache. k and v are the caches; new_keys tokens are already written behind
 * the cache_seqlens[b] older ones, of which the first cache_leftpad[b] ([batch] or NULL) are padding. With a
 * block_table: args->pages and desc->page_keys (cache.h), no k and v, and desc->kv_len by hand; it goes without
 * cache_leftpad. room: 3 * batch elements. */
FOVEA_API fovea_status fovea_from_flash_kvcache(fovea_attention_desc *desc, fovea_attention_args *args,
                                                const int32_t *cache_seqlens, int64_t new_keys,
                                                const int32_t *cache_leftpad, int causal, int64_t window_left,
                                                int64_t window_right, int64_t *room);

/* -------------------------------------------------------------------------------------------------------- Keras -- */

/* The masks of keras.layers.MultiHeadAttention and keras.layers.Attention, in which true means: keep. A key is seen if
 * all of them keep it. query_mask is [batch, q_len] (a query that it leaves out gives +0), value_mask and key_mask are
 * [batch, kv_len], attention_mask is [batch, 1, q_len, kv_len]. use_causal_mask: query 0 sees key 0. room: batch *
 * q_len * kv_len bytes. Set by hand: the scale of Attention (desc->has_scale = 1, desc->scale = 1, or the learned
 * one). */
FOVEA_API fovea_status fovea_from_keras(fovea_attention_desc *desc, fovea_attention_args *args,
                                        const uint8_t *query_mask, const uint8_t *value_mask, const uint8_t *key_mask,
                                        fovea_tensor attention_mask, int use_causal_mask, uint8_t *room);

/* The weights of keras.layers.MultiHeadAttention, each array in the order query, key, value, output. Kernels are
 * [features, heads, key_dim or value_dim], the output's [heads, value_dim, features]; biases are [heads, dim] and
 * [features], all NULL for use_bias=False. Set desc->attention before. */
FOVEA_API fovea_status fovea_from_keras_weights(fovea_mha_desc *desc, fovea_mha_weights *weights,
                                                const int64_t features[4], const float *const kernels[4],
                                                const float *const biases[4]);

#ifdef __cplusplus
}
#endif
#endif
