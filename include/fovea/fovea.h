/* Fovea: CPU kernels for multi-head attention: softmax(scale * Q K^T) V, fused, in float32,
 * bfloat16 and float16.
 *
 * The promise: a row of output (one query of one head) has the same bits on every instruction set, with every tile
 * size, thread count, batch size and position, whether computed alone, in a chunk, or with the whole prompt. So results
 * can be compared with memcmp.
 *
 * How to use it: create a context (once), describe an attention, make a plan (once per shape), execute it (many times):
 *
 *     fovea_context *ctx;
 *     fovea_attention_plan *plan;
 *     fovea_attention_desc desc;
 *     fovea_attention_args args;
 *     fovea_context_create(NULL, &ctx);
 *     fovea_attention_desc_init(&desc);
 *     desc.batch = 1; desc.q_heads = desc.kv_heads = 12; desc.q_len = desc.kv_len = 512;
 *     desc.head_dim = desc.value_dim = 64;
 *     fovea_attention_plan_create(ctx, &desc, &plan);
 *     fovea_attention_args_init(&args);
 *     args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, 12, 512, 64);   ... k, v, out likewise
 *     fovea_attention_execute(plan, &args, NULL, 0);
 *     fovea_attention_plan_destroy(plan);
 *     fovea_context_destroy(ctx);
 *
 * For contiguous arrays, fovea_sdpa_f32() does all of this in one call.
 *
 * Errors: functions that can fail return a fovea_status, and fovea_error_detail() then returns a sentence. All
 * arguments are checked, and all memory is allocated, before any output is written: after an error, outputs are
 * unchanged. Nothing here aborts, prints (unless FOVEA_DEBUG=1 is set) or reads past an element that you named.
 *
 * NULL: these rules hold everywhere, and are not repeated.
 *   - A pointer that is needed but NULL gives FOVEA_ERROR_NULL. What may be absent is documented as "or NULL" or
 *     "optional"; an absent tensor or matrix has data NULL.
 *   - A function that creates an object sets its pointer to NULL after an error.
 *   - _destroy functions and the _init functions of structs ignore NULL. For an object that is NULL, _workspace_size
 *     and _state_size return 0, and _describe says so.
 *
 * Memory: attention, linear maps, experts, layers and norms take a workspace as arguments behind all others, of at
 * least the bytes that a _workspace_size function tells. With NULL and size 0 they allocate for the call. Other
 * functions that compute allocate nothing, but for fovea_quantize() and fovea_dequantize(), which allocate for the
 * call, and fovea_sdpa_f32(), which keeps its workspace. Creating objects and changing a cache's sequences allocate.
 *
 * Tuning: the program fovea-tune measures a machine and writes a tuning file, which contexts load.
 *
 * Units: sizes and strides are in elements, int64_t; workspace sizes are in bytes, size_t.
 *
 * This header includes the whole interface. Each part has a header of its own, which may be included alone.
 */
#ifndef FOVEA_FOVEA_H
#define FOVEA_FOVEA_H

#include "arrays.h"
#include "attention.h"
#include "cache.h"
#include "compat.h"
#include "context.h"
#include "encoder.h"
#include "experts.h"
#include "linear.h"
#include "mask.h"
#include "mha.h"
#include "norm.h"
#include "outputs.h"
#include "quantization.h"
#include "recurrence.h"
#include "rope.h"
#include "state.h"
#include "state_cache.h"
#include "tuning.h"
#include "types.h"

#endif
