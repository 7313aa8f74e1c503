/* The flash loop (attention_block.h): ISA-free; all arithmetic is in the kernels it calls.
 *
 * A block is cut into tiles of up to tile_rows rows. Where the rows of a tile see different keys (the edge of causality
 * or of a window), scores and values go by groups of edge_rows rows, each over the keys that its rows see, so that at
 * most a register tile is computed that no row sees. What a row does not see of its tile's columns is told by its bits,
 * and gets p = -0.
 */
#include "attention_block.h"

#include "size.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Rows of a block that go through a segment together. */
typedef struct tile {
    int64_t row, rows;      /* in the block */
    int64_t group_rows;     /* rows that share a range of keys in the gemms */
    fv_range keys;          /* relative to the segment; empty: no row sees any */
    fv_range columns;       /* keys, widened to granules of FV_LANES */
    const fv_keybits *bits; /* of the first row, NULL: all columns */
    int64_t bits_step;
    bool mixed; /* some row may not see some of keys */
} tile;

/* ---------------------------------------------------------------------------------------- rows and their memory -- */

/* Where a row of a key head's rows is in the caller's tensors. */
typedef struct row_place {
    int64_t head, query;
} row_place;

static row_place place_of(const fv_block *x, int64_t row) {
    const int64_t r = x->first_row + row, q_len = x->plan->desc.q_len;
    return (row_place){x->kv_head * x->plan->group + r / q_len, r % q_len};
}

/* How many rows from row on, at most limit, have the same head. */
static int64_t run_of_head(const fv_block *x, int64_t row, int64_t limit) {
    return fv_min(limit, x->plan->desc.q_len - place_of(x, row).query);
}

static float *element(const fovea_tensor *t, int64_t batch, int64_t head, int64_t token) {
    return (float *)t->data + batch * t->stride[0] + head * t->stride[1] + token * t->stride[2];
}

static float *row_element(const fv_block *x, const fovea_tensor *t, int64_t row) {
    const row_place at = place_of(x, row);
    return element(t, x->sequence.index, at.head, at.query);
}

void fv_block_open(fv_block *x, const fovea_attention_plan *plan, const fovea_attention_args *args, int64_t item,
                   char *scratch) {
    const fv_attention_scratch *s = &plan->scratch;
    const int64_t head = item / plan->blocks;
    *x = (fv_block){
        .plan = plan,
        .args = args,
        .sequence = fv_attention_sequence(plan, args, head / plan->desc.kv_heads),
        .kv_head = head % plan->desc.kv_heads,
        .first_row = item % plan->blocks * plan->choice.block_rows,
        .uniform = true,
        .q = (float *)(void *)(scratch + s->q),
        .o = (float *)(void *)(scratch + s->o),
        .highest = (float *)(void *)(scratch + s->highest),
        .sum = (float *)(void *)(scratch + s->sum),
        .lse = (float *)(void *)(scratch + s->lse),
        .started = (bool *)(scratch + s->started),
        .ranges = (fv_range *)(void *)(scratch + s->ranges),
        .k = (float *)(void *)(scratch + s->k),
        .s = (float *)(void *)(scratch + s->s),
        .bits = (fv_keybits *)(void *)(scratch + s->bits),
        .m = (float *)(void *)(scratch + s->m),
        .l = (float *)(void *)(scratch + s->l),
        .a = (float *)(void *)(scratch + s->a),
        .b = (float *)(void *)(scratch + s->b),
    };
    x->rows = fv_min(plan->choice.block_rows, plan->rows - x->first_row);
    const int64_t dim = plan->desc.head_dim;
    for (int64_t row = 0, run; row < x->rows; row += run) {
        run = run_of_head(x, row, x->rows - row);
        const row_place at = place_of(x, row);
        for (int64_t i = row; i < row + run; i++) {
            x->ranges[i] = fv_attention_range(plan, &x->sequence, at.query + i - row);
            x->range = fv_range_union(x->range, x->ranges[i]);
            x->uniform = x->uniform && x->ranges[i].begin == x->ranges[0].begin && x->ranges[i].end == x->ranges[0].end;
        }
        const int64_t named = fv_max(fv_min(run, x->sequence.q_len - at.query), 0); /* rows past q_lens are not read */
        if (named > 0)
            plan->kernels.scale(named, dim, plan->scale, row_element(x, &args->q, row), args->q.stride[2],
                                x->q + row * dim, dim);
        memset(x->q + (row + named) * dim, 0, (size_t)((run - named) * dim) * sizeof(float));
    }
}

/* -------------------------------------------------------------------------------------------------------- tiles -- */

/* What rows see of a segment: their union, and whether each sees all of it. */
static fv_range rows_range(const fv_block *x, int64_t row, int64_t rows, int64_t segment, bool *same) {
    const fv_range first = fv_range_in_segment(x->ranges[row], segment);
    fv_range all = first;
    *same = true;
    for (int64_t i = 1; i < rows && !x->uniform; i++) {
        const fv_range r = fv_range_in_segment(x->ranges[row + i], segment);
        *same = *same && r.begin == first.begin && r.end == first.end;
        all = fv_range_union(all, r);
    }
    return all;
}

static fv_range widen(fv_range keys) {
    return (fv_range){fv_round_down(keys.begin, FV_LANES), fv_round_up(keys.end, FV_LANES)};
}

static fovea_tensor mask_of(const fv_block *x) {
    fovea_tensor mask = x->args->mask;
    for (int i = 0; i < 4; i++)
        if (mask.shape[i] == 1)
            mask.stride[i] = 0;
    return mask;
}

/* Takes out of the bits of a tile's rows what a boolean mask masks. */
static void mask_bits(const fv_block *x, const tile *t, int64_t segment) {
    const fovea_tensor mask = mask_of(x);
    for (int64_t i = 0; i < t->rows; i++) {
        const fv_range keys = fv_range_in_segment(x->ranges[t->row + i], segment);
        const row_place at = place_of(x, t->row + i);
        const uint8_t *row = (const uint8_t *)mask.data + x->sequence.index * mask.stride[0] +
                             at.head * mask.stride[1] + at.query * mask.stride[2] +
                             segment * FV_SEGMENT * mask.stride[3];
        if (keys.begin < keys.end)
            x->plan->kernels.bits(keys.begin, keys.end, row, mask.stride[3], &x->bits[i]);
    }
}

/* Keys that rows [first, first + rows) of a tile see. */
static fv_range group_keys(const tile *t, int64_t first, int64_t rows) {
    if (!t->mixed)
        return t->keys;
    fv_keybits any = {{0}};
    for (int64_t i = first; i < first + rows; i++)
        for (int w = 0; w < FV_SEGMENT / 64; w++)
            any.word[w] |= t->bits[i].word[w];
    return fv_bits_range(&any);
}

static tile open_tile(const fv_block *x, int64_t row, int64_t rows, int64_t segment) {
    bool same;
    tile t = {.row = row, .rows = rows, .bits = x->bits};
    t.keys = rows_range(x, row, rows, segment, &same);
    t.group_rows = same ? rows : x->plan->edge_rows;
    t.mixed = t.keys.begin < t.keys.end && (!same || x->plan->desc.mask != FOVEA_MASK_NONE);
    if (t.mixed) {
        t.bits_step = 1;
        for (int64_t i = 0; i < rows; i++)
            x->bits[i] = fv_range_bits(fv_range_in_segment(x->ranges[row + i], segment));
        if (x->plan->desc.mask == FOVEA_MASK_BOOLEAN) {
            mask_bits(x, &t, segment);
            t.keys = group_keys(&t, 0, rows);
        }
        t.columns = widen(t.keys);
    } else {
        t.columns = widen(t.keys);
        if (t.keys.begin == t.columns.begin && t.keys.end == t.columns.end)
            t.bits = NULL;
        else
            x->bits[0] = fv_range_bits(t.keys);
    }
    return t;
}

/* ------------------------------------------------------------------------------------------------------ compute -- */

/* Packs the panel of a segment's keys that begins at key at, as far as any row of the block sees it. */
static void pack_panel(const fv_block *x, int64_t segment, int64_t at, float *panel) {
    const fovea_attention_plan *p = x->plan;
    const fv_range keys = fv_range_in_segment(x->range, segment);
    const int64_t begin = fv_max(at, fv_round_down(keys.begin, FV_LANES)), end = fv_min(at + p->panel, keys.end);
    const int64_t stride = x->args->k.stride[2];
    const float *first = element(&x->args->k, x->sequence.index, x->kv_head, segment * FV_SEGMENT + begin);
    p->kernels.pack(end - begin, p->desc.head_dim, first, stride, panel + (begin - at), p->panel);
}

/* Packs all keys of a segment that any row of the block sees. */
static void pack_keys(const fv_block *x, int64_t segment) {
    const fovea_attention_plan *p = x->plan;
    const fv_range keys = fv_range_in_segment(x->range, segment);
    for (int64_t at = fv_round_down(keys.begin, p->panel); at < keys.end; at += p->panel)
        pack_panel(x, segment, at, x->k + at * p->desc.head_dim);
}

/* Is the block one tile? Then what the tile needs is packed when it needs it. */
static bool one_tile(const fv_block *x) { return x->rows <= x->plan->choice.tile_rows; }

/* Scores of a tile, with the additive mask: each group over its own columns, which are all that its bits let through.
 */
static void compute_scores(const fv_block *x, const tile *t, int64_t segment) {
    const fovea_attention_plan *p = x->plan;
    const int64_t dim = p->desc.head_dim, lds = p->s_stride;
    const bool pack = one_tile(x) && t->group_rows >= t->rows; /* each panel is used once: all go to one place */
    if (one_tile(x) && !pack)
        pack_keys(x, segment);
    for (int64_t first = 0; first < t->rows; first += t->group_rows) {
        const int64_t rows = fv_min(t->group_rows, t->rows - first);
        const fv_range columns = widen(group_keys(t, first, rows));
        for (int64_t at = fv_round_down(columns.begin, p->panel); at < columns.end; at += p->panel) {
            float *panel = x->k + (pack ? 0 : at * dim);
            if (pack)
                pack_panel(x, segment, at, panel);
            const int64_t begin = fv_max(at, columns.begin), end = fv_min(at + p->panel, columns.end);
            p->kernels.score(rows, end - begin, dim, x->q + (t->row + first) * dim, dim, panel + (begin - at), p->panel,
                             x->s + first * lds + begin, lds, NULL);
        }
    }
    if (p->desc.mask != FOVEA_MASK_ADDITIVE)
        return;
    const fovea_tensor mask = mask_of(x);
    for (int64_t i = 0; i < t->rows; i++) {
        const fv_range keys = fv_range_in_segment(x->ranges[t->row + i], segment);
        if (keys.begin < keys.end)
            p->kernels.bias(fv_round_down(keys.begin, FV_LANES), keys.end,
                            row_element(x, &mask, t->row + i) + segment * FV_SEGMENT * mask.stride[3], mask.stride[3],
                            x->s + i * lds, x->bits + i);
    }
}

/* Are the values that the block sees of a segment finite? Asked at most once a segment, and only where it matters. */
static bool values_finite(const fv_block *x, int64_t segment, int *known) {
    if (*known < 0) {
        const fv_range keys = fv_range_in_segment(x->range, segment);
        *known = x->plan->kernels.finite(
            keys.end - keys.begin, x->plan->desc.value_dim,
            element(&x->args->v, x->sequence.index, x->kv_head, segment * FV_SEGMENT + keys.begin),
            x->args->v.stride[2]);
    }
    return *known != 0;
}

/* Outputs of a tile into o: stored, or merged by the factors a, b of its rows; a NULL: what o holds does not count. */
static void compute_values(const fv_block *x, const tile *t, int64_t segment, float *o, const float *a, const float *b,
                           int *finite) {
    const fovea_attention_plan *p = x->plan;
    const int64_t stride = x->args->v.stride[2];
    const float *v = element(&x->args->v, x->sequence.index, x->kv_head, segment * FV_SEGMENT);
    const bool skip = t->mixed && !values_finite(x, segment, finite);
    for (int64_t first = 0; first < t->rows; first += t->group_rows) {
        const int64_t rows = fv_min(t->group_rows, t->rows - first);
        const fv_range keys = group_keys(t, first, rows);
        const fv_merge merge = {a ? a + first : NULL, b ? b + first : NULL};
        float *to = o + first * p->o_stride;
        if (keys.begin < keys.end)
            (skip ? p->kernels.value_skip : p->kernels.value)(
                rows, p->desc.value_dim, keys.end - keys.begin, x->s + first * p->s_stride + keys.begin, p->s_stride,
                v + keys.begin * stride, stride, to, p->o_stride, b ? &merge : NULL);
        else if (!a)
            memset(to, 0, (size_t)(rows * p->o_stride) * sizeof(float));
    }
}

/* ------------------------------------------------------------------------------------------------- tiles, blocks -- */

/* Rows of the tile that begins at a row: the rows of a block are dealt evenly to tiles. */
static int64_t tile_rows(const fv_block *x, int64_t row) {
    const int64_t left = x->rows - row;
    return fv_ceil_div(left, fv_ceil_div(left, x->plan->choice.tile_rows));
}

/* m and l of rows that see no key of the segment. */
static void no_keys(float *m, float *l, int64_t rows) {
    for (int64_t i = 0; i < rows; i++) {
        m[i] = -INFINITY;
        l[i] = 0.0f;
    }
}

/* A tile through a segment. Its values are merged into the running outputs, or, with a partial, stored there. A tile of
 * which no row sees a key of the segment does nothing, unless it has a partial to fill. */
static void tile_segment(const fv_block *x, int64_t row, int64_t rows, int64_t segment, int *finite,
                         const fv_partial *partial) {
    const fovea_attention_plan *p = x->plan;
    const tile t = open_tile(x, row, rows, segment);
    float *m = partial ? partial->m + row : x->m, *l = partial ? partial->l + row : x->l;
    if (t.keys.begin < t.keys.end) {
        compute_scores(x, &t, segment);
        p->kernels.softmax(rows, t.columns.begin, t.columns.end, x->s, p->s_stride, t.bits, t.bits_step, m, l);
    } else if (partial)
        no_keys(m, l, rows);
    else
        return;
    if (partial) {
        compute_values(x, &t, segment, partial->o + row * p->o_stride, NULL, NULL, finite);
        return;
    }
    p->kernels.merge(rows, m, l, x->highest + row, x->sum + row, x->a, x->b);
    compute_values(x, &t, segment, x->o + row * p->o_stride, x->started[row] ? x->a : NULL, x->b, finite);
    x->started[row] = true;
}

static int64_t first_segment(fv_range range) { return range.begin / FV_SEGMENT; }
static int64_t end_segment(fv_range range) { return fv_ceil_div(range.end, FV_SEGMENT); }

/* Before any segment: no keys seen. */
static void reset(const fv_block *x) {
    no_keys(x->highest, x->sum, x->rows);
    memset(x->started, false, (size_t)x->rows * sizeof *x->started);
}

/* Outputs and lse of the whole block. */
static void finish(const fv_block *x) {
    const fovea_attention_plan *p = x->plan;
    const fovea_tensor *out = &x->args->out, *lse = &x->args->lse;
    const bool needs_lse = lse->data || x->args->weights.data;
    for (int64_t row = 0, run; row < x->rows; row += run) {
        run = run_of_head(x, row, x->rows - row);
        p->kernels.finish(run, p->desc.value_dim, x->o + row * p->o_stride, p->o_stride, x->highest + row, x->sum + row,
                          row_element(x, out, row), out->stride[2], needs_lse ? x->lse + row : NULL, 1);
        if (lse->data)
            for (int64_t i = 0; i < run; i++)
                *row_element(x, lse, row + i) = x->lse[row + i];
    }
}

/* ------------------------------------------------------------------------------------------------------ weights -- */

/* Writes the weights of a tile for the keys of a segment; keys it does not see are 0. */
static void write_weights(const fv_block *x, const tile *t, int64_t segment) {
    const fovea_attention_plan *p = x->plan;
    const int64_t keys = fv_min(p->desc.kv_len - segment * FV_SEGMENT, FV_SEGMENT);
    const int64_t begin = fv_min(t->columns.begin, keys), end = fv_min(t->columns.end, keys);
    const fv_keybits all = fv_range_bits((fv_range){0, FV_SEGMENT});
    for (int64_t i = 0; i < t->rows; i++) {
        float *w = row_element(x, &x->args->weights, t->row + i) + segment * FV_SEGMENT;
        memset(w, 0, (size_t)begin * sizeof *w);
        if (begin < end)
            p->kernels.weights(begin, end, x->s + i * p->s_stride, x->lse[t->row + i],
                               t->bits ? t->bits + i * t->bits_step : &all, w);
        memset(w + end, 0, (size_t)(keys - end) * sizeof *w);
    }
}

/* The second pass: scores again, now that the lse of each row is known. */
static void run_weights(const fv_block *x) {
    for (int64_t segment = 0; segment < x->plan->segments; segment++) {
        if (!one_tile(x))
            pack_keys(x, segment);
        for (int64_t row = 0, rows; row < x->rows; row += rows) {
            rows = tile_rows(x, row);
            const tile t = open_tile(x, row, rows, segment);
            compute_scores(x, &t, segment);
            write_weights(x, &t, segment);
        }
    }
}

/* -------------------------------------------------------------------------------------------------- whole blocks -- */

void fv_block_run(fv_block *x) {
    const fovea_attention_plan *p = x->plan;
    reset(x);
    for (int64_t segment = first_segment(x->range); segment < end_segment(x->range); segment++) {
        int finite = -1;
        if (!one_tile(x))
            pack_keys(x, segment);
        for (int64_t row = 0, rows; row < x->rows; row += rows) {
            rows = tile_rows(x, row);
            tile_segment(x, row, rows, segment, &finite, NULL);
        }
    }
    for (int64_t row = 0, rows; row < x->rows; row += rows) {
        rows = tile_rows(x, row);
        if (!x->started[row])
            memset(x->o + row * p->o_stride, 0, (size_t)(rows * p->o_stride) * sizeof(float));
    }
    finish(x);
    if (x->args->weights.data)
        run_weights(x);
}

bool fv_block_sees(const fv_block *x, int64_t segment) {
    const fv_range seen = fv_range_in_segment(x->range, segment);
    return seen.begin < seen.end;
}

void fv_block_run_segment(fv_block *x, int64_t segment, const fv_partial *partial) {
    int finite = -1;
    if (!one_tile(x))
        pack_keys(x, segment);
    for (int64_t row = 0, rows; row < x->rows; row += rows) {
        rows = tile_rows(x, row);
        tile_segment(x, row, rows, segment, &finite, partial);
    }
}

/* Tile by tile, as a and b have the size of a tile. */
void fv_block_merge(fv_block *x, char *partials, int64_t item) {
    const fovea_attention_plan *p = x->plan;
    reset(x);
    memset(x->o, 0, (size_t)(x->rows * p->o_stride) * sizeof(float));
    for (int64_t segment = first_segment(x->range); segment < end_segment(x->range); segment++) {
        const fv_partial part = fv_attention_partial(p, partials, item, segment);
        for (int64_t row = 0, rows; row < x->rows; row += rows) {
            rows = tile_rows(x, row);
            p->kernels.merge(rows, part.m + row, part.l + row, x->highest + row, x->sum + row, x->a, x->b);
            p->kernels.accumulate(rows, p->desc.value_dim, part.o + row * p->o_stride, p->o_stride, x->a, x->b,
                                  x->o + row * p->o_stride, p->o_stride);
        }
    }
    finish(x);
}
