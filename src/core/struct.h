/* Structs of the interface that may grow (fovea/types.h): the caller's may be older, and then shorter, than this
 * library's.
 *
 * Fields are only ever added at the end, and no struct ends with padding: each byte that an older caller has belongs to
 * a field that it knows. */
#ifndef FV_STRUCT_H
#define FV_STRUCT_H

#include "fovea/types.h"

#include <stddef.h>

/* The size of a struct that ended with this field. */
#define FV_STRUCT_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* The structs that may grow (fovea_struct), each with its last field in version 0.4, and with its size in 0.3 if its
 * fields were others there, else 0. No struct may ever have that size again: by it one of 0.3 is known
 * (test_structs.c). Sizes are those of pointers of 8 bytes, which struct.c asserts. */
#define FV_STRUCTS(X)                                                                                                  \
    X(ACTIVATE_ARGS, fovea_activate_args, reserved_flags, 0)                                                           \
    X(ATTENTION_ARGS, fovea_attention_args, stats, 0)                                                                  \
    X(ATTENTION_DESC, fovea_attention_desc, page_keys, 0)                                                              \
    X(ATTENTION_SCORES, fovea_attention_scores, out, 0)                                                                \
    X(ATTENTION_STATS, fovea_attention_stats, split_blocks, 0)                                                         \
    X(ATTENTION_SUMMARY, fovea_attention_summary, top_weights, 0)                                                      \
    X(CONTEXT_OPTIONS, fovea_context_options, reserved, 0)                                                             \
    X(EMBEDDING_ARGS, fovea_embedding_args, y, 0)                                                                      \
    X(CONTEXT_FACTS, fovea_context_facts, nodes, 0)                                                                    \
    X(KV_APPEND_ARGS, fovea_kv_append_args, reserved, 0)                                                               \
    X(KV_CACHE_DESC, fovea_kv_cache_desc, placement_node, 0)                                                           \
    X(KV_PAGES, fovea_kv_pages, v_scales, 0)                                                                           \
    X(KV_STATS, fovea_kv_stats, peak_pages, 0)                                                                         \
    X(LINEAR_ARGS, fovea_linear_args, activation, 0)                                                                   \
    X(LINEAR_DESC, fovea_linear_desc, placement_node, 0)                                                               \
    X(LINEAR_STATS, fovea_linear_stats, fast_products, 0)                                                              \
    X(MASK_DESC, fovea_mask_desc, block_count, 0)                                                                      \
    X(MHA_COSTS, fovea_mha_costs, scratch, 0)                                                                          \
    X(MHA_DESC, fovea_mha_desc, placement_node, 0)                                                                     \
    X(MHA_WEIGHTS, fovea_mha_weights, fused_bias, 0)                                                                   \
    X(NORM_ARGS, fovea_norm_args, eps, 232)                                                                            \
    X(POOL_TOKENS_ARGS, fovea_pool_tokens_args, reserved, 0)                                                           \
    X(QUANTIZATION, fovea_quantization, group_of, 0)                                                                   \
    X(QUANTIZE_STATS, fovea_quantize_stats, relative, 0)                                                               \
    X(QUANTIZE_OPTIONS, fovea_quantize_options, search, 0)                                                             \
    X(ROPE_DESC, fovea_rope_desc, divisors, 0)                                                                         \
    X(TUNING_MATCH, fovea_tuning_match, reason, 0)                                                                     \
    X(STATES, fovea_states, cache_sequences, 0)                                                                        \
    X(DELTA_ARGS, fovea_delta_args, states, 0)                                                                         \
    X(SCAN_ARGS, fovea_scan_args, states, 0)                                                                           \
    X(CONV_ARGS, fovea_conv_args, states, 0)                                                                           \
    X(STATE_CACHE_DESC, fovea_state_cache_desc, slots, 0)                                                              \
    X(ROUTER, fovea_router, scale, 0)                                                                                  \
    X(EXPERTS_DESC, fovea_experts_desc, up_offset, 0)                                                                  \
    X(EXPERTS_WEIGHTS, fovea_experts_weights, reserved, 0)                                                             \
    X(EXPERTS_ARGS, fovea_experts_args, logits, 0)

/* A struct as this library knows it. */
typedef struct fv_struct {
    const char *name;
    size_t size;   /* this library's */
    size_t least;  /* that of version 0.4 */
    size_t former; /* that of version 0.3, whose fields were others, or 0 */
} fv_struct;

#define FV_STRUCT_INDEX(kind, type, last, former) FV_STRUCT_##type = FOVEA_STRUCT_##kind,
enum { FV_STRUCTS(FV_STRUCT_INDEX) FV_STRUCT_END };
#undef FV_STRUCT_INDEX

extern const fv_struct fv_structs[FV_STRUCT_END]; /* from 1 on */

/* Use as FV_STRUCT(fovea_context_facts). */
#define FV_STRUCT(type) (fv_structs[FV_STRUCT_##type])

/* FOVEA_OK if the library knows such a struct_size, else FOVEA_ERROR_VERSION: a struct of before 0.4 that was another,
 * one that was not initialized, or one of a newer version. The struct may then be read in place, but only the fields of
 * version 0.4: an older caller's ends there. */
fovea_status fv_struct_check(fv_struct type, const void *given);

/* The same, and copies what the caller has over own, which holds the defaults. own->struct_size is that of the
 * library. */
fovea_status fv_struct_read(fv_struct type, const void *given, void *own);

/* Copies what was filled to the caller's checked struct, as far as it goes; its struct_size stays. */
void fv_struct_write(fv_struct type, void *given, const void *own);

#endif
