/* Keys packed as floats, panel by panel (source.h): of any type and layout but integers. */
#include "attention/sources/packed.h"

static const fv_kernel *serves(const fv_sources *p) {
    if (fv_type_of(p->desc->k_dtype) == FV_TYPE_COUNT)
        return NULL;
    return p->desc->arithmetic == FOVEA_ARITHMETIC_BF16_TILE
               ? fv_multiply_best(FV_KIND_f32_amx_order, FV_FORMAT_f32, p->target)
               : p->choice->score;
}

/* Packs `count` interleaved keys as columns of a panel. */
static void pack_group(const fv_keys *k, const void *group, int64_t count, float *to) {
    const fv_sources *p = k->plan;
    const int64_t dim = p->desc->head_dim;
    if (k->side->dtype == FOVEA_DTYPE_BF16)
        p->ops->unpack_bf16x2(
            &(fv_operand){
                .data = group, .columns = count, .steps = dim, .row = FV_KEY_GROUP, .format = FV_FORMAT_bf16x2},
            to, p->panel);
    else if (k->side->dtype == FOVEA_DTYPE_F16)
        p->ops->widen_f16(dim, count, group, FV_KEY_GROUP, to, p->panel);
    else
        p->ops->copy(dim, count, group, FV_KEY_GROUP, to, p->panel);
}

/* Keys [key, end), at most FV_LANES: those in which a span ends, or of 16 bits, at one place first. */
static void pack_gathered(fv_keys *k, int64_t key, int64_t end, float *to) {
    const fv_sources *p = k->plan;
    const int64_t dim = p->desc->head_dim;
    fv_widen_bf16_fn *widen = fv_ops_widen(p->ops, k->side->dtype);
    float *const rows = k->gathered;
    for (int64_t at = key, count; at < end; at += count) {
        const fv_kv_span span = fv_keys_span(k, at, end);
        count = span.count;
        if (widen)
            widen(count, dim, span.at, span.stride, rows + (at - key) * dim, dim);
        else
            p->ops->copy(count, dim, span.at, span.stride, rows + (at - key) * dim, dim);
    }
    p->ops->pack_columns(end - key, dim, rows, dim, 0, to, p->panel, NULL, fv_packed_norm(k));
}

static void pack_panel(fv_keys *k, int64_t at, float *panel) {
    const fv_sources *p = k->plan;
    const fv_range keys = fv_packed_range(k, at);
    for (int64_t key = keys.begin, count; key < keys.end; key += count) {
        float *to = panel + (key - at);
        if (k->side->layout == FV_KV_INTERLEAVED) {
            count = fv_packed_group(key, keys.end, at + p->panel - key);
            pack_group(k, fv_keys_span(k, key, keys.end).at, count, to);
            k->norm = INFINITY; /* unknown */
            continue;
        }
        fv_kv_span span = {0}; /* of 16 bits FV_LANES at a time: widened, they stay in the first-level cache */
        if (k->side->dtype == FOVEA_DTYPE_F32)
            span = fv_keys_span(k, key, keys.end);
        count = key + span.count < keys.end ? fv_round_down(span.count, FV_LANES) : span.count;
        if (count > 0)
            p->ops->pack_columns(count, p->desc->head_dim, span.at, span.stride, 0, to, p->panel, NULL,
                                 fv_packed_norm(k));
        else {
            count = fv_min(FV_LANES, keys.end - key);
            pack_gathered(k, key, key + count, to);
        }
    }
}

static bool open(fv_keys *k) {
    const int64_t panel = k->plan->panel, dim = k->plan->desc->head_dim;
    for (int64_t at = fv_round_down(k->range.begin, panel); at < k->range.end && !k->one_tile; at += panel)
        pack_panel(k, at, k->packed + at * dim);
    return true;
}

static bool next(fv_keys *k, int64_t begin, int64_t end, fv_keys_step *step) {
    if (k->one_tile)
        pack_panel(k, fv_round_down(begin, k->plan->panel), k->packed);
    fv_packed_step(k, begin, end, k->plan->desc->head_dim, FV_FORMAT_f32, FV_QUERIES_floats, k->plan->k[FV_KEYS_floats],
                   step);
    return true;
}

const fv_keys_source fv_keys_floats = {.name = "floats",
                                       .id = FV_KEYS_floats,
                                       .layouts = 1u << FV_KV_ROWS | 1u << FV_KV_INTERLEAVED,
                                       .form = FV_QUERIES_floats,
                                       .knows_norms = true,
                                       .serves = serves,
                                       .open = open,
                                       .next = next};
