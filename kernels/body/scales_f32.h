/* Scales of groups of a panel as floats (groups.h). FV_HALF: the words of 16 bits. Bound: the loads and stores, far
 * less than those of the integers. */
#include FV_HALF

enum { SUPER8 = 8, SUPER16 = 16 };

/* n numbers from *at on, which moves behind them. */
static inline void scales_f16(const char **at, int64_t n, float *to) {
    const uint16_t *from = (const uint16_t *)(const void *)*at;
    for (int64_t j = 0; j < n; j += FV_W)
        v_store(to + j, v_load_f16(from + j));
    *at += n * 2;
}
static inline void scales_bf16(const char **at, int64_t n, float *to) {
    const uint16_t *from = (const uint16_t *)(const void *)*at;
    for (int64_t j = 0; j < n; j += FV_W)
        v_store(to + j, v_load_bf16(from + j));
    *at += n * 2;
}
static inline void scales_f32(const char **at, int64_t n, float *to) {
    const float *from = (const float *)(const void *)*at;
    for (int64_t j = 0; j < n; j += FV_W)
        v_store(to + j, v_load(from + j));
    *at += n * 4;
}

static inline void scales_i8(const char **at, int64_t n, float *to) {
    const int8_t *from = (const int8_t *)*at;
    for (int64_t j = 0; j < n; j += FV_W)
        v_store(to + j, v_load_i8(from + j));
    *at += n;
}

static inline void scales_e8m0(const char **at, int64_t n, float *to) {
    const uint8_t *from = (const uint8_t *)*at;
    for (int64_t j = 0; j < n; j += FV_W)
        v_store(to + j, v_load_e8m0(from + j));
    *at += n;
}

/* to[j] = d[j] * integer[j]. */
static inline void scales_super(const char **at, int64_t n, const float *d, const int has_sign, float *to) {
    for (int64_t j = 0; j < n; j += FV_W) {
        const vf integers = has_sign ? v_load_i8((const int8_t *)*at + j) : v_load_u8((const uint8_t *)*at + j);
        v_store(to + j, v_mul(v_load(d + j), integers));
    }
    *at += n;
}

/* Groups that are no super-blocks. */
static inline const char *scales_plain(fv_scale_words words, const char *at, int64_t w, float *to) {
    switch (words) {
    case FV_SCALES_f32:
    case FV_SCALES_f32_zero: scales_f32(&at, w, to); break;
    case FV_SCALES_bf16:
    case FV_SCALES_bf16_zero: scales_bf16(&at, w, to); break;
    case FV_SCALES_e8m0: scales_e8m0(&at, w, to); break;
    default: scales_f16(&at, w, to); break;
    }
    if (words == FV_SCALES_f16_minimum)
        scales_f16(&at, w, to + w);
    else if (fv_scales_extra(words) == FV_GROUP_zero)
        scales_i8(&at, w, to + w);
    return at;
}

void FV_NAME(fv_scale_words words, const void *from, int64_t width, int64_t first, int64_t groups, float *to) {
    enum { MOST = 256 }; /* columns of a panel */
    const int per = fv_scales_per_super(words);
    const int64_t row = fv_scales_row(fv_scales_extra(words), width);
    const char *at = (const char *)from + fv_scales_bytes(words, first, width);
    float d[2][MOST];
    assert(groups >= 1 && first % per == 0 && width % FV_LANES == 0 && width <= MOST);
    for (int64_t g = 0; g < groups; g++, to += row) {
        if (per == 1) {
            at = scales_plain(words, at, width, to);
            continue;
        }
        if (g % per == 0) {
            scales_f16(&at, width, d[0]);
            if (per == SUPER8)
                scales_f16(&at, width, d[1]);
            for (int64_t j = 0; j < width && per == SUPER8; j += FV_W)
                v_store(d[1] + j, v_mul(v_load(d[1] + j), v_set1(-1.0f)));
        }
        scales_super(&at, width, d[0], per == SUPER16, to);
        if (per == SUPER8)
            scales_super(&at, width, d[1], 0, to + width);
    }
}
