/* What a tuner may try for a linear map (heuristics.h): the values of each field of a choice that are worth a
 * measurement.
 */
#include "linear/linear.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/tuning.h"

#include <string.h>

enum { MOST_VALUES = 8, EIGHTHS = 8, MOST_ROWS = 4096, ALL_CHANNELS = 1 << 20 };

/* Fields and their values; those of sizes come first, two of which may be changed at once. */
enum { SIZES = 3 };
static const struct {
    int knob;
    bool around; /* values are eighths of what the default or the best so far has, in whole tiles */
    int32_t value[MOST_VALUES];
} fields[] = {
    {FV_LINEAR_KNOB_k_block, false, {64, 96, 128, 192, 256, 512, 1024, ALL_CHANNELS}},
    {FV_LINEAR_KNOB_row_block, true, {4, 16, 2}},
    {FV_LINEAR_KNOB_chunk, true, {4, 2, 16, MOST_ROWS *EIGHTHS}},
    {FV_LINEAR_KNOB_widened, true, {4, 16, 2}},
    {FV_LINEAR_KNOB_few_rows, false, {-1, INT32_MAX}},
    {FV_LINEAR_KNOB_pair_rows, false, {-1, 1}},
    {FV_LINEAR_KNOB_prefetch, false, {FV_LINEAR_PREFETCH_OWN, FV_LINEAR_PREFETCH_NEXT}},
    {FV_LINEAR_KNOB_gather, false, {FV_LINEAR_GATHER_NO, FV_LINEAR_GATHER_YES}},
    {FV_LINEAR_KNOB_split_rows, false, {16, 32, 128, INT32_MAX}},
    {FV_LINEAR_KNOB_items, false, {1, 2, 8, 16}},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

typedef struct search {
    const fovea_linear *linear;
    int64_t rows;
    fv_linear_choice best, *list;
    int count, most;
} search;

/* What a choice does for so many rows, in the form of a choice: if all fields are equal, so is the work. */
static fv_linear_choice effect(const search *s, const fv_linear_choice *wanted) {
    const fovea_linear *l = s->linear;
    fv_linear_choice c = fv_linear_heuristics(l, s->rows, wanted);
    const int64_t block = fv_linear_block(l, &c, s->rows, l->panels);
    const bool integers = fv_linear_integers(l), few = s->rows <= c.few_rows,
               pairs = l->pairs && c.pair_rows > 0 && s->rows >= c.pair_rows, only_pairs = l->pairs && !l->pack_x;
    c.items = fv_linear_group(l, &c, block, s->rows, l->panels);
    c.cache_scale = s->rows > block && fv_linear_rows_fit(l, &c, block); /* whether rows are prefetched */
    c.row_block = c.split_rows = block;
    c.chunk = fv_min(c.chunk, block);
    c.few_rows = few;
    c.pair_rows = pairs || only_pairs;
    if (integers || few || only_pairs || l->weights.format == FV_FORMAT_f32)
        c.widened = 0;
    if (integers || few || only_pairs || l->blocks)
        c.gemm = NULL;
    if (integers || only_pairs || l->widen_x)
        c.gather = 0;
    return c;
}

/* Adds a choice, unless the best or one before does the same. */
static void add(search *s, const fv_linear_choice *choice) {
    const fv_linear_choice does = effect(s, choice);
    for (int i = -1; i < s->count; i++) {
        const fv_linear_choice other = effect(s, i < 0 ? &s->best : &s->list[i]);
        if (memcmp(&does, &other, sizeof does) == 0)
            return;
    }
    if (s->count < s->most)
        s->list[s->count++] = *choice;
}

/* Products of floats, the cheapest first. */
static void add_products(search *s) {
    const fv_kernel *usual = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, s->linear->ctx->target), *row[MOST_VALUES];
    const int64_t rows = fv_min(s->rows, FV_LINEAR_MANY_ROWS), columns = fv_min(s->linear->out, FV_LINEAR_MANY_ROWS);
    int count = 0;
    for (const fv_kernel *k = fv_kernels; k < fv_kernels + fv_kernel_count && count < MOST_VALUES; k++) {
        if (!fv_kernel_alike(k, usual))
            continue;
        int at = count++;
        for (; at > 0 && fv_multiply_cost(k, rows, columns) < fv_multiply_cost(row[at - 1], rows, columns); at--)
            row[at] = row[at - 1];
        row[at] = k;
    }
    for (int i = 0; i < count; i++) {
        fv_linear_choice choice = s->best;
        choice.gemm = row[i];
        add(s, &choice);
    }
}

static int64_t *field_of(int field, fv_linear_choice *choice) {
    return (int64_t *)(void *)((char *)choice + fv_tuning_linear.knob[fields[field].knob].offset);
}

/* Every value of a field of a choice; second: with every one of the sizes behind it, too. */
static void add_values(search *s, int field, const fv_linear_choice *from, bool second) {
    fv_linear_choice made = fv_linear_heuristics(s->linear, s->rows, from);
    const int64_t tile = fv_linear_tile_rows(s->linear, &made), now = *field_of(field, &made);
    for (int i = 0; i < MOST_VALUES && fields[field].value[i] != 0; i++) {
        fv_linear_choice choice = *from;
        const int64_t value = fields[field].value[i];
        *field_of(field, &choice) =
            fields[field].around ? fv_max(fv_round_down(fv_min(now * value / EIGHTHS, MOST_ROWS), tile), tile) : value;
        if (!second)
            add(s, &choice);
        for (int other = field + 1; other < SIZES && second; other++)
            add_values(s, other, &choice, false);
    }
}

int fv_linear_candidates(const fovea_linear *linear, int64_t rows, const fv_linear_choice *best, fv_linear_choice *list,
                         int most) {
    search s = {.linear = linear, .rows = rows, .best = *best, .list = list, .most = most};
    add_products(&s);
    for (int field = 0; field < FIELDS; field++)
        add_values(&s, field, best, false);
    for (int field = 0; field < SIZES; field++)
        add_values(&s, field, best, true);
    return s.count;
}
