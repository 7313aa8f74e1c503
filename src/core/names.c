/* Names of the public enums' constants (names.h). */
#include "core/names.h"

#include "core/dtypes.h"
#include "core/status.h"

#include <stddef.h>

enum { MOST_NAMES = 24 };

/* The activations: word, and what is computed of the gate, which is the activation itself unless it gates. */
#define ACTIVATIONS(X)                                                                                                 \
    X(NONE, "none", NONE)                                                                                              \
    X(RELU, "relu", RELU)                                                                                              \
    X(GELU, "gelu", GELU)                                                                                              \
    X(GELU_TANH, "gelu_tanh", GELU_TANH)                                                                               \
    X(SILU, "silu", SILU)                                                                                              \
    X(SILU_GATED, "silu_gated", SILU)                                                                                  \
    X(TANH, "tanh", TANH)                                                                                              \
    X(SIGMOID, "sigmoid", SIGMOID)                                                                                     \
    X(GELU_GATED, "gelu_gated", GELU)                                                                                  \
    X(GELU_TANH_GATED, "gelu_tanh_gated", GELU_TANH)                                                                   \
    X(SOFTPLUS, "softplus", SOFTPLUS)

/* By value; NULL where there is no such constant. */
static const struct {
    const char *type;
    const char *name[MOST_NAMES];
} enums[FV_ENUMS] = {
    [FV_ENUM_dtype] = {"fovea_dtype",
                       {
#define FV_DTYPE(name, word, bits, elements, bytes) [FOVEA_DTYPE_##name] = "FOVEA_DTYPE_" #name,
#include "core/dtypes.inc"
                       }},
    [FV_ENUM_arithmetic] = {"fovea_arithmetic",
                            {[FOVEA_ARITHMETIC_EXACT] = "FOVEA_ARITHMETIC_EXACT",
                             [FOVEA_ARITHMETIC_BF16] = "FOVEA_ARITHMETIC_BF16",
                             [FOVEA_ARITHMETIC_BF16_TILE] = "FOVEA_ARITHMETIC_BF16_TILE",
                             [FOVEA_ARITHMETIC_FASTEST] = "FOVEA_ARITHMETIC_FASTEST",
                             [FOVEA_ARITHMETIC_DEFAULT] = "FOVEA_ARITHMETIC_DEFAULT",
                             [FOVEA_ARITHMETIC_Q16] = "FOVEA_ARITHMETIC_Q16",
                             [FOVEA_ARITHMETIC_Q8] = "FOVEA_ARITHMETIC_Q8"}},
    [FV_ENUM_isa] = {"fovea_isa",
                     {[FOVEA_ISA_BEST] = "FOVEA_ISA_BEST",
                      [FOVEA_ISA_SCALAR] = "FOVEA_ISA_SCALAR",
                      [FOVEA_ISA_AVX2] = "FOVEA_ISA_AVX2",
                      [FOVEA_ISA_AVX512] = "FOVEA_ISA_AVX512",
                      [FOVEA_ISA_NEON] = "FOVEA_ISA_NEON"}},
    [FV_ENUM_causal] = {"fovea_causal",
                        {[FOVEA_CAUSAL_NONE] = "FOVEA_CAUSAL_NONE",
                         [FOVEA_CAUSAL_TOP_LEFT] = "FOVEA_CAUSAL_TOP_LEFT",
                         [FOVEA_CAUSAL_BOTTOM_RIGHT] = "FOVEA_CAUSAL_BOTTOM_RIGHT",
                         [FOVEA_CAUSAL_OFFSET] = "FOVEA_CAUSAL_OFFSET"}},
    [FV_ENUM_mask_kind] = {"fovea_mask_kind",
                           {[FOVEA_MASK_NONE] = "FOVEA_MASK_NONE",
                            [FOVEA_MASK_BOOLEAN] = "FOVEA_MASK_BOOLEAN",
                            [FOVEA_MASK_ADDITIVE] = "FOVEA_MASK_ADDITIVE",
                            [FOVEA_MASK_BITS] = "FOVEA_MASK_BITS",
                            [FOVEA_MASK_KEY_PADDING] = "FOVEA_MASK_KEY_PADDING",
                            [FOVEA_MASK_RANGES] = "FOVEA_MASK_RANGES",
                            [FOVEA_MASK_BLOCKS] = "FOVEA_MASK_BLOCKS",
                            [FOVEA_MASK_PREPARED] = "FOVEA_MASK_PREPARED"}},
    [FV_ENUM_relative] = {"fovea_relative",
                          {[FOVEA_RELATIVE_NONE] = "FOVEA_RELATIVE_NONE",
                           [FOVEA_RELATIVE_ALIBI] = "FOVEA_RELATIVE_ALIBI",
                           [FOVEA_RELATIVE_TOEPLITZ] = "FOVEA_RELATIVE_TOEPLITZ",
                           [FOVEA_RELATIVE_T5] = "FOVEA_RELATIVE_T5",
                           [FOVEA_RELATIVE_WINDOW_2D] = "FOVEA_RELATIVE_WINDOW_2D"}},
    [FV_ENUM_score_kind] = {"fovea_score_kind",
                            {[FOVEA_SCORES_RAW] = "FOVEA_SCORES_RAW",
                             [FOVEA_SCORES_CAPPED] = "FOVEA_SCORES_CAPPED",
                             [FOVEA_SCORES_BIASED] = "FOVEA_SCORES_BIASED",
                             [FOVEA_SCORES_WEIGHTS] = "FOVEA_SCORES_WEIGHTS"}},
    [FV_ENUM_activation] = {"fovea_activation",
                            {
#define NAME(name, word, gate) [FOVEA_ACTIVATION_##name] = "FOVEA_ACTIVATION_" #name,
                                ACTIVATIONS(NAME)
#undef NAME
                            }},
    [FV_ENUM_mha_form] = {"fovea_mha_form",
                          {[FOVEA_MHA_FACTORED] = "FOVEA_MHA_FACTORED",
                           [FOVEA_MHA_MERGED] = "FOVEA_MHA_MERGED",
                           [FOVEA_MHA_FOLDED] = "FOVEA_MHA_FOLDED",
                           [FOVEA_MHA_PROJECTED] = "FOVEA_MHA_PROJECTED",
                           [FOVEA_MHA_TIED] = "FOVEA_MHA_TIED",
                           [FOVEA_MHA_FUSED] = "FOVEA_MHA_FUSED"}},
    [FV_ENUM_mha_inputs] = {"fovea_mha_inputs",
                            {[FOVEA_MHA_SELF] = "FOVEA_MHA_SELF",
                             [FOVEA_MHA_CROSS] = "FOVEA_MHA_CROSS",
                             [FOVEA_MHA_SEPARATE] = "FOVEA_MHA_SEPARATE"}},
    [FV_ENUM_mha_merge] =
        {"fovea_mha_merge",
         {[FOVEA_MHA_MERGE_QUERIES] = "FOVEA_MHA_MERGE_QUERIES", [FOVEA_MHA_MERGE_KEYS] = "FOVEA_MHA_MERGE_KEYS"}},
    [FV_ENUM_mha_fold] = {"fovea_mha_fold",
                          {[FOVEA_MHA_FOLD_NEVER] = "FOVEA_MHA_FOLD_NEVER",
                           [FOVEA_MHA_FOLD_CHEAPER] = "FOVEA_MHA_FOLD_CHEAPER",
                           [FOVEA_MHA_FOLD_ALWAYS] = "FOVEA_MHA_FOLD_ALWAYS"}},
    [FV_ENUM_mha_order] =
        {"fovea_mha_order",
         {[FOVEA_MHA_ORDER_QKV] = "FOVEA_MHA_ORDER_QKV", [FOVEA_MHA_ORDER_GROUPED] = "FOVEA_MHA_ORDER_GROUPED"}},
    [FV_ENUM_packing] = {"fovea_packing",
                         {[FOVEA_PACKING_PLAIN] = "FOVEA_PACKING_PLAIN",
                          [FOVEA_PACKING_GPTQ] = "FOVEA_PACKING_GPTQ",
                          [FOVEA_PACKING_AWQ] = "FOVEA_PACKING_AWQ"}},
    [FV_ENUM_pooling] = {"fovea_pooling",
                         {[FOVEA_POOLING_FIRST] = "FOVEA_POOLING_FIRST",
                          [FOVEA_POOLING_LAST] = "FOVEA_POOLING_LAST",
                          [FOVEA_POOLING_MEAN] = "FOVEA_POOLING_MEAN",
                          [FOVEA_POOLING_MEAN_SQRT_LEN] = "FOVEA_POOLING_MEAN_SQRT_LEN",
                          [FOVEA_POOLING_WEIGHTED_MEAN] = "FOVEA_POOLING_WEIGHTED_MEAN",
                          [FOVEA_POOLING_MAX] = "FOVEA_POOLING_MAX"}},
    [FV_ENUM_rope_pairing] =
        {"fovea_rope_pairing",
         {[FOVEA_ROPE_HALVES] = "FOVEA_ROPE_HALVES", [FOVEA_ROPE_ADJACENT] = "FOVEA_ROPE_ADJACENT"}},
    [FV_ENUM_rope_scaling] = {"fovea_rope_scaling",
                              {[FOVEA_ROPE_UNSCALED] = "FOVEA_ROPE_UNSCALED",
                               [FOVEA_ROPE_LINEAR] = "FOVEA_ROPE_LINEAR",
                               [FOVEA_ROPE_NTK] = "FOVEA_ROPE_NTK",
                               [FOVEA_ROPE_YARN] = "FOVEA_ROPE_YARN",
                               [FOVEA_ROPE_LLAMA3] = "FOVEA_ROPE_LLAMA3"}},
    [FV_ENUM_threads_backend] = {"fovea_threads_backend",
                                 {[FOVEA_THREADS_DEFAULT] = "FOVEA_THREADS_DEFAULT",
                                  [FOVEA_THREADS_OPENMP] = "FOVEA_THREADS_OPENMP",
                                  [FOVEA_THREADS_POOL] = "FOVEA_THREADS_POOL"}},
    [FV_ENUM_placement] = {"fovea_placement",
                           {[FOVEA_PLACEMENT_DEFAULT] = "FOVEA_PLACEMENT_DEFAULT",
                            [FOVEA_PLACEMENT_NODE] = "FOVEA_PLACEMENT_NODE",
                            [FOVEA_PLACEMENT_SPREAD] = "FOVEA_PLACEMENT_SPREAD",
                            [FOVEA_PLACEMENT_COPIES] = "FOVEA_PLACEMENT_COPIES"}},
};

const char *const fv_causal_words[] = {
    [FOVEA_CAUSAL_NONE] = "none",
    [FOVEA_CAUSAL_TOP_LEFT] = "top_left",
    [FOVEA_CAUSAL_BOTTOM_RIGHT] = "bottom_right",
    [FOVEA_CAUSAL_OFFSET] = "offset",
    [FOVEA_CAUSAL_OFFSET + 1] = NULL,
};

const fovea_activation_facts *fovea_activation_info(fovea_activation activation) {
    static const fovea_activation_facts facts[] = {
#define FACTS(value, word, of_gate) [FOVEA_ACTIVATION_##value] = {.name = word, .gate = FOVEA_ACTIVATION_##of_gate},
        ACTIVATIONS(FACTS)
#undef FACTS
    };
    return (unsigned)activation < sizeof facts / sizeof facts[0] ? &facts[activation] : NULL;
}

const char *const fv_activation_words[] = {
#define WORD(name, word, gate) word,
    ACTIVATIONS(WORD)
#undef WORD
        NULL};

const char *const fv_arithmetic_words[] = {
    [FOVEA_ARITHMETIC_EXACT] = "exact",
    [FOVEA_ARITHMETIC_BF16] = "bf16",
    [FOVEA_ARITHMETIC_BF16_TILE] = "bf16_tile",
    [FOVEA_ARITHMETIC_FASTEST] = "fastest",
    [FOVEA_ARITHMETIC_DEFAULT] = "default",
    [FOVEA_ARITHMETIC_Q16] = "q16",
    [FOVEA_ARITHMETIC_Q8] = "q8",
    [FOVEA_ARITHMETIC_Q8 + 1] = NULL,
};

const char *fovea_arithmetic_name(fovea_arithmetic arithmetic) {
    return fv_enum_name(FV_ENUM_arithmetic, (int)arithmetic) ? fv_arithmetic_words[arithmetic] : "unknown";
}

const char *fv_enum_name(fv_enum type, int value) {
    return value >= 0 && value < MOST_NAMES ? enums[type].name[value] : NULL;
}

fovea_status fv_enum_check(fv_enum type, const char *field, int value) {
    if (fv_enum_name(type, value))
        return FOVEA_OK;
    return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is %d, not a %s", field, value, enums[type].type);
}

fovea_status fv_dtype_refuse(const char *field, fovea_dtype dtype, const char *takes) {
    const char *name = fv_enum_name(FV_ENUM_dtype, (int)dtype);
    if (!name)
        return fv_fail(FOVEA_ERROR_DTYPE, "%s is %d, not a fovea_dtype", field, (int)dtype);
    if (!fv_dtype_built(dtype))
        return fv_fail(FOVEA_ERROR_DTYPE, "%s is %s, which this build leaves out (FOVEA_TYPES)", field, name);
    return fv_fail(FOVEA_ERROR_DTYPE, "%s is %s; %s", field, name, takes);
}
