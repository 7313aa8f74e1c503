/* Checks of relative biases: descriptions, then arguments. */
#include "attention/api/relative_check.h"

#include "attention/plan/buckets.h"
#include "attention/visible/visible.h"
#include "core/core.h"

#include <assert.h>

fovea_status fv_relative_check_desc(const fovea_attention_desc *d) {
    const int64_t each = fv_relative_buckets(d);
    if (d->relative != FOVEA_RELATIVE_T5)
        return FOVEA_OK;
    assert(d->relative_buckets <= FV_MOST_BUCKETS); /* by the list of fields */
    if (each < 2)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "relative_buckets is %lld; in both directions it must be at least 4",
                       (long long)d->relative_buckets);
    if (d->relative_max_distance <= each / 2)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "relative_max_distance is %lld; it must be at least %lld",
                       (long long)d->relative_max_distance, (long long)each / 2 + 1);
    return FOVEA_OK;
}

int64_t fv_relative_entries(const fovea_attention_desc *d, const fovea_tensor *relative) {
    switch (d->relative) {
    case FOVEA_RELATIVE_TOEPLITZ: return relative->shape[3];
    case FOVEA_RELATIVE_T5: return d->relative_buckets;
    case FOVEA_RELATIVE_WINDOW_2D: return (2 * d->relative_height - 1) * (2 * d->relative_width - 1);
    default: return 1;
    }
}

fovea_status fv_relative_check_args(const fovea_attention_desc *d, const fovea_attention_args *args) {
    const fovea_tensor *t = &args->relative;
    if (d->relative == FOVEA_RELATIVE_NONE)
        return t->data ? fv_fail(FOVEA_ERROR_ARGUMENT, "relative is given, but desc.relative is FOVEA_RELATIVE_NONE")
                       : FOVEA_OK;
    if (!t->data)
        return FOVEA_OK;
    const int64_t entries = fv_relative_entries(d, t);
    if (t->shape[3] != entries)
        return fv_fail(FOVEA_ERROR_SHAPE, "relative: a head has %lld entries, %s asks for %lld", (long long)t->shape[3],
                       fv_enum_name(FV_ENUM_relative, (int)d->relative), (long long)entries);
    if (entries < 1 || (d->relative == FOVEA_RELATIVE_TOEPLITZ && entries % 2 == 0))
        return fv_fail(FOVEA_ERROR_SHAPE,
                       "relative: a head has %lld entries, FOVEA_RELATIVE_TOEPLITZ asks for an odd number",
                       (long long)entries);
    if (entries > 1 && t->stride[3] != 1 && !fv_tensor_empty(t))
        return fv_fail(FOVEA_ERROR_STRIDE, "relative: channel stride is %lld; it must be 1", (long long)t->stride[3]);
    return FOVEA_OK;
}

fovea_status fv_relative_check_sequences(const fovea_attention_desc *d, const fovea_attention_args *args) {
    const int64_t positions = d->relative_height * d->relative_width;
    if (d->relative != FOVEA_RELATIVE_WINDOW_2D || !args->relative.data)
        return FOVEA_OK;
    for (int64_t b = 0; b < d->batch; b++) {
        const fv_sequence s = fv_attention_sequence(d, args, b);
        const int64_t first = s.offset + args->first_key;
        if (s.kv_len == 0) /* no pair asks for a bias */
            continue;
        if (s.kv_len > positions - args->first_key)
            return fv_fail(FOVEA_ERROR_SHAPE, "sequence %lld has %lld keys, the window %lld positions", (long long)b,
                           (long long)(args->first_key + s.kv_len), (long long)positions);
        if (s.q_len > 0 && (first < 0 || first > positions - s.q_len))
            return fv_fail(FOVEA_ERROR_SHAPE,
                           "sequence %lld has queries at positions %lld to %lld, the window %lld positions",
                           (long long)b, (long long)first, (long long)(first + s.q_len - 1), (long long)positions);
    }
    return FOVEA_OK;
}
