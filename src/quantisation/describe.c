/* How quantised weights are packed, as their types and scales say (quantisation.h). */
#include "quantisation/quantisation.h"

void fovea_quantisation_init_size(fovea_quantisation *q, size_t size) {
    const fovea_quantisation defaults = {.scale_dtype = FOVEA_DTYPE_F32};
    fv_struct_init(q, size, &defaults, sizeof defaults);
}

/* How each type of blocks is packed. */
typedef struct block_row {
    fovea_dtype dtype;
    fv_format format;
    fv_scale_words scales;
    int group;
} block_row;

static const block_row blocks[] = {
    {FOVEA_DTYPE_Q8_0, FV_FORMAT_i8g, FV_SCALES_f16, 32},
    {FOVEA_DTYPE_Q4_0, FV_FORMAT_i4g, FV_SCALES_f16, 32},
    {FOVEA_DTYPE_Q4_1, FV_FORMAT_i4g, FV_SCALES_f16_minimum, 32},
    {FOVEA_DTYPE_Q4_K, FV_FORMAT_i4g, FV_SCALES_super8, 32},
    {FOVEA_DTYPE_Q5_K, FV_FORMAT_i5g, FV_SCALES_super8, 32},
    {FOVEA_DTYPE_Q6_K, FV_FORMAT_i6g, FV_SCALES_super16, 16},
};

static fv_scale_words words_of(const fovea_quantisation *q) {
    const fovea_dtype dtype = q->scales ? FOVEA_DTYPE_F32 : q->scale_dtype;
    const int plain = dtype == FOVEA_DTYPE_F32   ? FV_SCALES_f32
                      : dtype == FOVEA_DTYPE_F16 ? FV_SCALES_f16
                                                 : FV_SCALES_bf16;
    return (fv_scale_words)(q->zeros ? plain + FV_SCALES_f32_zero - FV_SCALES_f32 : plain);
}

fv_quantised fv_quantised_of(const fovea_matrix *m) {
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (blocks[i].dtype == m->dtype)
            return (fv_quantised){blocks[i].format, blocks[i].scales, blocks[i].group, m->in / blocks[i].group, NULL};
    fovea_quantisation q;
    fovea_quantisation_init(&q);
    (void)fv_struct_read(FV_STRUCT(fovea_quantisation), m->quantisation, &q);
    const int64_t group = fv_min(q.group_size ? q.group_size : m->in, FV_I8_CHANNELS);
    return (fv_quantised){m->dtype == FOVEA_DTYPE_U4 ? FV_FORMAT_i4g : FV_FORMAT_i8g, words_of(&q), group,
                          fv_ceil_div(m->in, group), NULL};
}

bool fv_quantised_order(const fovea_matrix *m, int32_t *order) {
    if (!fv_dtype_scaled(m->dtype))
        return false;
    fovea_quantisation q;
    fovea_quantisation_init(&q);
    (void)fv_struct_read(FV_STRUCT(fovea_quantisation), m->quantisation, &q);
    if (!q.group_of)
        return false;
    const int64_t size = q.group_size ? q.group_size : m->in;
    bool ascending = true;
    for (int64_t i = 0; i < m->in && ascending; i++)
        ascending = q.group_of[i] == i / size;
    if (ascending)
        return false;
    int64_t at = 0;
    for (int64_t g = 0; g < m->in / size; g++)
        for (int64_t i = 0; i < m->in; i++)
            if (q.group_of[i] == g)
                order[at++] = (int32_t)i;
    return true;
}
