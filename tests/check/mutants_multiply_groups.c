/* Mutants of products with integers in groups: the formulas of kernels/groups.h, in each with one fault. */
#include "mutants.h"

#define PARAMETERS                                                                                                     \
    const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,                         \
        const fv_prefetch *prefetch

typedef struct fault {
    int none, last_step, last_columns, start, swapped_halves, saturates, high_unsigned, in_float, next_scale, first_sum,
        no_minimum, minimum_subtracted, zero_constant, zero_of_first, scales_in_turn, minimum_contracted, descending,
        sixteen_bits;
} fault;

static int x_of(const fv_i8_row *row, int64_t t, const fault *f) {
    const fv_i8_word *word = row->word + t / 4;
    const int high = f->high_unsigned ? (uint8_t)word->high[t % 4] : word->high[t % 4];
    return 128 * high + word->low[t % 4];
}

static int saturated(int sum) { return sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum; }

/* Two products by VPMADDUBSW: of the high planes with w + 128, less 128 times the plane. */
static int pair(const fv_i8_row *row, int64_t t, const int *w) {
    int high = 0, low = 0, less = 0;
    for (int u = 0; u < 2; u++) {
        const fv_i8_word *word = row->word + (t + u) / 4;
        const int top = word->high[(t + u) % 4];
        high += (w[u] + 128) * top;
        low += w[u] * word->low[(t + u) % 4];
        less += 128 * top;
    }
    return 128 * (saturated(high) - less) + low;
}

static int sum_of(const fv_i8_row *row, const fv_operand *b, int64_t begin, int64_t count, int64_t j, int zero,
                  const fault *f) {
    int sum = 0;
    float floats = 0.0f;
    for (int64_t s = 0; s < count; s += f->saturates ? 2 : 1) {
        int w[2] = {0, 0};
        for (int u = 0; u < 2 && s + u < count; u++)
            w[u] = fv_group_integer(b, f->swapped_halves ? (begin + s + u) ^ 4 : begin + s + u, j) - zero;
        const int term = f->saturates ? pair(row, s, w) : x_of(row, s, f) * w[0];
        sum += f->sixteen_bits ? (int16_t)term : term;
        floats += (float)term;
    }
    return f->in_float ? (int)floats : sum;
}

static float chain(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j, float acc, const fault *f) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int64_t group = b->group.steps, scales = fv_scales_row(extra, b->width),
                  groups = (b->steps + group - 1) / group;
    const fv_i8_word *const row = (const fv_i8_word *)a->data + i * a->stride;
    for (int64_t n = 0; n < groups; n++) {
        const int64_t g = f->descending ? groups - 1 - n : n, left = b->steps - g * group;
        const int64_t count = (left < group ? left : group) - (f->last_step && left <= group && left % 16 > 1);
        const fv_i8_row *x = (const fv_i8_row *)(const void *)(row + g * fv_i8_row_words(group));
        const float *own = b->scales + b->first + j + g * scales,
                    *scale = f->next_scale && g + 1 < groups ? own + scales : own,
                    *beside = f->zero_of_first ? b->scales + b->first + j + b->width : own + b->width;
        const int zero = extra == FV_GROUP_zero
                             ? (f->zero_constant ? fv_group_zero(b->format, FV_GROUP_plain) : (int)*beside)
                             : fv_group_zero(b->format, extra);
        const float sum = (float)sum_of(x, b, g * group, count, j, zero, f);
        acc = f->scales_in_turn ? fmaf(sum * *scale, x->scale, acc) : fmaf(sum, *scale * x->scale, acc);
        if (extra == FV_GROUP_minimum && !f->no_minimum) {
            const fv_i8_row *summed = f->first_sum ? (const fv_i8_row *)(const void *)row : x;
            const float minimum = f->minimum_subtracted ? -*beside : *beside, total = (float)summed->sum;
            acc = f->minimum_contracted ? fmaf(total * minimum, x->scale, acc) : fmaf(total, minimum * x->scale, acc);
        }
    }
    return acc;
}

static void product(PARAMETERS, const fault *f) {
    const float *start = epilogue && !f->start ? epilogue->start : NULL;
    (void)prefetch;
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = 0; j < b->columns - f->last_columns * (b->columns > FV_LANES) * FV_LANES; j++)
            c[i * ldc + j] = chain(a, b, i, j, start ? start[i * epilogue->ldstart + j] : 0.0f, f);
}

/* A kernel with that fault. */
#define FAULT(fault_)                                                                                                  \
    static void groups_##fault_(PARAMETERS) { product(a, b, c, ldc, epilogue, prefetch, &(fault){.fault_ = 1}); }
FAULT(none)
FAULT(last_step)
FAULT(last_columns)
FAULT(start)
FAULT(swapped_halves)
FAULT(saturates)
FAULT(high_unsigned)
FAULT(in_float)
FAULT(next_scale)
FAULT(first_sum)
FAULT(no_minimum)
FAULT(minimum_subtracted)
FAULT(zero_constant)
FAULT(zero_of_first)
FAULT(scales_in_turn)
FAULT(minimum_contracted)
FAULT(descending)
FAULT(sixteen_bits)

#define MANY_i16(fate, fault) PRODUCT_ROW(fate, i16, i8g, MANY, 4, 16, groups_##fault)
#define MANY_i8(fate, fault) PRODUCT_ROW(fate, i8, i8g, MANY, 4, 16, groups_##fault)
#define FEW_OF(fate, format, fault) PRODUCT_ROW(fate, i16, format, FEW, 8, 16, groups_##fault)
static const mutant mutants[] = {
    MANY_i16(PASSES, none),
    MANY_i16(PASSES_FLUSHED, none),
    MANY_i16(DIFFERS, last_step),
    MANY_i16(DIFFERS, last_columns),
    MANY_i16(DIFFERS, start),
    MANY_i16(DIFFERS, saturates),
    MANY_i16(DIFFERS, high_unsigned),
    MANY_i16(DIFFERS, in_float),
    MANY_i16(DIFFERS, sixteen_bits),
    MANY_i16(DIFFERS, next_scale),
    MANY_i16(DIFFERS, zero_constant),
    MANY_i16(DIFFERS_AS_REFERENCE, scales_in_turn),
    MANY_i8(PASSES, none),
    MANY_i8(DIFFERS, last_step),
    MANY_i8(DIFFERS, last_columns),
    MANY_i8(DIFFERS, zero_constant),
    MANY_i8(DIFFERS, first_sum),
    MANY_i8(DIFFERS_AS_REFERENCE, descending),
    FEW_OF(PASSES, i8g, none),
    FEW_OF(DIFFERS, i8g, last_step),
    FEW_OF(DIFFERS, i8g, saturates),
    FEW_OF(DIFFERS, i8g, zero_of_first),
    FEW_OF(DIFFERS, i8g, start),
    FEW_OF(PASSES, i4g, none),
    FEW_OF(PASSES_FLUSHED, i4g, none),
    FEW_OF(DIFFERS, i4g, swapped_halves),
    FEW_OF(DIFFERS, i4g, zero_constant),
    FEW_OF(DIFFERS, i4g, next_scale),
    FEW_OF(DIFFERS, i4g, sixteen_bits),
    FEW_OF(DIFFERS_AS_REFERENCE, i4g, in_float),
    FEW_OF(DIFFERS, i5g, no_minimum),
    FEW_OF(DIFFERS, i5g, minimum_subtracted),
    FEW_OF(DIFFERS, i5g, first_sum),
    FEW_OF(DIFFERS, i5g, swapped_halves),
    FEW_OF(DIFFERS_AS_REFERENCE, i5g, minimum_contracted),
    FEW_OF(PASSES, i6g, none),
    FEW_OF(DIFFERS, i6g, last_step),
    FEW_OF(DIFFERS, i6g, last_columns),
    FEW_OF(DIFFERS_AS_REFERENCE, i6g, descending),
};

const mutant_table mutants_multiply_groups = {mutants, sizeof mutants / sizeof mutants[0]};
