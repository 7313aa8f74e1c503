/* How quantized weights are packed, as their types and scales say (quantization.h). */
#include "quantization/read.h"

/* clang-format off */
static const fv_block_layout blocks[] = {
    /* dtype              format          scales                 table            group scale integers more */
    {FOVEA_DTYPE_Q8_0,   FV_FORMAT_i8g,  FV_SCALES_f16,         FV_TABLE_codes,  32,   0,    2,       0},
    {FOVEA_DTYPE_Q4_0,   FV_FORMAT_i4g,  FV_SCALES_f16,         FV_TABLE_codes,  32,   0,    2,       0},
    {FOVEA_DTYPE_Q4_1,   FV_FORMAT_i4g,  FV_SCALES_f16_minimum, FV_TABLE_codes,  32,   0,    4,       0},
    {FOVEA_DTYPE_Q5_0,   FV_FORMAT_i5g,  FV_SCALES_f16,         FV_TABLE_codes,  32,   0,    6,       2},
    {FOVEA_DTYPE_Q5_1,   FV_FORMAT_i5g,  FV_SCALES_f16_minimum, FV_TABLE_codes,  32,   0,    8,       4},
    {FOVEA_DTYPE_MXFP4,  FV_FORMAT_i4tg, FV_SCALES_e8m0,        FV_TABLE_e2m1,   32,   0,    1,       0},
    {FOVEA_DTYPE_IQ4_NL, FV_FORMAT_i4tg, FV_SCALES_f16,         FV_TABLE_iq4_nl, 32,   0,    2,       0},
    {FOVEA_DTYPE_Q4_K,   FV_FORMAT_i4g,  FV_SCALES_super8,      FV_TABLE_codes,  32,   0,    16,      0},
    {FOVEA_DTYPE_Q5_K,   FV_FORMAT_i5g,  FV_SCALES_super8,      FV_TABLE_codes,  32,   0,    48,      16},
    {FOVEA_DTYPE_Q6_K,   FV_FORMAT_i6g,  FV_SCALES_super16,     FV_TABLE_codes,  16,   208,  0,       128},
};
/* clang-format on */

const fv_block_layout *fv_block_layout_of(fovea_dtype dtype) {
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (blocks[i].dtype == dtype)
            return &blocks[i];
    return NULL;
}

static fv_scale_words words_of(const fovea_quantization *q) {
    const fovea_dtype dtype = q->scales ? FOVEA_DTYPE_F32 : q->scale_dtype;
    const int plain = dtype == FOVEA_DTYPE_F32   ? FV_SCALES_f32
                      : dtype == FOVEA_DTYPE_F16 ? FV_SCALES_f16
                                                 : FV_SCALES_bf16;
    return (fv_scale_words)(q->zeros ? plain + FV_SCALES_f32_zero - FV_SCALES_f32 : plain);
}

/* A matrix's description of its scales; blocks: the defaults. */
static fovea_quantization read_quantization(const fovea_matrix *m) {
    fovea_quantization q;
    fovea_quantization_init(&q);
    if (m->quantization)
        (void)fv_struct_read(FV_STRUCT(fovea_quantization), m->quantization, &q);
    if (q.group_size == 0)
        q.group_size = m->in;
    if (m->dtype == FOVEA_DTYPE_MXFP4) /* in blocks or apart: 32, said or not */
        q.group_size = 32;
    return q;
}

fv_quantized fv_quantized_of(const fovea_matrix *m) {
    const fv_block_layout *block = fv_block_layout_of(m->dtype);
    if (block)
        return (fv_quantized){.format = block->format,
                              .scales = block->scales,
                              .table = block->table,
                              .group = block->group,
                              .groups = m->in / block->group};
    const fovea_quantization q = read_quantization(m);
    const int64_t group = fv_min(q.group_size, FV_I8_CHANNELS);
    return (fv_quantized){.format = m->dtype == FOVEA_DTYPE_U4        ? FV_FORMAT_i4g
                                    : m->dtype == FOVEA_DTYPE_F8_E4M3 ? FV_FORMAT_f8g
                                                                      : FV_FORMAT_i8g,
                          .scales = words_of(&q),
                          .group = group,
                          .groups = fv_ceil_div(m->in, group)};
}

int64_t fv_quantized_chunk(const fv_quantized *q) {
    const int64_t per = fv_scales_per_super(q->scales);
    return q->group * (q->apart ? fv_round_up(q->groups, per) : per);
}

int64_t fv_quantized_gap(const fv_quantized *q, int64_t width) {
    return fv_ceil_div(fv_scales_bytes(q->scales, fv_quantized_chunk(q) / q->group, width), 4);
}

int64_t fv_quantized_words(const fv_quantized *q, int64_t width, int64_t steps) {
    return fv_ceil_div(steps, fv_quantized_chunk(q)) * fv_quantized_gap(q, width) +
           fv_group_rows(q->format, steps) * width;
}

void fv_quantized_split(fv_quantized *q, int64_t in) {
    if (q->group <= FV_Q8_CHANNELS || (q->groups > 1 && q->group % FV_Q8_CHANNELS))
        return;
    q->group = FV_Q8_CHANNELS;
    q->groups = fv_ceil_div(in, q->group);
}

bool fv_quantized_together(const fovea_matrix *a, const fovea_matrix *b) {
    const fv_quantized p = fv_quantized_of(a), q = fv_quantized_of(b);
    const fovea_quantization x = read_quantization(a), y = read_quantization(b);
    if (a->dtype != b->dtype || !fv_quantized_alike(&p, &q) || x.group_size != y.group_size || !x.scales != !y.scales)
        return false;
    if (!x.group_of && !y.group_of)
        return true;
    for (int64_t i = 0; i < a->in; i++)
        if ((x.group_of ? x.group_of[i] : i / x.group_size) != (y.group_of ? y.group_of[i] : i / y.group_size))
            return false;
    return true;
}

bool fv_quantized_order(const fovea_matrix *m, int32_t *order) {
    if (!fv_dtype_scaled(m->dtype))
        return false;
    const fovea_quantization q = read_quantization(m);
    if (!q.group_of)
        return false;
    const int64_t size = q.group_size;
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
