/* Caches over ranks (cache.h): their beginning and end. */
#include "agree.h"
#include "cache.h"
#include "structs.h"

#include <stdlib.h>
#include <string.h>

/* Rotates ones at the positions from which a rope makes all others, since rope.h hides its angles. */
static fovea_status digest_rope(const fovea_mpi_cache *c, uint64_t *digest) {
    enum { MOST = 1024, DIGITS = 3, BASE = 256 };
    float ones[MOST], rotated[MOST];
    const int64_t n = fv_mpi_min(c->desc.head_dim, MOST);
    for (int64_t i = 0; i < n; i++)
        ones[i] = 1;
    const fovea_tensor x = fovea_tensor_bhtd(ones, FOVEA_DTYPE_F32, 1, 1, 1, n),
                       y = fovea_tensor_bhtd(rotated, FOVEA_DTYPE_F32, 1, 1, 1, n);
    for (int64_t i = 0, unit = 1; i < DIGITS; i++, unit *= BASE)
        for (int64_t value = 0; value < BASE; value++) {
            const int64_t position = value * unit;
            const fovea_status status = fovea_rope_apply(c->ctx, c->desc.rope, &x, &position, &y);
            if (status != FOVEA_OK)
                return fv_mpi_from_core(status);
            *digest = fv_mpi_digest(*digest, rotated, (size_t)n * sizeof *rotated);
        }
    return FOVEA_OK;
}

/* All ranks must have the same. */
static fovea_status digest(const fovea_mpi_cache *c, uint64_t *sum) {
    const fovea_kv_cache_desc *d = &c->desc;
    const int64_t numbers[] = {d->layers,  d->kv_heads, d->head_dim,     d->value_dim, d->k_dtype,
                               d->v_dtype, !d->rope,    c->layout.width, !c->windows};
    *sum = fv_mpi_digest(0, numbers, sizeof numbers);
    if (c->windows)
        *sum = fv_mpi_digest(*sum, c->windows, (size_t)d->layers * sizeof *c->windows);
    return d->rope ? digest_rope(c, sum) : FOVEA_OK;
}

/* The core checks the whole description, then one layer of it is this rank's pool. */
static fovea_status check(fovea_mpi_cache *c, const fovea_kv_cache_desc *given) {
    fovea_kv_cache_desc_init(&c->desc);
    fovea_status status =
        c->ctx ? fv_mpi_read_struct(&c->desc, given, sizeof c->desc, "desc") : fv_mpi_fail_null("ctx");
    if (status == FOVEA_OK)
        status = fv_mpi_from_core(fovea_kv_cache_create(c->ctx, given, &c->pool));
    fovea_kv_cache_destroy(c->pool);
    c->pool = NULL;
    return status;
}

static fovea_status build(fovea_mpi_cache *c, const fovea_kv_cache_desc *given, int64_t stripe_segments) {
    fovea_status status = check(c, given);
    if (status != FOVEA_OK)
        return status;
    if (stripe_segments < 1 || stripe_segments > (int64_t)1 << 40)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "stripe_segments is %lld; it must be from 1 to 2^40",
                           (long long)stripe_segments);
    c->layout.width = stripe_segments * FV_MPI_SEGMENT;
    fovea_kv_cache_desc one = c->desc;
    one.layers = 1;
    one.windows = NULL;
    one.rope = NULL;
    const size_t windows = (size_t)c->desc.layers * sizeof *c->windows;
    const size_t keys = (size_t)(c->desc.kv_heads * c->desc.head_dim) * FV_MPI_SEGMENT * sizeof *c->rotated;
    c->windows = c->desc.windows ? malloc(windows) : NULL;
    c->rotated = c->desc.rope ? malloc(keys) : NULL;
    if ((c->desc.windows && !c->windows) || (c->desc.rope && !c->rotated))
        return fv_mpi_fail_memory();
    if (c->windows)
        memcpy(c->windows, c->desc.windows, windows);
    c->desc.windows = c->windows;
    status = fovea_kv_cache_create(c->ctx, &one, &c->pool);
    if (status == FOVEA_OK)
        status = fovea_kv_cache_add(c->pool, &c->empty);
    return fv_mpi_from_core(status);
}

fovea_status fovea_mpi_cache_create(MPI_Comm comm, const fovea_context *ctx, const fovea_kv_cache_desc *desc,
                                    int64_t stripe_segments, fovea_mpi_cache **cache) {
    if (cache)
        *cache = NULL;
    MPI_Comm own;
    fovea_status status;
    fovea_mpi_cache *c = fv_mpi_open(comm, sizeof *c, cache, "cache", &own, &status);
    if (!c)
        return status;
    c->comm = own;
    MPI_Comm_rank(own, &c->rank);
    MPI_Comm_size(own, &c->layout.ranks);
    c->layout.total = INT64_MAX;
    c->ctx = ctx;
    uint64_t alike = 0;
    status = build(c, desc, stripe_segments);
    if (status == FOVEA_OK)
        status = digest(c, &alike);
    status = fv_mpi_agree(own, status, alike, "fields of desc, the angles of desc.rope or stripe_segments");
    if (status == FOVEA_OK)
        *cache = c;
    else
        fovea_mpi_cache_destroy(c);
    return status;
}

void fovea_mpi_cache_destroy(fovea_mpi_cache *c) {
    if (!c)
        return;
    fovea_mpi_cache_clear(c);
    fovea_kv_cache_destroy(c->pool);
    free(c->sequence);
    free(c->windows);
    free(c->rotated);
    MPI_Comm_free(&c->comm);
    free(c);
}
