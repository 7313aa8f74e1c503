/* Element types of GGUF (gguf.h). x is, each operation rounded to float32:
 *
 *     Q8_0, Q4_0, Q4_1   32 elements: d q, d (q - 8), d q + m
 *     Q5_0, Q5_1         32 elements: d (q - 16), d q + m; of q the fifth bits are bits of a word
 *     MXFP4              32 elements: 2^(e - 128) x, x one of 16 numbers
 *     Q4_K, Q5_K         256 elements: (d s) q - (dmin m), s and m of 6 bits for each 32
 *     Q6_K               256 elements: (d s) (q - 32), s of 8 bits for each 16 */
#include "gguf.h"

#include <string.h>
#include <strings.h>

enum { BLOCK = 32, SUPER = 256 };

const char *gguf_type_name(uint32_t type) {
    static const char *const names[] = {
        [0] = "F32",     [1] = "F16",    [2] = "Q4_0",     [3] = "Q4_1",    [6] = "Q5_0",     [7] = "Q5_1",
        [8] = "Q8_0",    [9] = "Q8_1",   [10] = "Q2_K",    [11] = "Q3_K",   [12] = "Q4_K",    [13] = "Q5_K",
        [14] = "Q6_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
        [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS", [24] = "I8",      [25] = "I16",
        [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",  [30] = "BF16",    [34] = "TQ1_0",
        [35] = "TQ2_0",  [39] = "MXFP4", [40] = "NVFP4",   [41] = "Q1_0",   [42] = "Q2_0"};
    const char *name = type < sizeof names / sizeof names[0] ? names[type] : NULL;
    return name != NULL ? name : "unknown";
}

fovea_dtype gguf_dtype(gguf_type type) {
    const fovea_dtype_facts *facts;
    const char *name = gguf_type_name(type);
    for (int dtype = 1; (facts = fovea_dtype_info((fovea_dtype)dtype)) != NULL; dtype++)
        if (facts->stored && !facts->scaled && strcasecmp(facts->name, name) == 0)
            return (fovea_dtype)dtype;
    return (fovea_dtype)0;
}

bool gguf_quantized(gguf_type type) { return gguf_block_elements(type) > 1; }

int gguf_block_elements(gguf_type type) {
    const fovea_dtype_facts *facts = fovea_dtype_info(gguf_dtype(type));
    const bool widened = type == GGUF_Q5_0 || type == GGUF_Q5_1 || type == GGUF_MXFP4;
    return facts != NULL ? facts->block_elements : widened ? BLOCK : 0;
}

int gguf_block_bytes(gguf_type type) {
    const fovea_dtype_facts *facts = fovea_dtype_info(gguf_dtype(type));
    return facts != NULL        ? facts->block_bytes
           : type == GGUF_Q5_0  ? 22
           : type == GGUF_Q5_1  ? 24
           : type == GGUF_MXFP4 ? 17
                                : 0;
}

static float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t u16_at(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

static float f16_at(const uint8_t *p) {
    const uint32_t h = u16_at(p), sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ffu;
    if (exponent == 31)
        return of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0)
        return sign ? -((float)fraction * 0x1p-24f) : (float)fraction * 0x1p-24f;
    return of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static void block_q4_0(const uint8_t *from, float *to) {
    const float d = f16_at(from);
    for (int i = 0; i < BLOCK / 2; i++) {
        to[i] = d * (float)((from[2 + i] & 15) - 8);
        to[i + BLOCK / 2] = d * (float)((from[2 + i] >> 4) - 8);
    }
}

static void block_q4_1(const uint8_t *from, float *to) {
    const float d = f16_at(from), m = f16_at(from + 2);
    for (int i = 0; i < BLOCK / 2; i++) {
        const float low = d * (float)(from[4 + i] & 15), high = d * (float)(from[4 + i] >> 4);
        to[i] = low + m;
        to[i + BLOCK / 2] = high + m;
    }
}

/* Q5_0, whose integers are less 16, or Q5_1, which has a minimum. */
static void block_q5(const uint8_t *from, bool minimum, float *to) {
    const float d = f16_at(from), m = minimum ? f16_at(from + 2) : 0.0f;
    const uint8_t *high = from + (minimum ? 4 : 2), *q = high + 4;
    const uint32_t fifth = u16_at(high) | u16_at(high + 2) << 16;
    for (int i = 0; i < BLOCK; i++) {
        const int low = i < BLOCK / 2 ? q[i] & 15 : q[i - BLOCK / 2] >> 4;
        const int integer = low | (int)(fifth >> i & 1) << 4;
        const float product = d * (float)(minimum ? integer : integer - 16);
        to[i] = minimum ? product + m : product;
    }
}

/* Numbers of 4 bits, doubled: a sign, two bits of exponent, one of fraction. An exponent of 255 is NaN. */
static void block_mxfp4(const uint8_t *from, float *to) {
    static const float numbers[] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t e = from[0];
    const float d = of_bits(e == 255 ? 0x7fc00000u : e < 2 ? 0x00200000u << e : (e - 1) << 23);
    for (int i = 0; i < BLOCK; i++)
        to[i] = d * numbers[i < BLOCK / 2 ? from[1 + i] & 15 : from[1 + i - BLOCK / 2] >> 4];
}

/* high: the fifth bits of Q5_K, bit b of byte i that of element i of the b-th 32; or NULL. */
static void block_k(const uint8_t *from, const uint8_t *high, const uint8_t *q, float *to) {
    const float d = f16_at(from), dmin = f16_at(from + 2);
    const uint8_t *s = from + 4;
    for (int b = 0; b < SUPER / 32; b++) {
        const int scale = b < 4 ? s[b] & 63 : (s[b + 4] & 15) | (s[b - 4] >> 6) << 4;
        const int least = b < 4 ? s[b + 4] & 63 : s[b + 4] >> 4 | (s[b] >> 6) << 4;
        const float by = d * (float)scale, less = dmin * (float)least;
        for (int i = 0; i < 32; i++) {
            const int low = q[b / 2 * 32 + i] >> b % 2 * 4 & 15, bit = high != NULL ? high[i] >> b & 1 : 0;
            const float product = by * (float)(low | bit << 4);
            to[b * 32 + i] = product - less;
        }
    }
}

static void block_q6(const uint8_t *from, float *to) {
    const float d = f16_at(from + 208);
    for (int i = 0; i < SUPER; i++) {
        const int half = i / 128, quarter = i % 128 / 32, k = i % 32, s = from[192 + i / 16];
        const int low = from[half * 64 + quarter % 2 * 32 + k] >> quarter / 2 * 4 & 15;
        const int high = from[128 + half * 32 + k] >> quarter * 2 & 3;
        const float by = d * (float)(s < 128 ? s : s - 256);
        to[i] = by * (float)((low | high << 4) - 32);
    }
}

static void block_to_f32(gguf_type type, const uint8_t *from, float *to) {
    switch (type) {
    case GGUF_F32S: *to = of_bits(u16_at(from) | u16_at(from + 2) << 16); break;
    case GGUF_F16S: *to = f16_at(from); break;
    case GGUF_BF16S: *to = of_bits(u16_at(from) << 16); break;
    case GGUF_Q4_0: block_q4_0(from, to); break;
    case GGUF_Q4_1: block_q4_1(from, to); break;
    case GGUF_Q5_0: block_q5(from, false, to); break;
    case GGUF_Q5_1: block_q5(from, true, to); break;
    case GGUF_MXFP4: block_mxfp4(from, to); break;
    case GGUF_Q4_K: block_k(from, NULL, from + 16, to); break;
    case GGUF_Q5_K: block_k(from, from + 16, from + 48, to); break;
    case GGUF_Q6_K: block_q6(from, to); break;
    case GGUF_Q8_0:
        for (int i = 0; i < BLOCK; i++)
            to[i] = f16_at(from) * (float)(from[2 + i] < 128 ? from[2 + i] : from[2 + i] - 256);
        break;
    }
}

void gguf_blocks_to_f32(gguf_type type, const uint8_t *from, int64_t count, float *to) {
    const int elements = gguf_block_elements(type), bytes = gguf_block_bytes(type);
    for (int64_t i = 0; i < count; i++, from += bytes, to += elements)
        block_to_f32(type, from, to);
}
