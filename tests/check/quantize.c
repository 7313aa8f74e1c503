/* Trials of quantize: rows of x as integers, group by group. */
#include "groups.h"

#include <fenv.h>
#include <inttypes.h>

enum { SIZE_MOST = GROUP_OWN, SIZE_WORDS };
enum { OPERAND_X, OPERAND_TO };

/* Kinds of A, with each the largest integer that it takes. */
static const struct {
    fv_kind kind;
    int most;
    const char *word;
} rows_of[] = {{FV_KIND_i16, FV_I8_MOST, "i16"},
               {FV_KIND_i8x2, FV_I8_MOST, "i8x2"},
               {FV_KIND_i8, FV_Q8_MOST, "i8"},
               {FV_KIND_i8x2, FV_Q8_MOST, "i8x2 of 8 bits"},
               {FV_KIND_i16, FV_Q8_MOST, "i16 of 8 bits"}};
enum { ROWS_OF = sizeof rows_of / sizeof rows_of[0] };

static void quantize_trial(checker *c, int64_t rows, group_shape shape, int64_t of, group_kind kind, int mode) {
    trial *t = trial_begin(c, "rows=%" PRId64 " of %s, n=%" PRId64 " group=%" PRId64 " kind %d, mode %#x", rows,
                           rows_of[of].word, shape.steps, shape.group, (int)kind, (unsigned)mode);
    if (!t)
        return;
    t->size[GROUP_SIZE] = shape.group;
    t->size[GROUP_KIND] = kind;
    t->size[GROUP_MODE] = mode;
    t->size[SIZE_MOST] = rows_of[of].most;
    t->size[SIZE_WORDS] = rows_of[of].kind;
    const int64_t words = fv_group_words(rows_of[of].kind, shape.steps, shape.group);
    operand *x = trial_floats(t, "x", CELL_KEPT, rows, shape.steps, some_stride(t, shape.steps));
    operand *to = trial_floats(t, "to", CELL_BITS, rows, words, words);
    group_inputs(t, x, rows_of[of].most);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t begin = 0, at = 0; begin < shape.steps; begin += shape.group) {
            const int64_t left = shape.steps - begin;
            *cell_of(to, i, at) = CELL_NAN;
            at += fv_group_row_words(rows_of[of].kind, left < shape.group ? left : shape.group);
        }
    trial_run(t);
}

static void quantize_trials(checker *c) {
    static const group_shape more[] = {{3, 1024},    {48, 48},     {65, 1024},   {256, 256}, {768, 32},
                                       {1024, 1024}, {1031, 1024}, {2077, 1024}, {129, 64}};
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    enum { MORE = sizeof more / sizeof more[0] };
    for (int s = 0; s < GROUP_SHAPES + MORE; s++)
        for (int kind = 0; kind < GROUP_KINDS; kind++)
            for (int mode = 0; mode < 4; mode++)
                for (int of = 0; of < ROWS_OF; of++)
                    quantize_trial(c, 1 + (s + kind + mode) % 5,
                                   s < GROUP_SHAPES ? group_shapes[s] : more[s - GROUP_SHAPES], of, (group_kind)kind,
                                   modes[mode]);
    for (int64_t n = 1; n <= 67; n++)
        for (int of = 0; of < ROWS_OF; of++)
            quantize_trial(c, 3, (group_shape){n, n}, of, (group_kind)(n % GROUP_KINDS), FE_TONEAREST);
}

static void quantize_invoke(const fv_kernel *kernel, trial *t) {
    const operand *x = &t->operand[OPERAND_X];
    fesetround((int)t->size[GROUP_MODE]);
    kernel->run.quantize_i8(x->rows, x->cols, t->size[GROUP_SIZE], (fv_kind)t->size[SIZE_WORDS],
                            (int)t->size[SIZE_MOST], trial_pointer(t, OPERAND_X), x->stride,
                            trial_pointer(t, OPERAND_TO));
    fesetround(FE_TONEAREST);
}

/* One group: what is at `row` against its X. */
static bool group_right(const trial *t, int64_t i, int64_t n, const fv_group_row *row, const int64_t *integers,
                        float scale) {
    int64_t sum = 0;
    for (int64_t c = 0; c < (n + 15) / 16 * 16; c++) {
        const int64_t got = group_get((fv_kind)t->size[SIZE_WORDS], row, c), want = c < n ? integers[c] : 0;
        sum += want;
        if (got != want) {
            trial_fail(t, "row %" PRId64 ", channel %" PRId64 " of a group: %" PRId64 " instead of %" PRId64, i, c, got,
                       want);
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

static void quantize_verify(const trial *t) {
    static int64_t integers[FV_I8_CHANNELS];
    const operand *x = &t->operand[OPERAND_X], *to = &t->operand[OPERAND_TO];
    const int64_t group = t->size[GROUP_SIZE];
    for (int64_t i = 0; i < x->rows; i++) {
        const uint32_t *at = (const uint32_t *)(const void *)to->want + i * to->stride;
        for (int64_t begin = 0; begin < x->cols; begin += group) {
            const int64_t n = x->cols - begin < group ? x->cols - begin : group;
            fesetround((int)t->size[GROUP_MODE]);
            const float scale = group_integers(n, t->size[SIZE_MOST], float_before(x, i, begin), integers);
            fesetround(FE_TONEAREST);
            if (!group_right(t, i, n, (const fv_group_row *)(const void *)at, integers, scale))
                return;
            at += fv_group_row_words((fv_kind)t->size[SIZE_WORDS], n);
        }
    }
}

const op_check check_quantize = {quantize_trials, quantize_invoke, quantize_verify};
