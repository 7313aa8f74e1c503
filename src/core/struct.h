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

/* The structs that may grow, each with its last field in version 0.3. Those whose fields had another order in 0.2 are
 * larger than they ever were there, so that a struct of 0.2 is known by its size (test_structs.c). This needs
 * pointers of 8 bytes, which struct.c asserts. */
#define FV_STRUCTS(X)                                                                                                  \
    X(fovea_activate_args, reserved_flags)                                                                             \
    X(fovea_attention_args, stats)                                                                                     \
    X(fovea_attention_desc, page_keys)                                                                                 \
    X(fovea_attention_scores, out)                                                                                     \
    X(fovea_attention_stats, split_blocks)                                                                             \
    X(fovea_attention_summary, top_weights)                                                                            \
    X(fovea_context_options, pool)                                                                                     \
    X(fovea_embedding_args, y)                                                                                         \
    X(fovea_context_facts, tuning)                                                                                     \
    X(fovea_kv_append, rotated)                                                                                        \
    X(fovea_kv_cache_desc, rope)                                                                                       \
    X(fovea_kv_pages, starts)                                                                                          \
    X(fovea_kv_stats, peak_pages)                                                                                      \
    X(fovea_linear_args, activation)                                                                                   \
    X(fovea_linear_desc, parts)                                                                                        \
    X(fovea_linear_stats, fast_products)                                                                               \
    X(fovea_mask_desc, block_count)                                                                                    \
    X(fovea_mha_costs, scratch)                                                                                        \
    X(fovea_mha_desc, norm_eps)                                                                                        \
    X(fovea_mha_weights, fused_bias)                                                                                   \
    X(fovea_norm_args, workspace_size)                                                                                 \
    X(fovea_pool_tokens_args, reserved)                                                                                \
    X(fovea_quantization, scales)                                                                                      \
    X(fovea_quantize_error, relative)                                                                                  \
    X(fovea_quantize_options, search)                                                                                  \
    X(fovea_rope_desc, divisors)                                                                                       \
    X(fovea_tuning_match, reason)

/* A struct as this library knows it. */
typedef struct fv_struct {
    const char *name;
    size_t size;  /* this library's */
    size_t least; /* that of version 0.3 */
} fv_struct;

#define FV_STRUCT_INDEX(type, last) FV_STRUCT_##type,
enum { FV_STRUCTS(FV_STRUCT_INDEX) FV_STRUCT_COUNT };
#undef FV_STRUCT_INDEX

extern const fv_struct fv_structs[FV_STRUCT_COUNT];

/* Use as FV_STRUCT(fovea_context_facts). */
#define FV_STRUCT(type) (fv_structs[FV_STRUCT_##type])

/* Fills the caller's struct of size bytes: defaults, as far as both know, zeros, and struct_size. NULL is ignored. */
void fv_struct_init(void *given, size_t size, const void *defaults, size_t known);

/* FOVEA_OK if the library knows such a struct_size, else FOVEA_ERROR_VERSION: a struct of 0.2, one that was not
 * initialized, or one of a newer version. The struct may then be read in place, but only the fields of version 0.3:
 * an older caller's ends there. */
fovea_status fv_struct_check(fv_struct type, const void *given);

/* The same, and copies what the caller has over own, which holds the defaults. own->struct_size is that of the
 * library. */
fovea_status fv_struct_read(fv_struct type, const void *given, void *own);

/* Copies what was filled to the caller's checked struct, as far as it goes; its struct_size stays. */
void fv_struct_write(fv_struct type, void *given, const void *own);

#endif
