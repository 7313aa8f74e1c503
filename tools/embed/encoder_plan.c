/* encoder_plan.h. */
#include "encoder_plan.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- memory -- */

static void *allocate_rows(const encoder_plan *p, int64_t width) {
    return malloc((size_t)(p->batch * p->tokens * width) * encoder_element(p->e));
}

static int grow_workspace(const encoder_plan *p, encoder_shard *s, size_t size, complaint to) {
    if (size <= s->workspace_size)
        return 0;
    void *larger = malloc(size);
    if (larger == NULL)
        return encoder_out_of_memory(p->e, to);
    free(s->workspace);
    s->workspace = larger;
    s->workspace_size = size;
    return 0;
}

static int prepare_shard(const encoder_plan *p, encoder_shard *s, complaint to) {
    s->attention = calloc((size_t)p->tokens + 1, sizeof *s->attention);
    s->wide = malloc((size_t)(p->tokens * p->e->shape.width) * sizeof *s->wide);
    s->ids = malloc((size_t)p->tokens * sizeof *s->ids);
    if (p->e->config.weights != 0)
        s->words = malloc((size_t)(p->tokens * p->e->shape.width) * sizeof *s->words);
    if (s->attention == NULL || s->wide == NULL || s->ids == NULL || (p->e->config.weights != 0 && s->words == NULL))
        return encoder_out_of_memory(p->e, to);
    fovea_norm_args norm;
    fovea_norm_args_init(&norm);
    norm.x = norm.y = fovea_tensor_bhtd(NULL, p->e->config.dtype, 1, 1, p->batch * p->tokens, p->e->shape.width);
    if (grow_workspace(p, s, fovea_norm_workspace_size(p->e->ctx, &norm), to) != 0)
        return -1;
    for (int64_t i = 0; i < p->e->shape.layers; i++) {
        const encoder_layer *l = &p->e->layers[i];
        const fovea_linear *const maps[] = {l->qkv, l->out, l->inner, l->outer};
        for (int k = 0; k < 4; k++)
            if (grow_workspace(p, s, fovea_linear_apply_workspace_size(p->e->ctx, maps[k]), to) != 0)
                return -1;
    }
    return 0;
}

static int prepare(encoder_plan *p, complaint to) {
    const encoder_shape *shape = &p->e->shape;
    void **const rows[] = {&p->hidden, &p->sum, &p->q, &p->k, &p->v};
    int64_t **const lists[] = {&p->order, &p->sorted, &p->owner};
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    if (fovea_context_info(p->e->ctx, &info) != FOVEA_OK)
        return encoder_failed(p->e, "context", to);
    p->starts = malloc(((size_t)p->tokens + 2) * sizeof *p->starts);
    p->places = malloc((size_t)p->tokens * sizeof *p->places);
    p->inner = allocate_rows(p, shape->inner);
    p->shard = calloc((size_t)info.threads, sizeof *p->shard);
    bool complete = p->starts != NULL && p->places != NULL && p->inner != NULL && p->shard != NULL;
    for (int i = 0; complete && i < 5; i++)
        complete = (*rows[i] = allocate_rows(p, shape->width)) != NULL;
    for (int i = 0; complete && i < 3; i++)
        complete = (*lists[i] = malloc((size_t)p->batch * sizeof **lists[i])) != NULL;
    if (!complete)
        return encoder_out_of_memory(p->e, to);
    for (int64_t t = 0; t < p->tokens; t++)
        p->places[t] = t;
    for (p->threads = 0; p->threads < info.threads;)
        if (prepare_shard(p, &p->shard[p->threads++], to) != 0)
            return -1;
    return 0;
}

int encoder_plan_create(const encoder *e, int64_t batch, int64_t tokens, encoder_plan **plan, complaint to) {
    enum { MOST_BATCH = 1 << 20 }; /* keeps every size far from overflow: widths are those of arrays in a file */
    *plan = NULL;
    if (batch < 1 || batch > MOST_BATCH || tokens < 1 || tokens > e->shape.most_tokens)
        return complain(to, e->path, "takes 1 to %d sentences of 1 to %lld tokens, not %lld of %lld", MOST_BATCH,
                        (long long)e->shape.most_tokens, (long long)batch, (long long)tokens);
    encoder_plan *p = calloc(1, sizeof *p);
    if (p == NULL)
        return encoder_out_of_memory(e, to);
    p->e = e;
    p->batch = batch;
    p->tokens = tokens;
    if (prepare(p, to) != 0) {
        encoder_plan_free(p);
        return -1;
    }
    *plan = p;
    return 0;
}

void encoder_plan_free(encoder_plan *p) {
    if (p == NULL)
        return;
    for (int64_t i = 0; i < p->threads; i++) {
        encoder_shard *s = &p->shard[i];
        for (int64_t t = 0; s->attention != NULL && t <= p->tokens; t++)
            for (int local = 0; local < 2; local++)
                fovea_attention_plan_destroy(s->attention[t].plan[local]);
        free(s->attention);
        free(s->workspace);
        free(s->wide);
        free(s->ids);
        free(s->words);
    }
    free(p->shard);
    free(p->order);
    free(p->sorted);
    free(p->owner);
    free(p->starts);
    free(p->places);
    free(p->hidden);
    free(p->sum);
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->inner);
    free(p);
}

/* ------------------------------------------------------------------------------------------------ a run's shards -- */

/* By counting. */
static void sort_by_length(const encoder_plan *p, const int64_t *lens) {
    memset(p->starts, 0, ((size_t)p->tokens + 2) * sizeof *p->starts);
    for (int64_t b = 0; b < p->batch; b++)
        p->starts[lens[b] + 1]++;
    for (int64_t t = 1; t <= p->tokens; t++)
        p->starts[t] += p->starts[t - 1];
    for (int64_t b = 0; b < p->batch; b++)
        p->sorted[p->starts[lens[b]]++] = b;
}

/* Each sentence, the longest first, to the shard that has the fewest tokens; false if one gets a tenth more than its
 * share. */
static bool deal_evenly(encoder_plan *p, const int64_t *lens) {
    int64_t total = 0, most = 0;
    for (int64_t s = 0; s < p->threads; s++)
        p->shard[s].rows = 0;
    for (int64_t i = p->batch; i-- > 0;) {
        int64_t least = 0;
        for (int64_t s = 1; s < p->threads; s++)
            if (p->shard[s].rows < p->shard[least].rows)
                least = s;
        p->owner[i] = least;
        p->shard[least].rows += lens[p->sorted[i]];
        total += lens[p->sorted[i]];
        if (p->shard[least].rows > most)
            most = p->shard[least].rows;
    }
    return 10 * p->threads * most <= 11 * total;
}

void encoder_plan_deal(encoder_plan *p, const int64_t *lens) {
    sort_by_length(p, lens);
    p->shards = p->threads;
    if (!deal_evenly(p, lens)) {
        p->shards = 1;
        memset(p->owner, 0, (size_t)p->batch * sizeof *p->owner);
    }
    int64_t at = 0, row = 0;
    for (int64_t i = 0; i < p->shards; i++) {
        encoder_shard *s = &p->shard[i];
        s->first = at;
        s->row = row;
        for (int64_t k = 0; k < p->batch; k++)
            if (p->owner[k] == i) {
                row += lens[p->sorted[k]];
                p->order[at++] = p->sorted[k];
            }
        s->count = at - s->first;
        s->rows = row - s->row;
    }
}

encoder_group encoder_group_after(const encoder_plan *p, const encoder_shard *s, const int64_t *lens,
                                  const encoder_group *before, bool single) {
    encoder_group g = {.first = s->first};
    if (before != NULL) {
        g.first = before->first + before->count;
        g.row = before->row + before->count * before->tokens;
    }
    const int64_t end = s->first + s->count;
    if (g.first == end)
        return g;
    g.tokens = lens[p->order[g.first]];
    do
        g.count++;
    while (!single && g.first + g.count < end && lens[p->order[g.first + g.count]] == g.tokens);
    return g;
}

static int plan_layers(const encoder_plan *p, const encoder_group *g, bool local, fovea_attention_plan **plan,
                       complaint to) {
    const encoder *e = p->e;
    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.dtype = e->config.dtype;
    desc.batch = g->count;
    desc.q_heads = desc.kv_heads = e->shape.heads;
    desc.q_len = desc.kv_len = g->tokens;
    desc.causal = e->config.causal ? FOVEA_CAUSAL_TOP_LEFT : FOVEA_CAUSAL_NONE;
    desc.head_dim = desc.value_dim = e->shape.width / e->shape.heads;
    if (local)
        desc.window_left = desc.window_right = e->config.window;
    if (e->relative != NULL) {
        desc.relative = FOVEA_RELATIVE_T5;
        desc.relative_bidirectional = 1;
        desc.relative_buckets = ENCODER_BUCKETS;
        desc.relative_max_distance = ENCODER_DISTANCE;
    }
    return fovea_attention_plan_create(e->ctx, &desc, plan) == FOVEA_OK ? 0 : encoder_failed(e, "attention", to);
}

static int plan_group(const encoder_plan *p, encoder_shard *s, const encoder_group *g, complaint to) {
    attention_slot *slot = &s->attention[g->tokens];
    const int kinds = p->e->config.window > 0 ? 2 : 1;
    for (int local = 0; local < kinds; local++) {
        if (slot->plan[local] != NULL && slot->count != g->count) {
            fovea_attention_plan_destroy(slot->plan[local]);
            slot->plan[local] = NULL;
        }
        if ((slot->plan[local] == NULL && plan_layers(p, g, local == 1, &slot->plan[local], to) != 0) ||
            grow_workspace(p, s, fovea_attention_plan_workspace_size(slot->plan[local]), to) != 0)
            return -1;
    }
    slot->count = g->count;
    return 0;
}

int encoder_plan_attention(encoder_plan *p, encoder_shard *s, const int64_t *lens, bool single, complaint to) {
    encoder_group g = encoder_group_after(p, s, lens, NULL, single);
    for (; g.count > 0; g = encoder_group_after(p, s, lens, &g, single))
        if (plan_group(p, s, &g, to) != 0)
            return -1;
    return 0;
}
