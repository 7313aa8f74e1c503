/* Structs that may grow (struct.h). */
#include "core/struct.h"

#include "core/status.h"
#include "fovea/fovea.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8,
               "Fovea is for 64-bit platforms only: elsewhere a struct of version 0.3 is not known by its size");

/* ------------------------------------------------------------------------------------------------------ defaults -- */

static const fovea_attention_desc attention_desc = {
#define FOVEA_DESC_SIZE(name, initial, least, most, status, when, text) .name = (initial),
#define FOVEA_DESC_DTYPE(name, initial, text) .name = (initial),
#define FOVEA_DESC_ENUM(name, type, initial, text) .name = (initial),
#include "fovea/fields.inc"
};
static const fovea_linear_desc linear_desc = {
#define FOVEA_LINEAR_DESC(name, type, initial, text) .name = (type)(initial),
#include "fovea/fields.inc"
};
static const fovea_embedding_args embedding_args = {.scale = 1.0};
static const fovea_kv_cache_desc kv_cache_desc = {.layers = 1, .k_dtype = FOVEA_DTYPE_F32, .v_dtype = FOVEA_DTYPE_F32};
static const fovea_mask_desc mask_desc = {.batch = 1, .q_heads = 1};
static const fovea_mha_desc mha_desc = {.norm_eps = 1e-6, .quantized_arithmetic = FOVEA_ARITHMETIC_DEFAULT};
static const fovea_mha_weights mha_weights = {.bias_dtype = FOVEA_DTYPE_F32};
static const fovea_norm_args norm_args = {.weight_dtype = FOVEA_DTYPE_F32, .bias_dtype = FOVEA_DTYPE_F32, .eps = 1e-5};
static const fovea_quantization quantization = {.scale_dtype = FOVEA_DTYPE_F32};
static const fovea_quantize_options quantize_options = {.scale_dtype = FOVEA_DTYPE_F16};
static const fovea_rope_desc rope_desc = {
    .base = 10000.0, .factor = 1.0, .beta_fast = 32.0, .beta_slow = 1.0, .low_frequency = 1.0, .high_frequency = 4.0};

static const fovea_states states = {.slots = 1};
static const fovea_state_cache_desc state_cache_desc = {.slots = 1};
static const fovea_delta_args delta_args = {.dt_max = INFINITY, .beta_scale = 1.0, .eps = 1e-6};
static const fovea_router router = {.groups = 1, .groups_used = 1, .scale = 1.0};
static const fovea_experts_desc experts_desc = {.dtype = FOVEA_DTYPE_F32,
                                                .arithmetic = FOVEA_ARITHMETIC_DEFAULT,
                                                .activation = FOVEA_ACTIVATION_SILU_GATED,
                                                .limit = INFINITY,
                                                .alpha = 1.0};
static const fovea_experts_weights experts_weights = {.bias_dtype = FOVEA_DTYPE_F32};
static const fovea_scan_args scan_args = {.dt_softplus = 1, .dt_max = INFINITY};

static const void *const defaults[FV_STRUCT_END] = {
    [FOVEA_STRUCT_ATTENTION_DESC] = &attention_desc,
    [FOVEA_STRUCT_EMBEDDING_ARGS] = &embedding_args,
    [FOVEA_STRUCT_KV_CACHE_DESC] = &kv_cache_desc,
    [FOVEA_STRUCT_LINEAR_DESC] = &linear_desc,
    [FOVEA_STRUCT_MASK_DESC] = &mask_desc,
    [FOVEA_STRUCT_MHA_DESC] = &mha_desc,
    [FOVEA_STRUCT_MHA_WEIGHTS] = &mha_weights,
    [FOVEA_STRUCT_NORM_ARGS] = &norm_args,
    [FOVEA_STRUCT_QUANTIZATION] = &quantization,
    [FOVEA_STRUCT_QUANTIZE_OPTIONS] = &quantize_options,
    [FOVEA_STRUCT_ROPE_DESC] = &rope_desc,
    [FOVEA_STRUCT_STATES] = &states,
    [FOVEA_STRUCT_STATE_CACHE_DESC] = &state_cache_desc,
    [FOVEA_STRUCT_DELTA_ARGS] = &delta_args,
    [FOVEA_STRUCT_SCAN_ARGS] = &scan_args,
    [FOVEA_STRUCT_ROUTER] = &router,
    [FOVEA_STRUCT_EXPERTS_DESC] = &experts_desc,
    [FOVEA_STRUCT_EXPERTS_WEIGHTS] = &experts_weights,
}; /* all others: zeros */

/* ------------------------------------------------------------------------------------------------- known structs -- */

#define DESCRIBED(kind, type, last, former)                                                                            \
    [FOVEA_STRUCT_##kind] = {#type, sizeof(type), FV_STRUCT_SIZE(type, last), former},
const fv_struct fv_structs[FV_STRUCT_END] = {FV_STRUCTS(DESCRIBED)};
#undef DESCRIBED

fovea_status fovea_struct_init(fovea_struct kind, void *object, size_t size) {
    if (!object)
        return fv_fail(FOVEA_ERROR_NULL, "object is NULL");
    if (size < sizeof size)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "a struct of %zu bytes has no room for struct_size", size);
    if ((size_t)kind >= FV_STRUCT_END || !fv_structs[kind].name)
        return fv_fail(FOVEA_ERROR_VERSION, "this library (%s) knows no fovea_struct %d: the program needs a newer one",
                       FOVEA_VERSION_STRING, (int)kind);
    memset(object, 0, size);
    if (defaults[kind])
        memcpy(object, defaults[kind], size < fv_structs[kind].size ? size : fv_structs[kind].size);
    memcpy(object, &size, sizeof size);
    return FOVEA_OK;
}

static size_t size_of(const void *given) {
    size_t size;
    memcpy(&size, given, sizeof size); /* struct_size is the first field of each */
    return size;
}

fovea_status fv_struct_check(fv_struct type, const void *given) {
    const size_t size = size_of(given);
    if (size == type.former && size > 0)
        return fv_fail(
            FOVEA_ERROR_VERSION,
            "%s has struct_size %zu, that of version 0.3, which had other fields: compile the program for %s",
            type.name, size, FOVEA_VERSION_STRING);
    if (size > type.size)
        return fv_fail(FOVEA_ERROR_VERSION,
                       "%s has struct_size %zu, but this library (%s) knows %zu: the program needs a newer library",
                       type.name, size, FOVEA_VERSION_STRING, type.size);
    if (size < type.least)
        return fv_fail(FOVEA_ERROR_VERSION,
                       "%s has struct_size %zu, but this library (%s) needs %zu: compiled for a version before "
                       "0.4, or without %s_init",
                       type.name, size, FOVEA_VERSION_STRING, type.least, type.name);
    return FOVEA_OK;
}

fovea_status fv_struct_read(fv_struct type, const void *given, void *own) {
    const fovea_status status = fv_struct_check(type, given);
    if (status != FOVEA_OK)
        return status;
    memcpy(own, given, size_of(given));
    memcpy(own, &type.size, sizeof type.size);
    return FOVEA_OK;
}

void fv_struct_write(fv_struct type, void *given, const void *own) {
    const size_t size = size_of(given);
    (void)type;
    memcpy((char *)given + sizeof size, (const char *)own + sizeof size, size - sizeof size);
}
