/* Rows of x as integers (groups.h): of a group its largest magnitude, then its integers, their sum and their words. No
 * integer is further than most from 0: in any mode the factor is less than 2^-23 too large, and so is its product.
 * Bound: arithmetic, about 12 operations for each vector of x, and those of lanes and two divisions for each group. */
enum { LEAST = 0x07800000, INFINITE = 0x7f800000 }; /* bits of 2^-112 and of infinity */

/* The vector of x from t on; 0 past the end. */
static inline vf quantize_load(const float *x, int64_t t, int64_t n) {
    return n - t >= FV_W ? v_load(x + t) : n > t ? v_load_n(x + t, n - t) : v_set1(0.0f);
}

static inline void quantize_group(int64_t n, fv_kind kind, int most, const float *x, uint32_t *to) {
    fv_group_row *const row = (fv_group_row *)(void *)to;
    char *const words = (char *)row->word;
    vf largest = v_set1(0.0f);
    for (int64_t t = 0; t < n; t += FV_W)
        largest = v_max_abs(largest, quantize_load(x, t, n));
    const int32_t bits = v_top(largest);
    if (bits < LEAST || bits >= INFINITE) {
        memset(to, 0, (size_t)fv_group_row_words(kind, n) * sizeof *to);
        row->scale = bits < LEAST ? 0.0f : NAN;
        return;
    }
    float top;
    memcpy(&top, &bits, sizeof top);
    const vf factor = v_set1((float)most / top);
    v_whole sum = v_whole_zero();
    for (int64_t t = 0; t < (n + 15) / 16 * 16; t += FV_W) {
        const v_whole X = v_nearest(v_mul(quantize_load(x, t, n), factor));
        sum = v_whole_add(sum, X);
        if (kind == FV_KIND_i16) {
            v_store_i16(words + 2 * t, X);
        } else if (kind == FV_KIND_i8) {
            v_store_i8(words + t, X);
        } else {
            const v_whole high = v_whole_high(X);
            v_store_i8(words + t / 16 * 32 + t % 16, high);
            v_store_i8(words + t / 16 * 32 + 16 + t % 16, v_whole_low(X, high));
        }
    }
    row->scale = top / (float)most;
    row->sum = v_whole_sum(sum);
}

void FV_NAME(int64_t rows, int64_t n, int64_t group, fv_kind kind, int most, const float *x, int64_t ldx,
             uint32_t *to) {
    assert(rows >= 1 && n >= 1 && group >= 1 && group <= FV_I8_CHANNELS && (n <= group || group % 16 == 0));
    assert(most == FV_Q8_MOST || (most == FV_I8_MOST && kind != FV_KIND_i8));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < n; t += group) {
            const int64_t count = n - t < group ? n - t : group;
            quantize_group(count, kind, most, x + i * ldx + t, to);
            to += fv_group_row_words(kind, count);
        }
}
