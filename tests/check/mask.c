/* Trials of mask_to_bits and add_mask: masks into the bits of a row's keys. */
#include "check.h"

#include <inttypes.h>

enum { SIZE_BEGIN, SIZE_END, SIZE_STEP };
enum { OPERAND_MASK, OPERAND_BITS, OPERAND_S, OPERAND_ROW_MAX };

typedef enum mask_kind { MASK_ONES, MASK_ZEROS, MASK_RANDOM, MASK_KINDS } mask_kind;
static const char *const mask_words[MASK_KINDS] = {"lets all pass", "lets none pass", "is random"};

static bool is_set(const uint64_t *word, int64_t key) { return word[key / 64] >> (key % 64) & 1; }

static trial *mask_trial(checker *c, int64_t begin, int64_t end, int64_t step, mask_kind kind) {
    trial *t =
        trial_begin(c, "[%" PRId64 ", %" PRId64 ") step=%" PRId64 ", the mask %s", begin, end, step, mask_words[kind]);
    if (t) {
        t->size[SIZE_BEGIN] = begin;
        t->size[SIZE_END] = end;
        t->size[SIZE_STEP] = step;
    }
    return t;
}

/* Bits on entry: all set, or a random half. */
static operand *entry_bits(trial *t) {
    operand *bits = trial_operand(t, "bits", sizeof(uint64_t), CELL_BITS, 1, FV_SEGMENT / 64, FV_SEGMENT / 64);
    const bool all = rng_below(&t->rng, 2);
    for (int i = 0; i < FV_SEGMENT / 64; i++)
        ((uint64_t *)bits->before)[i] = all ? ~(uint64_t)0 : rng_u64(&t->rng);
    return bits;
}

/* The bits after the call: those of [begin, end) that were set and that passes() lets pass, and all others as they
 * were. */
static void verify_bits(const trial *t, bool (*passes)(const operand *mask, int64_t index)) {
    const operand *bits = &t->operand[OPERAND_BITS];
    for (int64_t key = 0; key < FV_SEGMENT; key++) {
        bool want = is_set((const uint64_t *)bits->before, key);
        if (key >= t->size[SIZE_BEGIN] && key < t->size[SIZE_END])
            want = want && passes(&t->operand[OPERAND_MASK], t->size[SIZE_STEP] * (key - t->size[SIZE_BEGIN]));
        if (is_set((const uint64_t *)bits->want, key) != want) {
            trial_fail(t, "bit of key %" PRId64 " is %d", key, !want);
            return;
        }
    }
}

/* Calls trial for every begin and the lengths at which tiles of that many keys go wrong, each kind of mask, both
 * steps. */
static void mask_trials(checker *c, void (*one)(checker *c, int64_t begin, int64_t end, int64_t step, mask_kind kind),
                        int64_t begin_step) {
    int64_t size[EDGE_SIZES], turn = 0;
    const int sizes = edge_sizes(c->kernel->nr, size);
    const int64_t more[] = {0, 63, 64, 65, 130, FV_SEGMENT};
    enum { MORE = sizeof more / sizeof more[0] };
    for (int64_t begin = 0; begin < FV_SEGMENT; begin += begin_step)
        for (int i = 0; i < sizes + MORE; i++, turn++) {
            const int64_t length = i < sizes ? size[i] : more[i - sizes];
            const int64_t end = begin + length < FV_SEGMENT ? begin + length : FV_SEGMENT;
            one(c, begin, end, 1, MASK_RANDOM);
            one(c, begin, end, turn % 2, (mask_kind)(turn % MASK_KINDS));
        }
}

/* ------------------------------------------------------------------------------------------------- mask_to_bits -- */

static void mask_to_bits_trial(checker *c, int64_t begin, int64_t end, int64_t step, mask_kind kind) {
    static const uint8_t nonzero[] = {1, 2, 0x7f, 0x80, 0xff};
    trial *t = mask_trial(c, begin, end, step, kind);
    if (!t)
        return;
    const int64_t elements = step && end > begin ? end - begin : end > begin;
    operand *mask = trial_operand(t, "mask", sizeof(uint8_t), CELL_KEPT, 1, elements, elements);
    mask->origin = step * begin;
    entry_bits(t);
    for (int64_t i = 0; i < elements; i++) {
        const bool pass = kind == MASK_ONES || (kind == MASK_RANDOM && rng_below(&t->rng, 2));
        mask->before[i] = pass ? nonzero[rng_below(&t->rng, 5)] : 0;
    }
    trial_run(t);
}

static void mask_to_bits_trials(checker *c) { mask_trials(c, mask_to_bits_trial, 1); }

static void mask_to_bits_invoke(const fv_kernel *kernel, trial *t) {
    kernel->run.mask_to_bits_u8(t->size[SIZE_BEGIN], t->size[SIZE_END], trial_pointer(t, OPERAND_MASK),
                                t->size[SIZE_STEP], trial_pointer(t, OPERAND_BITS));
}

static bool byte_passes(const operand *mask, int64_t index) { return mask->before[index] != 0; }

static void mask_to_bits_verify(const trial *t) { verify_bits(t, byte_passes); }

const op_check check_mask_to_bits = {mask_to_bits_trials, mask_to_bits_invoke, mask_to_bits_verify};

/* ------------------------------------------------------------------------------------------------------ add_mask -- */

static float some_mask(rng *r, mask_kind kind) {
    if (kind == MASK_ZEROS || (kind == MASK_RANDOM && rng_below(r, 2)))
        return -INFINITY;
    switch (rng_below(r, 8)) {
    case 0: return bits_float(0xffc12345);
    case 1: return INFINITY;
    case 2: return -3.4e38f; /* a low number is not a mask */
    case 3: return 0.0f;
    default: return rng_normal(r);
    }
}

static void add_mask_trial(checker *c, int64_t begin, int64_t end, int64_t step, mask_kind kind) {
    trial *t = mask_trial(c, begin, end, step, kind);
    if (!t)
        return;
    const int64_t keys = end - begin, elements = step || keys == 0 ? keys : 1;
    t->c = some_score_scale(&t->rng);
    operand *mask = trial_floats(t, "mask", CELL_KEPT, 1, elements, elements);
    mask->origin = step * begin;
    operand *bits = entry_bits(t);
    operand *s = trial_floats(t, "s", CELL_NAN, 1, keys, keys);
    s->origin = begin;
    fill_normal(t, s);
    sprinkle_specials(t, s, 16);
    trial_floats(t, "row_max", CELL_BITS, 1, FV_LANES, FV_LANES);
    for (int64_t i = 0; i < elements; i++)
        *float_before(mask, 0, i) = some_mask(&t->rng, kind);
    for (int64_t i = 0; i < keys; i++) {
        const bool attended = is_set((const uint64_t *)bits->before, begin + i);
        if (!attended && step && rng_below(&t->rng, 2))
            *float_before(mask, 0, i) = poison(); /* masked already: its number may be anything */
        if (!attended || *float_before(mask, 0, step * i) == -INFINITY)
            *cell_of(s, 0, i) = CELL_ANY;
    }
    trial_run(t);
}

/* Ranges begin where a tile of keys can begin: at multiples of FV_LANES. */
static void add_mask_trials(checker *c) {
    for (int again = 0; again < 4; again++)
        mask_trials(c, add_mask_trial, FV_LANES);
}

static void add_mask_invoke(const fv_kernel *kernel, trial *t) {
    t->result = kernel->run.add_mask_f32(t->size[SIZE_BEGIN], t->size[SIZE_END], trial_pointer(t, OPERAND_MASK),
                                         t->size[SIZE_STEP], t->c, trial_pointer(t, OPERAND_S),
                                         trial_pointer(t, OPERAND_BITS), trial_pointer(t, OPERAND_ROW_MAX));
}

static bool add_mask_passes(const operand *mask, int64_t index) { return *float_before(mask, 0, index) != -INFINITY; }

static void add_mask_verify(const trial *t) {
    const operand *mask = &t->operand[OPERAND_MASK], *s = &t->operand[OPERAND_S];
    verify_bits(t, add_mask_passes);
    for (int64_t i = 0; i < s->cols; i++) {
        const float scaled = t->c * *float_before(s, 0, i);
        const float want = scaled + *float_before(mask, 0, t->size[SIZE_STEP] * i), got = float_want(s, 0, i);
        if (*cell_of(s, 0, i) != CELL_ANY && float_bits(got) != float_bits(want) &&
            !(float_is_nan(got) && float_is_nan(want))) {
            trial_fail(t, "s[%" PRId64 "] is %.9g, c * s + mask is %.9g", s->origin + i, (double)got, (double)want);
            return;
        }
    }
    float row_max[FV_LANES];
    for (int j = 0; j < FV_LANES; j++)
        row_max[j] = -INFINITY;
    for (int64_t i = 0; i < s->cols; i++)
        if (is_set((const uint64_t *)t->operand[OPERAND_BITS].want, s->origin + i))
            row_max[i % FV_LANES] = fmaxf(row_max[i % FV_LANES], float_want(s, 0, i));
    for (int j = 0; j < FV_LANES; j++)
        if (float_want(&t->operand[OPERAND_ROW_MAX], 0, j) != row_max[j]) {
            trial_fail(t, "row_max[%d] is %.9g, the maximum is %.9g", j,
                       (double)float_want(&t->operand[OPERAND_ROW_MAX], 0, j), (double)row_max[j]);
            return;
        }
}

const op_check check_add_mask = {add_mask_trials, add_mask_invoke, add_mask_verify};
