#include "pages.h"

#include "attention_case.h"

#include <string.h>

fovea_tensor pages_of(const fovea_tensor *t, int64_t page_keys, int64_t pages, const int32_t *table, int64_t stride,
                      bool keys_first) {
    const int64_t heads = t->shape[1], channels = t->shape[3], page = heads * page_keys * channels;
    float *data = must_alloc(pages * page, sizeof *data);
    poison_fill(data, pages * page); /* what no key is in */
    const fovea_tensor p = {
        data,
        FOVEA_DTYPE_F32,
        {pages, heads, page_keys, channels},
        {page, keys_first ? channels : page_keys * channels, keys_first ? heads * channels : channels, 1},
        NULL};
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t key = 0; key < t->shape[2]; key++)
                memcpy(data + table[b * stride + key / page_keys] * p.stride[0] + h * p.stride[1] +
                           key % page_keys * p.stride[2],
                       tensor_row(t, b, h, key), (size_t)channels * sizeof(float));
    return p;
}
