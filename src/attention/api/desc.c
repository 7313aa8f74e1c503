/* Descriptions of attentions: defaults, what is wrong with them, and which arithmetic they get. */
#include "attention/api/relative_check.h"
#include "attention/attention.h"
#include "cache/cache.h"
#include "context/context.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <math.h>

void fovea_attention_desc_init_size(fovea_attention_desc *desc, size_t size) {
    const fovea_attention_desc defaults = {.dtype = FOVEA_DTYPE_F32, .batch = 1, .window_left = -1, .window_right = -1};
    fv_struct_init(desc, size, &defaults, sizeof defaults);
}

static fovea_status check_sizes(const fovea_attention_desc *d) {
    const struct {
        const char *name;
        int64_t value, least, most;
    } sizes[] = {{"batch", d->batch, 0, FV_SIZE_LIMIT},           {"q_heads", d->q_heads, 0, FV_SIZE_LIMIT},
                 {"kv_heads", d->kv_heads, 0, FV_SIZE_LIMIT},     {"q_len", d->q_len, 0, FV_SIZE_LIMIT},
                 {"kv_len", d->kv_len, 0, FV_SIZE_LIMIT},         {"head_dim", d->head_dim, 1, FV_CHANNEL_LIMIT},
                 {"value_dim", d->value_dim, 1, FV_CHANNEL_LIMIT}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].value < sizes[i].least)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s is %lld; it must be at least %lld", sizes[i].name,
                           (long long)sizes[i].value, (long long)sizes[i].least);
        if (sizes[i].value > sizes[i].most)
            return fv_fail(FOVEA_ERROR_OVERFLOW, "%s is %lld; it must be at most %lld", sizes[i].name,
                           (long long)sizes[i].value, (long long)sizes[i].most);
    }
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
    } all[] = {{"dtype", &d->dtype}, {"k_dtype", &d->k_dtype}, {"v_dtype", &d->v_dtype}, {"out_dtype", &d->out_dtype}};
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
        status = fv_enum_check(FV_ENUM_causal, "causal", (int)d->causal);
    if (status == FOVEA_OK)
        status = fv_enum_check(FV_ENUM_mask_kind, "mask", (int)d->mask);
    if (status != FOVEA_OK)
        return status;
    if (d->window_left < -1 || d->window_right < -1)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "window_left is %lld and window_right is %lld; the least is -1 (no limit)",
                       (long long)d->window_left, (long long)d->window_right);
    if (d->has_bias && d->mask == FOVEA_MASK_ADDITIVE)
        return fv_fail(FOVEA_ERROR_ARGUMENT,
                       "has_bias is set, but mask is FOVEA_MASK_ADDITIVE, which is a bias itself");
    if (d->has_scale && !isfinite((float)d->scale))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "scale %g is not a finite float", d->scale);
    if (d->softcap != 0.0 && !(d->softcap >= 0x1p-126 && d->softcap <= 0x1p126))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "softcap is %g, it must be 0 (none) or from 2^-126 to 2^126", d->softcap);
    if (d->mask == FOVEA_MASK_BLOCKS && (d->mask_block_rows < 1 || d->mask_block_keys < 1))
        return fv_fail(FOVEA_ERROR_SHAPE, "mask_block_rows %lld, mask_block_keys %lld: they must be at least 1",
                       (long long)d->mask_block_rows, (long long)d->mask_block_keys);
    if (d->page_keys < 0 || d->page_keys > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "page_keys is %lld; it must be from 0 to 2^48", (long long)d->page_keys);
    status = check_sizes(d);
    if (status == FOVEA_OK)
        status = check_scaled(d);
    return status == FOVEA_OK ? fv_relative_check_desc(d) : status;
}
