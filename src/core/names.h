/* Names of the public enums' constants, for sentences and words. */
#ifndef FV_NAMES_H
#define FV_NAMES_H

#include "fovea/fovea.h"

typedef enum fv_enum {
    FV_ENUM_dtype,
    FV_ENUM_arithmetic,
    FV_ENUM_isa,
    FV_ENUM_causal,
    FV_ENUM_mask_kind,
    FV_ENUM_relative,
    FV_ENUM_score_kind,
    FV_ENUM_activation,
    FV_ENUM_mha_form,
    FV_ENUM_mha_inputs,
    FV_ENUM_mha_merge,
    FV_ENUM_mha_fold,
    FV_ENUM_mha_order,
    FV_ENUM_packing,
    FV_ENUM_pooling,
    FV_ENUM_rope_pairing,
    FV_ENUM_rope_scaling,
    FV_ENUM_threads_backend,
    FV_ENUM_placement,
    FV_ENUMS
} fv_enum;

/* "FOVEA_CAUSAL_OFFSET"; NULL for a value that is none of the enum's. Static string. */
const char *fv_enum_name(fv_enum type, int value);

/* The causal of shapes in logs and command lines: "none", "top_left" ..., by value; ended by NULL. */
extern const char *const fv_causal_words[];

/* The arithmetics and the activations likewise. */
extern const char *const fv_arithmetic_words[], *const fv_activation_words[];

/* Is the value of that field one of the enum's? If not, FOVEA_ERROR_ARGUMENT: "causal is 7, not a fovea_causal". */
fovea_status fv_enum_check(fv_enum type, const char *field, int value);

/* Refuses an element type: "dtype is FOVEA_DTYPE_BOOL; attention takes FOVEA_DTYPE_F32", or as one that the build
 * leaves out. takes: who takes what. */
fovea_status fv_dtype_refuse(const char *field, fovea_dtype dtype, const char *takes);

#endif
