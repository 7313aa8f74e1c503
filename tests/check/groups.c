/* Weights in groups for trials (groups.h). */
#include "groups.h"

#include <fenv.h>
#include <inttypes.h>

const group_shape group_shapes[GROUP_SHAPES] = {{1, 1},   {5, 5},    {15, 1024}, {16, 16},  {17, 16},   {31, 31},
                                                {32, 32}, {33, 32},  {37, 37},   {63, 64},  {64, 1024}, {95, 32},
                                                {96, 96}, {100, 16}, {130, 64},  {160, 32}, {200, 128}, {272, 128}};

static const char *const kind_words[GROUP_KINDS] = {"", ", least", ", greatest", ", low halves", ", special values"};
static const char *const extra_words[] = {"", ", zeros", ", minima"};

static fv_format format_of(const trial *t) {
    switch (t->checker->kernel->op) {
    case FV_OP_multiply: /* of i8g, with a table that there is not: words of i4g */
        return t->checker->kernel->format == FV_FORMAT_i8g && t->size[GROUP_TABLE] > 0 ? FV_FORMAT_i4g
                                                                                       : t->checker->kernel->format;
    case FV_OP_unpack: return t->checker->kernel->format;
    default: /* expand: by its element type */
        return t->size[GROUP_TABLE]                     ? FV_FORMAT_i4tg
               : t->checker->kernel->type == FV_TYPE_i4 ? FV_FORMAT_i4g
               : t->checker->kernel->type == FV_TYPE_i5 ? FV_FORMAT_i5g
                                                        : FV_FORMAT_i6g;
    }
}

static int bits_of(fv_format format) {
    return format == FV_FORMAT_i4g || format == FV_FORMAT_i4tg ? 4
           : format == FV_FORMAT_i5g                           ? 5
           : format == FV_FORMAT_i6g                           ? 6
                                                               : 8;
}

/* ------------------------------------------------------------------------------------------------------- filling -- */

static void fill_words(trial *t, operand *words) {
    const group_kind kind = (group_kind)t->size[GROUP_KIND];
    const bool whole = format_of(t) == FV_FORMAT_i8g;
    for (int64_t i = 0; i < words->rows; i++)
        for (int64_t byte = 0; byte < 4 * words->cols; byte++)
            words->before[4 * i * words->stride + byte] =
                (unsigned char)(kind == LEAST        ? (whole ? 0x80 : 0)
                                : kind == GREATEST   ? (whole ? 0x7f : 0xff)
                                : kind == LOW_HALVES ? 0x0f
                                                     : rng_u64(&t->rng) >> 11);
}

/* A zero with which no integer leaves its range, the farthest of them in extreme cases. */
static float some_zero(trial *t) {
    const int bits = bits_of(format_of(t)), low = bits == 8 ? -128 : 0, high = bits == 8 ? 127 : 1 << bits;
    return (float)(t->size[GROUP_KIND] == LEAST      ? high
                   : t->size[GROUP_KIND] == GREATEST ? low
                                                     : rng_between(&t->rng, low, high));
}

static void fill_scales(trial *t, operand *scales) {
    static const float specials[] = {0.0f,       -0.0f,  0x1p-140f, -0x1.8p-127f, 0x1p120f,
                                     0x1.8p-60f, -3e38f, NAN,       INFINITY,     1.0f};
    enum { SPECIALS = sizeof specials / sizeof specials[0] };
    const int64_t rows = t->size[GROUP_EXTRA] == FV_GROUP_plain ? 1 : 2;
    for (int64_t i = 0; i < scales->rows; i++)
        for (int64_t j = 0; j < scales->cols; j++) {
            float *to = float_before(scales, i, j);
            if (i % rows == 1 && t->size[GROUP_EXTRA] == FV_GROUP_zero)
                *to = some_zero(t);
            else if (t->size[GROUP_KIND] == SPECIAL && rng_below(&t->rng, 3) == 0)
                *to = specials[rng_below(&t->rng, SPECIALS)];
            else
                *to = i % rows == 1 ? 0.3f * rng_normal(&t->rng)
                                    : rng_uniform(&t->rng, 0.001f, 0.1f) * (rng_below(&t->rng, 8) ? 1.0f : -1.0f);
        }
}

/* Products of many rows that take i4g, too (src/linear/groups.c). */
static bool makes_words(const fv_kernel *k) {
#ifdef FV_HAVE_X86
    const bool tiles = k->features & FV_HAS_amx_int8;
#else
    const bool tiles = k->isa != FV_ISA_scalar;
#endif
    return k->op == FV_OP_multiply && k->format == FV_FORMAT_i8g && !k->few && !tiles;
}

trial *group_trial(checker *c, group_shape shape, int64_t columns, fv_group_extra extra, group_kind kind,
                   int64_t number, int64_t rows) {
    static const struct {
        int mode;
        const char *word;
    } modes[] = {
        {FE_TONEAREST, ""}, {FE_UPWARD, ", upward"}, {FE_DOWNWARD, ", downward"}, {FE_TOWARDZERO, ", to zero"}};
    const int mode = number % 7 < 4 ? (int)(number % 7) : 0;
    trial *t = trial_begin(c, "rows=%" PRId64 " columns=%" PRId64 " steps=%" PRId64 " group=%" PRId64 "%s%s%s", rows,
                           columns, shape.steps, shape.group, extra_words[extra], kind_words[kind], modes[mode].word);
    if (!t)
        return NULL;
    const bool own = t->checker->kernel->format == FV_FORMAT_i4tg || t->checker->kernel->format == FV_FORMAT_f8g,
               expands = t->checker->kernel->op == FV_OP_expand && t->checker->kernel->type == FV_TYPE_i4;
    extra = own ? FV_GROUP_plain : extra;
    if (t->checker->kernel->format == FV_FORMAT_i4tg || (expands && extra == FV_GROUP_plain && number % 3))
        t->size[GROUP_TABLE] = 1 + number % (FV_TABLE_COUNT - 1);
    if (number % 4 == 1 && makes_words(t->checker->kernel))
        t->size[GROUP_TABLE] = 2;
    const fv_format format = format_of(t);
    const int64_t most = format == FV_FORMAT_i8g && extra == FV_GROUP_zero ? 512 : FV_I8_CHANNELS;
    t->size[GROUP_STEPS] = shape.steps;
    t->size[GROUP_SIZE] = shape.group < most ? shape.group : most;
    t->size[GROUP_COLUMNS] = columns;
    t->size[GROUP_FIRST] = number % 3 * FV_LANES;
    t->size[GROUP_WIDTH] = t->size[GROUP_FIRST] + columns + number % 2 * 3 * FV_LANES;
    t->size[GROUP_EXTRA] = extra;
    t->size[GROUP_KIND] = kind;
    t->size[GROUP_MODE] = modes[mode].mode;
    const int64_t width = t->size[GROUP_WIDTH], groups = (shape.steps + t->size[GROUP_SIZE] - 1) / t->size[GROUP_SIZE];
    operand *words =
        trial_floats(t, "words", CELL_KEPT, fv_group_rows(format, shape.steps), columns, width + number % 4 * FV_LANES);
    fill_words(t, words);
    operand *scales =
        trial_floats(t, "scales", CELL_KEPT, extra == FV_GROUP_plain ? groups : 2 * groups, columns, width);
    scales->origin = t->size[GROUP_FIRST];
    fill_scales(t, scales);
    return t;
}

int group_widths(int64_t tile, int64_t widths[GROUP_WIDTHS]) {
    const int64_t whole = (tile + FV_LANES - 1) / FV_LANES * FV_LANES,
                  wanted[GROUP_WIDTHS] = {FV_LANES,         whole - FV_LANES, whole,
                                          whole + FV_LANES, 3 * FV_LANES,     2 * whole + FV_LANES};
    int count = 0;
    for (int i = 0; i < GROUP_WIDTHS; i++) {
        bool there = wanted[i] <= 0;
        for (int k = 0; k < count; k++)
            there = there || widths[k] == wanted[i];
        if (!there)
            widths[count++] = wanted[i];
    }
    return count;
}

/* Where the bytes of an integer are: those of int16, or one and, of two planes, the other. */
static int64_t byte_of(fv_kind kind, int64_t c) {
    static const int places[] = {0, 4, 2, 6}; /* of four int16, channels 0 and 2 are the first word */
    return kind == FV_KIND_i16 ? c / 4 * 8 + places[c % 4] : kind == FV_KIND_i8x2 ? c / 16 * 32 + c % 16 : c;
}

void group_put(fv_kind kind, fv_group_row *row, int64_t c, int64_t X) {
    unsigned char *at = (unsigned char *)row->word + byte_of(kind, c);
    const int16_t whole = (int16_t)X;
    const int64_t high = (X + 64) >> 7;
    if (kind == FV_KIND_i16)
        memcpy(at, &whole, sizeof whole);
    else
        at[0] = (unsigned char)(kind == FV_KIND_i8x2 ? high : X);
    if (kind == FV_KIND_i8x2)
        at[16] = (unsigned char)(X - 128 * high);
}

int64_t group_get(fv_kind kind, const fv_group_row *row, int64_t c) {
    const signed char *at = (const signed char *)row->word + byte_of(kind, c);
    int16_t whole;
    if (kind == FV_KIND_i8x2)
        return 128 * at[0] + at[16];
    if (kind == FV_KIND_i8)
        return at[0];
    memcpy(&whole, at, sizeof whole);
    return whole;
}

/* A group's words of x, which have a number of their own in each group. */
static void group_input(trial *t, float *x, int64_t n, int64_t most) {
    static const float tops[] = {0.0f, 0x1p-149f, 0x1.fffffep-113f, 0x1p-112f, 0x1p100f, 0x1.8p127f, NAN, INFINITY};
    const float top = tops[rng_below(&t->rng, (int64_t)(sizeof tops / sizeof tops[0]))];
    const float sign = rng_below(&t->rng, 2) ? -3.7f : 3.7f;
    for (int64_t c = 0; c < n; c++)
        switch ((group_kind)t->size[GROUP_KIND]) {
        case LEAST:
        case GREATEST: x[c] = sign; break;
        case LOW_HALVES: /* halves: ties, where the greatest is most */
            x[c] = c ? (float)rng_between(&t->rng, -2 * most, 2 * most) / 2.0f : (float)most;
            break;
        case SPECIAL: x[c] = isfinite(top) ? rng_uniform(&t->rng, -top, top) : rng_normal(&t->rng); break;
        default: x[c] = rng_normal(&t->rng);
        }
    if (t->size[GROUP_KIND] == SPECIAL)
        x[rng_below(&t->rng, n)] = rng_below(&t->rng, 2) ? -top : top;
}

void group_inputs(trial *t, operand *x, int64_t most) {
    const int64_t group = t->size[GROUP_SIZE];
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t c = 0; c < x->cols; c += group)
            group_input(t, float_before(x, i, c), x->cols - c < group ? x->cols - c : group, most);
}

/* ------------------------------------------------------------------------------------------------------- reading -- */

fv_operand group_operand(const trial *t, const void *words, const float *scales) {
    return (fv_operand){.data = words,
                        .scales = scales,
                        .columns = t->size[GROUP_COLUMNS],
                        .steps = t->size[GROUP_STEPS],
                        .row = t->operand[GROUP_WORDS].stride,
                        .group = {.steps = (int16_t)t->size[GROUP_SIZE],
                                  .extra = (int8_t)t->size[GROUP_EXTRA],
                                  .table = (int8_t)(format_of(t) == FV_FORMAT_i4tg ? t->size[GROUP_TABLE] : 0)},
                        .width = (int16_t)t->size[GROUP_WIDTH],
                        .first = (int16_t)t->size[GROUP_FIRST],
                        .format = format_of(t)};
}

fv_operand group_operand_placed(const trial *t) {
    return group_operand(t, trial_pointer(t, GROUP_WORDS), trial_pointer(t, GROUP_SCALES));
}

/* Bits [low, low + count) of byte `byte` of the word of column j in a row of words. */
static int field(const operand *words, int64_t row, int64_t j, int64_t byte, int64_t low, int count) {
    return words->before[4 * (row * words->stride + j) + byte] >> low & ((1 << count) - 1);
}

float group_scale(const trial *t, int64_t i, int64_t j) {
    const int64_t rows = t->size[GROUP_EXTRA] == FV_GROUP_plain ? 1 : 2;
    return *float_before(&t->operand[GROUP_SCALES], i / t->size[GROUP_SIZE] * rows, j);
}

float group_extra(const trial *t, int64_t i, int64_t j) {
    return t->size[GROUP_EXTRA] == FV_GROUP_plain
               ? 0.0f
               : *float_before(&t->operand[GROUP_SCALES], i / t->size[GROUP_SIZE] * 2 + 1, j);
}

/* The tables, written a second time: floats of a sign, two bits of exponent and one of fraction, doubled. */
static int table_value(fv_table table, int code) {
    static const int iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    const int exponent = code >> 1 & 3, size = exponent ? (2 + code % 2) << (exponent - 1) : code % 2;
    return table == FV_TABLE_iq4_nl ? iq4_nl[code] : code & 8 ? -size : size;
}

int group_number(const trial *t, int64_t i, int64_t j) {
    const operand *words = &t->operand[GROUP_WORDS];
    const fv_format format = format_of(t);
    int w = 0, zero = 0;
    switch (format) {
    case FV_FORMAT_i8g: w = (int8_t)field(words, i / 4, j, i % 4, 0, 8); break;
    case FV_FORMAT_f8g: w = field(words, i / 4, j, i % 4, 0, 8); break;
    case FV_FORMAT_i4tg:
        w = table_value((fv_table)t->size[GROUP_TABLE], field(words, i / 8, j, i % 4, i % 8 / 4 * 4, 4));
        break;
    case FV_FORMAT_i4g: w = field(words, i / 8, j, i % 4, i % 8 / 4 * 4, 4); break;
    case FV_FORMAT_i5g: { /* of 32 steps words 0 to 4 in lower bits, the others in upper ones */
        const int64_t row = i / 32 * 5, word = i % 32 / 4, byte = i % 4;
        if (word < 5)
            w = field(words, row + word, j, byte, 0, 5);
        else if (word < 7)
            w = field(words, row + 2 * word - 10, j, byte, 5, 3) + 8 * field(words, row + 2 * word - 9, j, byte, 5, 2);
        else
            w = field(words, row + 4, j, byte, 5, 3) + 8 * field(words, row + 1, j, byte, 7, 1) +
                16 * field(words, row + 3, j, byte, 7, 1);
        break;
    }
    default: { /* of 16 steps likewise words 0 to 2, and word 3 */
        const int64_t row = i / 16 * 3, word = i % 16 / 4;
        w = field(words, word < 3 ? row + word : row, j, i % 4, word < 3 ? 0 : 6, word < 3 ? 6 : 2);
        if (word == 3)
            w += 4 * field(words, row + 1, j, i % 4, 6, 2) + 16 * field(words, row + 2, j, i % 4, 6, 2);
    }
    }
    if (t->size[GROUP_EXTRA] == FV_GROUP_plain)
        zero = bits_of(format) == 8 || format == FV_FORMAT_i4tg ? 0 : 1 << (bits_of(format) - 1);
    else if (t->size[GROUP_EXTRA] == FV_GROUP_zero)
        zero = (int)group_extra(t, i, j);
    return w - zero;
}

/* By double: quotients and products of floats, rounded from doubles, are those of floats in every mode. */
float group_integers(int64_t n, int64_t most, const float *x, int64_t *integers) {
    float top = 0.0f;
    bool finite = true;
    for (int64_t c = 0; c < n; c++) {
        finite = finite && isfinite(x[c]);
        top = finite && fabsf(x[c]) > top ? fabsf(x[c]) : top;
        integers[c] = 0;
    }
    if (!finite)
        return NAN;
    if (top < 0x1p-112f)
        return 0.0f;
    const float factor = (float)((double)most / (double)top);
    for (int64_t c = 0; c < n; c++) {
        const double scaled = (double)(float)((double)x[c] * (double)factor), below = floor(scaled);
        const int64_t whole = (int64_t)below;
        const bool up = scaled - below > 0.5 || (scaled - below == 0.5 && whole % 2 != 0);
        integers[c] = whole + up > most ? most : whole + up < -most ? -most : whole + up;
    }
    return (float)((double)top / (double)most);
}
