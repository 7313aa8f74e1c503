/* Layers over a cache, and norms of queries and keys (mha.h). */
#include "cache/cache.h"
#include "core/core.h"
#include "mha/mha.h"

/* The norm of a role's rows, in place. */
static fovea_norm_args norm_args(const fovea_mha *m, int role, const fovea_tensor *rows) {
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = args.y = *rows;
    args.weight = m->packed->norm[role];
    args.eps = m->desc.norm_eps;
    return args;
}

size_t fv_mha_norm_bytes(const fovea_mha *m) {
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        const fv_mha_role *r = &m->shape.role[i];
        const fovea_tensor rows = fovea_tensor_bhtd(NULL, r->dtype, 1, r->heads, m->rows[i], r->channels);
        const fovea_norm_args args = norm_args(m, i, &rows);
        const size_t bytes = args.weight ? fovea_norm_workspace_size(m->ctx, &args) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

fovea_status fv_mha_norm(const fovea_mha *m, const fovea_tensor *q, const fovea_tensor *k, void *scratch) {
    const fovea_tensor *rows[] = {q, k};
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < 2 && status == FOVEA_OK; i++) {
        const fovea_norm_args args = norm_args(m, i, rows[i]);
        if (args.weight)
            status = fovea_norm_rms(m->ctx, &args, scratch, (size_t)m->inner_bytes);
    }
    return status;
}

fovea_status fv_mha_cached_check(const fovea_mha *m, const fovea_attention_args *args) {
    const struct {
        const char *name;
        bool given;
    } refused[] = {{"q_starts", args->q_starts},
                   {"kv_lens", args->kv_lens},
                   {"q_lens of packed tokens", args->q_lens && m->attention.packed},
                   {"pages", args->pages}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].given)
            return fv_fail(FOVEA_ERROR_ARGUMENT, "%s: a layer over a cache does not take them", refused[i].name);
    return args->cache ? FOVEA_OK : fv_fail(FOVEA_ERROR_NULL, "cache is NULL");
}

/* Where the new tokens of sequence b begin on the token axis of the inputs; tokens_of(): how many they are. */
static int64_t first_token(const fovea_mha *m, const fovea_attention_args *args, int64_t b) {
    return m->attention.packed ? args->q_cu_seqlens[b] : b * m->attention.q_len;
}

static int64_t tokens_of(const fovea_mha *m, const fovea_attention_args *args, int64_t b) {
    if (m->attention.packed)
        return args->q_cu_seqlens[b + 1] - args->q_cu_seqlens[b];
    return args->q_lens ? args->q_lens[b] : m->attention.q_len;
}

static int64_t *lengths_in(const fovea_mha *m, int64_t *positions) { return positions + m->rows[FV_MHA_Q]; }

/* Where the new tokens will stand; those that are none, at 0. */
static fovea_status find_positions(const fovea_mha *m, const fovea_attention_args *args, int64_t *positions) {
    int64_t *lengths = lengths_in(m, positions);
    for (int64_t i = 0; i < m->rows[FV_MHA_Q]; i++)
        positions[i] = 0;
    for (int64_t b = 0; b < m->attention.batch; b++) {
        const int64_t sequence = args->cache_sequences[b], tokens = tokens_of(m, args, b);
        const fovea_status status = fovea_kv_cache_length(args->cache, args->cache_layer, sequence, &lengths[b]);
        if (status != FOVEA_OK)
            return status;
        if (tokens > m->attention.kv_len - lengths[b])
            return fv_fail(
                FOVEA_ERROR_SHAPE, "sequence %lld has %lld tokens and gets %lld; kv_len of the layer is %lld",
                (long long)sequence, (long long)lengths[b], (long long)tokens, (long long)m->attention.kv_len);
        for (int64_t t = 0; t < tokens; t++)
            positions[first_token(m, args, b) + t] = lengths[b] + t;
    }
    return FOVEA_OK;
}

fovea_status fv_mha_cached_append(const fovea_mha *m, const fovea_attention_args *args, const fovea_tensor *q,
                                  const fovea_tensor *k, const fovea_tensor *v, int64_t *positions) {
    const fovea_rope *rope = fv_cache_desc(args->cache)->rope;
    fovea_status status = find_positions(m, args, positions);
    if (status == FOVEA_OK && rope)
        status = fovea_rope_apply(m->ctx, rope, q, positions, q);
    if (status != FOVEA_OK)
        return status;
    fovea_kv_append_args append;
    fovea_kv_append_args_init(&append);
    append.layer = args->cache_layer;
    append.count = m->attention.batch;
    append.sequences = args->cache_sequences;
    append.k = *k;
    append.v = *v;
    append.lens = args->q_lens;
    append.cu_seqlens = m->attention.packed ? args->q_cu_seqlens : NULL;
    return fovea_kv_cache_append(args->cache, &append);
}

void fv_mha_cached_undo(const fovea_mha *m, const fovea_attention_args *args, const int64_t *positions) {
    fv_cache_cut(args->cache, args->cache_layer, m->attention.batch, args->cache_sequences,
                 positions + m->rows[FV_MHA_Q]);
}
