/* The score stage (score.h). */
#include "attention/score.h"

#include <math.h>

/* Norms cost as much as they save with fewer rows of a block or keys. With more channels they could be off by more than
 * the bound leaves room for. */
enum { NORM_ROWS = 32, NORM_KEYS = 128, NORM_CHANNELS = 1 << 16 };

static bool always(const fovea_attention_desc *d) {
    (void)d;
    return true;
}

static bool additive(const fovea_attention_desc *d) { return d->mask == FOVEA_MASK_ADDITIVE; }
static bool boolean(const fovea_attention_desc *d) { return d->mask == FOVEA_MASK_BOOLEAN; }

/* s = c * acc + mask; keys where the mask is -inf leave the bits. */
static void add_mask(fv_block *x, const fv_tile *t, int64_t segment, float c) {
    const fovea_attention_plan *p = x->plan;
    const fovea_tensor mask = fv_tile_mask(x);
    for (int64_t i = 0; i < t->rows; i++) {
        const fv_range keys = fv_range_in_segment(x->ranges[t->row + i], segment);
        if (keys.begin < keys.end)
            p->kernels.add_mask(fv_round_down(keys.begin, FV_LANES), keys.end,
                                fv_row_element(x, &mask, t->row + i) + fv_first_column(x, segment) * mask.stride[3],
                                mask.stride[3], c, x->s + i * p->s_stride, x->bits + i);
    }
}

/* A stage. */
typedef struct stage {
    bool (*asked)(const fovea_attention_desc *desc);
    bool keeps_maxima; /* it is one rising function for all keys of a row, and masks none */
    bool keeps_bound;  /* no |s| becomes larger than c |q| |k| */
    void (*pass)(fv_block *block, const fv_tile *tile, int64_t segment, float c); /* NULL: none of its own */
} stage;

/* THE list, in order. The first pass takes c along. */
static const stage stages[] = {
    {always, true, true, NULL}, /* s = c * acc, in the first read of the scores */
    {additive, false, false, add_mask},
    {boolean, false, true, NULL}, /* by the bits of a row, known before the product */
};
enum { STAGES = sizeof stages / sizeof stages[0] };

fv_scale fv_score_scale(float scale) {
    int exponent;
    const double part = frexp((double)scale, &exponent); /* from 1/2 to less than 1, or 0 */
    if (part == 0.0)
        return (fv_scale){scale, 1.0f};
    return (fv_scale){(float)copysign(ldexp(1.0, exponent - 1), part), (float)(2.0 * fabs(part))};
}

float fv_score_c(const fovea_attention_plan *plan) {
    for (int i = 0; i < STAGES; i++)
        if (stages[i].pass && stages[i].asked(&plan->desc))
            return 1.0f;
    return plan->scale.c;
}

bool fv_score_stages(fv_block *x, const fv_tile *t, int64_t segment) {
    float c = x->plan->scale.c;
    bool any = false;
    for (int i = 0; i < STAGES; i++)
        if (stages[i].pass && stages[i].asked(&x->plan->desc)) {
            stages[i].pass(x, t, segment, c);
            c = 1.0f;
            any = true;
        }
    return any;
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

/* The gemm gives the maxima of all columns that it computes: of rows of several heads that see different keys, or a first
 * key inside a granule, these are too many. */
int64_t fv_score_row_max_end(const fv_block *x, const fv_tile *t, int64_t segment) {
    if (!maxima_hold(&x->plan->desc) || t->keys.begin != t->columns.begin || (t->mixed && !x->one_head))
        return t->columns.begin;
    fv_range all = t->keys;
    if (t->mixed) { /* both ends move one way along a sequence */
        const fv_range first = fv_range_in_segment(x->ranges[t->row], segment),
                       last = fv_range_in_segment(x->ranges[t->row + t->rows - 1], segment);
        all = (fv_range){fv_max(first.begin, last.begin), fv_min(first.end, last.end)};
    }
    if (all.begin > t->columns.begin)
        return t->columns.begin;
    return all.end == t->columns.end ? all.end : fv_max(t->columns.begin, fv_round_down(all.end, x->plan->panel));
}

bool fv_score_asks_norms(const fv_block *x) {
    const fovea_attention_desc *d = &x->plan->desc;
    return x->rows >= NORM_ROWS && d->kv_len >= NORM_KEYS && d->head_dim <= NORM_CHANNELS && bound_holds(d);
}

/* |s| <= c |q| |k| (Cauchy and Schwarz), so no score lies further than twice that below another, and exp(-87.3) is a normal
 * number: 80 leaves room for the roundings of scores and norms, of NORM_CHANNELS terms at most. Squares that are too small
 * to be numbers count no more than least does. Figures: docs/measurements.md, "softmax_f32.h". */
bool fv_score_no_underflow(const fv_block *x, const fv_segment *segment) {
    const float furthest = 80.0f, least = 0x1p-40f, c = x->plan->scale.c;
    return c * c * fmaxf(x->norm, least) * fmaxf(segment->norm, least) <= furthest / 2.0f * (furthest / 2.0f);
}
