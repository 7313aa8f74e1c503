/* How weights of each type are packed and multiplied (linear.h): a row of the table below, and rows of kernels.inc. */
#include "linear/linear.h"

#include "core/core.h"
#include "dispatch/dispatch.h"

/* Products in registers: AVX2 has none to spare; with 16 lanes bfloat16 costs no time there, and int8 take three
 * operations a vector. Figures: docs/lab/types.md. */
/* clang-format off */
static const fv_linear_format formats[] = {
    /* dtype           format                pairs           their format       register rows    own width */
    {FOVEA_DTYPE_F32,  FV_FORMAT_f32,        FV_KIND_f32,    FV_FORMAT_f32,     {0, 0},          false},
    {FOVEA_DTYPE_BF16, FV_FORMAT_bf16x2,     FV_KIND_bf16x2, FV_FORMAT_bf16x2,  {16, INT64_MAX}, false},
    {FOVEA_DTYPE_F16,  FV_FORMAT_f16,        FV_KIND_f16x2,  FV_FORMAT_f16x2x4, {16, 64},        false},
    {FOVEA_DTYPE_I8,   FV_FORMAT_i8_columns, FV_KIND_f32,    FV_FORMAT_f32,     {6, 6},          true},
};
/* clang-format on */

/* Quantized weights in groups, whose format is that of their matrix. */
static const fv_linear_format grouped = {0, FV_FORMAT_i8g, FV_KIND_f32, FV_FORMAT_f32, {0, 0}, true};

const char fv_linear_weight_types[] =
    "weights are FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16 or of a quantized type";

const fv_linear_format *fv_linear_format_of(fovea_dtype dtype) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (formats[i].dtype == dtype && fv_dtype_built(dtype))
            return &formats[i];
    return fv_dtype_quantized(dtype) && fv_dtype_built(dtype) ? &grouped : NULL;
}

const fv_kernel *fv_linear_gemm(const fovea_context *ctx, int64_t out, bool halves) {
    const fv_kernel *gemm = fv_multiply_for(ctx->target, FV_LINEAR_MANY_ROWS, fv_min(out, FV_LINEAR_MANY_ROWS));
    if (!halves)
        return gemm;
    /* The kernels of 16 bits have the tile of the best one of float32, and are slower in strips of it. */
    const fv_kernel *best = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, ctx->target);
    return out >= best->nr || gemm->nr % FV_LANES != 0 ? best : gemm;
}

int64_t fv_linear_panel(const fovea_linear *l) {
    if (!l->kept->own_width)
        return l->gemm->nr;
    if (l->grouped) /* a power of two, as are all tiles of integers */
        return fv_max(fv_max(l->few->nr, l->many->nr), FV_LANES);
    const int64_t width = fv_multiply_best(FV_KIND_f32, l->weights.format, l->target)->nr;
    return fv_max(fv_max(l->gemm->nr, width), 2 * FV_LANES); /* one or two rows of x take two tiles at once */
}

/* Products of words of two elements, where the map has a use for them. */
static void select_pairs(fovea_linear *l, const fv_cpu *cpu) {
    const fv_target target = l->target;
    const fv_kernel *pairs = l->blocks ? fv_multiply_best(FV_KIND_bf16x2_amx_order, FV_FORMAT_bf16x2, target)
                                       : fv_multiply_best(l->kept->pairs, l->kept->pairs_format, target);
    const bool there = pairs->isa != FV_ISA_scalar && (l->blocks || cpu->fast_pairs);
    if (!there && !(l->blocks && cpu->emulates_tiles))
        return;
    const fv_kernel *pack = fv_pack_best(FV_SOURCE_rows, l->kept->pairs_format, target);
    l->pairs = pairs;
    l->pack_x = pack ? pack->run.pack : NULL;
    l->weights.format = l->kept->pairs_format;
}

const fv_kernel *fv_linear_product(int64_t number) {
    for (const fv_kernel *k = fv_kernels; k < fv_kernels + fv_kernel_count; k++)
        if (fv_multiply_is(k, k->kind, FV_FORMAT_i8g, false) && --number == 0)
            return k;
    return NULL;
}

/* Elsewhere words are multiplied as they lie only for as many rows as registers hold. */
static bool few_rows_measured(const fv_kernel *many) {
#ifdef FV_HAVE_X86
    return !(many->features & (FV_HAS_avx_vnni | FV_HAS_amx_int8));
#else
    (void)many;
    return false;
#endif
}

/* Rows up to which words are multiplied as they lie. Beyond, a product of many rows makes words of int16 or bytes:
 * of 4 bits by itself; of others, blocks of int8 are made for it, which costs as much as 10 to 20 rows. On AVX-512 that
 * product is no faster in q16. Measured: docs/lab/quantized.md. */
enum { ALL = 255 };
static const struct {
    uint8_t avx2, avx512, q8; /* AVX2, and AVX-512 in q16 and q8 */
} few_rows[FV_FORMAT_COUNT] = {
    [FV_FORMAT_i4g] = {16, 64, 6},   [FV_FORMAT_i4tg] = {12, 48, 12}, [FV_FORMAT_i5g] = {64, ALL, 16},
    [FV_FORMAT_i6g] = {32, ALL, 20}, [FV_FORMAT_i8g] = {16, ALL, 12},
};

static int64_t few_rows_of(const fovea_linear *l) {
    const fv_format format = l->few->format;
    if (l->arithmetic == FOVEA_ARITHMETIC_EXACT)
        return 0;
    if (l->quantized.apart || !few_rows_measured(l->many))
        return l->few->mr;
    const int rows = l->few->isa != FV_ISA_avx512           ? few_rows[format].avx2
                     : l->arithmetic == FOVEA_ARITHMETIC_Q8 ? few_rows[format].q8
                                                            : few_rows[format].avx512;
    return rows == ALL ? INT64_MAX : rows;
}

static void select_grouped(fovea_linear *l) {
    const fv_target target = l->target;
    const fv_format format = l->quantized.format;
    l->weights.format = format;
    l->weights.group = (fv_group){.steps = (int16_t)l->quantized.group,
                                  .extra = (int8_t)fv_scales_extra(l->quantized.scales),
                                  .table = (int8_t)l->quantized.table,
                                  .chunk = (int8_t)fv_scales_per_super(l->quantized.scales),
                                  .scales = (int8_t)l->quantized.scales};
    l->quantize = fv_kernel_best(FV_OP_quantize, FV_TYPE_i8, target)->run.quantize_i8;
    l->read_scales = fv_kernel_best(FV_OP_scales, FV_TYPE_f32, target)->run.scales_f32;
    const bool floats = format == FV_FORMAT_f8g;
    if (format != FV_FORMAT_i8g && !floats)
        l->expand = fv_kernel_best(FV_OP_expand, fv_format_of(format).element, target)->run.expand_i4;
    l->unpack = fv_unpack_best(floats ? FV_FORMAT_f8g : FV_FORMAT_i8g, target)->run.unpack;
    l->few = fv_multiply_integers(floats ? FV_FORMAT_i8g : format, true, false, target); /* of floats for its width */
    l->quantized.apart = l->few->isa != FV_ISA_avx512 && l->few->isa != FV_ISA_avx2;
    l->many = fv_multiply_integers(FV_FORMAT_i8g, false, l->arithmetic == FOVEA_ARITHMETIC_Q8, target);
    while (fv_linear_product(++l->many_number) != l->many)
        ;
    l->few_rows = few_rows_of(l);
}

void fv_linear_select_kernels(fovea_linear *l, const fovea_context *ctx) {
    const fv_target target = l->target = ctx->target;
    l->l1d = ctx->cpu.l1d;
    l->l2 = ctx->cpu.l2;
    l->kept = l->grouped ? &grouped : fv_linear_format_of(l->weight_dtype);
    l->widen_x = fv_widen_of(l->x_dtype, target);
    l->widen_residual = fv_widen_of(l->residual_dtype, target);
    l->narrow_y = fv_narrow_of(l->y_dtype, target);
    l->copy = fv_kernel_best(FV_OP_copy, FV_TYPE_f32, target)->run.copy_f32;
    if (l->arithmetic == FOVEA_ARITHMETIC_BF16_TILE)
        l->blocks = fv_multiply_best(FV_KIND_f32_amx_order, FV_FORMAT_f32, target)->run.multiply;
    l->weights.format = l->kept->format;
    if (l->grouped)
        select_grouped(l);
    if (l->grouped || l->weights.format == FV_FORMAT_f32)
        return;
    l->gemm_widen = fv_multiply_best(FV_KIND_f32, l->weights.format, target)->run.multiply;
    const fv_kernel *unpack = fv_unpack_best(l->weights.format, target);
    l->unpack = unpack ? unpack->run.unpack : NULL;
    l->widen_weights = unpack ? NULL : fv_widen_of(l->weight_dtype, target);
    /* The product of blocks has other sums. */
    l->few_rows = l->blocks ? 0 : l->kept->register_rows[fv_isa_lanes(target.isa) >= 16];
    if (l->weight_dtype == l->x_dtype)
        select_pairs(l, &ctx->cpu);
}
