/* Names of the public enums' constants (names.h). */
#include "core/names.h"

#include "core/dtypes.h"
#include "core/status.h"

#include <stddef.h>

enum { MOST_NAMES = 24 };

#define NAME(constant) [constant] = #constant

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
                            {NAME(FOVEA_ARITHMETIC_EXACT), NAME(FOVEA_ARITHMETIC_BF16),
                             NAME(FOVEA_ARITHMETIC_BF16_TILE), NAME(FOVEA_ARITHMETIC_FASTEST),
                             NAME(FOVEA_ARITHMETIC_DEFAULT), NAME(FOVEA_ARITHMETIC_Q16), NAME(FOVEA_ARITHMETIC_Q8)}},
    [FV_ENUM_isa] = {"fovea_isa",
                     {NAME(FOVEA_ISA_BEST), NAME(FOVEA_ISA_SCALAR), NAME(FOVEA_ISA_AVX2), NAME(FOVEA_ISA_AVX512),
                      NAME(FOVEA_ISA_NEON)}},
    [FV_ENUM_causal] = {"fovea_causal",
                        {NAME(FOVEA_CAUSAL_NONE), NAME(FOVEA_CAUSAL_TOP_LEFT), NAME(FOVEA_CAUSAL_BOTTOM_RIGHT),
                         NAME(FOVEA_CAUSAL_OFFSET)}},
    [FV_ENUM_mask_kind] = {"fovea_mask_kind",
                           {NAME(FOVEA_MASK_NONE), NAME(FOVEA_MASK_BOOLEAN), NAME(FOVEA_MASK_ADDITIVE),
                            NAME(FOVEA_MASK_BITS), NAME(FOVEA_MASK_KEY_PADDING), NAME(FOVEA_MASK_RANGES),
                            NAME(FOVEA_MASK_BLOCKS), NAME(FOVEA_MASK_PREPARED)}},
    [FV_ENUM_relative] = {"fovea_relative",
                          {NAME(FOVEA_RELATIVE_NONE), NAME(FOVEA_RELATIVE_ALIBI), NAME(FOVEA_RELATIVE_TOEPLITZ),
                           NAME(FOVEA_RELATIVE_T5), NAME(FOVEA_RELATIVE_WINDOW_2D)}},
    [FV_ENUM_score_kind] = {"fovea_score_kind",
                            {NAME(FOVEA_SCORES_RAW), NAME(FOVEA_SCORES_CAPPED), NAME(FOVEA_SCORES_BIASED),
                             NAME(FOVEA_SCORES_WEIGHTS)}},
    [FV_ENUM_activation] = {"fovea_activation",
                            {
#define FOVEA_ACTIVATION_ROW(name, word, gate, text) [FOVEA_ACTIVATION_##name] = "FOVEA_ACTIVATION_" #name,
#include "fovea/fields.inc"
                            }},
    [FV_ENUM_mha_form] = {"fovea_mha_form",
                          {NAME(FOVEA_MHA_FACTORED), NAME(FOVEA_MHA_MERGED), NAME(FOVEA_MHA_FOLDED),
                           NAME(FOVEA_MHA_PROJECTED), NAME(FOVEA_MHA_TIED), NAME(FOVEA_MHA_FUSED)}},
    [FV_ENUM_mha_inputs] = {"fovea_mha_inputs",
                            {NAME(FOVEA_MHA_SELF), NAME(FOVEA_MHA_CROSS), NAME(FOVEA_MHA_SEPARATE)}},
    [FV_ENUM_mha_merge] = {"fovea_mha_merge", {NAME(FOVEA_MHA_MERGE_QUERIES), NAME(FOVEA_MHA_MERGE_KEYS)}},
    [FV_ENUM_mha_fold] = {"fovea_mha_fold",
                          {NAME(FOVEA_MHA_FOLD_NEVER), NAME(FOVEA_MHA_FOLD_CHEAPER), NAME(FOVEA_MHA_FOLD_ALWAYS)}},
    [FV_ENUM_mha_order] = {"fovea_mha_order", {NAME(FOVEA_MHA_ORDER_QKV), NAME(FOVEA_MHA_ORDER_GROUPED)}},
    [FV_ENUM_packing] = {"fovea_packing",
                         {NAME(FOVEA_PACKING_PLAIN), NAME(FOVEA_PACKING_GPTQ), NAME(FOVEA_PACKING_AWQ)}},
    [FV_ENUM_pooling] = {"fovea_pooling",
                         {NAME(FOVEA_POOLING_FIRST), NAME(FOVEA_POOLING_LAST), NAME(FOVEA_POOLING_MEAN),
                          NAME(FOVEA_POOLING_MEAN_SQRT_LEN), NAME(FOVEA_POOLING_WEIGHTED_MEAN),
                          NAME(FOVEA_POOLING_MAX)}},
    [FV_ENUM_rope_pairing] = {"fovea_rope_pairing", {NAME(FOVEA_ROPE_HALVES), NAME(FOVEA_ROPE_ADJACENT)}},
    [FV_ENUM_rope_scaling] = {"fovea_rope_scaling",
                              {NAME(FOVEA_ROPE_UNSCALED), NAME(FOVEA_ROPE_LINEAR), NAME(FOVEA_ROPE_NTK),
                               NAME(FOVEA_ROPE_YARN), NAME(FOVEA_ROPE_LLAMA3)}},
    [FV_ENUM_threads_backend] = {"fovea_threads_backend",
                                 {NAME(FOVEA_THREADS_DEFAULT), NAME(FOVEA_THREADS_OPENMP), NAME(FOVEA_THREADS_POOL)}},
    [FV_ENUM_placement] = {"fovea_placement",
                           {NAME(FOVEA_PLACEMENT_DEFAULT), NAME(FOVEA_PLACEMENT_NODE), NAME(FOVEA_PLACEMENT_SPREAD),
                            NAME(FOVEA_PLACEMENT_COPIES)}},
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
#define FOVEA_ACTIVATION_ROW(value, word, of_gate, text)                                                               \
    [FOVEA_ACTIVATION_##value] = {.name = word, .gate = FOVEA_ACTIVATION_##of_gate},
#include "fovea/fields.inc"
    };
    return (unsigned)activation < sizeof facts / sizeof facts[0] ? &facts[activation] : NULL;
}

const char *const fv_activation_words[] = {
#define FOVEA_ACTIVATION_ROW(name, word, gate, text) word,
#include "fovea/fields.inc"
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
