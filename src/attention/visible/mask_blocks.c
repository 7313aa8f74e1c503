/* Checks of masks that list blocks (mask.h). */
#include "attention/visible/mask.h"
#include "core/core.h"

static int64_t different(const fovea_tensor *t, int axis) { return t->stride[axis] == 0 ? 1 : t->shape[axis]; }

/* The lists of one head. */
static fovea_status check_lists(const fovea_mask_desc *d, const int64_t *starts, int64_t lists) {
    const int64_t most = fv_ceil_div(d->kv_len, d->block_keys);
    for (int64_t i = 0; i < lists; i++) {
        if (starts[i] < 0 || starts[i] > starts[i + 1] || starts[i + 1] > d->block_count)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "mask: the list of row block %lld is from %lld to %lld of %lld blocks",
                           (long long)i, (long long)starts[i], (long long)starts[i + 1], (long long)d->block_count);
        for (int64_t at = starts[i]; at < starts[i + 1]; at++)
            if (d->blocks[at] < (at > starts[i] ? d->blocks[at - 1] + 1 : 0) || d->blocks[at] >= most)
                return fv_fail(FOVEA_ERROR_ARGUMENT,
                               "mask_blocks[%lld] is %lld: blocks of a list ascend and are from 0 to %lld",
                               (long long)at, (long long)d->blocks[at], (long long)most - 1);
    }
    return FOVEA_OK;
}

fovea_status fv_mask_blocks_check(const fovea_mask_desc *d) {
    const int64_t heads[2] = {different(&d->mask, 0), different(&d->mask, 1)};
    for (int64_t b = 0; b < heads[0]; b++)
        for (int64_t h = 0; h < heads[1]; h++) {
            const int64_t *starts = (const int64_t *)d->mask.data + b * d->mask.stride[0] + h * d->mask.stride[1];
            const fovea_status status = check_lists(d, starts, d->mask.shape[3] - 1);
            if (status != FOVEA_OK)
                return status;
        }
    return FOVEA_OK;
}

fovea_status fv_mask_block_sizes_check(const fovea_mask_desc *d) {
    if (d->block_rows < 1 || d->block_keys < 1 || d->block_rows > FV_SIZE_LIMIT || d->block_keys > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "mask_block_rows %lld, mask_block_keys %lld: they must be from 1 to 2^48",
                       (long long)d->block_rows, (long long)d->block_keys);
    if (d->block_count < 0 || d->block_count > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "mask_block_count is %lld; it must be from 0 to 2^48",
                       (long long)d->block_count);
    if (d->block_count > 0 && !d->blocks)
        return fv_fail(FOVEA_ERROR_NULL, "mask_blocks is NULL, and mask_block_count %lld", (long long)d->block_count);
    return FOVEA_OK;
}
