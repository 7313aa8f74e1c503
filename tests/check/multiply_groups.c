/* Trials of products of rows of integers with integers in groups (kernels/groups.h), of many rows and of few.
 *
 * The scalar row is held against the formulas, with the sums as int64, bit for bit; and ordinary numbers against a
 * float64 product of x with the numbers that weights stand for. With u = 2^-24, R the x_scale of a group, W its scale
 * and M its minimum or 0, each term is off by no more than
 *
 *   X            |x - X R| <= R / 2 + 4 u |x|, since x most / top, R and the factor are rounded once each
 *   the number   |W (w - zero) + M - its float| <= 2 u (|W (w - zero)| + |M|)
 *   the chain    (2 groups + 3) u of all terms' magnitudes: I, a product of scales and each fma are rounded once
 *
 * With |X R| <= |x| + R the sum of (|W (w - zero)| + |M|) (R / 2 + (2 groups + 12) u (|x| + R)) bounds all of it, where
 * nothing is subnormal. */
#include "groups.h"

#include "dispatch/tiles.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdlib.h>

enum { SIZE_ROWS = GROUP_OWN, SIZE_MOST, SIZE_START };
enum { OPERAND_A = GROUP_OPERANDS, OPERAND_C, OPERAND_START, OPERAND_X };
enum { START_NONE, START_OTHER, START_SAME, STARTS };

/* ------------------------------------------------------------------------------------------------------- trials -- */

/* Rows of A from x, by the oracle. */
static void fill_rows(const trial *t, operand *a, const operand *x) {
    static int64_t integers[FV_I8_CHANNELS];
    const int64_t group = t->size[GROUP_SIZE];
    const fv_kind kind = t->checker->kernel->kind;
    for (int64_t i = 0; i < x->rows; i++) {
        uint32_t *at = (uint32_t *)(void *)a->before + i * a->stride;
        for (int64_t begin = 0; begin < x->cols; begin += group) {
            const int64_t n = x->cols - begin < group ? x->cols - begin : group, words = fv_group_row_words(kind, n);
            fv_group_row *row = (fv_group_row *)(void *)at;
            memset(at, 0, (size_t)words * sizeof *at);
            row->scale = group_integers(n, t->size[SIZE_MOST], float_before(x, i, begin), integers);
            for (int64_t c = 0; c < n; c++) {
                row->sum += (int32_t)integers[c];
                group_put(kind, row, c, integers[c]);
            }
            at += words;
        }
    }
}

static void groups_trial(checker *c, int64_t rows, int64_t columns, group_shape shape, int extra, int kind,
                         int64_t number) {
    if (c->kernel->few && c->kernel->format == FV_FORMAT_i5g) /* whole words */
        shape = (group_shape){(shape.steps + 31) / 32 * 32, (shape.group + 31) / 32 * 32};
    trial *t = group_trial(c, shape, columns, (fv_group_extra)extra, (group_kind)kind, number, rows);
    if (!t)
        return;
    const int64_t words = fv_group_words(c->kernel->kind, shape.steps, t->size[GROUP_SIZE]);
    t->size[SIZE_ROWS] = rows;
    t->size[SIZE_MOST] = c->kernel->kind == FV_KIND_i8 || number % 5 == 0 ? FV_Q8_MOST : FV_I8_MOST;
    t->size[SIZE_START] = number % STARTS;
    operand *a = trial_operand(t, "a", sizeof(uint32_t), CELL_KEPT, rows, words, words + number % 3);
    operand *out = trial_floats(t, "c", CELL_NAN, rows, columns, some_stride(t, columns));
    operand *start = trial_floats(t, "start", CELL_KEPT, rows, columns, some_stride(t, columns));
    operand *x = trial_floats(t, "x", CELL_KEPT, rows, shape.steps, shape.steps);
    if (t->size[SIZE_START] == START_SAME)
        fill_normal(t, out);
    fill_normal(t, start);
    group_inputs(t, x, t->size[SIZE_MOST]);
    fill_rows(t, a, x);
    trial_run(t);
}

/* Trials of groups have each fv_group_extra below this. */
static int extras_of(const fv_kernel *kernel) {
    return kernel->few && (kernel->format == FV_FORMAT_i6g || kernel->format == FV_FORMAT_i4tg) ? 1 : 3;
}

/* Columns are a multiple of this. */
static int64_t unit_of(const fv_kernel *kernel) { return kernel->nr > FV_LANES ? kernel->nr : FV_LANES; }

/* Long groups, and many of them; of the extreme kinds the largest sums that there are. */
static void long_trials(checker *c, int64_t rows) {
    static const group_shape shapes[] = {{1024, 1024}, {512, 512}, {1100, 1024}, {2077, 1024},
                                         {1040, 16},   {1120, 32}, {1056, 48}};
    for (int s = 0; s < 7; s++)
        for (int kind = 0; kind < GROUP_KINDS; kind++)
            for (int extra = 0; extra < extras_of(c->kernel); extra++)
                groups_trial(c, 1 + (s + kind + extra) % rows, unit_of(c->kernel) * (1 + (s + kind) % 2), shapes[s],
                             extra, kind, s + kind + extra);
}

static void groups_trials(checker *c) {
    int64_t few[FV_FEW_ROWS], many[EDGE_SIZES];
    const int64_t unit = unit_of(c->kernel), most = GROUP_COLUMNS_MOST / unit < 4 ? GROUP_COLUMNS_MOST / unit : 4;
    const int mr = c->kernel->mr;
    const int64_t *rows = c->kernel->few ? few : many;
    const int heights = c->kernel->few ? mr : edge_sizes(mr, many);
    for (int i = 0; i < FV_FEW_ROWS; i++)
        few[i] = i + 1;
    for (int s = 0; s < GROUP_SHAPES; s++)
        for (int r = 0; r < heights; r++)
            for (int extra = 0; extra < extras_of(c->kernel); extra++)
                for (int64_t w = (s + r + extra) % 2; w < most; w += 2)
                    groups_trial(c, rows[r], unit * (w + 1), group_shapes[s], extra,
                                 (int)(s + r + extra + w / 2) % GROUP_KINDS, s + 3 * r + 5 * extra + 7 * w);
    long_trials(c, rows[heights - 1] < 4 ? rows[heights - 1] : 4);
    for (int extra = 0; extra < extras_of(c->kernel); extra++)
        groups_trial(c, 67, most * unit, (group_shape){352, 128}, extra, ORDINARY, extra);
}

static void groups_invoke(const fv_kernel *kernel, trial *t) {
    const operand *a = &t->operand[OPERAND_A];
    const fv_operand b = group_operand_placed(t);
    float *c = trial_pointer(t, OPERAND_C);
    const int64_t ldc = t->operand[OPERAND_C].stride, how = t->size[SIZE_START];
    const fv_epilogue epilogue = {.start = how == START_OTHER  ? trial_pointer(t, OPERAND_START)
                                           : how == START_SAME ? c
                                                               : NULL,
                                  .ldstart = how == START_SAME ? ldc : t->operand[OPERAND_START].stride};
    const bool next = b.steps % 3 != 0;
    const fv_prefetch prefetch = {.streams = b.steps % 2,
                                  .ahead = b.steps % 3 ? 0 : 8192,
                                  .next = next ? b.data : NULL,
                                  .next_end = next ? (const char *)b.data + 4 * b.columns : NULL};
    fv_tiles_enter(kernel);
    fesetround((int)t->size[GROUP_MODE]);
    kernel->run.multiply(&(fv_rows){trial_pointer(t, OPERAND_A), t->size[SIZE_ROWS], a->stride}, &b, c, ldc,
                         how == START_NONE && b.columns % 32 ? NULL : &epilogue, b.steps % 4 ? &prefetch : NULL);
    fesetround(FE_TONEAREST);
    fv_tiles_leave(kernel);
}

/* -------------------------------------------------------------------------------------------------------- oracle -- */

/* w - zero of all steps of a column, and a row of A as it lies, with its X. */
static int numbers[GROUP_COLUMNS_MOST][GROUP_STEPS_MOST];
static int64_t row_x[GROUP_STEPS_MOST];
typedef struct row_group {
    float scale;
    int64_t sum;
} row_group;
static row_group row_groups[GROUP_STEPS_MOST];

static void read_row(const trial *t, int64_t i) {
    const operand *a = &t->operand[OPERAND_A];
    const uint32_t *at = (const uint32_t *)(const void *)a->before + i * a->stride;
    const fv_kind kind = t->checker->kernel->kind;
    const int64_t steps = t->size[GROUP_STEPS], group = t->size[GROUP_SIZE];
    for (int64_t begin = 0; begin < steps; begin += group) {
        const int64_t n = steps - begin < group ? steps - begin : group;
        const fv_group_row *row = (const fv_group_row *)(const void *)at;
        row_groups[begin / group] = (row_group){row->scale, row->sum};
        for (int64_t c = 0; c < n; c++)
            row_x[begin + c] = group_get(kind, row, c);
        at += fv_group_row_words(kind, n);
    }
}

static int64_t group_sum(int64_t begin, int64_t end, int64_t j) {
    int64_t sum = 0;
    for (int64_t s = begin; s < end; s++)
        sum += row_x[s] * numbers[j][s];
    return sum;
}

static float chain(const trial *t, int64_t j, float acc) {
    const int64_t steps = t->size[GROUP_STEPS], group = t->size[GROUP_SIZE];
    for (int64_t begin = 0; begin < steps; begin += group) {
        const int64_t end = begin + group < steps ? begin + group : steps;
        const row_group *x = &row_groups[begin / group];
        const int64_t sum = group_sum(begin, end, j);
        if (llabs(sum) > INT32_MAX)
            trial_fail(t, "column %" PRId64 ": a sum of %" PRId64 " does not fit", j, sum);
        const volatile float integer = (float)sum, scale = group_scale(t, begin, j) * x->scale;
        acc = fmaf(integer, scale, acc);
        if (t->size[GROUP_EXTRA] == FV_GROUP_minimum) {
            const volatile float total = (float)x->sum, minimum = group_extra(t, begin, j) * x->scale;
            acc = fmaf(total, minimum, acc);
        }
    }
    return acc;
}

/* Is got as near to the product of x and the numbers of column j as rounding x allows? */
static bool near_product(const trial *t, int64_t i, int64_t j, float start, float got) {
    const int64_t steps = t->size[GROUP_STEPS], group = t->size[GROUP_SIZE], groups = (steps + group - 1) / group;
    double sum = (double)start, bound = (double)(2 * groups + 3) * 0x1p-24 * fabs(sum);
    for (int64_t s = 0; s < steps; s++) {
        const double x = (double)*float_before(&t->operand[OPERAND_X], i, s), R = (double)row_groups[s / group].scale;
        const double product = (double)group_scale(t, s, j) * numbers[j][s],
                     minimum = t->size[GROUP_EXTRA] == FV_GROUP_minimum ? (double)group_extra(t, s, j) : 0.0;
        sum += x * (product + minimum);
        bound += (fabs(product) + fabs(minimum)) * (R / 2 + (double)(2 * groups + 12) * 0x1p-24 * (fabs(x) + R));
    }
    if (near_double(got, sum, bound))
        return true;
    trial_fail(t, "c[%" PRId64 "][%" PRId64 "] is %.9g, farther than %.3g from float64's %.17g", i, j, (double)got,
               bound, sum);
    return false;
}

/* The extreme kinds reach the largest sums of all: of q16 16319 * 128 * 1024, and with zeros 16319 * 255 * 512. */
static void check_extreme(const trial *t) {
    const int64_t n = t->size[GROUP_STEPS];
    const bool zeros = t->size[GROUP_EXTRA] == FV_GROUP_zero;
    if (t->checker->kernel->format != FV_FORMAT_i8g || t->size[GROUP_TABLE] > 0 || t->size[GROUP_KIND] != LEAST ||
        n != (zeros ? 512 : 1024))
        return;
    const int64_t want = t->size[SIZE_MOST] * (zeros ? 255 * 512 : 128 * 1024), got = llabs(group_sum(0, n, 0));
    if (got != want)
        trial_fail(t, "the largest sum is %" PRId64 " instead of %" PRId64, got, want);
}

static void groups_verify(const trial *t) {
    const operand *c = &t->operand[OPERAND_C];
    const int64_t how = t->size[SIZE_START];
    for (int64_t j = 0; j < c->cols; j++)
        for (int64_t s = 0; s < t->size[GROUP_STEPS]; s++)
            numbers[j][s] = group_number(t, s, j);
    for (int64_t i = 0; i < c->rows; i++) {
        read_row(t, i);
        for (int64_t j = 0; j < c->cols; j++) {
            const float start = how == START_NONE    ? 0.0f
                                : how == START_OTHER ? *float_before(&t->operand[OPERAND_START], i, j)
                                                     : *float_before(c, i, j);
            fesetround((int)t->size[GROUP_MODE]);
            const float want = chain(t, j, start), got = float_want(c, i, j);
            fesetround(FE_TONEAREST);
            if (float_bits(got) != float_bits(want) && !(float_is_nan(got) && float_is_nan(want))) {
                trial_fail(t, "c[%" PRId64 "][%" PRId64 "] is %.9g instead of %.9g", i, j, (double)got, (double)want);
                return;
            }
            if (t->size[GROUP_KIND] == ORDINARY && t->size[GROUP_MODE] == FE_TONEAREST &&
                !near_product(t, i, j, start, got))
                return;
        }
    }
    check_extreme(t);
}

const op_check check_groups = {groups_trials, groups_invoke, groups_verify};
