/* dot on scalar: the definition. FV_ELEMENT: that of a key; FV_WIDEN: a pointer to one as a float. */
void FV_NAME(const fv_dot_args *x) {
    assert(x->rows >= 1 && x->rows <= FV_DOT_ROWS && x->keys >= 1 && x->channels >= 1 && x->ldk >= 0);
    assert(!x->row_max || x->keys % FV_LANES == 0);
    assert(x->rows == 1 || x->lds >= x->keys);
    const int64_t stride = fv_dot_stride(x->rows), columns = (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    const int64_t word = (int64_t)(4 / sizeof(FV_ELEMENT));
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const FV_ELEMENT *k = x->k;
            const int64_t place = (x->first + j) % FV_KEY_GROUP;
            k += x->lanes ? (x->first + j) / FV_KEY_GROUP * x->ldk - x->first * word : j * x->ldk;
            float acc = 0.0f;
            for (int64_t t = 0; t < x->channels; t++)
                acc = fmaf(x->q[t * stride + i],
                           x->lanes      ? FV_WIDEN(k + fv_lane_of(place, t, word))
                           : j < x->keys ? FV_WIDEN(k + t)
                                         : 0.0f,
                           acc);
            x->s[i * x->lds + j] = acc;
            if (x->row_max) {
                float *max = x->row_max + i * FV_LANES + j % FV_LANES;
                *max = v_max(acc, j < FV_LANES && !x->accumulate_max ? -INFINITY : *max);
            }
        }
}
