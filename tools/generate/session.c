/* Sessions (model.h): the cache that sequences share, plans of attention, and memory, so that nothing is allocated
 * while tokens come. */
#include "session_private.h"

#include <stdlib.h>
#include <string.h>

static int make_cache(session *s, cache_types types, complaint to) {
    const config *c = &s->m->config;
    int64_t windows[CONFIG_LAYERS_MOST];
    fovea_kv_cache_desc desc;
    fovea_kv_cache_desc_init(&desc);
    for (int64_t i = 0; i < c->layers; i++)
        if (!c->recurrent[i])
            windows[c->place[i]] = c->local[i] ? c->window : -1;
    desc.layers = c->attention_layers;
    desc.kv_heads = s->m->shares.kv_heads;
    desc.head_dim = desc.value_dim = c->head_dim;
    desc.k_dtype = types.k;
    desc.v_dtype = types.v;
    desc.max_pages = s->sequences * c->attention_layers * ((s->most + FOVEA_KV_PAGE_KEYS - 1) / FOVEA_KV_PAGE_KEYS);
    desc.windows = c->has_local ? windows : NULL;
    desc.rope = s->m->rope;
    if (fovea_kv_cache_create(s->m->ctx, &desc, &s->cache) != FOVEA_OK)
        return session_failed(s, "cache", to);
    for (int64_t i = 0; i < s->sequences; i++)
        if (fovea_kv_cache_add(s->cache, &s->sequence[i]) != FOVEA_OK)
            return session_failed(s, "cache", to);
    return 0;
}

static int make_plan(const session *s, int64_t q_len, bool local, cache_types types, fovea_attention_plan **plan,
                     complaint to) {
    const config *c = &s->m->config;
    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.batch = s->sequences;
    desc.packed = 1;
    desc.dtype = s->m->options.dtype;
    desc.k_dtype = types.k;
    desc.v_dtype = types.v;
    desc.q_heads = s->m->shares.q_heads;
    desc.kv_heads = s->m->shares.kv_heads;
    desc.q_len = q_len;
    desc.kv_len = s->most;
    desc.head_dim = desc.value_dim = c->head_dim;
    desc.has_scale = c->scale > 0.0;
    desc.scale = c->scale;
    desc.has_sinks = c->names->sinks != NULL;
    desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    desc.window_left = local ? c->window : -1;
    desc.page_keys = FOVEA_KV_PAGE_KEYS;
    return fovea_attention_plan_create(s->m->ctx, &desc, plan) == FOVEA_OK ? 0 : session_failed(s, "attention", to);
}

static int make_plans(session *s, cache_types types, complaint to) {
    for (int local = 0; local <= s->m->config.has_local; local++)
        if (make_plan(s, 1, local, types, &s->one[local], to) != 0 ||
            make_plan(s, SESSION_CHUNK, local, types, &s->chunk[local], to) != 0)
            return -1;
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- memory -- */

static void grow(session *s, size_t size) { s->workspace_size = size > s->workspace_size ? size : s->workspace_size; }

static void grow_for_maps(session *s, const model_maps *maps) {
    for (int i = 0; i < MODEL_MAPS && maps->map[i] != NULL; i++)
        grow(s, fovea_linear_apply_workspace_size(s->m->ctx, maps->map[i]));
}

static void grow_for_norm(session *s, int64_t heads, int64_t channels, fovea_dtype x, fovea_dtype y) {
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = session_rows(NULL, x, SESSION_CHUNK, heads, channels);
    args.y = session_rows(NULL, y, SESSION_CHUNK, heads, channels);
    grow(s, fovea_norm_workspace_size(s->m->ctx, &args));
}

static void size_workspace(session *s) {
    const config *c = &s->m->config;
    for (int local = 0; local <= c->has_local; local++) {
        grow(s, fovea_attention_plan_workspace_size(s->one[local]));
        grow(s, fovea_attention_plan_workspace_size(s->chunk[local]));
    }
    grow_for_norm(s, 1, c->width, FOVEA_DTYPE_F32, s->m->options.dtype);
    grow_for_norm(s, s->m->shares.q_heads, c->head_dim, s->m->options.dtype, s->m->options.dtype);
    grow_for_maps(s, &s->m->head);
    for (int64_t i = 0; i < c->layers; i++) {
        const model_layer *l = &s->m->layers[i];
        const model_maps *const maps[] = {&l->qkv, &l->out, &l->up, &l->down, &l->router, &l->delta_in};
        for (size_t k = 0; k < sizeof maps / sizeof maps[0]; k++)
            grow_for_maps(s, maps[k]);
        if (l->experts != NULL)
            grow(s, fovea_experts_apply_workspace_size(s->m->ctx, l->experts, SESSION_CHUNK, c->router.k));
    }
}

static bool gate_apart(const model *m) {
    for (int64_t i = 0; i < m->config.layers; i++)
        if (model_gate_apart(m, &m->layers[i]))
            return true;
    return false;
}

/* Columns that are gathered for each token. */
static int64_t most_own(const model_shares *own) {
    const model_share *const all[] = {&own->heads, &own->width, &own->inner};
    int64_t most = 0;
    for (int i = 0; i < 3; i++)
        most = all[i]->count > most ? all[i]->count : most;
    return most;
}

static int make_rows(session *s, complaint to) {
    const config *c = &s->m->config;
    const size_t size = (size_t)model_element(s->m->options.dtype) * SESSION_CHUNK;
    const model_shares *own = &s->m->shares;
    const int64_t in_heads = c->heads * c->head_dim, in_states = c->delta_heads * c->delta_dim;
    const size_t heads = (size_t)(in_heads > in_states ? in_heads : in_states) * size;
    const size_t q = (size_t)(own->q_heads * c->head_dim) * size * (c->names->delta_out != NULL ? 2 : 1);
    const size_t kv = (size_t)(own->kv_heads * c->head_dim) * size;
    const size_t floats = SESSION_CHUNK * sizeof(float);
    const bool apart = gate_apart(s->m), experts = c->names->router != NULL, ranks = s->m->options.ranks != NULL;
    const bool branch = c->names->attention_after != NULL || experts;
    s->rows = malloc((size_t)c->width * floats);
    s->normed = malloc((size_t)c->width * size);
    s->q = malloc(q);
    s->heads = malloc(heads);
    s->k = malloc(kv);
    s->v = malloc(kv);
    s->inner = malloc((size_t)c->inner * size);
    s->positions = malloc(SESSION_CHUNK * sizeof *s->positions);
    if (apart) {
        s->gate = malloc((size_t)own->inner.count * floats + 1);
        s->up = malloc((size_t)own->inner.count * floats + 1);
    }
    if (branch)
        s->branch = malloc((size_t)c->width * floats);
    if (experts) {
        s->scores = malloc((size_t)c->experts.experts * floats);
        s->shared = malloc(floats);
    }
    if (ranks)
        s->own = malloc((size_t)most_own(own) * floats + 1);
    size_workspace(s);
    if (session_states_make(s, &s->workspace_size, to) != 0)
        return -1;
    s->workspace = malloc(s->workspace_size + 1);
    const bool there = (!ranks || s->own) && (!apart || (s->gate && s->up)) && (!branch || s->branch) &&
                       (!experts || (s->scores && s->shared)) && s->rows && s->normed && s->q && s->heads && s->k &&
                       s->v && s->inner && s->positions && s->workspace;
    return there ? 0 : complain(to, s->m->path, "out of memory");
}

int session_create(const model *m, int64_t sequences, int64_t tokens, cache_types types, session **out, complaint to) {
    *out = NULL;
    if (tokens < 1 || tokens > m->config.most_tokens)
        return complain(to, m->path, "reads 1 to %lld tokens, not %lld", (long long)m->config.most_tokens,
                        (long long)tokens);
    if (sequences < 1 || sequences > SESSION_CHUNK)
        return complain(to, m->path, "reads 1 to %d sequences at once, not %lld", SESSION_CHUNK, (long long)sequences);
    session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return complain(to, m->path, "out of memory");
    s->m = m;
    s->sequences = sequences;
    s->most = tokens;
    s->sequence = calloc((size_t)sequences, sizeof *s->sequence);
    s->in_run = calloc((size_t)sequences, sizeof *s->in_run);
    s->starts = calloc((size_t)sequences + 1, sizeof *s->starts);
    int status = s->sequence && s->in_run && s->starts ? 0 : complain(to, m->path, "out of memory");
    if (status == 0)
        status = make_cache(s, types, to);
    if (status == 0)
        status = make_plans(s, types, to);
    if (status == 0 && make_rows(s, to) == 0)
        return *out = s, 0;
    session_free(s);
    return -1;
}

void session_free(session *s) {
    if (s == NULL)
        return;
    fovea_kv_cache_destroy(s->cache);
    session_states_free(s);
    for (int local = 0; local < 2; local++) {
        fovea_attention_plan_destroy(s->one[local]);
        fovea_attention_plan_destroy(s->chunk[local]);
    }
    void *const memory[] = {s->rows,      s->branch,   s->normed, s->q,      s->k,      s->v,
                            s->heads,     s->inner,    s->gate,   s->up,     s->scores, s->shared,
                            s->positions, s->sequence, s->in_run, s->starts, s->own,    s->workspace};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        free(memory[i]);
    free(s);
}

/* ----------------------------------------------------------------------------------------------------- sequences -- */

void session_clear(session *s, int64_t sequence) {
    fovea_kv_cache_truncate(s->cache, s->sequence[sequence], 0);
    if (s->states != NULL)
        fovea_state_cache_truncate(s->states, s->state[sequence], 0);
    s->last_count = 0;
}

int session_fork(session *s, int64_t from, int64_t sequence, complaint to) {
    int64_t fork;
    if (fovea_kv_cache_fork(s->cache, s->sequence[from], &fork) != FOVEA_OK ||
        fovea_kv_cache_remove(s->cache, s->sequence[sequence]) != FOVEA_OK)
        return session_failed(s, "cache", to);
    s->sequence[sequence] = fork;
    if (s->states == NULL)
        return 0;
    if (fovea_state_cache_remove(s->states, s->state[sequence]) != FOVEA_OK ||
        fovea_state_cache_fork(s->states, s->state[from], &s->state[sequence]) != FOVEA_OK)
        return session_failed(s, "states", to);
    return 0;
}

/* All layers have the same number of tokens between runs. */
int64_t session_length(const session *s, int64_t sequence) {
    int64_t length = 0;
    fovea_kv_cache_length(s->cache, 0, s->sequence[sequence], &length);
    return length;
}

int64_t session_cache_bytes(const session *s) {
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    return fovea_kv_cache_stats(s->cache, &stats) == FOVEA_OK ? stats.used_pages * stats.page_bytes + s->state_bytes
                                                              : 0;
}
