/* Reasons to refuse quantized weights, each with its status and sentence; that an older caller's shorter struct is
 * read no further than it goes; and bytes of any content, which are refused or have numbers. */
#include "guard.h"
#include "quantized_layouts.h"

#include <inttypes.h>
#include <math.h>

enum { IN = 64, OUT = 16, GROUP = 32 };

/* Refuses a case, and leaves the output alone. */
static void refused(const fovea_context *ctx, const quantized_case *c, fovea_status want, const char *sentence) {
    float to[1] = {-3.0f};
    const fovea_status status = fovea_dequantize(ctx, &c->matrix, to);
    test_check(status == want && strstr(fovea_error_detail(), sentence) && to[0] == -3.0f, "%s, not %s: %s", sentence,
               fovea_status_name(status), fovea_error_detail());
}

/* The layout of that name, with one thing changed. */
#define REFUSED(layout, change, status, sentence)                                                                      \
    do {                                                                                                               \
        quantized_case c;                                                                                              \
        make(&c, layout);                                                                                              \
        change;                                                                                                        \
        refused(ctx, &c, status, sentence);                                                                            \
        quantized_free(&c);                                                                                            \
    } while (0)

static void make(quantized_case *c, const char *layout) {
    rng r = rng_stream(test_seed(), layout);
    for (int i = 0; i < QUANTIZED_LAYOUTS; i++)
        if (strcmp(quantized_layouts[i].name, layout) == 0) {
            const bool blocks = fv_dtype_block_of(quantized_layouts[i].dtype).elements > 1;
            quantized_make(c, &quantized_layouts[i], blocks ? 256 : IN, OUT, blocks ? 0 : GROUP, FOVEA_DTYPE_F16, -1,
                           &r);
        }
}

static void put_half(uint8_t *to, uint16_t half) { memcpy(to, &half, sizeof half); }

static void check_matrix(const fovea_context *ctx) {
    REFUSED("Q4_0", c.matrix.data = NULL, FOVEA_ERROR_NULL, "data of from is NULL");
    REFUSED("Q4_0", c.matrix.dtype = FOVEA_DTYPE_F32, FOVEA_ERROR_DTYPE, "takes quantized weights");
    REFUSED("Q4_0", c.matrix.in = 0, FOVEA_ERROR_SHAPE, "must be at least 1");
    REFUSED("Q4_0", c.matrix.out = INT64_C(1) << 60, FOVEA_ERROR_OVERFLOW, "too large");
    REFUSED("Q4_0", c.matrix.out_stride = INT64_C(1) << 60, FOVEA_ERROR_OVERFLOW, "exceed the address space");
    REFUSED("Q4_0", c.matrix.out_stride = -256, FOVEA_ERROR_STRIDE, "negative stride");
    REFUSED("Q4_0", c.matrix.in = 48, FOVEA_ERROR_SHAPE, "no multiple of its blocks of 32");
    REFUSED("Q6_K", c.matrix.in = 128, FOVEA_ERROR_SHAPE, "no multiple of its blocks of 256");
    REFUSED("Q4_0", c.matrix.in_stride = 2, FOVEA_ERROR_STRIDE, "1 and a multiple of 32");
    REFUSED("Q4_K", c.matrix.out_stride = 288, FOVEA_ERROR_STRIDE, "1 and a multiple of 256");
    REFUSED("Q4_0", c.matrix.quantization = &c.quantization, FOVEA_ERROR_DTYPE, "has a quantization, but its dtype is");
    REFUSED("U4", c.matrix.out_stride = 65, FOVEA_ERROR_STRIDE, "one is 1 and the other is even");
    REFUSED("U4", c.matrix.in_stride = 2, FOVEA_ERROR_STRIDE, "one is 1 and the other is even");
}

static void check_quantization(const fovea_context *ctx) {
    const int64_t far = INT64_C(1) << 60;
    REFUSED("U4", c.matrix.quantization = NULL, FOVEA_ERROR_NULL, "its scales are needed");
    REFUSED("U4", c.quantization.group_scales = NULL, FOVEA_ERROR_NULL, "the scales of its quantization are NULL");
    REFUSED("U4", c.quantization.scales = (float *)(void *)c.scales, FOVEA_ERROR_ARGUMENT, "no group_scales");
    REFUSED("U4", (c.quantization.scales = (float *)(void *)c.scales, c.quantization.group_scales = NULL),
            FOVEA_ERROR_ARGUMENT, "no groups");
    REFUSED("U4", c.quantization.struct_size = 8, FOVEA_ERROR_VERSION, "fovea_quantization");
    REFUSED("U4", c.quantization.struct_size = 1000, FOVEA_ERROR_VERSION, "needs a newer library");
    REFUSED("U4", c.quantization.scale_dtype = FOVEA_DTYPE_I8, FOVEA_ERROR_DTYPE, "scale_dtype");
    REFUSED("U4", c.quantization.packing = (fovea_packing)3, FOVEA_ERROR_ARGUMENT, "packing is 3");
    REFUSED("I8", c.quantization.zeros = c.zeros, FOVEA_ERROR_DTYPE, "takes none");
    REFUSED("F8_E4M3", c.quantization.zeros = c.zeros, FOVEA_ERROR_DTYPE, "takes none");
    REFUSED("F8_E4M3", c.quantization.out_group_size = -1, FOVEA_ERROR_SHAPE, "out_group_size is -1");
    REFUSED("F8_E4M3",
            (c.quantization.scales = (float *)(void *)c.scales, c.quantization.group_scales = NULL,
             c.quantization.group_size = 0, c.quantization.out_group_size = 2),
            FOVEA_ERROR_ARGUMENT, "out_group_size is for packing PLAIN and group_scales");
    REFUSED("GPTQ 4", c.quantization.out_group_size = 2, FOVEA_ERROR_ARGUMENT, "out_group_size is for packing PLAIN");
    REFUSED("I8", c.quantization.packing = FOVEA_PACKING_GPTQ, FOVEA_ERROR_DTYPE,
            "which packing FOVEA_PACKING_GPTQ does not take");
    REFUSED("GPTQ 8", c.quantization.packing = FOVEA_PACKING_AWQ, FOVEA_ERROR_DTYPE,
            "which packing FOVEA_PACKING_AWQ does not take");
    REFUSED("GPTQ 4", c.matrix.out = 12, FOVEA_ERROR_SHAPE, "12 output channels, no multiple of the 8 of a word");
    REFUSED("GPTQ 8", c.matrix.out = 6, FOVEA_ERROR_SHAPE, "6 output channels, no multiple of the 4 of a word");
    REFUSED("GPTQ 4", (c.matrix.in = 36, c.quantization.group_size = 0), FOVEA_ERROR_SHAPE,
            "36 input channels, no multiple of the 8 of a word");
    REFUSED("AWQ", (c.matrix.out = 12, c.quantization.zeros = NULL), FOVEA_ERROR_SHAPE,
            "12 output channels, no multiple of the 8 of a word");
    REFUSED("U4", c.quantization.group_size = -32, FOVEA_ERROR_SHAPE, "no multiple of 16");
    REFUSED("U4", c.quantization.group_size = 8, FOVEA_ERROR_SHAPE, "no multiple of 16");
    REFUSED("U4", c.quantization.group_size = 48, FOVEA_ERROR_SHAPE, "no multiple of group_size 48");
    REFUSED("U4", (c.matrix.in = 3072, c.quantization.group_size = 1536), FOVEA_ERROR_SHAPE,
            "more than 1024, and no multiple");
    REFUSED("U8 zeros", (c.matrix.in = 1024, c.quantization.group_size = 0), FOVEA_ERROR_SHAPE, "at most 512");
    REFUSED("U4", c.quantization.scale_out_stride = -1, FOVEA_ERROR_STRIDE, "a stride of its scales is negative");
    REFUSED("U4", c.quantization.scale_group_stride = far, FOVEA_ERROR_OVERFLOW, "the strides of its scales");
    REFUSED("U4", c.quantization.scale_out_stride = far, FOVEA_ERROR_OVERFLOW, "the strides of its scales");
}

/* One channel of another group becomes one of group 0. */
static void more_of_group_0(int32_t *group_of) {
    int i = 0;
    while (group_of[i] == 0)
        i++;
    group_of[i] = 0;
}

/* The last scale of all is looked at, and each zero and group. */
static void check_values(const fovea_context *ctx) {
    enum { LAST = IN / GROUP * OUT - 1 };
    static const struct {
        const char *layout;
        int bytes, half;
    } blocks[] = {{"Q8_0", 34, 0},  {"Q4_0", 18, 0},  {"Q4_1", 20, 0},   {"Q4_1", 20, 2},
                  {"Q5_0", 22, 0},  {"Q5_1", 24, 2},  {"Q4_K", 144, 0},  {"Q4_K", 144, 2},
                  {"Q5_K", 176, 0}, {"Q5_K", 176, 2}, {"Q6_K", 210, 208}};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        for (int k = 0; k < 3; k++) {
            static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e01};
            REFUSED(blocks[i].layout, put_half(c.data + c.bytes - blocks[i].bytes + blocks[i].half, bad[k]),
                    FOVEA_ERROR_ARGUMENT, "NaN or infinite");
            REFUSED(blocks[i].layout, put_half(c.data + blocks[i].half, bad[k]), FOVEA_ERROR_ARGUMENT,
                    "output channel 0, input channel 0 is NaN or infinite");
        }
    REFUSED("U4", put_half(c.scales + 2 * LAST, 0x7c00), FOVEA_ERROR_ARGUMENT,
            "output channel 15, input channel 32 is NaN or infinite");
    REFUSED("AWQ", put_half(c.scales + 2 * LAST, 0xfe00), FOVEA_ERROR_ARGUMENT,
            "output channel 15, input channel 32 is NaN or infinite");
    REFUSED("U4",
            (c.quantization.scale_dtype = FOVEA_DTYPE_BF16, memset(c.scales, 0, 2 * (LAST + 1)),
             put_half(c.scales + 2 * LAST, 0x7f80)),
            FOVEA_ERROR_ARGUMENT, "NaN or infinite");
    float inf = INFINITY;
    REFUSED("I8",
            (c.quantization.scale_dtype = FOVEA_DTYPE_F32, memset(c.scales, 0, 4 * (LAST + 1)),
             memcpy(c.scales + 4 * LAST, &inf, 4)),
            FOVEA_ERROR_ARGUMENT, "NaN or infinite");
    REFUSED("U4 zeros, order", c.zeros[LAST] = 17, FOVEA_ERROR_ARGUMENT, "is 17; it must be from 0 to 16");
    REFUSED("GPTQ 4", c.quantization.zero_offset = 17, FOVEA_ERROR_ARGUMENT, "it must be from 0 to 16");
    REFUSED("GPTQ 4", c.quantization.zero_offset = -16, FOVEA_ERROR_ARGUMENT, "it must be from 0 to 16");
    REFUSED("GPTQ 8", (c.zeros[LAST] = 255, c.quantization.zero_offset = 1), FOVEA_ERROR_ARGUMENT,
            "is 256; it must be from 0 to 255");
    REFUSED("GPTQ 4, order", c.group_of[IN - 1] = 2, FOVEA_ERROR_ARGUMENT, "group_of[63] is 2, but there are 2 groups");
    REFUSED("GPTQ 4, order", c.group_of[0] = -1, FOVEA_ERROR_ARGUMENT, "group_of[0] is -1");
    REFUSED("GPTQ 4, order", more_of_group_0(c.group_of), FOVEA_ERROR_SHAPE, "group 0 more than 32 channels");
    REFUSED("GPTQ 4, order", memset(c.group_of, 0, IN * sizeof *c.group_of), FOVEA_ERROR_SHAPE,
            "group 0 more than 32 channels");
}

/* Numbers that overlap the weights by a byte, at either end, and that do not. */
static void check_overlap(const fovea_context *ctx) {
    for (int i = 0; i < QUANTIZED_LAYOUTS; i++) {
        quantized_case c;
        make(&c, quantized_layouts[i].name);
        if (strcmp(quantized_layouts[i].name, "U4") == 0) { /* rows whose last byte has one number */
            c.matrix.in--;
            c.quantization.group_size = 0;
        }
        const int64_t numbers = c.matrix.in * c.matrix.out * 4, room = (c.bytes + 63) / 64 * 64;
        char *all = must_alloc(2 * numbers + room, 1), *to = all + numbers;
        for (int k = 0; k < 4; k++) { /* weights before and behind, one byte apart from touching, and touching */
            uint8_t *data = (uint8_t *)to + (k < 2 ? numbers - k : k - 2 - c.bytes);
            memcpy(data, c.data, (size_t)c.bytes);
            c.matrix.data = data;
            const fovea_status status = fovea_dequantize(ctx, &c.matrix, (float *)(void *)to);
            test_check(k % 2 ? status == FOVEA_ERROR_ALIAS && strstr(fovea_error_detail(), "to overlaps data of from")
                             : status == FOVEA_OK,
                       "%s, %d: %s", quantized_layouts[i].name, k, fovea_error_detail());
        }
        free(all);
        quantized_free(&c);
    }
}

static fovea_status pack(const fovea_context *ctx, const quantized_case *c, fovea_arithmetic arithmetic,
                         fovea_linear **map) {
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.in_features = c->matrix.in;
    desc.part.weight = c->matrix;
    desc.arithmetic = arithmetic;
    return fovea_linear_create(ctx, &desc, map);
}

/* Sizes and strides whose products are out of the range of int64_t, each in turn: refused by all, and in words. */
static void check_hostile(const fovea_context *ctx) {
    static const int64_t sizes[] = {INT64_MIN,     INT64_MIN + 1,      -1,        INT64_C(1) << 60,
                                    INT64_MAX / 3, INT64_MAX / 16 * 8, INT64_MAX, -(INT64_C(1) << 32)};
    enum { FIELDS = 7 };
    for (int i = 0; i < QUANTIZED_LAYOUTS; i++)
        for (int field = 0; field < FIELDS; field++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                quantized_case c;
                make(&c, quantized_layouts[i].name);
                const bool words = c.quantization.packing != FOVEA_PACKING_PLAIN; /* have no strides */
                if (words ? field == 2 || field == 3 : c.matrix.quantization == NULL && field > 3) {
                    quantized_free(&c);
                    continue;
                }
                int64_t *const fields[FIELDS] = {&c.matrix.in,
                                                 &c.matrix.out,
                                                 &c.matrix.in_stride,
                                                 &c.matrix.out_stride,
                                                 &c.quantization.group_size,
                                                 &c.quantization.scale_group_stride,
                                                 &c.quantization.scale_out_stride};
                *fields[field] = sizes[k];
                fovea_linear *map = NULL;
                float to[1];
                for (int packed = 0; packed < 2; packed++) {
                    const fovea_status status =
                        packed ? pack(ctx, &c, FOVEA_ARITHMETIC_DEFAULT, &map) : fovea_dequantize(ctx, &c.matrix, to);
                    test_check((status == FOVEA_ERROR_SHAPE || status == FOVEA_ERROR_STRIDE ||
                                status == FOVEA_ERROR_OVERFLOW) &&
                                   !map && fovea_error_detail()[0] != '\0',
                               "%s, field %d is %" PRId64 ": %s, %s", quantized_layouts[i].name, field, sizes[k],
                               fovea_status_name(status), fovea_error_detail());
                }
                quantized_free(&c);
            }
}

/* Weights that have numbers can be packed, and have them when they are read back; others are refused here, too. */
static void check_packed(const fovea_context *ctx, const quantized_case *c, fovea_status want, const float *numbers) {
    const int64_t in = c->matrix.in, out = c->matrix.out, groups = in;
    for (int exact = 0; exact < 2; exact++) {
        fovea_linear *map = NULL;
        const fovea_status status = pack(ctx, c, exact ? FOVEA_ARITHMETIC_EXACT : FOVEA_ARITHMETIC_DEFAULT, &map);
        if (!test_check(status == want && (map != NULL) == (want == FOVEA_OK), "packed: %s, %s",
                        fovea_status_name(status), fovea_error_detail()) ||
            !map)
            continue;
        uint8_t *data = must_alloc(in * out * 4, 1), *scales = must_alloc(groups * out, 4),
                *zeros = must_alloc(groups * out, 1);
        int32_t *group_of = must_alloc(in, sizeof *group_of);
        float *to = must_alloc(in * out, sizeof *to);
        fovea_dtype dtype;
        fovea_quantization q;
        fovea_quantization_init(&q);
        test_check(fovea_linear_unpack(map, 0, data, NULL, &dtype) == FOVEA_OK, "%s", fovea_error_detail());
        if (dtype == FOVEA_DTYPE_F32) {
            memcpy(to, data, (size_t)(in * out) * sizeof *to);
        } else {
            fovea_matrix back = fovea_matrix_out_in(data, dtype, out, in);
            if (fovea_linear_unpack_groups(map, 0, &q, scales, zeros, group_of) == FOVEA_OK)
                back.quantization = &q;
            test_check(fovea_dequantize(ctx, &back, to) == FOVEA_OK, "%s", fovea_error_detail());
        }
        test_same(to, numbers, in * out, "read back, arithmetic %d", exact);
        fovea_linear_destroy(map);
        free(data);
        free(scales);
        free(zeros);
        free(group_of);
        free(to);
    }
}

/* Random bytes and random words in the struct, whose memory ends where it may be read: no crash, and a sentence. */
static void check_any_bytes(const fovea_context *ctx, rng *r) {
    for (int64_t n = test_scaled(4000); n > 0; n--) {
        const quantized_layout *l = &quantized_layouts[rng_below(r, QUANTIZED_LAYOUTS)];
        const fv_dtype_block block = fv_dtype_block_of(l->dtype);
        const int64_t in = block.elements > 1 ? block.elements * rng_between(r, 1, 2) : 16 * rng_between(r, 1, 8),
                      out = 8 * rng_between(r, 1, 2);
        quantized_case c;
        quantized_make(&c, l, in, out, block.elements > 1 ? 0 : 16, FOVEA_DTYPE_F16, -1, r); /* the most scales */
        for (int64_t i = 0; rng_below(r, 2) && i < c.bytes; i++)
            c.data[i] = (uint8_t)rng_below(r, 256);
        if (rng_below(r, 4) == 0)
            c.scales[1] = (uint8_t)rng_below(r, 256);
        if (rng_below(r, 4) == 0)
            c.group_of[rng_below(r, in)] = (int32_t)rng_u64(r);
        if (rng_below(r, 4) == 0)
            c.quantization.zero_offset = (int)rng_u64(r);
        if (rng_below(r, 8) == 0)
            c.quantization.group_size = rng_below(r, 2) ? 0 : rng_between(r, -40, 200);
        guard *g = guard_alloc("weights", (size_t)c.bytes, rng_below(r, 2) ? GUARD_END : GUARD_START);
        memcpy(g->data, c.data, (size_t)c.bytes);
        c.matrix.data = g->data;
        float *to = must_alloc(in * out, sizeof *to);
        const fovea_status status = fovea_dequantize(ctx, &c.matrix, to);
        test_check(status == FOVEA_OK || strncmp(fovea_error_detail(), "from", 4) == 0, "%s: %s", l->name,
                   fovea_error_detail());
        const bool finite = l->dtype != FOVEA_DTYPE_MXFP4 && l->dtype != FOVEA_DTYPE_F8_E4M3; /* they have NaN */
        for (int64_t i = 0; status == FOVEA_OK && finite && i < in * out; i++)
            if (!isfinite(to[i])) {
                test_check(false, "%s: number %" PRId64 " is %g", l->name, i, (double)to[i]);
                break;
            }
        check_packed(ctx, &c, status, to);
        free(to);
        guard_free(g);
        quantized_free(&c);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "quantization_errors", NULL);
    rng r = rng_stream(test_seed(), "quantization_errors");
    fovea_context *ctx = test_context_untuned();
    float to[1];
    const fovea_matrix none = fovea_matrix_out_in(to, FOVEA_DTYPE_Q4_0, 1, 32);
    test_check(fovea_dequantize(NULL, &none, to) == FOVEA_ERROR_NULL &&
                   fovea_dequantize(ctx, NULL, to) == FOVEA_ERROR_NULL &&
                   fovea_dequantize(ctx, &none, NULL) == FOVEA_ERROR_NULL,
               "pointers that are NULL");
    check_matrix(ctx);
    check_quantization(ctx);
    check_values(ctx);
    check_overlap(ctx);
    check_hostile(ctx);
    check_any_bytes(ctx, &r);
    fovea_context_destroy(ctx);
    return test_end();
}
