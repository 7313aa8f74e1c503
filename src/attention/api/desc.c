/* Descriptions of attentions: defaults, what is wrong with them, and which arithmetic they get. */
#include "attention/api/relative_check.h"
#include "attention/attention.h"
#include "cache/cache.h"
#include "context/context.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <stddef.h>

#define FOVEA_DESC_SIZE(name, initial, least, most, status, when, text) SIZE_##name,
enum {
#include "fovea/fields.inc"
    SIZES
};

static const struct {
    const char *name;
    size_t at;
    int64_t least, most;
    fovea_status status;
} sizes[SIZES] = {
#define FOVEA_DESC_SIZE(name, initial, least, most, status, when, text)                                                \
    {#name, offsetof(fovea_attention_desc, name), least, (int64_t)most, FOVEA_ERROR_##status},
#include "fovea/fields.inc"
};

static fovea_status check_sizes(const fovea_attention_desc *d) {
    const uint32_t used = 0
#define FOVEA_DESC_SIZE(name, initial, least, most, status, when, text) | ((when) ? 1U << SIZE_##name : 0)
#include "fovea/fields.inc"
        ;
    for (int i = 0; i < SIZES; i++) {
        const int64_t value = *(const int64_t *)(const void *)((const char *)d + sizes[i].at);
        const bool below = value < sizes[i].least;
        if ((used >> i & 1) && (below || value > sizes[i].most))
            return fv_fail(!below && sizes[i].status == FOVEA_ERROR_SHAPE ? FOVEA_ERROR_OVERFLOW : sizes[i].status,
                           "%s is %lld; it must be at %s %lld", sizes[i].name, (long long)value,
                           below ? "least" : "most", (long long)(below ? sizes[i].least : sizes[i].most));
    }
    return FOVEA_OK;
}

/* Numbers are rounded to float32 once. */
static fovea_status check_number(const char *name, double value, double least, double most) {
    const double rounded = (double)(float)value;
    if (value == 0.0 || (rounded >= least && rounded <= most))
        return FOVEA_OK;
    return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is %g; it must be %sfrom %g to %g", name, value,
                   least > 0.0 ? "0 (none) or " : "", least, most);
}

/* Each field by itself. */
static fovea_status check_fields(const fovea_attention_desc *d) {
    fovea_status status = check_sizes(d);
#define FOVEA_DESC_NUMBER_IF(name, flag, least, most, text)                                                            \
    if (status == FOVEA_OK && d->flag)                                                                                 \
        status = check_number(#name, d->name, least, most);
#define FOVEA_DESC_NUMBER(name, least, most, text)                                                                     \
    if (status == FOVEA_OK)                                                                                            \
        status = check_number(#name, d->name, least, most);
#define FOVEA_DESC_ENUM(name, type, initial, text)                                                                     \
    if (status == FOVEA_OK)                                                                                            \
        status = fv_enum_check(FV_ENUM_##type, #name, (int)d->name);
#include "fovea/fields.inc"
    return status;
}

/* Heads that divide, and tensors that memory could hold. */
static fovea_status check_products(const fovea_attention_desc *d) {
    if (d->kv_heads == 0 ? d->q_heads > 0 : d->q_heads % d->kv_heads != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "q_heads %lld is not a multiple of kv_heads %lld", (long long)d->q_heads,
                       (long long)d->kv_heads);
    const struct {
        const char *name;
        int64_t heads, tokens, channels;
    } tensors[] = {{"q", d->q_heads, d->q_len, d->head_dim},
                   {"k", d->kv_heads, d->kv_len, d->head_dim},
                   {"v", d->kv_heads, d->kv_len, d->value_dim},
                   {"out", d->q_heads, d->q_len, d->value_dim}};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        int64_t bytes = (int64_t)sizeof(float);
        if (!fv_multiply(bytes, d->batch, &bytes) || !fv_multiply(bytes, tensors[i].heads, &bytes) ||
            !fv_multiply(bytes, tensors[i].tokens, &bytes) || !fv_multiply(bytes, tensors[i].channels, &bytes))
            return fv_fail(FOVEA_ERROR_OVERFLOW, "%s of %lld x %lld x %lld x %lld floats is too large", tensors[i].name,
                           (long long)d->batch, (long long)tensors[i].heads, (long long)tensors[i].tokens,
                           (long long)tensors[i].channels);
    }
    return FOVEA_OK;
}

/* Those that are not said become that of q. */
static fovea_status read_dtypes(fovea_attention_desc *d) {
    const struct {
        const char *name;
        fovea_dtype *dtype;
    } all[] = {
#define FOVEA_DESC_DTYPE(name, initial, text) {#name, &d->name},
#include "fovea/fields.inc"
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (i > 0 && *all[i].dtype == 0)
            *all[i].dtype = d->dtype;
        if (fv_dtype_paged(*all[i].dtype) && (i == 1 || i == 2) && fv_dtype_built(*all[i].dtype))
            continue;
        if (fv_type_of(*all[i].dtype) == FV_TYPE_COUNT)
            return fv_dtype_refuse(all[i].name, *all[i].dtype,
                                   "attention takes FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16 and FOVEA_DTYPE_F16");
    }
    return FOVEA_OK;
}

/* Keys and values with scales are those of pages. */
static fovea_status check_scaled(const fovea_attention_desc *d) {
    fovea_status status = FOVEA_OK;
    for (int side = 0; side < 2 && status == FOVEA_OK; side++) {
        const char *const name = side ? "v_dtype" : "k_dtype";
        const fovea_dtype dtype = side ? d->v_dtype : d->k_dtype;
        if (!fv_dtype_paged(dtype))
            continue;
        status = d->page_keys == 0
                     ? fv_fail(FOVEA_ERROR_DTYPE,
                               "%s is %s, which only pages have: page_keys is 0; with a cache it must be %d", name,
                               fv_enum_name(FV_ENUM_dtype, (int)dtype), FOVEA_KV_PAGE_KEYS)
                     : fv_stored_check(name, dtype, side == 0, side ? d->value_dim : d->head_dim, d->page_keys);
    }
    return status;
}

fovea_status fv_attention_select_arithmetic(const fovea_context *ctx, fovea_attention_desc *d) {
    const fv_arithmetic_operand all[] = {{"dtype", d->dtype}, {"k_dtype", d->k_dtype}, {"v_dtype", d->v_dtype}};
    fv_arithmetic_operand operands[3];
    int count = 0;
    for (int i = 0; i < 3; i++) /* integers keep their own arithmetic */
        if (!fv_dtype_paged(all[i].dtype))
            operands[count++] = all[i];
    const bool exact = count < 3 && d->arithmetic == FOVEA_ARITHMETIC_FASTEST;
    return fv_arithmetic_select(ctx, FV_ARITHMETIC_OF_attention, exact ? FOVEA_ARITHMETIC_EXACT : d->arithmetic,
                                operands, count, &d->arithmetic);
}

fovea_status fv_attention_read_desc(const fovea_attention_desc *given, fovea_attention_desc *d) {
    if (!given)
        return fv_fail(FOVEA_ERROR_NULL, "desc is NULL");
    fovea_attention_desc_init(d);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_attention_desc), given, d);
    if (status != FOVEA_OK)
        return status;
    status = read_dtypes(d);
    if (status == FOVEA_OK)
        status = check_fields(d);
    if (status == FOVEA_OK && d->has_bias && d->mask == FOVEA_MASK_ADDITIVE)
        return fv_fail(FOVEA_ERROR_ARGUMENT,
                       "has_bias is set, but mask is FOVEA_MASK_ADDITIVE, which is a bias itself");
    if (status == FOVEA_OK)
        status = check_products(d);
    if (status == FOVEA_OK)
        status = check_scaled(d);
    return status == FOVEA_OK ? fv_relative_check_desc(d) : status;
}
