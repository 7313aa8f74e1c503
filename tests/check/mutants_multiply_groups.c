/* Mutants of products with integers in groups: the formulas of kernels/groups.h, in each with one fault. */
#include "mutants.h"

#define PARAMETERS                                                                                                     \
    const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,                         \
        const fv_prefetch *prefetch

typedef struct fault {
    fv_kind kind; /* of A */
    int none, last_step, last_columns, start, swapped_halves, saturates, high_unsigned, in_float, next_scale, first_sum,
        no_minimum, minimum_subtracted, zero_constant, zero_of_first, scales_in_turn, minimum_contracted, descending,
        sixteen_bits;
} fault;

static int high_of(int X) { return (X + 64) >> 7; }

static int x_of(const fv_group_row *row, int64_t t, const fault *f) {
    const int X = fv_group_x(f->kind, row, t);
    return f->high_unsigned ? X + 128 * ((uint8_t)high_of(X) - high_of(X)) : X;
}

static int saturated(int sum) { return sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum; }

/* Two products by VPMADDUBSW: of the high planes with w + 128, less 128 times the plane. */
static int pair(const fv_group_row *row, int64_t t, const int *w, const fault *f) {
    int high = 0, low = 0, less = 0;
    for (int u = 0; u < 2; u++) {
        const int X = fv_group_x(f->kind, row, t + u), top = high_of(X);
        high += (w[u] + 128) * top;
        low += w[u] * (X - 128 * top);
        less += 128 * top;
    }
    return 128 * (saturated(high) - less) + low;
}

static int sum_of(const fv_group_row *row, const fv_operand *b, int64_t begin, int64_t count, int64_t j, int zero,
                  const fault *f) {
    int sum = 0;
    float floats = 0.0f;
    for (int64_t s = 0; s < count; s += f->saturates ? 2 : 1) {
        int w[2] = {0, 0};
        for (int u = 0; u < 2 && s + u < count; u++)
            w[u] = fv_group_integer(b, f->swapped_halves ? (begin + s + u) ^ 4 : begin + s + u, j) - zero;
        const int term = f->saturates ? pair(row, s, w, f) : x_of(row, s, f) * w[0];
        sum += f->sixteen_bits ? (int16_t)term : term;
        floats += (float)term;
    }
    return f->in_float ? (int)floats : sum;
}

static float chain(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j, float acc, const fault *f) {
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int64_t group = b->group.steps, scales = fv_scales_row(extra, b->width),
                  groups = (b->steps + group - 1) / group;
    const uint32_t *const row = (const uint32_t *)a->data + i * a->stride;
    for (int64_t n = 0; n < groups; n++) {
        const int64_t g = f->descending ? groups - 1 - n : n, left = b->steps - g * group;
        const int64_t count = (left < group ? left : group) - (f->last_step && left <= group && left % 16 > 1);
        const fv_group_row *x = (const fv_group_row *)(const void *)(row + g * fv_group_row_words(f->kind, group));
        const float *own = b->scales + b->first + j + g * scales,
                    *scale = f->next_scale && g + 1 < groups ? own + scales : own,
                    *beside = f->zero_of_first ? b->scales + b->first + j + b->width : own + b->width;
        const int zero = extra == FV_GROUP_zero
                             ? (f->zero_constant ? fv_group_zero(b->format, FV_GROUP_plain) : (int)*beside)
                             : fv_group_zero(b->format, extra);
        const float sum = (float)sum_of(x, b, g * group, count, j, zero, f);
        acc = f->scales_in_turn ? fmaf(sum * *scale, x->scale, acc) : fmaf(sum, *scale * x->scale, acc);
        if (extra == FV_GROUP_minimum && !f->no_minimum) {
            const fv_group_row *summed = f->first_sum ? (const fv_group_row *)(const void *)row : x;
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
#define FAULT(kind_, fault_)                                                                                           \
    static void groups_##kind_##_##fault_(PARAMETERS) {                                                                \
        product(a, b, c, ldc, epilogue, prefetch, &(fault){.kind = FV_KIND_##kind_, .fault_ = 1});                     \
    }
FAULT(i16, high_unsigned)
FAULT(i16, in_float)
FAULT(i16, last_columns)
FAULT(i16, last_step)
FAULT(i16, next_scale)
FAULT(i16, none)
FAULT(i16, saturates)
FAULT(i16, scales_in_turn)
FAULT(i16, sixteen_bits)
FAULT(i16, start)
FAULT(i16, zero_constant)
FAULT(i8, descending)
FAULT(i8, first_sum)
FAULT(i8, last_columns)
FAULT(i8, last_step)
FAULT(i8, none)
FAULT(i8, zero_constant)
FAULT(i8x2, descending)
FAULT(i8x2, first_sum)
FAULT(i8x2, high_unsigned)
FAULT(i8x2, in_float)
FAULT(i8x2, last_columns)
FAULT(i8x2, last_step)
FAULT(i8x2, minimum_contracted)
FAULT(i8x2, minimum_subtracted)
FAULT(i8x2, next_scale)
FAULT(i8x2, no_minimum)
FAULT(i8x2, none)
FAULT(i8x2, saturates)
FAULT(i8x2, sixteen_bits)
FAULT(i8x2, start)
FAULT(i8x2, swapped_halves)
FAULT(i8x2, zero_constant)
FAULT(i8x2, zero_of_first)

#define MANY_OF(fate, kind, fault) PRODUCT_ROW(fate, kind, i8g, MANY, 4, 16, groups_##kind##_##fault)
#define FEW_OF(fate, kind, format, fault) PRODUCT_ROW(fate, kind, format, FEW, 8, 16, groups_##kind##_##fault)
static const mutant mutants[] = {
    MANY_OF(PASSES, i16, none),
    MANY_OF(PASSES_FLUSHED, i16, none),
    MANY_OF(PASSES, i8x2, none),
    MANY_OF(DIFFERS, i8x2, high_unsigned),
    MANY_OF(DIFFERS, i16, last_step),
    MANY_OF(DIFFERS, i16, last_columns),
    MANY_OF(DIFFERS, i16, start),
    MANY_OF(DIFFERS, i16, saturates),
    MANY_OF(DIFFERS, i16, high_unsigned),
    MANY_OF(DIFFERS, i16, in_float),
    MANY_OF(DIFFERS, i16, sixteen_bits),
    MANY_OF(DIFFERS, i16, next_scale),
    MANY_OF(DIFFERS, i16, zero_constant),
    MANY_OF(DIFFERS_AS_REFERENCE, i16, scales_in_turn),
    MANY_OF(PASSES, i8, none),
    MANY_OF(DIFFERS, i8, last_step),
    MANY_OF(DIFFERS, i8, last_columns),
    MANY_OF(DIFFERS, i8, zero_constant),
    MANY_OF(DIFFERS, i8, first_sum),
    MANY_OF(DIFFERS_AS_REFERENCE, i8, descending),
    FEW_OF(PASSES, i8x2, i8g, none),
    FEW_OF(DIFFERS, i8x2, i8g, last_step),
    FEW_OF(DIFFERS, i8x2, i8g, saturates),
    FEW_OF(DIFFERS, i8x2, i8g, zero_of_first),
    FEW_OF(DIFFERS, i8x2, i8g, start),
    FEW_OF(PASSES, i8x2, i4g, none),
    FEW_OF(PASSES_FLUSHED, i8x2, i4g, none),
    FEW_OF(DIFFERS, i8x2, i4g, swapped_halves),
    FEW_OF(DIFFERS, i8x2, i4g, zero_constant),
    FEW_OF(DIFFERS, i8x2, i4g, next_scale),
    FEW_OF(DIFFERS, i8x2, i4g, sixteen_bits),
    FEW_OF(DIFFERS_AS_REFERENCE, i8x2, i4g, in_float),
    FEW_OF(DIFFERS, i8x2, i5g, no_minimum),
    FEW_OF(DIFFERS, i8x2, i5g, minimum_subtracted),
    FEW_OF(DIFFERS, i8x2, i5g, first_sum),
    FEW_OF(DIFFERS, i8x2, i5g, swapped_halves),
    FEW_OF(DIFFERS_AS_REFERENCE, i8x2, i5g, minimum_contracted),
    FEW_OF(PASSES, i8x2, i6g, none),
    FEW_OF(DIFFERS, i8x2, i6g, last_step),
    FEW_OF(DIFFERS, i8x2, i6g, last_columns),
    FEW_OF(DIFFERS_AS_REFERENCE, i8x2, i6g, descending),
    FEW_OF(PASSES, i16, i8g, none),
    FEW_OF(DIFFERS, i16, i8g, saturates),
    FEW_OF(DIFFERS, i16, i4g, last_step),
    FEW_OF(DIFFERS, i16, i5g, last_columns),
    FEW_OF(DIFFERS, i16, i6g, sixteen_bits),
};

const mutant_table mutants_multiply_groups = {mutants, sizeof mutants / sizeof mutants[0]};
