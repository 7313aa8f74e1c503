/* How fovea-bench calls each operation (kernel_operations.h): a line in operations[], and a function. */
#include "kernel_operations.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "dispatch/tiles.h"

#include <stdbool.h>

/* Products. k counts words of A, where it has words: bits of floats serve for them. */
static void call_multiply(const fv_kernel *kernel, operands *o) {
    const int words = kernel->kind == FV_KIND_bf16x2 || kernel->kind == FV_KIND_f16x2 ||
                              kernel->kind == FV_KIND_bf16x2_amx_order
                          ? 2
                          : 1,
              first = kernel->kind == FV_KIND_f32 && kernel->format == FV_FORMAT_f32 ? 0 : 1;
    const fv_rows rows = {kernel->few ? o->in[0] : o->in[first], o->m, o->k};
    const fv_operand operand = {.data = kernel->few ? o->in[2] : o->in[first + 1],
                                .columns = o->n,
                                .steps = o->k * words,
                                .scales = o->in[0],
                                .row = o->n,
                                .format = kernel->format};
    fv_tiles_enter(kernel);
    kernel->run.multiply(&rows, &operand, o->out[0], o->n, NULL, NULL);
    fv_tiles_leave(kernel);
}

static void call_scale(const fv_kernel *kernel, operands *o) {
    kernel->run.scale_f32(o->m, o->n, 0.125F, o->in[0], o->n, o->out[0], o->n, NULL);
}

static void call_copy(const fv_kernel *kernel, operands *o) {
    kernel->run.copy_f32(o->m, o->n, o->in[0], o->n, o->out[0], o->n);
}

static void call_pack(const fv_kernel *kernel, operands *o) {
    fv_exponent_range m = fv_exponents_none();
    kernel->run.pack(o->n, o->k, o->in[0], o->k, 0, o->out[0], o->n, &m, NULL);
}

/* Rows of elements become words, without a transpose. */
static void call_pack_rows(const fv_kernel *kernel, operands *o) {
    const bool rows = kernel->source == FV_SOURCE_rows;
    fv_exponent_range m = fv_exponents_none();
    kernel->run.pack(o->m, o->n, o->in[0], o->n, rows ? -3 : 0, o->out[0], rows ? (o->n + 1) / 2 : o->n, &m, NULL);
}

/* work has no maxima, but what is no less than them: above the scores at first, later the sums of p. So
 * all p are normal numbers, as they are in most of attention. */
static void call_softmax(const fv_kernel *kernel, operands *o) {
    kernel->run.softmax_f32(&(fv_softmax_f32_args){.rows = o->m,
                                                   .end = o->n,
                                                   .s = o->out[0],
                                                   .lds = o->n,
                                                   .c = 1,
                                                   .p = o->out[0],
                                                   .ldp = o->n,
                                                   .lanes = o->work,
                                                   .row_max_end = o->n,
                                                   .no_underflow = 1,
                                                   .m = o->out[1],
                                                   .l = o->out[2]});
}

static void call_merge(const fv_kernel *kernel, operands *o) {
    kernel->run.merge_f32(o->m, o->in[0], o->in[1], o->out[0], o->out[1], o->out[2], o->out[3]);
}

static void call_accumulate(const fv_kernel *kernel, operands *o) {
    kernel->run.accumulate_f32(o->m, o->n, o->in[0], o->n, o->in[1], o->in[2], o->out[0], o->n);
}

static void call_finish(const fv_kernel *kernel, operands *o) {
    kernel->run.finish_f32(o->m, o->n, o->in[0], o->n, o->in[1], o->in[2], o->out[0], o->n, o->out[1], 1);
}

static void call_mask_to_bits(const fv_kernel *kernel, operands *o) {
    kernel->run.mask_to_bits_u8(0, o->n, o->mask, 1, &o->bits);
}

static void call_add_mask(const fv_kernel *kernel, operands *o) {
    float row_max[FV_LANES];
    o->truth = kernel->run.add_mask_f32(0, o->n, o->in[0], 1, 1, o->out[0], &o->bits, row_max);
}

static void call_softcap(const fv_kernel *kernel, operands *o) {
    kernel->run.softcap_f32(o->m, o->n, 0.02F, 50, o->out[0], o->n);
}

static void call_weights(const fv_kernel *kernel, operands *o) {
    kernel->run.weights_f32(0, o->n, o->in[0], 1, 1, &o->bits, o->out[0]);
}

static void call_weight_sums(const fv_kernel *kernel, operands *o) {
    kernel->run.weight_sums_f32(o->m, 0, o->n, o->in[0], o->n, 1, o->in[1], NULL, 0, o->out[0]);
}

static void call_finite(const fv_kernel *kernel, operands *o) {
    o->truth = kernel->run.finite_f32(o->m, o->n, o->in[0], o->n);
}

static void call_bias_act_residual(const fv_kernel *kernel, operands *o) {
    const fv_bias_act_residual args = {.bias = o->in[1], .activation = FV_ACT_GELU};
    kernel->run.bias_act_residual_f32(o->m, o->n, o->in[0], o->n, &args, o->out[0], o->n);
}

static void call_normalize(const fv_kernel *kernel, operands *o) {
    const fv_normalize args = {.weight = o->in[1], .eps = 1e-5F};
    kernel->run.normalize_f32(o->m, o->n, o->in[0], o->n, &args, o->out[0], o->n);
}

static void call_exp(const fv_kernel *kernel, operands *o) { kernel->run.exp_f32(o->n, o->in[0], o->out[0]); }

/* Bits of floats serve for words. */
static void call_unpack(const fv_kernel *kernel, operands *o) {
    fv_operand operand = {
        .data = o->in[2], .scales = o->in[1], .columns = o->n, .steps = o->m, .row = o->n, .format = kernel->format};
    if (operands_in_groups(kernel))
        operand.group = (fv_group){.steps = OPERANDS_GROUP};
    kernel->run.unpack(&operand, o->out[0], o->n);
}

static void call_widen(const fv_kernel *kernel, operands *o) {
    kernel->run.widen_bf16(o->m, o->n, (const uint16_t *)o->in[0], o->n, o->out[0], o->n);
}

static void call_narrow(const fv_kernel *kernel, operands *o) {
    kernel->run.narrow_bf16(o->m, o->n, o->in[0], o->n, (uint16_t *)o->out[0], o->n);
}

/* Products of few rows with keys, in rows or, as caches have them, in panels. */
static void call_keys(const fv_kernel *kernel, operands *o) {
    const bool integers = kernel->kind == FV_KIND_i16;
    const int64_t words = fv_i8_row_words(o->k);
    const fv_rows rows = {integers ? o->words : o->in[1], o->m, integers ? words : o->k};
    fv_operand keys = {
        .data = o->in[2], .scales = o->in[1], .columns = o->n, .steps = o->k, .row = o->k, .format = kernel->format};
    if (fv_format_of(keys.format).word != FV_WORD_column) {
        keys.row = keys.width = FV_KEY_GROUP;
        keys.panel = FV_KEY_GROUP * fv_operand_words(keys.format, o->k);
    }
    kernel->run.multiply(&rows, &keys, o->out[0], o->n, NULL, NULL);
}

/* An operand of integers in groups, with any bits. */
static fv_operand of_integers(fv_format format, const operands *o) {
    return (fv_operand){.data = o->in[2],
                        .scales = o->in[1],
                        .columns = o->n,
                        .steps = o->k,
                        .row = o->n,
                        .group = {.steps = OPERANDS_GROUP},
                        .format = format};
}

static void call_groups(const fv_kernel *kernel, operands *o) {
    const fv_rows rows = {o->words, o->m, fv_group_words(kernel->kind, o->k, OPERANDS_GROUP)};
    const fv_operand b = of_integers(kernel->format, o);
    fv_tiles_enter(kernel);
    kernel->run.multiply(&rows, &b, o->out[0], o->n, NULL, NULL);
    fv_tiles_leave(kernel);
}

static void call_quantize(const fv_kernel *kernel, operands *o) {
    kernel->run.quantize_i8(o->m, o->n, OPERANDS_GROUP, FV_KIND_i16, FV_I8_MOST, o->in[0], o->n, (uint32_t *)o->out[0]);
}

static void call_scales(const fv_kernel *kernel, operands *o) {
    kernel->run.scales_f32(FV_SCALES_super8, o->in[2], o->n, 0, o->m, o->out[0]);
}

static void call_expand(const fv_kernel *kernel, operands *o) {
    const fv_format format = kernel->type == FV_TYPE_i4   ? FV_FORMAT_i4g
                             : kernel->type == FV_TYPE_i5 ? FV_FORMAT_i5g
                                                          : FV_FORMAT_i6g;
    const fv_operand b = of_integers(format, o);
    kernel->run.expand_i4(&b, (uint32_t *)(void *)o->out[0], o->n);
}

/* A block of a state of m rows through n tokens, all of which have the same vectors: 4 operations of 2 flops an element
 * and token. */
static void call_delta(const fv_kernel *kernel, operands *o) {
    kernel->run.delta_f32(&(fv_delta){.tokens = o->n,
                                      .rows = o->m,
                                      .queries = 1,
                                      .k = o->in[0],
                                      .q = o->in[1],
                                      .decay = o->in[0],
                                      .decayed = o->in[0],
                                      .v = o->in[2],
                                      .beta = o->in[1],
                                      .o = o->out[1],
                                      .from = o->out[0],
                                      .tile = o->out[0],
                                      .to = o->out[0],
                                      .ldfrom = FV_STATE_COLUMNS,
                                      .ldto = FV_STATE_COLUMNS,
                                      .scale = 1,
                                      .correct = 1});
}

/* Some columns are updated, others summed. */
static void call_sweep(const fv_kernel *kernel, operands *o) {
    kernel->run.sweep_f32(&(fv_sweep){.rows = o->m,
                                      .from = o->out[0],
                                      .decay = o->in[0],
                                      .k = o->in[1],
                                      .q = o->in[1],
                                      .to = o->out[0],
                                      .o = o->out[1],
                                      .next = o->in[0],
                                      .decayed = o->in[1],
                                      .v = o->in[2],
                                      .ldfrom = o->m,
                                      .ldto = o->m,
                                      .ldnext = o->m,
                                      .scale = 1,
                                      .beta = 1});
}

static void call_scan(const fv_kernel *kernel, operands *o) {
    kernel->run.scan_f32(&(fv_scan){.tokens = o->n,
                                    .rows = o->m,
                                    .b = o->in[0],
                                    .c = o->in[1],
                                    .x = o->in[2],
                                    .dt = o->in[1],
                                    .a = o->in[2],
                                    .o = o->out[1],
                                    .state = o->out[0]});
}

static void call_convolve(const fv_kernel *kernel, operands *o) {
    kernel->run.convolve_f32(&(fv_convolve){.tokens = o->m,
                                            .taps = 4,
                                            .n = o->n,
                                            .x = o->in[0],
                                            .weight = o->in[1],
                                            .y = o->out[0],
                                            .ldy = o->n,
                                            .silu = 1});
}

static const int64_t any = INT64_C(1) << 20;

/* Products of floats, masked, of floats by words of 16 bits, of words on both sides, of few rows, of few with keys, of
 * integers in groups. */
static const kernel_operation of_floats = {call_multiply, 0, 0, 64, "mnk", any, 1, 2, 0, 0},
                              of_masked = {call_multiply, 16, 64, 64, "mnk", any, 1, 2, 0, 0},
                              of_halves = {call_multiply, 0, 64, 64, "mnk", any, FV_LANES, 2, 0, 0},
                              of_words = {call_multiply, 0, 64, 32, "mnk", any, FV_LANES, 4, 0, 0},
                              of_few = {call_multiply, 4, 128, 256, "mnk", any, 1, 2, 0, 0},
                              of_keys = {call_keys, 4, 64, 128, "mnk", any, FV_LANES, 2, 0, 0},
                              of_groups = {call_groups, 0, 64, 256, "mnk", any, FV_LANES, 2, 0, 0},
                              of_few_groups = {call_groups, 4, 64, 256, "mnk", any, FV_LANES, 2, 0, 0};
static const kernel_operation of_steps = {call_pack_rows, 32, 64, 1, "mn", any, 1, 0, 1, 4},
                              of_rows = {call_pack_rows, 32, 64, 1, "mn", any, 1, 0, 1, 6};

static const kernel_operation operations[FV_OP_COUNT] = {
    [FV_OP_scale] = {call_scale, 32, 64, 1, "mn", any, 1, 0, 1, 8},
    [FV_OP_copy] = {call_copy, 32, 64, 1, "mn", any, 1, 0, 1, 8},
    [FV_OP_pack] = {call_pack, 1, 32, 64, "nk", 256, FV_LANES, 0, 1, 8},
    [FV_OP_softmax] = {call_softmax, 32, FV_SEGMENT, 1, "mn", FV_SEGMENT, FV_LANES, 0, 1, 8},
    [FV_OP_merge] = {call_merge, 64, 1, 1, "m", 1, 1, 0, 1, 32},
    [FV_OP_accumulate] = {call_accumulate, 32, 64, 1, "mn", any, 1, 0, 1, 12},
    [FV_OP_finish] = {call_finish, 32, 64, 1, "mn", any, 1, 0, 1, 8},
    [FV_OP_mask_to_bits] = {call_mask_to_bits, 1, FV_SEGMENT, 1, "n", FV_SEGMENT, 1, 0, 1, 1},
    [FV_OP_add_mask] = {call_add_mask, 1, FV_SEGMENT, 1, "n", FV_SEGMENT, 1, 0, 1, 12},
    [FV_OP_softcap] = {call_softcap, 32, FV_SEGMENT, 1, "mn", FV_SEGMENT, FV_LANES, 0, 1, 8},
    [FV_OP_weights] = {call_weights, 1, FV_SEGMENT, 1, "n", FV_SEGMENT, 1, 0, 1, 8},
    [FV_OP_weight_sums] = {call_weight_sums, 32, FV_SEGMENT, 1, "mn", FV_SEGMENT, FV_LANES, 0, 1, 4},
    [FV_OP_finite] = {call_finite, 64, 64, 1, "mn", any, 1, 0, 1, 4},
    [FV_OP_bias_act_residual] = {call_bias_act_residual, 32, 64, 1, "mn", any, 1, 0, 1, 8},
    [FV_OP_normalize] = {call_normalize, 8, 576, 1, "mn", any, 1, 0, 1, 8},
    [FV_OP_exp] = {call_exp, 1, 4096, 1, "n", any, 1, 0, 1, 8},
    [FV_OP_unpack] = {call_unpack, 32, 64, 1, "mn", any, FV_LANES, 0, 1, 6},
    [FV_OP_widen] = {call_widen, 32, 64, 1, "mn", any, 1, 0, 1, 6},
    [FV_OP_narrow] = {call_narrow, 32, 64, 1, "mn", any, 1, 0, 1, 6},
    [FV_OP_quantize] = {call_quantize, 8, 256, 64, "n", any, FV_LANES, 0, 1.0 / 64, 8.0 / 64},
    [FV_OP_scales] = {call_scales, 16, 32, 64, "n", any, FV_LANES, 0, 1.0 / 64, 10.5 / 64},
    [FV_OP_expand] = {call_expand, 1, 64, 256, "n", any, FV_LANES, 0, 1, 1.75},
    [FV_OP_delta] = {call_delta, 128, 64, 1, "mn", any, FV_STATE_COLUMNS, 8 * FV_STATE_COLUMNS, FV_STATE_COLUMNS, 0},
    [FV_OP_sweep] = {call_sweep, 128, FV_LANES, 1, "m", FV_LANES, FV_LANES, 8, 1, 0},
    [FV_OP_scan] = {call_scan, 16, 64, 1, "mn", any, FV_STATE_COLUMNS, 0, FV_STATE_COLUMNS, 0},
    [FV_OP_convolve] = {call_convolve, 32, 64, 1, "mn", any, 1, 0, 1, 8},
};

const kernel_operation *kernel_operation_of(const fv_kernel *kernel) {
    if (kernel->op == FV_OP_pack && kernel->source != FV_SOURCE_columns)
        return kernel->source == FV_SOURCE_steps ? &of_steps : &of_rows;
    if (kernel->op != FV_OP_multiply)
        return &operations[kernel->op];
    if (operands_in_groups(kernel))
        return kernel->few ? &of_few_groups : &of_groups;
    if (kernel->few)
        return fv_multiply_keys(kernel) ? &of_keys : &of_few;
    switch (kernel->kind) {
    case FV_KIND_f32: return kernel->format == FV_FORMAT_f32 ? &of_floats : &of_halves;
    case FV_KIND_bf16x2:
    case FV_KIND_f16x2: return &of_words;
    case FV_KIND_f32_masked:
    case FV_KIND_f32_amx_order_masked: return &of_masked;
    default: return &of_floats;
    }
}

int64_t kernel_k_most(const fv_kernel *kernel) {
    return kernel->kind == FV_KIND_i16 && !operands_in_groups(kernel) ? FV_I8_CHANNELS : any;
}
