/* Quantized weights stand for the numbers that other packages say (data/quantized.py); packed, and unpacked by the
 * scalar kernels, they stand for the same ones; and they come back byte for byte: every layout, type of scales, group
 * size and fill, columns packed piece by piece at any place of a panel. For which formats no number is ever rounded. */
#include "arrays.h"
#include "dispatch/dispatch.h"
#include "quantization/quantization.h"
#include "quantized_layouts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Weights of data/quantized.py. */
static const struct recorded_weights {
    const char *name;
    fovea_dtype dtype;
    int64_t in, out, group;
    fovea_packing packing;
    fovea_dtype scale_dtype;
    int zero_offset;
} recorded_weights[] = {
    {"Q8_0", FOVEA_DTYPE_Q8_0, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"Q4_0", FOVEA_DTYPE_Q4_0, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"Q4_1", FOVEA_DTYPE_Q4_1, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"Q5_0", FOVEA_DTYPE_Q5_0, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"Q5_1", FOVEA_DTYPE_Q5_1, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"MXFP4", FOVEA_DTYPE_MXFP4, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"IQ4_NL", FOVEA_DTYPE_IQ4_NL, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"Q4_K", FOVEA_DTYPE_Q4_K, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"Q5_K", FOVEA_DTYPE_Q5_K, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"Q6_K", FOVEA_DTYPE_Q6_K, 256, 1, 0, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_F32, 0},
    {"GPTQ 4", FOVEA_DTYPE_U4, 32, 8, 16, FOVEA_PACKING_GPTQ, FOVEA_DTYPE_F16, 1},
    {"GPTQ 4 act-order", FOVEA_DTYPE_U4, 32, 8, 16, FOVEA_PACKING_GPTQ, FOVEA_DTYPE_F16, 0},
    {"GPTQ 8", FOVEA_DTYPE_U8, 32, 8, 16, FOVEA_PACKING_GPTQ, FOVEA_DTYPE_F16, 0},
    {"AWQ 4", FOVEA_DTYPE_U4, 32, 8, 16, FOVEA_PACKING_AWQ, FOVEA_DTYPE_F16, 0},
    {"pack-quantized", FOVEA_DTYPE_U4, 32, 8, 16, FOVEA_PACKING_PLAIN, FOVEA_DTYPE_BF16, 0},
};

/* NULL: the format has none. */
static const void *recorded_part(const struct recorded_weights *w, const char *part) {
    char name[64];
    snprintf(name, sizeof name, "%s/%s", w->name, part);
    const test_array *found = test_array_find(name);
    return found ? test_array_data(found) : NULL;
}

static void check_recorded(const fovea_context *ctx) {
    for (size_t i = 0; i < sizeof recorded_weights / sizeof recorded_weights[0]; i++) {
        const struct recorded_weights *w = &recorded_weights[i];
        float *got = must_alloc(w->in * w->out, sizeof *got);
        fovea_quantization q;
        fovea_quantization_init(&q);
        q.group_scales = recorded_part(w, "scales");
        q.group_size = w->group;
        q.scale_dtype = w->scale_dtype;
        q.packing = w->packing;
        q.zeros = recorded_part(w, "zeros");
        q.zero_offset = w->zero_offset;
        q.group_of = recorded_part(w, "group_of");
        fovea_matrix m = fovea_matrix_out_in(recorded_part(w, "data"), w->dtype, w->out, w->in);
        m.quantization = q.group_scales ? &q : NULL;
        test_check(fovea_dequantize(ctx, &m, got) == FOVEA_OK, "%s: %s", w->name, fovea_error_detail());
        test_same(got, recorded_part(w, "numbers"), w->in * w->out, "%s, recorded", w->name);
        free(got);
    }
}

/* ------------------------------------------------------------------------------------------- packed and unpacked -- */

typedef struct packed {
    fv_quantized q;
    int32_t *order;
    int64_t width, place;
    uint32_t *words;
} packed;

static packed pack(const quantized_case *c, rng *r) {
    const fovea_matrix *m = &c->matrix;
    packed p = {.q = fv_quantized_of(m), .order = must_alloc(m->in, sizeof(int32_t))};
    p.q.order = fv_quantized_order(m, p.order) ? p.order : NULL;
    p.q.apart = rng_below(r, 2);
    p.place = rng_below(r, 20);
    p.width = (p.place + m->out + FV_LANES - 1) / FV_LANES * FV_LANES;
    const int64_t words = fv_quantized_words(&p.q, p.width, m->in), gap = fv_quantized_gap(&p.q, p.width),
                  chunk = fv_quantized_chunk(&p.q), each = gap + fv_group_rows(p.q.format, chunk) * p.width;
    p.words = must_alloc(words, 4);
    memset(p.words, 0xaa, (size_t)(words * 4));
    for (int64_t o = 0, n; o < m->out; o += n) {
        n = rng_between(r, 1, m->out - o);
        fv_quantized_pack(m, &p.q, o, n, p.width, p.place + o, p.words);
    }
    int64_t touched = 0;
    for (int64_t i = 0; i < words; i++) {
        const int64_t column = (i % each - gap) % p.width;
        touched += i % each >= gap && (column < p.place || column >= p.place + m->out) && p.words[i] != 0xaaaaaaaa;
    }
    test_check(touched == 0, "%" PRId64 " words beside the columns are written", touched);
    return p;
}

/* The numbers of packed weights by the scalar kernels, channels in their order. */
static float *unpack_numbers(const quantized_case *c, const packed *p) {
    const fovea_matrix *m = &c->matrix;
    const fv_group_extra extra = fv_scales_extra(p->q.scales);
    float *scales = must_alloc(p->q.groups * fv_scales_row(extra, p->width), sizeof(float));
    float *rows = must_alloc(m->in * p->width, sizeof(float)), *numbers = must_alloc(m->in * m->out, sizeof(float));
    const int64_t chunk = fv_quantized_chunk(&p->q) / p->q.group, row = fv_scales_row(extra, p->width);
    for (int64_t g = 0; g < p->q.groups; g += chunk)
        fv_kernel_scalar(FV_OP_scales, FV_TYPE_f32)
            ->run.scales_f32(p->q.scales, p->words + fv_quantized_words(&p->q, p->width, g * p->q.group), p->width, 0,
                             p->q.groups - g < chunk ? p->q.groups - g : chunk, scales + g * row);

    const int64_t gap = fv_quantized_gap(&p->q, p->width);
    const fv_operand b = {.data = p->words + gap + p->place,
                          .scales = scales,
                          .columns = m->out,
                          .steps = m->in,
                          .row = p->width,
                          .group = {.steps = (int16_t)p->q.group,
                                    .extra = (int8_t)extra,
                                    .table = (int8_t)p->q.table,
                                    .gap = p->q.apart ? 0 : (int16_t)gap,
                                    .chunk = (int8_t)fv_scales_per_super(p->q.scales)},
                          .width = (int16_t)p->width,
                          .first = (int16_t)p->place,
                          .format = p->q.format};
    for (int64_t t = 0; t < m->in; t++)
        for (int64_t j = 0; j < m->out; j++) {
            const float *scale = scales + t / p->q.group * row + p->place + j;
            const int zero = extra == FV_GROUP_zero ? (int)scale[p->width] : fv_group_zero(b.format, extra);
            const int w = fv_group_integer(&b, t, j);
            const float product =
                scale[0] * (b.format == FV_FORMAT_f8g ? fv_e4m3_float((uint8_t)w) : (float)(w - zero));
            rows[t * m->out + j] = extra == FV_GROUP_minimum ? product + scale[p->width] : product;
        }
    for (int64_t t = 0; t < m->in; t++)
        for (int64_t j = 0; j < m->out; j++)
            numbers[j * m->in + (p->q.order ? p->q.order[t] : t)] = rows[t * m->out + j];
    free(scales);
    free(rows);
    return numbers;
}

/* Integer i of column o of a matrix of integers, by the words of fovea/quantization.h. */
static int integer_at(const quantized_case *c, int64_t i, int64_t o) {
    static const int places[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const fovea_matrix *m = &c->matrix;
    const int64_t bits = fv_dtype_bits(m->dtype), p = 32 / bits;
    int64_t at = 0;
    if (c->quantization.packing == FOVEA_PACKING_PLAIN)
        at = (i * m->in_stride + o * m->out_stride) * bits;
    if (c->quantization.packing == FOVEA_PACKING_GPTQ)
        at = (i / p * m->out + o) * 32 + i % p * bits;
    if (c->quantization.packing == FOVEA_PACKING_AWQ)
        at = (i * (m->out / p) + o / p) * 32 + places[o % p] * bits;
    return c->data[at / 8] >> at % 8 & ((1 << bits) - 1);
}

static void check_back(const quantized_case *c, const packed *p, const char *what) {
    const fovea_matrix *m = &c->matrix;
    const fv_dtype_block block = fv_dtype_block_of(m->dtype);
    const int64_t row = fv_dtype_bytes(m->dtype, m->in + m->in % 2), group = c->quantization.group_size;
    const int64_t size = group ? group : m->in, groups = m->in / size;
    const int width = c->quantization.scale_dtype == FOVEA_DTYPE_F32 ? 4 : 2;
    uint8_t *bytes = must_alloc(row, 1), *scales = must_alloc(groups, 4), *zeros = must_alloc(groups, 1);
    int64_t wrong = 0, wrong_scales = 0, wrong_zeros = 0;
    for (int64_t o = 0; o < m->out; o++) {
        fv_quantized_unpack(&p->q, m->dtype, m->in, group, p->width, p->place + o, p->words, bytes, scales, zeros);
        if (block.elements > 1) {
            wrong += memcmp(bytes, c->data + o * row, (size_t)row) != 0;
            continue;
        }
        for (int64_t i = 0; i < m->in; i++)
            wrong += (m->dtype == FOVEA_DTYPE_U4 ? bytes[i / 2] >> i % 2 * 4 & 15 : bytes[i]) != integer_at(c, i, o);
        for (int64_t g = 0; g < groups; g++) {
            const bool plain = c->quantization.packing == FOVEA_PACKING_PLAIN;
            wrong_scales += memcmp(scales + g * width, c->scales + (plain ? o * groups + g : g * m->out + o) * width,
                                   (size_t)width) != 0;
            if (!c->quantization.zeros)
                wrong_zeros += zeros[g] != (m->dtype == FOVEA_DTYPE_U4 ? 8 : m->dtype == FOVEA_DTYPE_U8 ? 128 : 0);
            else if (plain)
                wrong_zeros += zeros[g] != c->zeros[o * groups + g];
        }
    }
    test_check(wrong == 0 && wrong_scales == 0 && wrong_zeros == 0,
               "%s: %" PRId64 " integers, %" PRId64 " scales, %" PRId64 " zeros do not come back", what, wrong,
               wrong_scales, wrong_zeros);
    free(bytes);
    free(scales);
    free(zeros);
}

static void check_case(const fovea_context *ctx, const quantized_layout *l, int64_t in, int64_t out, int64_t group,
                       fovea_dtype scale_dtype, int fill, rng *r) {
    char what[96];
    snprintf(what, sizeof what, "%s, %" PRId64 " x %" PRId64 ", groups of %" PRId64 ", scales of type %d", l->name, in,
             out, group, (int)scale_dtype);
    quantized_case c;
    quantized_make(&c, l, in, out, group, scale_dtype, fill, r);
    float *numbers = must_alloc(in * out, sizeof *numbers);
    const fovea_status status = fovea_dequantize(ctx, &c.matrix, numbers);
    if (test_check(status == FOVEA_OK, "%s: %s", what, fovea_error_detail())) {
        packed p = pack(&c, r);
        float *unpacked = unpack_numbers(&c, &p);
        test_same(unpacked, numbers, in * out, "%s, packed", what);
        check_back(&c, &p, what);
        free(unpacked);
        free(p.order);
        free(p.words);
    }
    free(numbers);
    quantized_free(&c);
}

static void check_layouts(const fovea_context *ctx, rng *r) {
    static const int64_t sizes[][2] = {/* in, group; both 0 of blocks */ {256, 0},
                                       {1024, 32},
                                       {512, 128},
                                       {3072, 1024},
                                       {48, 16},
                                       {4096, 2048},
                                       {2560, 0}};
    static const fovea_dtype scales[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_F16, FOVEA_DTYPE_BF16};
    for (int i = 0; i < QUANTIZED_LAYOUTS; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            const quantized_layout *l = &quantized_layouts[i];
            const bool blocks = fv_dtype_block_of(l->dtype).elements > 1;
            const int64_t in = blocks ? (sizes[k][0] + 255) / 256 * 256 : sizes[k][0], group = blocks ? 0 : sizes[k][1];
            if (l->dtype == FOVEA_DTYPE_U8 && l->zeros && (group ? group : in) > 512)
                continue;
            const int64_t out = l->packing ? 8 * rng_between(r, 1, 5) : 2 * rng_between(r, 1, 20);
            check_case(ctx, l, in, out, group, scales[rng_below(r, 3)], -1, r);
            check_case(ctx, l, in, out, group, scales[rng_below(r, 3)], 0, r);
            check_case(ctx, l, in, out, group, scales[rng_below(r, 3)], 255, r);
            check_case(ctx, l, in, out, group, scales[rng_below(r, 3)], 128, r);
        }
    for (int64_t in = 1; in < 80; in += rng_between(r, 1, 7)) /* I8 and U8: one scale, any number of channels */
        for (int i = 0; i < QUANTIZED_LAYOUTS; i++) {
            const quantized_layout *l = &quantized_layouts[i];
            if (!strcmp(l->name, "I8") || !strcmp(l->name, "U8"))
                check_case(ctx, l, in, 13, 0, FOVEA_DTYPE_F32, -1, r);
        }
}

/* Scales and zeros of any strides, and rows with room between them. */
static void check_strides(const fovea_context *ctx, rng *r) {
    enum { IN = 64, OUT = 10, GROUP = 16, ROW = 80 };
    uint8_t data[OUT * ROW], zeros[4 * OUT * 3];
    float scales[4 * OUT * 3], got[OUT * IN], want[OUT * IN];
    for (int i = 0; i < OUT * ROW; i++)
        data[i] = (uint8_t)rng_below(r, 256);
    for (int i = 0; i < 4 * OUT * 3; i++) {
        scales[i] = rng_normal(r);
        zeros[i] = (uint8_t)rng_below(r, 255);
    }
    fovea_quantization q;
    fovea_quantization_init(&q);
    q.group_scales = scales;
    q.group_size = GROUP;
    q.zeros = zeros;
    q.zero_offset = 1;
    const fovea_matrix m = {data, FOVEA_DTYPE_U8, IN, OUT, 1, ROW, &q};
    static const int strides[][2] = {{OUT * 3, 2}, {3, 0}, {0, 2}}; /* of groups and columns, one of which may be 0 */
    for (int k = 0; k < 3; k++) {
        q.scale_group_stride = strides[k][0];
        q.scale_out_stride = strides[k][1];
        for (int o = 0; o < OUT; o++)
            for (int i = 0; i < IN; i++) {
                const int at = i / GROUP * strides[k][0] + o * strides[k][1];
                want[o * IN + i] = scales[at] * (float)(data[o * ROW + i] - zeros[at] - 1);
            }
        test_check(fovea_dequantize(ctx, &m, got) == FOVEA_OK, "strides: %s", fovea_error_detail());
        test_same(got, want, OUT * IN, "strides %d of scales", k);
    }
}

/* ----------------------------------------------------------------------------------------------------- exactness -- */

static double half_value(int half) {
    const int exponent = half >> 10 & 31;
    const double magnitude = exponent ? ldexp(1024 + (half & 1023), exponent - 25) : ldexp(half & 1023, -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

/* Numbers of Q8_0, Q4_0 and Q6_K that are not the exact product: of every float16 and every integer; of Q6_K, of every
 * significand, and all scales and integers of a group. What is doubled or halved rounds likewise, as no number is
 * subnormal as float32. */
static int64_t rounded(const fovea_context *ctx, fovea_dtype dtype) {
    const fv_dtype_block block = fv_dtype_block_of(dtype);
    const bool six = dtype == FOVEA_DTYPE_Q6_K;
    const int count = six ? 256 * 4 / 16 : dtype == FOVEA_DTYPE_Q8_0 ? 8 : 1; /* blocks for each half */
    const int64_t elements = (int64_t)count * block.elements;
    uint8_t *data = must_alloc((int64_t)count * block.bytes, 1);
    float *numbers = must_alloc(elements, sizeof *numbers);
    double *exact = must_alloc(elements, sizeof *exact);
    int64_t wrong = 0;
    for (int h = 0; h < (six ? 0x800 : 0x10000); h++) {
        const uint16_t half = (uint16_t)h;
        if ((h & 0x7c00) == 0x7c00)
            continue;
        for (int b = 0; b < count; b++) {
            uint8_t *at = data + (int64_t)b * block.bytes;
            memset(at, 0, (size_t)block.bytes);
            memcpy(at + block_half(dtype, 0), &half, sizeof half);
            for (int e = 0; e < block.elements; e++) {
                const int64_t i = (int64_t)b * block.elements + e;
                const int w = six ? (int)(i % 64) : (int)(i % 256);
                if (dtype == FOVEA_DTYPE_Q8_0) {
                    at[2 + e] = (uint8_t)w;
                    exact[i] = half_value(h) * (int8_t)w;
                } else if (!six) {
                    at[2 + e % 16] |= (uint8_t)((e / 2) << e / 16 * 4);
                    exact[i] = half_value(h) * (e / 2 % 16 - 8);
                } else {
                    const int s = (int)(i / 64);
                    at[e / 128 * 64 + e % 64] |= (uint8_t)((w & 15) << e % 128 / 64 * 4);
                    at[128 + e / 128 * 32 + e % 32] |= (uint8_t)(w >> 4 << e % 128 / 32 * 2);
                    at[192 + e / 16] = (uint8_t)s;
                    exact[i] = half_value(h) * (int8_t)s * (w - 32);
                }
            }
        }
        const fovea_matrix m = fovea_matrix_out_in(data, dtype, 1, elements);
        if (fovea_dequantize(ctx, &m, numbers) != FOVEA_OK)
            return -1;
        for (int64_t i = 0; i < elements; i++)
            wrong += (double)numbers[i] != exact[i];
    }
    free(data);
    free(numbers);
    free(exact);
    return wrong;
}

/* Integers with scales of 16 bits: all products of a significand of 11 bits and of every w - z. */
static int64_t rounded_products(int bits, int most) {
    int64_t wrong = 0;
    for (int m = 0; m < 1 << bits; m++)
        for (int w = -most; w <= most; w++)
            wrong += (double)((float)m * (float)w) != (double)m * w;
    return wrong;
}

static void check_exact(const fovea_context *ctx) {
    int exact = 0;
    static const fovea_dtype dtypes[] = {FOVEA_DTYPE_Q8_0, FOVEA_DTYPE_Q4_0, FOVEA_DTYPE_Q6_K};
    for (int i = 0; i < 3; i++) {
        const int64_t wrong = rounded(ctx, dtypes[i]);
        test_check(wrong == 0, "%s: %" PRId64 " numbers are rounded", fv_enum_name(FV_ENUM_dtype, (int)dtypes[i]),
                   wrong);
        exact += wrong == 0;
    }
    exact += rounded_products(11, 255) == 0;
    test_check(exact == 4, "%d of the 4 formats without minimums whose scales are of 16 bits never round", exact);
    /* Minimums, and scales of 24 bits, do round: d = 1 + 2^-10, w = 15, m = 2^-24. */
    const uint16_t block[10] = {0x3c01, 0x0001, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff};
    const fovea_matrix m = fovea_matrix_out_in(block, FOVEA_DTYPE_Q4_1, 1, 32);
    float got[32];
    test_check(fovea_dequantize(ctx, &m, got) == FOVEA_OK, "Q4_1: %s", fovea_error_detail());
    const double number = 15 * half_value(0x3c01) + half_value(0x0001);
    test_check((double)got[0] != number, "Q4_1 does not round %a", number);
    printf("%d formats never round: Q8_0, Q4_0, Q6_K, and integers with scales of 16 bits\n", exact);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "quantization", NULL);
    test_arrays_read("quantized");
    rng r = rng_stream(test_seed(), "quantization");
    fovea_context *ctx = test_context_untuned();
    check_recorded(ctx);
    check_layouts(ctx, &r);
    check_strides(ctx, &r);
    check_exact(ctx);
    fovea_context_destroy(ctx);
    return test_end();
}
