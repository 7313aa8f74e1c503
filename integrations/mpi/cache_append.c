/* Appending to caches over ranks (cache.h): each rank writes its own tokens, ranks agree, and then sequences are
 * longer, or what was written is cut off again. */
#include "agree.h"
#include "cache.h"
#include "structs.h"

typedef struct appending {
    fovea_mpi_cache *cache;
    fovea_kv_append_args args;
} appending;

static int64_t tokens_of(const fovea_kv_append_args *a, int64_t i) {
    return a->cu_seqlens ? a->cu_seqlens[i + 1] - a->cu_seqlens[i] : a->lens ? a->lens[i] : a->k.shape[2];
}

static fovea_status check_lens(const fovea_kv_append_args *a) {
    const int64_t tokens = a->k.shape[2], *ends = a->cu_seqlens;
    if (ends && a->lens)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "lens and cu_seqlens are both given");
    for (int64_t i = 0; a->lens && i < a->count; i++)
        if (a->lens[i] < 0 || a->lens[i] > tokens)
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "lens[%lld] is %lld; it must be from 0 to %lld", (long long)i,
                               (long long)a->lens[i], (long long)tokens);
    for (int64_t i = 0; ends && i <= a->count; i++)
        if (ends[i] < (i > 0 ? ends[i - 1] : 0) || ends[i] > tokens)
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "cu_seqlens[%lld] is %lld; it must be from %lld to %lld",
                               (long long)i, (long long)ends[i], (long long)(i > 0 ? ends[i - 1] : 0),
                               (long long)tokens);
    return FOVEA_OK;
}

/* Tensors are checked by the core, which appends none of their tokens to the part without tokens. */
static fovea_status check_tensors(const appending *x) {
    static const int64_t none;
    const fovea_kv_append_args *a = &x->args;
    const int64_t batch = a->cu_seqlens ? 1 : a->count;
    if (a->k.shape[0] != batch || a->v.shape[0] != batch)
        return fv_mpi_fail(FOVEA_ERROR_SHAPE, "%s has a batch of %lld; it must be %lld",
                           a->k.shape[0] != batch ? "k" : "v",
                           (long long)(a->k.shape[0] != batch ? a->k.shape[0] : a->v.shape[0]), (long long)batch);
    if (batch == 0)
        return FOVEA_OK;
    fovea_kv_append_args one = *a;
    one.layer = 0;
    one.count = 1;
    one.sequences = &x->cache->empty;
    one.k.shape[0] = one.v.shape[0] = 1;
    one.lens = &none;
    one.cu_seqlens = NULL;
    const fovea_status status = fovea_kv_cache_append(x->cache->pool, &one);
    return fv_mpi_from_core(status);
}

static fovea_status check_sequences(const appending *x) {
    const fovea_kv_append_args *a = &x->args;
    if (a->count < 0)
        return fv_mpi_fail(FOVEA_ERROR_SHAPE, "count is %lld; it must be at least 0", (long long)a->count);
    if (a->count > 0 && !a->sequences)
        return fv_mpi_fail_null("sequences");
    for (int64_t i = 0; i < a->count; i++) {
        if (!fv_mpi_cache_find(x->cache, a->sequences[i]))
            return FOVEA_ERROR_ARGUMENT;
        for (int64_t j = 0; j < i; j++)
            if (a->sequences[j] == a->sequences[i])
                return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "sequence %lld is named twice", (long long)a->sequences[i]);
    }
    return FOVEA_OK;
}

static fovea_status check(const appending *x) {
    fovea_status status = fv_mpi_cache_check_layer(x->cache, x->args.layer);
    if (status == FOVEA_OK)
        status = check_sequences(x);
    if (status == FOVEA_OK)
        status = check_tensors(x);
    return status == FOVEA_OK ? check_lens(&x->args) : status;
}

static uint64_t digest(const appending *x) {
    const fovea_kv_append_args *a = &x->args;
    uint64_t sum = fv_mpi_digest(0, &a->layer, sizeof a->layer);
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t of[3] = {a->sequences[i], tokens_of(a, i), a->rotated != 0};
        sum = fv_mpi_digest(sum, of, sizeof of);
    }
    return sum;
}

/* Tokens of the sequence at a place of the call. */
static fovea_tensor rows(const appending *x, const fovea_tensor *t, int64_t i, int64_t token, int64_t count) {
    fovea_tensor part = *t;
    const int64_t *ends = x->args.cu_seqlens;
    const int64_t at = (ends ? 0 : i) * t->stride[0] + (token + (ends ? ends[i] : 0)) * t->stride[2];
    part.data = (char *)t->data + at * fv_mpi_element(t->dtype);
    part.shape[0] = 1;
    part.shape[2] = count;
    return part;
}

/* Keys at positions from this one on, rotated: then they are float32, and rounded once, when the pool has them. */
static fovea_status rotate(const appending *x, int64_t position, fovea_tensor *k) {
    const fovea_mpi_cache *c = x->cache;
    int64_t positions[FV_MPI_SEGMENT];
    for (int64_t i = 0; i < k->shape[2]; i++)
        positions[i] = position + i;
    const fovea_tensor y =
        fovea_tensor_bhtd(c->rotated, FOVEA_DTYPE_F32, 1, c->desc.kv_heads, k->shape[2], c->desc.head_dim);
    const fovea_status status = fovea_rope_apply(c->ctx, c->desc.rope, k, positions, &y);
    *k = y;
    return status;
}

/* Tokens [token, token + count) of a call, which are in one segment, of this rank, from a position on. */
static fovea_status write(const appending *x, int64_t i, int64_t token, int64_t count, int64_t position) {
    fovea_mpi_cache *c = x->cache;
    fv_mpi_cache_layer *l = &fv_mpi_cache_find(c, x->args.sequences[i])->layer[x->args.layer];
    const int64_t index = fv_mpi_local(&c->layout, position) / FV_MPI_SEGMENT;
    fovea_status status = fv_mpi_cache_room(l, index + 1);
    if (status != FOVEA_OK)
        return status;
    if (index == l->count) {
        status = fovea_kv_cache_add(c->pool, &l->part[index]);
        if (status != FOVEA_OK)
            return fv_mpi_from_core(status);
        l->count++;
    }
    fovea_kv_append_args one;
    fovea_kv_append_args_init(&one);
    one.count = 1;
    one.sequences = &l->part[index];
    one.k = rows(x, &x->args.k, i, token, count);
    one.v = rows(x, &x->args.v, i, token, count);
    if (c->desc.rope && !x->args.rotated)
        status = rotate(x, position, &one.k);
    if (status == FOVEA_OK)
        status = fovea_kv_cache_append(c->pool, &one);
    return fv_mpi_from_core(status);
}

static fovea_status write_all(const appending *x) {
    const fovea_mpi_cache *c = x->cache;
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; i < x->args.count; i++) {
        const int64_t length = fv_mpi_cache_find(c, x->args.sequences[i])->layer[x->args.layer].length;
        const int64_t tokens = tokens_of(&x->args, i);
        for (int64_t token = 0, count; token < tokens && status == FOVEA_OK; token += count) {
            const int64_t position = length + token;
            count = fv_mpi_min(tokens - token, FV_MPI_SEGMENT - position % FV_MPI_SEGMENT);
            if (fv_mpi_owner(&c->layout, position) == c->rank)
                status = write(x, i, token, count, position);
        }
    }
    return status;
}

/* Segments that no query from a position on sees. */
static void free_behind(fovea_mpi_cache *c, fv_mpi_cache_layer *l, int64_t layer, int64_t position) {
    const int64_t window = c->windows ? c->windows[layer] : -1;
    if (window < 0 || position < window)
        return;
    for (const int64_t end = (position - window) / FV_MPI_SEGMENT; l->behind < end; l->behind++) {
        const int64_t key = l->behind * FV_MPI_SEGMENT;
        if (fv_mpi_owner(&c->layout, key) != c->rank)
            continue;
        int64_t *part = &l->part[fv_mpi_local(&c->layout, key) / FV_MPI_SEGMENT];
        fovea_kv_cache_remove(c->pool, *part);
        *part = FV_MPI_PART_NONE;
        c->window_pages++;
    }
}

fovea_status fovea_mpi_cache_append(fovea_mpi_cache *c, const fovea_kv_append_args *given) {
    if (!c)
        return fv_mpi_fail_null("cache");
    appending x = {.cache = c};
    fovea_kv_append_args_init(&x.args);
    fovea_status status = fv_mpi_read_struct(&x.args, given, sizeof x.args, "append");
    if (status == FOVEA_OK)
        status = check(&x);
    const bool good = status == FOVEA_OK;
    const uint64_t sum = good ? digest(&x) : 0;
    if (good)
        status = write_all(&x);
    status = fv_mpi_agree(c->comm, status, sum, "the layer, sequences or numbers of tokens");
    for (int64_t i = 0; good && i < x.args.count; i++) {
        fv_mpi_cache_layer *l = &fv_mpi_cache_find(c, x.args.sequences[i])->layer[x.args.layer];
        const int64_t tokens = tokens_of(&x.args, i), before = l->length;
        if (status != FOVEA_OK) {
            fv_mpi_cache_cut(c, l, before);
            continue;
        }
        l->length += tokens;
        if (tokens > 0)
            free_behind(c, l, x.args.layer, before);
    }
    return status;
}
