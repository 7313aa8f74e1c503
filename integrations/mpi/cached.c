/* Attention over a cache (cached.h). */
#include "cached.h"
#include "agree.h"

static fovea_status check_alike(const fv_mpi_call *call) {
    const fovea_mpi_cache *c = call->cache;
    const fv_mpi_layout *keys = &call->plan->routes.keys;
    int same;
    MPI_Comm_compare(c->comm, call->plan->comm, &same);
    if (same != MPI_CONGRUENT && same != MPI_IDENT)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "the plan and the cache have other ranks");
    if (c->layout.width != keys->width)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "stripe_segments of the plan is %lld, of the cache %lld",
                           (long long)(keys->width / FV_MPI_SEGMENT), (long long)(c->layout.width / FV_MPI_SEGMENT));
    return fv_mpi_cache_check_layer(c, call->args.cache_layer);
}

static const fv_mpi_cache_layer *layer_of(const fv_mpi_call *call, int64_t b) {
    const fv_mpi_sequence *s = fv_mpi_cache_find(call->cache, call->args.cache_sequences[b]);
    return s ? &s->layer[call->args.cache_layer] : NULL;
}

fovea_status fv_mpi_cached_check(fv_mpi_call *call) {
    const fovea_attention_desc *d = &call->plan->problem.desc;
    const int64_t *kv_lens = call->args.kv_lens;
    const fovea_status status = check_alike(call);
    if (status != FOVEA_OK)
        return status;
    if (d->batch > 0 && !call->args.cache_sequences)
        return fv_mpi_fail_null("cache_sequences");
    for (int64_t b = 0; b < d->batch; b++) {
        const fv_mpi_cache_layer *l = layer_of(call, b);
        if (!l)
            return FOVEA_ERROR_ARGUMENT;
        if (kv_lens ? l->length < kv_lens[b] : l->length > d->kv_len)
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "sequence %lld has %lld keys; %s is %lld",
                               (long long)call->args.cache_sequences[b], (long long)l->length,
                               kv_lens ? "its kv_lens" : "the plan's kv_len",
                               (long long)(kv_lens ? kv_lens[b] : d->kv_len));
        call->keys[b] = kv_lens ? kv_lens[b] : l->length;
    }
    call->args.kv_lens = call->keys;
    return FOVEA_OK;
}

fovea_status fv_mpi_cached_visible(const fv_mpi_call *call) {
    const fovea_attention_desc *d = &call->plan->problem.desc;
    for (int64_t b = 0; b < d->batch; b++) {
        const int64_t q_len = fv_mpi_q_len(call, b);
        const int64_t begin = d->window_left >= 0 ? fv_mpi_max(call->offsets[b] - d->window_left, 0) : 0;
        const int64_t first = layer_of(call, b)->behind * FV_MPI_SEGMENT;
        if (begin < first && q_len > 0 && call->keys[b] > 0)
            return fv_mpi_fail(FOVEA_ERROR_ARGUMENT,
                               "a query of sequence %lld sees key %lld; keys before %lld are gone behind its window",
                               (long long)call->args.cache_sequences[b], (long long)begin, (long long)first);
    }
    return FOVEA_OK;
}

void fv_mpi_cached_piece(const fv_mpi_call *call, int64_t key, int64_t *kv_lens, int64_t *ids,
                         fovea_attention_args *args) {
    const fovea_mpi_cache *c = call->cache;
    const int64_t index = fv_mpi_local(&c->layout, key) / FV_MPI_SEGMENT;
    for (int64_t b = 0; b < call->plan->problem.desc.batch; b++) {
        ids[b] = kv_lens[b] > 0 ? layer_of(call, b)->part[index] : c->empty;
        if (ids[b] == FV_MPI_PART_NONE) { /* no query sees it */
            ids[b] = c->empty;
            kv_lens[b] = 0;
        }
    }
    args->cache = c->pool;
    args->cache_layer = 0;
    args->cache_sequences = ids;
}
