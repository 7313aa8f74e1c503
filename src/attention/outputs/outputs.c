/* A block's outputs besides out and lse (outputs.h). A walk opens the segments and tiles of a block once more and hands
 * the scores of each tile to a visitor; views, statistics and sums are visitors. */
#include "attention/outputs/outputs.h"

#include "attention/flash/score.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 64 }; /* of a block of a key's sum: part of the results */

int64_t fv_outputs_segments(const fv_block *x) { return fv_max(fv_ceil_div(x->sequence.kv_len, FV_SEGMENT), 1); }

static float canonical(float value) { return isnan(value) ? NAN : value == 0.0f ? 0.0f : value; }

/* Bits of a row of a tile. */
static fv_keybits bits_of(const fv_tile *t, int64_t row) {
    return t->bits ? t->bits[row * t->bits_step] : fv_range_bits((fv_range){0, FV_SEGMENT});
}

static bool attends(const fv_keybits *bits, int64_t key) { return bits->word[key / 64] >> (key % 64) & 1; }

/* The weights of a row of a tile for keys [begin, end) of it, begin a multiple of FV_LANES. */
static void weigh(const fv_block *x, const fv_tile *t, int64_t row, const fv_keybits *bits, int64_t begin, int64_t end,
                  float *w) {
    const fovea_attention_plan *p = x->plan;
    p->ops->weights(begin, end, x->to->s + row * p->s_stride, fv_score_c(p, FOVEA_SCORES_WEIGHTS), x->lse[t->row + row],
                    bits, w);
}

/* ---------------------------------------------------------------------------------------------------------- walk -- */

typedef struct walk walk;
struct walk {
    fovea_score_kind kind; /* the scores of a tile are those after this step */
    bool (*wants)(const walk *w, const fv_block *x, int64_t row, int64_t rows); /* these rows of the block? */
    void (*visit)(const walk *w, const fv_block *x, const fv_tile *t, int64_t segment);
    const void *what;
    void *result;
};

static bool wants_all(const walk *w, const fv_block *x, int64_t row, int64_t rows) {
    (void)w, (void)x, (void)row, (void)rows;
    return true;
}

static void walk_segment(const walk *w, fv_block *x, int64_t index) {
    bool open = false;
    for (int64_t i = 0; i < x->tile_count; i++) {
        if (!w->wants(w, x, x->to->tiles[i].first, x->to->tiles[i].count))
            continue;
        if (!open)
            fv_segment_open(x, index, false);
        open = true;
        fv_tile t = fv_tile_open(x, &x->to->tiles[i], index);
        t.row_max_end = t.columns.begin; /* nobody asks for maxima */
        if (t.keys.begin < t.keys.end)
            fv_tile_scores(x, &t, index, w->kind);
        w->visit(w, x, &t, index);
    }
}

/* There is no softmax, which asks for norms. */
static void begin_walk(fv_block *x) { x->queries.norm = INFINITY; }

/* --------------------------------------------------------------------------------------------------------- views -- */

/* The head of a view that has a query head's scores; -1: none. */
static int64_t head_of(const fovea_attention_scores *v, int64_t head) {
    if (!v->heads)
        return head >= v->first_head && head - v->first_head < v->out.shape[1] ? head - v->first_head : -1;
    for (int64_t i = 0; i < v->out.shape[1]; i++)
        if (v->heads[i] == head)
            return i;
    return -1;
}

/* Where the view has a row of the block; NULL: nowhere. */
static float *row_of(const fovea_attention_scores *v, const fv_block *x, int64_t row) {
    const fv_row_place at = fv_place_of(x, row);
    const int64_t query = at.token - v->first_query, head = head_of(v, at.head);
    return head < 0 || query < 0 || query >= v->out.shape[2] ? NULL
                                                             : fv_element(&v->out, x->sequence.entry, head, query);
}

static bool view_wants(const walk *w, const fv_block *x, int64_t row, int64_t rows) {
    for (int64_t i = row; i < row + rows; i++)
        if (row_of(w->what, x, i))
            return true;
    return false;
}

/* Scores of keys [begin, end) of a row of a tile; masked ones become the filler. */
static void copy_scores(const walk *w, const fv_block *x, int64_t row, const fv_keybits *bits, int64_t begin,
                        int64_t end, float *to) {
    const float *s = x->to->s + row * x->plan->s_stride, c = fv_score_c(x->plan, w->kind);
    for (int64_t key = begin; key < end; key++)
        to[key - begin] = attends(bits, key) ? canonical(c * s[key]) : -INFINITY;
}

static void fill(float *to, int64_t count, float filler) {
    for (int64_t i = 0; i < count; i++)
        to[i] = filler;
}

/* Writes what a view has of a tile and a segment, with the first and the last one what is before and behind the
 * sequence. */
static void visit_view(const walk *w, const fv_block *x, const fv_tile *t, int64_t segment) {
    const fovea_attention_scores *v = w->what;
    const bool weights = w->kind == FOVEA_SCORES_WEIGHTS, last = segment + 1 == fv_outputs_segments(x);
    const int64_t first = fv_first_column(x, segment), start = v->first_key - first; /* from the segment's first key */
    const int64_t from = segment == 0 ? start : fv_max(start, 0), stop = start + v->out.shape[3],
                  to = last ? stop : fv_min(stop, FV_SEGMENT);
    const int64_t begin = fv_min(fv_max(t->columns.begin, from), to), end = fv_max(fv_min(t->columns.end, to), begin);
    const int64_t aligned = fv_round_down(begin, FV_LANES);
    const float filler = weights ? 0.0f : -INFINITY;
    for (int64_t i = 0; i < t->rows && from < to; i++) {
        float line[FV_SEGMENT], *at = row_of(v, x, t->row + i);
        if (!at)
            continue;
        const fv_keybits bits = bits_of(t, i);
        fill(at + from - start, begin - from, filler);
        if (weights && begin < end && aligned == begin)
            weigh(x, t, i, &bits, begin, end, at - start);
        else if (weights && begin < end) {
            weigh(x, t, i, &bits, aligned, end, line);
            memcpy(at + begin - start, line + begin, (size_t)(end - begin) * sizeof *at);
        } else
            copy_scores(w, x, i, &bits, begin, end, at + begin - start);
        fill(at + end - start, to - end, filler);
    }
}

/* Scores before masks: each query sees all keys of its sequence. */
static void see_all(fv_block *x) {
    const fv_range none = {0, 0}, all = {0, x->sequence.kv_len};
    x->mask.kind = NULL;
    x->seen.range = none;
    x->seen.uniform = true;
    x->seen.ascending = fv_block_one_head(x);
    for (int64_t i = 0; i < x->rows; i++) {
        const int64_t query = fv_place_of(x, i).token - x->sequence.q_start;
        const bool there = query >= 0 && query < x->sequence.q_len && all.end > 0;
        x->to->ranges[i] = there ? all : none;
        x->seen.uniform = x->seen.uniform && there;
        x->seen.range = there ? all : x->seen.range;
    }
}

/* The segment that writes a column of a view: columns outside the sequence belong to its first and its last one. */
static int64_t segment_of(const fv_block *x, int64_t column) {
    return fv_min(fv_max(column - x->sequence.kv_start, 0) / FV_SEGMENT, fv_outputs_segments(x) - 1);
}

static void write_view(fv_block *x, const fovea_attention_scores *v, int64_t begin, int64_t end) {
    const walk w = {.kind = v->kind, .wants = view_wants, .visit = visit_view, .what = v};
    const fv_mask mask = x->mask;
    if (!view_wants(&w, x, 0, x->rows))
        return;
    if (v->kind < FOVEA_SCORES_BIASED)
        see_all(x);
    const int64_t from = segment_of(x, v->first_key), to = segment_of(x, v->first_key + v->out.shape[3] - 1);
    for (int64_t index = fv_max(begin, from); index < end && index <= to; index++)
        walk_segment(&w, x, index);
    x->mask = mask;
}

void fv_outputs_write_views(fv_block *x, int64_t begin, int64_t end) {
    const fovea_attention_args *args = x->args;
    const fovea_attention_scores weights = {.kind = FOVEA_SCORES_WEIGHTS, .out = args->weights};
    assert(0 <= begin && begin <= end && end <= fv_outputs_segments(x));
    begin_walk(x);
    if (args->weights.data)
        write_view(x, &weights, begin, end);
    if (args->scores && args->scores->out.data)
        write_view(x, args->scores, begin, end);
}

/* --------------------------------------------------------------------------------------------------------- rows -- */

/* Where a row's element of a statistic is; NULL: not asked for. */
static float *statistic(const fv_block *x, const fovea_tensor *t, int64_t row) {
    return t->data ? fv_row_element(x, t, row) : NULL;
}

/* -sum(w log w) of a segment, as the header has it; log w = s - lse. */
static float entropy_of(const float *s, float c, float lse, const float *w, int64_t begin, int64_t end) {
    float lane[FV_LANES] = {0};
    for (int64_t key = begin; key < end; key += FV_LANES)
        for (int64_t j = 0; j < FV_LANES; j++) {
            const float x = c * s[key + j] - lse, product = w[key + j] * x;
            lane[j] += w[key + j] == 0.0f ? 0.0f : product;
        }
    for (int64_t half = FV_LANES / 2; half > 0; half /= 2)
        for (int64_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return -lane[0];
}

/* The largest of some weights; NaN left out. */
static float largest_of(const float *w, fv_range columns) {
    float lane[FV_LANES] = {0}, most = 0.0f;
    for (int64_t key = columns.begin; key < columns.end; key += FV_LANES)
        for (int64_t j = 0; j < FV_LANES; j++)
            lane[j] = w[key + j] > lane[j] ? w[key + j] : lane[j];
    for (int64_t j = 0; j < FV_LANES; j++)
        most = lane[j] > most ? lane[j] : most;
    return most;
}

/* Takes keys of a segment in ascending order into the row's largest, given the largest weight there. first: column of
 * the segment's first key. */
static void take_top(const float *w, float largest, const fv_keybits *bits, fv_range columns, int64_t first,
                     int64_t count, int64_t *keys, float *weights) {
    int64_t filled = count;
    while (filled > 0 && keys[filled - 1] < 0)
        filled--;
    if (filled == count && !(largest > weights[count - 1]))
        return;
    for (int64_t key = columns.begin; key < columns.end; key++) {
        if ((filled == count && !(w[key] > weights[count - 1])) || !attends(bits, key))
            continue;
        int64_t at = filled < count ? filled++ : count - 1;
        for (; at > 0 && w[key] > weights[at - 1]; at--) {
            keys[at] = keys[at - 1];
            weights[at] = weights[at - 1];
        }
        keys[at] = first + key;
        weights[at] = w[key];
    }
}

static int64_t *top_keys_of(const fv_block *x, const fovea_tensor *t, int64_t row) {
    const fv_row_place at = fv_place_of(x, row);
    return (int64_t *)t->data + x->sequence.entry * t->stride[0] + at.head * t->stride[1] + at.token * t->stride[2];
}

static void begin_rows(const fv_block *x, const fovea_attention_summary *s) {
    for (int64_t i = 0; i < x->rows; i++) {
        float *entropy = statistic(x, &s->entropy, i), *most = statistic(x, &s->max_weight, i);
        if (entropy)
            *entropy = 0.0f;
        if (most)
            *most = 0.0f;
        for (int64_t j = 0; s->top_keys.data && j < s->top_keys.shape[3]; j++) {
            top_keys_of(x, &s->top_keys, i)[j] = -1;
            fv_row_element(x, &s->top_weights, i)[j] = 0.0f;
        }
    }
}

static void visit_rows(const walk *rows, const fv_block *x, const fv_tile *t, int64_t segment) {
    const fovea_attention_summary *to = rows->what;
    const float c = fv_score_c(x->plan, FOVEA_SCORES_WEIGHTS);
    const fv_range columns = t->columns;
    for (int64_t i = 0; i < t->rows && columns.begin < columns.end; i++) {
        float w[FV_SEGMENT];
        const int64_t row = t->row + i;
        const fv_keybits bits = bits_of(t, i);
        float *entropy = statistic(x, &to->entropy, row), *most = statistic(x, &to->max_weight, row);
        weigh(x, t, i, &bits, columns.begin, columns.end, w);
        if (entropy)
            *entropy = canonical(
                *entropy + entropy_of(x->to->s + i * x->plan->s_stride, c, x->lse[row], w, columns.begin, columns.end));
        const float largest = most || to->top_keys.data ? largest_of(w, columns) : 0.0f;
        if (most && largest > *most)
            *most = largest;
        for (int64_t key = columns.begin; most && isnan(x->lse[row]) && key < columns.end; key++)
            *most = isnan(w[key]) ? NAN : *most; /* of all keys that the row sees; it may see none */
        if (to->top_keys.data)
            take_top(w, largest, &bits, columns, fv_first_column(x, segment), to->top_keys.shape[3],
                     top_keys_of(x, &to->top_keys, row), fv_row_element(x, &to->top_weights, row));
    }
}

void fv_outputs_write_rows(fv_block *x) {
    const walk w = {.kind = FOVEA_SCORES_WEIGHTS, .wants = wants_all, .visit = visit_rows, .what = x->args->summary};
    const fv_range segments = fv_block_segments(x);
    begin_walk(x);
    begin_rows(x, x->args->summary);
    for (int64_t index = fv_block_next_visible(x, segments.begin, segments.end); index < segments.end;
         index = fv_block_next_visible(x, index + 1, segments.end))
        walk_segment(&w, x, index);
}

/* ---------------------------------------------------------------------------------------------------------- keys -- */

static const int64_t nobody = -1;

void fv_outputs_sums_begin(fv_key_sums *sums) { sums->head = nobody; }

/* The end of a block of queries. */
static void close_block(fv_key_sums *sums) {
    for (int64_t i = 0; i < FV_SEGMENT; i++) {
        sums->all[i] += sums->block[i];
        sums->block[i] = 0.0f;
    }
}

/* Sums of the head so far go where they belong. */
void fv_outputs_sums_end(const fv_block *x, int64_t segment, fv_key_sums *sums) {
    if (sums->head == nobody)
        return;
    const fv_range keys = fv_range_in_segment((fv_range){0, x->sequence.kv_len}, segment);
    const int64_t entry = x->plan->desc.page_keys > 0 ? x->sequence.index : x->sequence.entry; /* as columns count */
    float *to = fv_element(&x->args->summary->key_sums, entry, sums->head, 0) + fv_first_column(x, segment);
    close_block(sums);
    for (int64_t i = keys.begin; i < keys.end; i++)
        to[i] = canonical(sums->all[i]);
    sums->head = nobody;
}

static void visit_sums(const walk *w, const fv_block *x, const fv_tile *t, int64_t segment) {
    const fovea_attention_plan *p = x->plan;
    fv_key_sums *sums = w->result;
    for (int64_t i = 0, run; i < t->rows && t->keys.begin < t->keys.end; i += run) {
        const fv_row_place at = fv_place_of(x, t->row + i);
        const int64_t query = at.token - x->sequence.q_start, number = query / QUERIES; /* padding sees nothing */
        run = fv_min(t->rows - i, x->sequence.tokens.end - at.token);
        run = fv_min(run, query < 0 ? -query : (number + 1) * QUERIES - query);
        if (query < 0)
            continue;
        if (sums->head != at.head) {
            fv_outputs_sums_end(x, segment, sums);
            memset(sums->block, 0, sizeof sums->block);
            memset(sums->all, 0, sizeof sums->all);
            sums->head = at.head;
        } else if (number != sums->number)
            close_block(sums);
        sums->number = number;
        p->ops->weight_sums(run, t->columns.begin, t->columns.end, x->to->s + i * p->s_stride, p->s_stride,
                            fv_score_c(p, FOVEA_SCORES_WEIGHTS), x->lse + t->row + i,
                            t->bits ? t->bits + i * t->bits_step : NULL, t->bits_step, sums->block);
    }
}

void fv_outputs_sums_add(fv_block *x, int64_t segment, fv_key_sums *sums) {
    const walk w = {.kind = FOVEA_SCORES_WEIGHTS, .wants = wants_all, .visit = visit_sums, .result = sums};
    begin_walk(x);
    const fv_range visible = fv_range_in_segment(x->seen.range, segment);
    if (visible.begin == visible.end || !fv_block_sees(x, segment))
        return;
    for (int64_t i = 0; i < x->rows; i++)
        x->lse[i] = *fv_row_element(x, &x->args->lse, i);
    walk_segment(&w, x, segment);
}

void fv_outputs_sums_clear(const fovea_attention_args *args) {
    const fovea_tensor *t = &args->summary->key_sums;
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            memset(fv_element(t, b, h, 0), 0, (size_t)t->shape[3] * sizeof(float));
}
