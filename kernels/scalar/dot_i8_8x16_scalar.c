/* dot of int8 on scalar: the definition. */
#include "simd/simd_scalar.h"

/* Channel t of a row, its words so many apart. */
static int32_t query(const fv_i8_word *q, int64_t stride, int64_t t) {
    const fv_i8_word *word = q + t / 4 * stride;
    return (t % 2 ? word->odd : word->even)[t % 4 / 2];
}

/* Channel t of key j. */
static int32_t key_element(const fv_dot_i8_args *x, int64_t j, int64_t t) {
    const int64_t place = x->first + j;
    return x->k[place / FV_KEY_GROUP * x->ldk - x->first * 4 + fv_lane_of(place % FV_KEY_GROUP, t, 4)];
}

void fv_dot_i8_8x16_scalar(const fv_dot_i8_args *x) {
    assert(x->rows >= 1 && x->rows <= FV_DOT_ROWS && x->keys >= 1 && x->ldk >= 0);
    assert(x->channels >= 1 && x->channels <= FV_I8_CHANNELS);
    assert(!x->row_max || x->keys % FV_LANES == 0);
    assert(x->rows == 1 || x->lds >= x->keys);
    const int64_t stride = fv_dot_stride(x->rows), columns = (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            int32_t sum = 0;
            for (int64_t t = 0; t < x->channels; t++)
                sum += query(x->q + i, stride, t) * key_element(x, j, t);
            const float s = (float)sum * (x->q_scales[i] * (j < x->keys ? x->k_scales[j] : 0.0f));
            x->s[i * x->lds + j] = s;
            if (x->row_max) {
                float *max = x->row_max + i * FV_LANES + j % FV_LANES;
                *max = v_max(s, j < FV_LANES && !x->accumulate_max ? -INFINITY : *max);
            }
        }
}
