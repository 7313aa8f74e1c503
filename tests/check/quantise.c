/* Trials of quantise: rows of x as integers, group by group. */
#include "groups.h"

#include <fenv.h>
#include <inttypes.h>

enum { SIZE_MOST = GROUP_OWN };
enum { OPERAND_X, OPERAND_TO };
enum { WORD = sizeof(fv_i8_word) / sizeof(float) }; /* elements of 4 bytes */

static void quantise_trial(checker *c, int64_t rows, group_shape shape, int64_t most, group_kind kind, int mode) {
    trial *t = trial_begin(c, "rows=%" PRId64 " n=%" PRId64 " group=%" PRId64 " most=%" PRId64 " kind %d, mode %#x",
                           rows, shape.steps, shape.group, most, (int)kind, (unsigned)mode);
    if (!t)
        return;
    t->size[GROUP_SIZE] = shape.group;
    t->size[GROUP_KIND] = kind;
    t->size[GROUP_MODE] = mode;
    t->size[SIZE_MOST] = most;
    const int64_t words = fv_group_words(shape.steps, shape.group) * WORD;
    operand *x = trial_floats(t, "x", CELL_KEPT, rows, shape.steps, some_stride(t, shape.steps));
    operand *to = trial_floats(t, "to", CELL_BITS, rows, words, words);
    group_inputs(t, x, most);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t begin = 0, at = 0; begin < shape.steps; begin += shape.group) {
            const int64_t left = shape.steps - begin;
            *cell_of(to, i, at) = CELL_NAN;
            *cell_of(to, i, at + 2) = *cell_of(to, i, at + 3) = CELL_ANY; /* fv_i8_row.unused */
            at += fv_i8_row_words(left < shape.group ? left : shape.group) * WORD;
        }
    trial_run(t);
}

static void quantise_trials(checker *c) {
    static const group_shape more[] = {{3, 1024},    {48, 48},     {65, 1024},   {256, 256}, {768, 32},
                                       {1024, 1024}, {1031, 1024}, {2077, 1024}, {129, 64}};
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    enum { MORE = sizeof more / sizeof more[0] };
    for (int s = 0; s < GROUP_SHAPES + MORE; s++)
        for (int kind = 0; kind < GROUP_KINDS; kind++)
            for (int mode = 0; mode < 4; mode++)
                for (int least = 0; least < 2; least++)
                    quantise_trial(c, 1 + (s + kind + mode) % 5,
                                   s < GROUP_SHAPES ? group_shapes[s] : more[s - GROUP_SHAPES],
                                   least ? FV_Q8_MOST : FV_I8_MOST, (group_kind)kind, modes[mode]);
    for (int64_t n = 1; n <= 67; n++)
        quantise_trial(c, 3, (group_shape){n, n}, n % 2 ? FV_I8_MOST : FV_Q8_MOST, (group_kind)(n % GROUP_KINDS),
                       FE_TONEAREST);
}

static void quantise_invoke(const fv_kernel *kernel, trial *t) {
    const operand *x = &t->operand[OPERAND_X];
    fesetround((int)t->size[GROUP_MODE]);
    kernel->run.quantise_i8(x->rows, x->cols, t->size[GROUP_SIZE], (int)t->size[SIZE_MOST], trial_pointer(t, OPERAND_X),
                            x->stride, trial_pointer(t, OPERAND_TO));
    fesetround(FE_TONEAREST);
}

/* One group: what is at `row` against its X. */
static bool group_right(const trial *t, int64_t i, int64_t n, const fv_i8_row *row, const int64_t *integers,
                        float scale) {
    int64_t sum = 0;
    for (int64_t c = 0; c < 4 * (fv_i8_row_words(n) - 1); c++) {
        const fv_i8_word *word = row->word + c / 4;
        const int64_t pair = (c % 2 ? word->odd : word->even)[c % 4 / 2], high = word->high[c % 4],
                      low = word->low[c % 4], want = c < n ? integers[c] : 0;
        sum += want;
        if (pair != want || 128 * high + low != want || (t->size[SIZE_MOST] == FV_Q8_MOST && high != 0)) {
            trial_fail(
                t, "row %" PRId64 ", channel %" PRId64 " of a group: %" PRId64 " and %" PRId64 " instead of %" PRId64,
                i, c, pair, 128 * high + low, want);
            return false;
        }
    }
    if (row->sum == sum &&
        (float_bits(row->scale) == float_bits(scale) || (float_is_nan(row->scale) && float_is_nan(scale))))
        return true;
    trial_fail(t, "row %" PRId64 ": a group has scale %.9g and sum %d instead of %.9g and %" PRId64, i,
               (double)row->scale, row->sum, (double)scale, sum);
    return false;
}

static void quantise_verify(const trial *t) {
    static int64_t integers[FV_I8_CHANNELS];
    const operand *x = &t->operand[OPERAND_X], *to = &t->operand[OPERAND_TO];
    const int64_t group = t->size[GROUP_SIZE];
    for (int64_t i = 0; i < x->rows; i++) {
        const fv_i8_word *at = (const fv_i8_word *)(const void *)to->want + i * to->stride / WORD;
        for (int64_t begin = 0; begin < x->cols; begin += group) {
            const int64_t n = x->cols - begin < group ? x->cols - begin : group;
            fesetround((int)t->size[GROUP_MODE]);
            const float scale = group_integers(n, t->size[SIZE_MOST], float_before(x, i, begin), integers);
            fesetround(FE_TONEAREST);
            if (!group_right(t, i, n, (const fv_i8_row *)(const void *)at, integers, scale))
                return;
            at += fv_i8_row_words(n);
        }
    }
}

const op_check check_quantise = {quantise_trials, quantise_invoke, quantise_verify};
