/* The inside of a cache over ranks (fovea_mpi_cache.h). Each segment of 256 positions of a layer of a sequence, if it
 * is this rank's, is a sequence by itself in a cache of the core, the pool, which has one layer: a part. So the pool
 * knows pages, references and evicted positions, and here is only which part is where. All ranks know lengths. */
#ifndef FV_MPI_CACHE_H
#define FV_MPI_CACHE_H

#include "fovea_mpi_cache.h"
#include "layout.h"

/* Behind a window: no part any more. */
enum { FV_MPI_PART_NONE = -1 };

typedef struct fv_mpi_cache_layer {
    int64_t length; /* on all ranks together */
    int64_t behind; /* segments before this one were freed behind the window, on all ranks */
    int64_t *part;  /* [count] of [room]: this rank's, ascending */
    int64_t count, room;
} fv_mpi_cache_layer;

typedef struct fv_mpi_sequence {
    int64_t number;
    fv_mpi_cache_layer layer[]; /* [layers] */
} fv_mpi_sequence;

struct fovea_mpi_cache {
    MPI_Comm comm;
    int rank;
    const fovea_context *ctx;
    fovea_kv_cache_desc desc; /* of the whole; windows: own, or NULL */
    int64_t *windows;
    fv_mpi_layout layout; /* without an end */
    fovea_kv_cache *pool;
    int64_t empty;              /* a part without tokens */
    fv_mpi_sequence **sequence; /* [count] of [room], by number */
    int64_t count, room, next;
    int64_t window_pages;
    float *rotated; /* keys of a segment, if there is a rope */
};

/* The sequence of a number, or NULL and a sentence. */
fv_mpi_sequence *fv_mpi_cache_find(const fovea_mpi_cache *cache, int64_t sequence);
fovea_status fv_mpi_cache_check_layer(const fovea_mpi_cache *cache, int64_t layer);

/* Cuts a layer to at most length tokens. */
void fv_mpi_cache_cut(fovea_mpi_cache *cache, fv_mpi_cache_layer *layer, int64_t length);

/* One status of all ranks. numbers: what must be alike. */
fovea_status fv_mpi_cache_agree(const fovea_mpi_cache *cache, fovea_status status, const int64_t *numbers, size_t count,
                                const char *what);

/* Room for count parts. */
fovea_status fv_mpi_cache_room(fv_mpi_cache_layer *layer, int64_t count);

#endif
