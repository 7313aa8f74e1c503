/* The score stage (score.h). */
#include "attention/flash/score.h"

#include "attention/flash/relative.h"
#include "attention/flash/tile_groups.h"

#include <math.h>

/* Norms cost as much as they save with fewer rows of a block or keys. */
enum { NORM_ROWS = 32, NORM_KEYS = 128 };

static bool always(const fovea_attention_desc *d) {
    (void)d;
    return true;
}

static bool biased(const fovea_attention_desc *d) { return d->mask == FOVEA_MASK_ADDITIVE || d->has_bias; }
static bool relative(const fovea_attention_desc *d) { return d->relative != FOVEA_RELATIVE_NONE; }
static bool selecting(const fovea_attention_desc *d) { return fv_mask_selects(d->mask); }

static bool capped(const fovea_attention_desc *d) { return d->softcap > 0.0; }

/* s = cap * tanh(acc * (c / cap)), of the scores that were computed and of the maxima that came with them. */
static bool cap_scores(fv_block *x, const fv_tile *t, int64_t segment, float c) {
    const fovea_attention_plan *p = x->plan;
    const float cap = (float)p->desc.softcap, factor = (float)((double)c / (double)cap);
    (void)segment;
    for (int64_t first = 0; first < t->rows; first += t->group_rows) {
        const fv_range keys = x->to->groups[first / t->group_rows];
        const int64_t begin = fv_round_down(keys.begin, FV_LANES), end = fv_round_up(keys.end, FV_LANES);
        p->ops->softcap(fv_min(t->group_rows, t->rows - first), end - begin, factor, cap,
                        x->to->s + first * p->s_stride + begin, p->s_stride);
    }
    if (t->row_max_end > t->columns.begin)
        p->ops->softcap(t->rows, FV_LANES, factor, cap, x->to->lanes, FV_LANES);
    return false;
}

/* The elements of a bias that belong to a row's keys of a segment. */
static const float *bias_row(const fv_block *x, int64_t row, int64_t segment) {
    return fv_row_element(x, &x->bias, row) + fv_first_column(x, segment) * x->bias.stride[3];
}

/* So few that what is prefetched for a call arrives during it; but calls begin where groups of rows do. Figures:
 * docs/lab/softmax.md. */
int64_t fv_score_rows(const fv_block *x, const fv_tile *t, int64_t rows) {
    const bool one_group = t->group_rows >= t->rows;
    return one_group && biased(&x->plan->desc) ? fv_min(rows, x->plan->choice.score->mr) : rows;
}

void fv_score_prefetch(const fv_block *x, int64_t row, int64_t rows, int64_t segment, fv_range columns) {
    if (!biased(&x->plan->desc))
        return;
    for (int64_t i = row; i < row + rows && x->bias.stride[3] != 0; i++) {
        const uintptr_t from = (uintptr_t)bias_row(x, i, segment);
        for (int64_t key = columns.begin; key < columns.end; key += FV_LANES)
            __builtin_prefetch((const void *)(from + (uintptr_t)key * sizeof(float)), 0, 2);
    }
}

/* s = c * acc + bias; keys where the bias is -inf leave the bits. */
static bool add_bias(fv_block *x, const fv_tile *t, int64_t segment, float c) {
    const fovea_attention_plan *p = x->plan;
    bool masked = false;
    for (int64_t i = 0; i < t->rows; i++) {
        const fv_range keys = fv_range_in_segment(x->to->ranges[t->row + i], segment);
        masked |= p->ops->add_mask(fv_round_down(keys.begin, FV_LANES), keys.end, bias_row(x, t->row + i, segment),
                                   x->bias.stride[3], c, x->to->s + i * p->s_stride, x->to->bits + i,
                                   x->to->lanes + i * FV_LANES);
    }
    return masked;
}

/* The same with the bias of positions. */
static bool add_relative(fv_block *x, const fv_tile *t, int64_t segment, float c) {
    const fovea_attention_plan *p = x->plan;
    bool masked = false;
    for (int64_t i = 0; i < t->rows; i++) {
        fv_range keys = fv_range_in_segment(x->to->ranges[t->row + i], segment);
        keys.begin = fv_round_down(keys.begin, FV_LANES);
        masked |= p->ops->add_mask(keys.begin, keys.end, fv_relative_row(x, t->row + i, segment, keys), 1, c,
                                   x->to->s + i * p->s_stride, x->to->bits + i, x->to->lanes + i * FV_LANES);
    }
    return masked;
}

/* A stage. */
typedef struct stage {
    fovea_score_kind kind; /* its result is part of these scores and later ones */
    bool (*asked)(const fovea_attention_desc *desc);
    bool keeps_maxima; /* it is one rising function for all keys of a row, and masks none that was not before */
    bool keeps_bound;  /* no |s| becomes larger than c |q| |k| */
    bool masks;        /* its pass may take keys out of the bits of rows */
    /* NULL: none of its own. Finds the maxima of what rows attend to; did it take out a key? */
    bool (*pass)(fv_block *block, const fv_tile *tile, int64_t segment, float c);
} stage;

/* THE list, in order. The first pass takes c along. */
static const stage stages[] = {
    {FOVEA_SCORES_RAW, always, true, true, false, NULL}, /* s = c * acc, in the first read of the scores */
    {FOVEA_SCORES_CAPPED, capped, true, true, false, cap_scores},
    {FOVEA_SCORES_BIASED, biased, false, false, true, add_bias},
    {FOVEA_SCORES_BIASED, relative, false, false, true, add_relative},
    /* by the bits of a row, known before the product (fv_tile.selected) */
    {FOVEA_SCORES_BIASED, selecting, true, true, false, NULL},
};
enum { STAGES = sizeof stages / sizeof stages[0] };

float fv_score_c(const fovea_attention_plan *plan, fovea_score_kind kind) {
    for (int i = 0; i < STAGES && stages[i].kind <= kind; i++)
        if (stages[i].pass && stages[i].asked(&plan->desc))
            return 1.0f;
    return plan->sources.scale.c;
}

bool fv_score_passes(const fovea_attention_desc *desc) {
    bool passes = false;
    for (int i = 0; i < STAGES; i++)
        passes = passes || (stages[i].pass && stages[i].asked(desc));
    return passes;
}

bool fv_score_masks(const fovea_attention_desc *desc) {
    bool masks = false;
    for (int i = 0; i < STAGES; i++)
        masks = masks || (stages[i].masks && stages[i].asked(desc));
    return masks;
}

void fv_score_stages(fv_block *x, fv_tile *t, int64_t segment, fovea_score_kind kind) {
    float c = x->plan->sources.scale.c;
    bool masked = false, found = false;
    for (int i = 0; i < STAGES && stages[i].kind <= kind; i++)
        if (stages[i].pass && stages[i].asked(&x->plan->desc)) {
            masked |= stages[i].pass(x, t, segment, c);
            found |= !stages[i].keeps_maxima;
            c = 1.0f;
        }
    if (found) {
        t->row_max_end = t->columns.end;
        t->row_max_masked = true;
    }
    if (masked || found)
        fv_tile_masked(x, t, segment, masked);
}

static bool maxima_hold(const fovea_attention_desc *d) {
    bool hold = true;
    for (int i = 0; i < STAGES; i++)
        hold = hold && (stages[i].keeps_maxima || !stages[i].asked(d));
    return hold;
}

static bool bound_holds(const fovea_attention_desc *d) {
    bool hold = true;
    for (int i = 0; i < STAGES; i++)
        hold = hold && (stages[i].keeps_bound || !stages[i].asked(d));
    return hold;
}

/* The product gives the maxima of all columns that it computes: of rows that see different keys in no order, or a first
 * key that is no multiple of FV_LANES, these are too many. */
int64_t fv_score_row_max_end(const fv_block *x, const fv_tile *t, int64_t segment) {
    if (fv_sources_keys(&x->plan->sources)->whole || !maxima_hold(&x->plan->desc) ||
        t->keys.begin != t->columns.begin || t->masked || (t->mixed && !x->seen.ascending))
        return t->columns.begin;
    fv_range all = t->keys;
    if (t->mixed) { /* both ends move one way along a sequence */
        const fv_range first = fv_range_in_segment(x->to->ranges[t->row], segment),
                       last = fv_range_in_segment(x->to->ranges[t->row + t->rows - 1], segment);
        all = (fv_range){fv_max(first.begin, last.begin), fv_min(first.end, last.end)};
    }
    if (all.begin > t->columns.begin)
        return t->columns.begin;
    return all.end == t->columns.end ? all.end : fv_max(t->columns.begin, fv_round_down(all.end, x->plan->panel));
}

/* exp(-87.3) is a normal number; 80 leaves room for the roundings of scores and norms. */
static const float furthest = 80.0f;

/* Does the cap alone keep scores near enough to each other? */
static bool cap_bounds(const fovea_attention_desc *d) {
    return capped(d) && d->softcap <= (double)furthest / 2.0 && bound_holds(d);
}

bool fv_score_asks_norms(const fv_block *x) {
    const fovea_attention_desc *d = &x->plan->desc;
    return !cap_bounds(d) && x->rows >= NORM_ROWS && d->kv_len >= NORM_KEYS && bound_holds(d);
}

/* |s| <= c |q| |k| (Cauchy and Schwarz), and no score lies further than twice that below another. Norms are of
 * FV_CHANNEL_LIMIT terms at most: with more they could be off by more than the bound leaves room for. Squares that are
 * too small to be numbers count no more than least does. Figures: docs/lab/softmax.md. */
bool fv_score_no_underflow(const fv_block *x) {
    const float least = 0x1p-40f, c = x->plan->sources.scale.c;
    return cap_bounds(&x->plan->desc) ||
           c * c * fmaxf(x->queries.norm, least) * fmaxf(x->keys.norm, least) <= furthest / 2.0f * (furthest / 2.0f);
}
