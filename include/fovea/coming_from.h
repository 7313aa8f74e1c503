/* Fovea: descriptions from the words of other systems. Part of fovea.h.
 *
 * Each function takes what another system's call says and sets the fields of desc and args that mean the same:
 *
 *     fovea_from_tensors(&desc, &args, q, k, v, out);             first, after both _init: sizes from the tensors
 *     fovea_from_onnx(&desc, &args, attn_mask, ...);               then what the call says
 *     desc.has_scale = 1; desc.scale = scale;                     fields of one meaning are set by hand
 *     fovea_attention_plan_create(ctx, &desc, &plan);
 *     fovea_attention_execute(plan, &args, NULL, 0);
 *
 * None of them can fail: bad sizes are found by the function that takes what they filled. desc and args must have been
 * initialised. Memory named room, and all arrays and tensors, are the caller's; args points
 * into them, so they must live until it was executed. Thread-safe on different structs. */
#ifndef FOVEA_COMING_FROM_H
#define FOVEA_COMING_FROM_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A contiguous tensor of rank 0 to 4 whose missing first axes have size 1: how NumPy, PyTorch and ONNX align the shape
 * of a mask. Sizes of 1 repeat. Other ranks give shape[0] -1, which the function it is given to refuses. */
FOVEA_API fovea_tensor fovea_tensor_aligned(void *data, fovea_dtype dtype, int rank, const int64_t *shape);

/* Sets the tensors, batch, q_heads, kv_heads, q_len, kv_len, head_dim and value_dim. kv_heads and
 * kv_len are k's, value_dim is v's. */
FOVEA_API void fovea_from_tensors(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor q,
                                  fovea_tensor k, fovea_tensor v, fovea_tensor out);

/* ONNX Attention, opset 23 to 25. k and v hold present_key and present_value: the past_length keys that were there, then
 * the new ones. 3-D inputs are fovea_tensor_bthd(). attn_mask (data NULL: none) is FOVEA_DTYPE_BOOL, true =
 * attend, or FOVEA_DTYPE_F32, added; keys past the end of a mask that is shorter are masked (desc->kv_len, k and v are cut to it). nonpad_kv_seqlen is [batch] or NULL. room: 2 * batch
 * elements, for q_offsets and kv_lens. Set by hand: scale, softcap, window_left, window_right. */
FOVEA_API void fovea_from_onnx(fovea_attention_desc *desc, fovea_attention_args *args, fovea_tensor attn_mask,
                               int is_causal, int64_t past_length, const int64_t *nonpad_kv_seqlen, int64_t *room);

#ifdef __cplusplus
}
#endif
#endif
