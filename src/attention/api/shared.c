/* Prefixes that sequences share (shared.h). */
#include "attention/api/shared.h"

#include "attention/api/passes.h"
#include "attention/flash/state_rows.h"

#include <string.h>

/* Queries of a sequence at most: of more, the keys are reread little enough as it is, and a state costs memory for
 * each. */
enum { MOST_QUERIES = 16 };

static bool shares(const fovea_attention_desc *d) {
    return !fv_attention_empty(d) && d->page_keys > 0 && d->page_keys % FV_SEGMENT == 0 && d->kv_len > d->page_keys &&
           d->batch > 1 && d->q_len <= MOST_QUERIES && d->mask == FOVEA_MASK_NONE && !d->has_bias &&
           d->relative == FOVEA_RELATIVE_NONE && !fv_attention_windowed(d) && d->causal != FOVEA_CAUSAL_TOP_LEFT;
}

static int64_t most_tokens(const fovea_attention_desc *d) { return d->batch * d->q_len; }

fovea_status fv_shared_plan(const fovea_context *ctx, const fovea_attention_desc *desc, fovea_attention_plan **prefix) {
    if (!shares(desc))
        return FOVEA_OK;
    fovea_attention_desc d = *desc;
    d.packed = 1;
    d.page_keys = 0; /* of the call's checks: its view has the pages */
    d.batch = desc->batch / 2;
    d.q_len = most_tokens(desc);
    d.causal = FOVEA_CAUSAL_NONE;
    d.window_left = d.window_right = -1;
    d.has_sinks = 0;
    return fv_attention_plan_make(ctx, &d, NULL, 0, prefix);
}

/* Where the parts of the room begin. */
typedef struct parts {
    int64_t q;            /* [q_heads][tokens][head_dim] queries of groups, group by group */
    int64_t prefix, rest; /* states: of tokens in that order, and of the call's */
    int64_t table;        /* [groups][pages] */
    int64_t ends, keys;   /* [groups + 1] of tokens, [groups] of the prefix */
    int64_t zeros;        /* [groups + 1] */
    int64_t group, lens;  /* [batch] its group, or -1; keys behind the prefix */
    int64_t offsets;      /* [batch] */
    int64_t workspace, bytes;
} parts;

static parts parts_of(const fovea_attention_desc *d, const fovea_attention_plan *prefix) {
    const int64_t word = (int64_t)sizeof(int64_t), groups = d->batch / 2;
    int64_t at = 0, rows = 0, entries = 0;
    parts p;
    const bool fits = fv_multiply(d->q_heads, most_tokens(d), &rows) &&
                      fv_multiply(groups, fv_ceil_div(d->kv_len, d->page_keys), &entries);
    const int64_t state = fits ? fv_attention_state_bytes(d->q_heads, most_tokens(d), d->value_dim) : -1;
    p.q = fv_reserve(&at, rows, d->head_dim * fv_dtype_size(d->dtype));
    p.prefix = fv_reserve(&at, fv_max(state, 0), 1);
    p.rest = fv_reserve(&at, fv_max(state, 0), 1);
    p.table = fv_reserve(&at, entries, word);
    p.ends = fv_reserve(&at, groups + 1, word);
    p.keys = fv_reserve(&at, groups, word);
    p.zeros = fv_reserve(&at, groups + 1, word);
    p.group = fv_reserve(&at, d->batch, word);
    p.lens = fv_reserve(&at, d->batch, word);
    p.offsets = fv_reserve(&at, d->batch, word);
    p.workspace = fv_reserve(&at, prefix->bytes, 1);
    p.bytes = fits && state >= 0 ? at : -1;
    return p;
}

int64_t fv_shared_bytes(const fovea_attention_desc *d, const fovea_attention_plan *prefix) {
    return prefix ? parts_of(d, prefix).bytes : 0;
}

/* -------------------------------------------------------------------------------------------------------- groups -- */

/* One call. */
typedef struct sharing {
    const fovea_attention_plan *plan;
    fv_paged *paged;
    int64_t *table, *ends, *keys, *group, *lens, *offsets;
    int64_t *zeros;
    int64_t groups, stride; /* entries of a table */
} sharing;

static const int64_t *pages_of(const sharing *x, int64_t b) { return x->paged->kv.k.pages + b * x->stride; }

/* The pages that all queries of a sequence see whole. */
static int64_t whole_pages(const sharing *x, int64_t b) {
    const fovea_attention_desc *d = &x->plan->desc;
    const fv_sequence s = fv_attention_sequence(&x->plan->desc, &x->paged->args, b);
    const int64_t end = d->causal == FOVEA_CAUSAL_NONE ? s.kv_len : fv_min(s.kv_len, s.offset + 1);
    return s.q_len > 0 ? fv_max(end, 0) / d->page_keys : 0;
}

static int64_t common_pages(const sharing *x, int64_t a, int64_t b, int64_t most) {
    const int64_t *p = pages_of(x, a), *q = pages_of(x, b);
    int64_t n = 0;
    while (n < most && p[n] == q[n])
        n++;
    return n;
}

/* The sequences that share pages with one, those behind it that are in no group: as many pages of as many as save the
 * most. lens has for each the pages that are common with the first. */
static int64_t best_prefix(const sharing *x, int64_t first) {
    const int64_t batch = x->plan->desc.batch, most = whole_pages(x, first);
    int64_t best = 0, saved = 0;
    for (int64_t b = first + 1; b < batch; b++)
        x->lens[b] = x->group[b] < 0 ? common_pages(x, first, b, fv_min(most, whole_pages(x, b))) : 0;
    for (int64_t b = first + 1; b < batch; b++) {
        int64_t others = 0;
        for (int64_t c = first + 1; c < batch && x->lens[b] > best; c++)
            others += x->lens[c] >= x->lens[b];
        if (others * x->lens[b] > saved) {
            best = x->lens[b];
            saved = others * best;
        }
    }
    return best;
}

static void find_groups(sharing *x) {
    const fovea_attention_desc *d = &x->plan->desc;
    for (int64_t b = 0; b < d->batch; b++)
        x->group[b] = -1;
    for (int64_t b = 0; b + 1 < d->batch; b++) {
        const int64_t pages = x->group[b] < 0 ? best_prefix(x, b) : 0;
        if (pages == 0)
            continue;
        for (int64_t c = b; c < d->batch; c++)
            if (c == b || x->lens[c] >= pages)
                x->group[c] = x->groups;
        memcpy(x->table + x->groups * x->stride, pages_of(x, b), (size_t)pages * sizeof *x->table);
        x->keys[x->groups++] = pages * d->page_keys;
    }
}

/* ---------------------------------------------------------------------------------------------------------- rows -- */

/* Does something with all queries of groups, group by group: token is that of the call's tensors, at the place in that
 * order. */
typedef void on_queries(const sharing *x, const fv_sequence *s, int64_t token, int64_t count, int64_t place, void *arg);

static int64_t for_groups(const sharing *x, on_queries *act, void *arg) {
    int64_t place = 0;
    for (int64_t g = 0; g < x->groups; g++) {
        if (!act)
            x->ends[g] = place;
        for (int64_t b = 0; b < x->plan->desc.batch; b++)
            if (x->group[b] == g) {
                const fv_sequence s = fv_attention_sequence(&x->plan->desc, &x->paged->args, b);
                if (act)
                    act(x, &s, s.q_start, s.q_len, place, arg);
                place += s.q_len;
            }
    }
    return place;
}

static void gather(const sharing *x, const fv_sequence *s, int64_t token, int64_t count, int64_t place, void *arg) {
    const fovea_tensor *from = &x->paged->args.q, *to = arg;
    const int64_t size = fv_dtype_size(from->dtype), row = from->shape[3] * size;
    for (int64_t h = 0; h < from->shape[1]; h++)
        for (int64_t i = 0; i < count; i++)
            memcpy((char *)to->data + (h * to->stride[1] + (place + i) * to->stride[2]) * size,
                   (const char *)from->data +
                       (s->entry * from->stride[0] + h * from->stride[1] + (token + i) * from->stride[2]) * size,
                   (size_t)row);
}

typedef struct states {
    fovea_attention_state *prefix, *rest;
} states;

static void move_state(const sharing *x, const fv_sequence *s, int64_t token, int64_t count, int64_t place, void *arg) {
    const states *both = arg;
    const fovea_attention_desc *d = &x->plan->desc;
    for (int64_t h = 0; h < d->q_heads; h++) {
        const fv_state_rows from = fv_attention_state_joint_at(both->prefix, h, place);
        const fv_state_rows to = fv_attention_state_at(d, both->rest, s, (fv_row_place){h, token});
        memcpy(to.max, from.max, (size_t)count * sizeof(float));
        memcpy(to.sum, from.sum, (size_t)count * sizeof(float));
        memcpy(to.o, from.o, (size_t)(count * d->value_dim) * sizeof(float));
    }
}

/* The rest of each sequence's keys, as if they began behind the prefix. */
static void leave_rest(const sharing *x) {
    const fovea_attention_desc *d = &x->plan->desc;
    fovea_attention_args *args = &x->paged->args;
    int64_t *table = (int64_t *)(uintptr_t)x->paged->kv.k.pages; /* of the workspace */
    for (int64_t b = 0; b < d->batch; b++) {
        const int64_t keys = x->group[b] < 0 ? 0 : x->keys[x->group[b]], pages = keys / d->page_keys;
        memmove(table + b * x->stride, table + b * x->stride + pages, (size_t)(x->stride - pages) * sizeof *table);
        x->lens[b] = args->kv_lens[b] - keys;
        if (args->q_offsets)
            x->offsets[b] = args->q_offsets[b] - keys;
    }
    args->kv_lens = x->lens;
    if (args->q_offsets)
        args->q_offsets = x->offsets;
}

/* ---------------------------------------------------------------------------------------------------------- runs -- */

static void run_prefixes(const sharing *x, const parts *p, char *room, int64_t tokens, fovea_attention_state *state,
                         fovea_attention_stats *stats) {
    const fovea_attention_plan *plan = x->plan;
    const fovea_attention_desc *d = &plan->desc;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(room + p->q, d->dtype, 1, d->q_heads, tokens, d->head_dim);
    for (int64_t g = x->groups; g <= d->batch / 2; g++) { /* groups that there are not are empty */
        x->ends[g] = tokens;
        if (g < d->batch / 2)
            x->keys[g] = 0;
    }
    memset(x->zeros, 0, (size_t)(d->batch / 2 + 1) * sizeof *x->zeros);
    args.q_cu_seqlens = x->ends;
    args.kv_cu_seqlens = x->zeros;
    args.kv_lens = x->keys;
    args.state = state;
    args.stats = stats;
    for_groups(x, gather, &args.q);
    fv_kv kv = x->paged->kv;
    kv.k.pages = kv.v.pages = x->table;
    fv_attention_run_view(plan->prefix, &args, &kv, room + p->workspace);
}

void fv_shared_run(const fovea_attention_plan *plan, fv_paged *paged, char *room, void *workspace) {
    fovea_attention_args *args = &paged->args;
    sharing x = {.plan = plan, .paged = paged, .stride = paged->kv.k.pages_stride};
    const fovea_attention_desc *d = &plan->desc;
    const int64_t all = d->packed ? args->q.shape[2] : most_tokens(d);
    const bool possible = plan->prefix && plan->row_blocks > 0 && all <= most_tokens(d) && !paged->kv.attended &&
                          !args->weights.data && !args->scores && !args->summary && !args->state;
    parts p;
    if (possible) {
        p = parts_of(d, plan->prefix);
        x.table = (int64_t *)(void *)(room + p.table);
        x.ends = (int64_t *)(void *)(room + p.ends);
        x.keys = (int64_t *)(void *)(room + p.keys);
        x.zeros = (int64_t *)(void *)(room + p.zeros);
        x.group = (int64_t *)(void *)(room + p.group);
        x.lens = (int64_t *)(void *)(room + p.lens);
        x.offsets = (int64_t *)(void *)(room + p.offsets);
        find_groups(&x);
    }
    if (x.groups == 0) {
        fv_attention_run_view(plan, args, &paged->kv, workspace);
        return;
    }
    const int64_t tokens = for_groups(&x, NULL, NULL);
    const states both = {fv_attention_state_joint(room + p.prefix, d->q_heads, tokens, d->value_dim),
                         fv_attention_state_joint(room + p.rest, d->q_heads, all, d->value_dim)};
    fovea_attention_stats first, rest, *const stats = args->stats;
    fovea_attention_stats_init(&first);
    fovea_attention_stats_init(&rest);
    run_prefixes(&x, &p, room, tokens, both.prefix, &first);
    for_groups(&x, move_state, (void *)(uintptr_t)&both);
    leave_rest(&x);
    args->state = both.rest;
    args->stats = stats ? &rest : NULL;
    fv_attention_run_view(plan, args, &paged->kv, workspace);
    if (stats)
        fv_attention_write_stats(stats, &first, &rest, x.groups);
}
